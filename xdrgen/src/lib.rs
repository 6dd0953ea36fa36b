//! A compiler for the XDR language (RFC 4506) and ONC RPC programs (RFC 5531).

pub mod ast;
pub mod diag;
pub mod source;
