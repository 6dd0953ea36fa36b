//! The tests of this program once more, in the guest, with our end on one of its RDMA devices: our client and the kernel's server,
//! the kernel's client and our server, and programs of others that test file systems on what that client has mounted. The program
//! itself runs there (`inside.rs`). Over siw, which is iWARP, our two providers meet as well: one in the guest, one here.

use std::fs;
use std::process::Command;

use crate::client_program::files_by_name;
use crate::guest::{Random, size, suites_are_left_out};
use crate::inside::{self, CUT, RULES, SERVER, SUITE_CUT, SUITES};
use crate::kernel_server;
use crate::place::{Device, GUEST, Ours, seen_from_the_guest};
use crate::served::Served;
use crate::verbs::with;

/// Our client, and the kernel's server beside it.
const CLIENT: &[&str] = &[
    "client_program::files_are_used_by_name",
    "kernel_server::a_call_too_long_for_a_message_is_fetched",
    "kernel_server::a_directory_comes_in_reply_chunks",
    "kernel_server::a_thousand_connections_one_after_another",
    "kernel_server::as_many_calls_as_are_granted_are_in_flight_and_no_more",
    "kernel_server::every_procedure_of_nfs3_does_what_it_says",
    "kernel_server::files_of_any_size_arrive_and_come_back",
];

#[test]
fn our_client_over_siw() {
    let Some(guest) = with(Device::Siw, true) else { return };
    // A relay can hold back what is TCP.
    inside::run(
        &guest,
        Ours::Verbs(Device::Siw),
        &[CLIENT, &["client_program::a_get_that_was_interrupted_goes_on"]].concat(),
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
    // A relay can cut what is TCP.
    inside::run(&guest, Ours::Verbs(Device::Siw), &[SERVER, &[CUT]].concat());
}

#[test]
fn our_server_over_rxe() {
    let Some(guest) = with(Device::Rxe, false) else { return };
    inside::run(&guest, Ours::Verbs(Device::Rxe), SERVER);
}

/// Programs of others, on what the kernel's client has mounted of our server over a device.
fn suites(device: Device, tests: &[&str]) {
    if suites_are_left_out() {
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

/// Serves /export over a device at the ports of the kernel's server, under the name that it has there.
const SERVE_AS_THE_KERNEL: &str = "mkdir -p /run/top/export; mount --bind /run/top/export /export; rm -f /run/said; \
    ulimit -l unlimited; (/run/bin/nfs3d --provider verbs --listen GUEST:20049 --tcp GUEST:20048 --no-root-squash \
    --allow 10.0.2.0/24 /run/top >/run/said 2>&1 & echo $! >/run/nfs3d.pid) </dev/null >/dev/null 2>&1; \
    for second in $(seq 60); do grep -q serving /run/said && exit 0; sleep 1; done; cat /run/said; exit 1";

const STOP: &str = "kill $(cat /run/nfs3d.pid); \
    for second in $(seq 60); do kill -0 $(cat /run/nfs3d.pid) 2>/dev/null || break; sleep 1; done; \
    grep stopped /run/said && umount /export && rm -r /run/top";

/// `nfs3d` by verbs in the guest, and our client with iWARP in user space here: what it does with the kernel's server.
#[tokio::test(flavor = "multi_thread")]
async fn iwarp_here_uses_a_server_by_verbs() {
    let Some(mut guest) = with(Device::Siw, false) else { return };
    guest.serve_no_more();
    guest.run(&SERVE_AS_THE_KERNEL.replace("GUEST", GUEST));
    kernel_server::every_procedure_of(&guest).await;
    kernel_server::files_of(&guest).await;
    kernel_server::a_directory_of(&guest).await;
    kernel_server::a_long_call_to(&guest).await;
    kernel_server::one_after_another(&guest, size(50, 1000)).await;
    files_by_name(&guest, "/");
    guest.run(STOP);
}

/// `nfs3d` with iWARP in user space here, and the program `nfs3` by verbs in the guest.
#[test]
fn verbs_uses_a_server_by_iwarp_here() {
    let Some(guest) = with(Device::Siw, false) else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let url = format!("rdma://{}:{}", seen_from_the_guest(), served.rdma);
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
        assert!(String::from_utf8_lossy(&here.stdout).starts_with(sum), "{name} in the directory");
    }
    guest.run(&format!(
        "rm -r /run/files /run/back /run/sums; /run/bin/nfs3 --provider verbs rm -r '{url}/one'"
    ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let said = served.stop();
    assert!(said.contains("calls"), "{said}");
}
