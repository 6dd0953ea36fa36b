//! Accepted and rejected inputs of `#[derive(Xdr)]`, and uses of the runtime that must not compile. Each
//! mistake causes one error, which points to the mistake and usually suggests a fix.
//!
//! rustc itself reports some errors, which the derive can neither prevent nor improve:
//!
//! - An undefined name: `case_not_in_the_enum`, `case_misspelt_among_several`, `max_of_an_unknown_name`,
//!   `name_unknown*`.
//! - A pattern with a type other than the discriminant's: `case_of_a_constant_for_an_enum`,
//!   `case_of_another_enum`. Only the compiler can tell a constant from an imported variant.
//! - A constant that cannot be evaluated: `max_overflows`, `max_by_a_call`.
//! - A value that outlives its message: `value_outlives_its_message`.
//!
//! Mistakes in a handwritten program or binding (`procedure_n*`, `binding_with_*`, `reply_*`) are found only
//! when the compiler generates code for a call to the program or for its `Config::of`. Therefore, `cargo
//! build` reports them, but `cargo check` does not.
//!
//! After an intended change to a message, `TRYBUILD=overwrite cargo test -p rpcrdma-ui` updates the expected
//! output. Review the changes.

/// Requirement: R060, R230
#[test]
fn derive() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}
