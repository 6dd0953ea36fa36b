//! Runs this test program inside the guest (`inside.rs`), with our client or server on one of the guest's
//! RDMA devices.
//!
//! The tests pair our client with the kernel's server, the kernel's client with our server, and our verbs
//! provider in the guest with our user-space iWARP provider on the host.

use std::fs;
use std::process::Command;

use crate::client_program::files_by_name;
use crate::guest::{Random, size, suites_disabled};
use crate::inside::{self, CUT, RULES, SERVER, SUITE_CUT, SUITES};
use crate::kernel_server;
use crate::place::{Device, GUEST, Ours, guest_view};
use crate::served::Served;
use crate::verbs::with;

const CLIENT: &[&str] = &[
    "client_program::files_are_used_by_name",
    "kernel_server::a_call_too_long_for_a_message_is_fetched",
    "kernel_server::a_directory_listing_uses_reply_chunks",
    "kernel_server::a_thousand_connections_one_after_another",
    "kernel_server::calls_in_flight_reach_but_never_exceed_the_grant",
    "kernel_server::every_procedure_of_nfs3_works",
    "kernel_server::files_of_any_size_arrive_and_come_back",
];

#[test]
fn our_client_over_siw() {
    let Some(guest) = with(Device::Siw, true) else { return };
    // `an_interrupted_get_resumes` needs a relay. Relays forward TCP, so they work with iWARP but not with
    // RoCE.
    inside::run(
        &guest,
        Ours::Verbs(Device::Siw),
        &[CLIENT, &["client_program::an_interrupted_get_resumes"]].concat(),
    );
}

#[test]
fn our_client_over_rxe() {
    let Some(guest) = with(Device::Rxe, true) else { return };
    inside::run(&guest, Ours::Verbs(Device::Rxe), CLIENT);
}

#[test]
fn our_server_over_siw() {
    let Some(guest) = with(Device::Siw, false) else { return };
    // `CUT` needs a relay. Relays forward TCP, so they work with iWARP but not with RoCE.
    inside::run(&guest, Ours::Verbs(Device::Siw), &[SERVER, &[CUT]].concat());
}

#[test]
fn our_server_over_rxe() {
    let Some(guest) = with(Device::Rxe, false) else { return };
    inside::run(&guest, Ours::Verbs(Device::Rxe), SERVER);
}

fn suites(device: Device, tests: &[&str]) {
    if suites_disabled() {
        return;
    }
    let Some(mut guest) = with(device, false) else { return };
    guest.bring_suites();
    inside::run(&guest, Ours::Verbs(device), tests);
}

#[test]
fn suites_over_siw() {
    suites(Device::Siw, &[SUITES, size(&[SUITE_CUT][..], &[SUITE_CUT, RULES])].concat());
}

#[test]
fn suites_over_rxe() {
    suites(Device::Rxe, &[SUITES, &[RULES]].concat());
}

/// A script that starts `nfs3d` on the guest's RDMA device, with the export path, RDMA port and MOUNT port of
/// the kernel's server. `GUEST` stands for the guest's address.
const SERVE_AS_THE_KERNEL: &str = "mkdir -p /run/top/export; mount --bind /run/top/export /export; rm -f /run/output; \
    ulimit -l unlimited; (/run/bin/nfs3d --provider verbs --listen GUEST:20049 --tcp GUEST:20048 --no-root-squash \
    --allow 10.0.2.0/24 /run/top >/run/output 2>&1 & echo $! >/run/nfs3d.pid) </dev/null >/dev/null 2>&1; \
    for second in $(seq 60); do grep -q serving /run/output && exit 0; sleep 1; done; cat /run/output; exit 1";

const STOP: &str = "kill $(cat /run/nfs3d.pid); \
    for second in $(seq 60); do kill -0 $(cat /run/nfs3d.pid) 2>/dev/null || break; sleep 1; done; \
    grep stopped /run/output && umount /export && rm -r /run/top";

#[tokio::test(flavor = "multi_thread")]
async fn our_iwarp_client_uses_our_verbs_server() {
    let Some(mut guest) = with(Device::Siw, false) else { return };
    guest.stop_serving();
    guest.run(&SERVE_AS_THE_KERNEL.replace("GUEST", GUEST));
    kernel_server::every_procedure_of(&guest).await;
    kernel_server::files_of(&guest).await;
    kernel_server::a_directory_of(&guest).await;
    kernel_server::a_long_call_to(&guest).await;
    kernel_server::one_after_another(&guest, size(50, 1000)).await;
    files_by_name(&guest, "/");
    guest.run(STOP);
}

#[test]
fn our_verbs_client_uses_our_iwarp_server() {
    let Some(guest) = with(Device::Siw, false) else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let url = format!("rdma://{}:{}", guest_view(), served.rdma);
    guest.run(&format!(
        "set -e; ulimit -l unlimited; mkdir -p /run/files /run/back; cd /run/files
         for size in 0 1 4095 4097 70001 {}; do head -c $size /dev/urandom >$size; done
         sha256sum * >/run/sums; export nfs3='/run/bin/nfs3 --provider verbs'
         $nfs3 mkdir -p '{url}/one/two'
         for file in *; do $nfs3 put --verify $file '{url}/one/two/'; done
         [ \"$($nfs3 ls '{url}/one/two' | sort)\" = \"$(ls | sort)\" ]
         cd /run/back; for file in $(ls /run/files); do $nfs3 get '{url}/one/two/'$file; done
         sha256sum --quiet -c /run/sums",
        size(5 << 20, 64 << 20) + Random::new().next() % 4096
    ));
    for line in guest.run("cat /run/sums").lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let file = fs::File::open(dir.path().join("one/two").join(name)).unwrap();
        let here = Command::new("sha256sum").stdin(file).output().unwrap();
        assert!(
            String::from_utf8_lossy(&here.stdout).starts_with(sum),
            "{name}: wrong contents in the served directory"
        );
    }
    guest.run(&format!(
        "rm -r /run/files /run/back /run/sums; /run/bin/nfs3 --provider verbs rm -r '{url}/one'"
    ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let output = served.stop();
    assert!(output.contains("calls"), "{output}");
}
