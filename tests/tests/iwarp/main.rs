//! iWARP over real TCP on the loopback interface: with itself, and with hostile peers.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

mod hostile_setup;
mod hostile_stream;
mod last_words;
mod raw;
mod transfers;
mod trickle;
