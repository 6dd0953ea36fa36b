//! Against Linux's own NFS/RDMA client and server, which run in a guest (`cargo xtask lab`). It takes some minutes and a
//! download, so it runs with `RPCRDMA_LAB=1` only, and otherwise says that it did not; `RPCRDMA_LAB=long` does more of the same.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(
    clippy::await_holding_lock,
    reason = "tests take turns with the guest, and each has a runtime of its own"
)]

mod by_verbs;
mod captures;
mod client_program;
mod credits;
mod faults;
#[path = "../src/framed.rs"]
pub mod framed;
mod guest;
mod in_guest;
mod inside;
mod kernel_client;
mod kernel_server;
mod mounted;
mod ours;
mod place;
mod procedures;
mod recorded;
mod relay;
mod served;
mod suites;
mod verbs;
#[path = "../../tools/tests/explain/wireshark.rs"]
mod wireshark;
