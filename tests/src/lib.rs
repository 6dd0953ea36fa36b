//! Tests.

pub mod captured;
pub mod framed;
pub mod gss;

/// The examples of the README are compiled, and run where they say so.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
