//! Runs the fuzz targets of `fuzz/`, except those of the compiler, on their seeds and on truncated and
//! modified copies. The target `header` also runs on captured messages. A change that breaks a target is
//! therefore found even on machines without a fuzzer. `xdrgen/tests/fuzz_seeds.rs` runs the compiler's
//! targets.

use std::path::Path;

use rpcrdma_sim::fabric::Rng;
use rpcrdma_tests::{captured, gss};

#[path = "../../fuzz/files.rs"]
mod files;
#[path = "../../fuzz/peers.rs"]
mod peers;
#[path = "../../fuzz/runtime.rs"]
mod runtime;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("a directory of seeds")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 3, "{} seeds for {target}", paths.len());
    paths.iter().map(|path| std::fs::read(path).expect("a readable seed")).collect()
}

fn run_target(body: fn(&[u8]), seeds: &[Vec<u8>]) {
    let mut rng = Rng::new(0x5eed);
    for seed in seeds {
        for end in 0..=seed.len() {
            body(&seed[..end]);
        }
        for _ in 0..200 {
            let mut changed = seed.clone();
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(seed.len().max(1) as u64)).expect("an index");
                let value = rng.below(256).to_be_bytes()[7];
                if let Some(octet) = changed.get_mut(at) {
                    // Prefer small values, because many lengths, types and XIDs in the seeds are small.
                    *octet = if rng.below(2) == 0 { value } else { value % 8 };
                }
            }
            body(&changed);
        }
    }
}

#[test]
fn headers_and_chunk_lists() {
    let mut all = seeds("header");
    for name in ["linux-nfs3.jsonl", "linux-nfs42-backward.jsonl"] {
        all.extend(
            captured::ours(name)
                .into_iter()
                .map(|message| message.bytes[..message.bytes.len().min(400)].to_vec()),
        );
    }
    run_target(runtime::header, &all);
}

#[test]
fn private_data() {
    run_target(runtime::private_data, &seeds("private_data"));
}

#[test]
fn records_of_rpc_over_tcp() {
    run_target(runtime::records, &seeds("records"));
}

#[test]
fn a_responder_and_any_requester() {
    run_target(runtime::responder, &seeds("responder"));
}

#[test]
fn a_requester_and_any_responder() {
    run_target(runtime::requester, &seeds("requester"));
}

#[test]
fn a_stream_of_iwarp() {
    run_target(runtime::iwarp, &seeds("iwarp"));
}

#[test]
fn files_and_a_model_of_them() {
    run_target(files::files, &seeds("files"));
}

#[test]
fn a_directory_and_a_model_of_its_files() {
    run_target(files::directory, &seeds("files"));
}

#[test]
fn credentials() {
    run_target(files::credentials, &seeds("credentials"));
}

#[test]
fn contexts_of_rpcsec_gss() {
    run_target(peers::gss, &seeds("gss"));
}

#[test]
fn addresses_and_lists_of_rpcbind() {
    run_target(peers::rpcbind, &seeds("rpcbind"));
}

#[test]
fn captures_to_explain() {
    run_target(peers::explain, &seeds("explain"));
}

#[test]
fn arbitrary_streams_over_tcp() {
    run_target(peers::tcp, &seeds("tcp"));
}

#[test]
fn a_client_and_any_server() {
    run_target(peers::client, &seeds("client"));
}
