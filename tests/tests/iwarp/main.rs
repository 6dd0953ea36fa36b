//! iWARP over TCP on the loopback interface, with cooperating and with hostile peers.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

mod disconnect;
mod hostile_setup;
mod hostile_stream;
mod raw;
mod transfers;
mod trickle;
