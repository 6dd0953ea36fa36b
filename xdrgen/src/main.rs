//! xdrgen.
fn main() {}
