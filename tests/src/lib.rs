//! Tests.

pub mod sim;
