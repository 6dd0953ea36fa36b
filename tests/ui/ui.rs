//! What `#[derive(Xdr)]` takes, and what it says of what it does not take: one mistake gives one error, at its
//! place, that says what to do.
//!
//! Some are the compiler's own, which the derive can neither say before nor add to: a name that means nothing
//! (`case_not_in_the_enum`, `case_misspelt_among_several`, `max_of_nothing_known`, `name_unknown*`), a pattern of another type
//! than the discriminant's (`case_of_a_constant_for_an_enum`, `case_of_another_enum`: whether a name is a constant or an imported
//! value of the enum only the compiler knows), a constant that cannot be worked out (`max_overflows`, `max_by_a_call`), and a
//! value that outlives its message (`kept_too_long`). One mistake is three errors: `call_made_without_binding`. The binding is
//! a condition on the method that makes the call, so on the future's type, too, and the compiler asks for it wherever that is.
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
