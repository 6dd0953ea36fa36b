//! The output of rpcrdma-xdrgen for three documents in `specs/`. Do not edit: regenerate with
//! `cargo xtask generate`.

/// From `specs/rpc.txt`: ONC RPC messages (RFC 5531).
#[rustfmt::skip]
pub mod rpc_msg;

/// From `specs/rpcrdma1.txt`: the header of RPC-over-RDMA version 1 (RFC 8166 section 4), and its private
/// data (RFC 8797).
#[rustfmt::skip]
pub mod rpcrdma1;

/// From `specs/rpcsec_gss.txt`: the credential, the arguments and the results of RPCSEC_GSS (RFC 2203).
#[rustfmt::skip]
pub mod rpcsec_gss;
