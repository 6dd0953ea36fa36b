//! Runs the fuzz targets of `fuzz/` on their seeds, on messages of other implementations, and on truncated
//! and modified copies. This keeps the targets compatible with the runtime on machines without a fuzzer.

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
        .expect("the seeds are there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 3, "{} seeds for {target}", paths.len());
    paths.iter().map(|path| std::fs::read(path).expect("a readable seed")).collect()
}

/// Each seed verbatim, truncated at any length, and with a few octets changed, as a fuzzer does.
fn hold(body: fn(&[u8]), seeds: &[Vec<u8>]) {
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
                    // Lengths, kinds and XIDs are small numbers.
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
    hold(runtime::header, &all);
}

#[test]
fn private_data() {
    hold(runtime::private_data, &seeds("private_data"));
}

#[test]
fn records_of_rpc_over_tcp() {
    hold(runtime::records, &seeds("records"));
}

#[test]
fn a_responder_and_any_requester() {
    hold(runtime::responder, &seeds("responder"));
}

#[test]
fn a_requester_and_any_responder() {
    hold(runtime::requester, &seeds("requester"));
}

#[test]
fn a_stream_of_iwarp() {
    hold(runtime::iwarp, &seeds("iwarp"));
}

#[test]
fn files_and_a_model_of_them() {
    hold(files::files, &seeds("files"));
}

#[test]
fn credentials() {
    hold(files::credentials, &seeds("credentials"));
}

#[test]
fn contexts_of_rpcsec_gss() {
    hold(peers::gss, &seeds("gss"));
}

#[test]
fn addresses_and_lists_of_rpcbind() {
    hold(peers::rpcbind, &seeds("rpcbind"));
}

#[test]
fn captures_to_explain() {
    hold(peers::explain, &seeds("explain"));
}

#[test]
fn both_sides_of_tcp() {
    hold(peers::tcp, &seeds("tcp"));
}

#[test]
fn a_client_and_any_server() {
    hold(peers::client, &seeds("client"));
}
