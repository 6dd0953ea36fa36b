//! Interoperability tests with Linux's NFS/RDMA client and server, which run in a guest (`cargo xtask lab`).
//!
//! Tests that use the guest take several minutes, and the first run downloads Debian packages. If
//! `RPCRDMA_LAB` is neither `1` nor `long`, these tests are recorded as not run. `long` selects longer
//! versions of some tests, and additional tests.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(
    clippy::await_holding_lock,
    reason = "one test at a time uses the guest, and each test has its own runtime"
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
#[cfg(feature = "krb5")]
mod kerberos;
mod kernel_client;
mod kernel_server;
mod mounted;
mod ours;
mod place;
mod procedures;
#[cfg(feature = "krb5")]
#[path = "../../nfs/tests/kerberos/realm.rs"]
mod realm;
mod recorded;
mod relay;
mod served;
mod suites;
mod verbs;
#[path = "../../tools/tests/explain/wireshark.rs"]
mod wireshark;
