//! The derive works where names of the standard library or of generated code have another meaning.

#![deny(warnings, missing_docs)]
#![no_implicit_prelude]

/// A type whose members have names and types that generated code might confuse with its own.
#[derive(::std::fmt::Debug, ::rpcrdma_runtime::xdr::Xdr)]
pub struct Everything {
    /// A name that generated code might use.
    pub reader: ::core::primitive::u32,
    /// Another name that generated code might use.
    pub sink: Result,
    /// A name that is a keyword.
    pub r#type: Option,
    /// A maximum given by a constant.
    #[xdr(max = LIMIT)]
    pub few: ::std::vec::Vec<::core::primitive::u32>,
    /// A maximum given by a constant expression.
    #[xdr(max = "LIMIT * 2")]
    pub more: ::std::vec::Vec<::core::primitive::u32>,
}

/// The maximum length of [`Everything::few`].
pub const LIMIT: ::core::primitive::u32 = 3;

/// A constant with a name that generated code might use for a pattern binding.
#[allow(non_upper_case_globals)]
pub const field_0: ::core::primitive::u32 = 1;

/// A type with a name from the standard library.
#[derive(::std::fmt::Debug, ::std::clone::Clone, ::rpcrdma_runtime::xdr::Xdr)]
pub enum Option {
    /// A variant with a name from the standard library.
    None = 0,
    /// Another variant with a name from the standard library.
    Some = -2147483648,
}

/// A type with a name from the standard library.
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
