//! What `#[derive(Xdr)]` takes, and what it says of what it does not take: one mistake gives one error, at its
//! place, that says what to do.
//!
//! After a message has changed on purpose, `TRYBUILD=overwrite cargo test -p rpcrdma-ui` writes the
//! new ones; read the difference.

/// Requirement: R060, R230
#[test]
fn derive() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}
