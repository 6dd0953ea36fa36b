//! Names of the standard library and of generated code may mean something else where the derive stands.

#![deny(warnings, missing_docs)]
#![no_implicit_prelude]

/// A type with every kind of member.
#[derive(::std::fmt::Debug, ::rpcrdma_runtime::xdr::Xdr)]
pub struct Everything {
    /// A name that generated code might use.
    pub reader: ::core::primitive::u32,
    /// Another.
    pub sink: Result,
    /// A third, and a keyword.
    pub r#type: Option,
    /// With a bound by a constant.
    #[xdr(max = LIMIT)]
    pub few: ::std::vec::Vec<::core::primitive::u32>,
    /// A constant expression.
    #[xdr(max = "LIMIT * 2")]
    pub more: ::std::vec::Vec<::core::primitive::u32>,
}

/// The bound.
pub const LIMIT: ::core::primitive::u32 = 3;

/// A constant with the name that a binding would like to have.
#[allow(non_upper_case_globals)]
pub const field_0: ::core::primitive::u32 = 1;

/// Not the one of the standard library.
#[derive(::std::fmt::Debug, ::std::clone::Clone, ::rpcrdma_runtime::xdr::Xdr)]
pub enum Option {
    /// Neither is this.
    None = 0,
    /// Nor this.
    Some = -2147483648,
}

/// Not the one of the standard library.
#[derive(::std::fmt::Debug, ::rpcrdma_runtime::xdr::Xdr)]
#[xdr(union = "Option")]
pub enum Result {
    /// Void.
    #[xdr(case = "Option::None")]
    Ok,
    /// A payload.
    #[xdr(case = "Option::Some")]
    Err(::core::primitive::u64),
}

fn main() {
    let value = Everything {
        reader: 1,
        sink: Result::Err(5),
        r#type: Option::Some,
        few: ::std::vec![1],
        more: ::std::vec![],
    };
    let bytes = ::rpcrdma_runtime::xdr::to_bytes(&value);
    ::std::assert!(bytes.is_ok_and(|bytes| bytes.len() == 4 + 12 + 4 + 8 + 4));
}
