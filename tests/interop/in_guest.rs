//! `nfs3d` with iWARP in user space, in the guest itself, and the kernel's client beside it, with siw as it is in Linux: the tests
//! of this program that have a server of ours, run there.

use std::sync::MutexGuard;

use crate::guest::{Guest, Siw, guest, guest_with_suites};
use crate::inside::{self, CUT, RULES, SERVER, SUITES};
use crate::place::Ours;

/// The guest with this program and `nfs3d` in it. That is optimized, since the guest has no processor of its own.
fn with_programs(guest: Option<MutexGuard<'static, Guest>>) -> Option<MutexGuard<'static, Guest>> {
    let guest = guest?;
    let mut programs = inside::made(&["build", "--release", "--package", "rpcrdma-nfs", "--bin", "nfs3d"]);
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
