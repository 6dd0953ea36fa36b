//! The protocol's decisions as state machines, without I/O and without a clock.

pub mod program;
pub mod work;
