//! Runs the tests of our server inside the guest: `nfs3d` with user-space iWARP, and the kernel's client with
//! unmodified siw.

use std::sync::MutexGuard;

use crate::guest::{Guest, Siw, guest, guest_with_suites};
use crate::inside::{self, CUT, RULES, SERVER, SUITES};
use crate::place::Ours;

/// Shares `nfs3d` and this test program with the guest. `nfs3d` is a release build, because the guest is slow
/// without KVM.
fn with_programs(guest: Option<MutexGuard<'static, Guest>>) -> Option<MutexGuard<'static, Guest>> {
    let guest = guest?;
    let mut programs = inside::build(&["build", "--release", "--package", "rpcrdma-nfs", "--bin", "nfs3d"]);
    programs.push(("interop".to_owned(), std::env::current_exe().unwrap()));
    inside::bring(&guest, Ours::Iwarp, &programs);
    Some(guest)
}

#[test]
fn our_server() {
    let Some(guest) = with_programs(guest(Siw::Stock)) else { return };
    inside::run(&guest, Ours::Iwarp, &[SERVER, &[CUT]].concat());
}

#[test]
fn suites() {
    let Some(guest) = with_programs(guest_with_suites(Siw::Stock)) else { return };
    inside::run(&guest, Ours::Iwarp, &[SUITES, &[RULES]].concat());
}
