//! The spans of calls. Attributes use OpenTelemetry's names for ONC RPC where such names exist.
//! Numbers are `i64`, the integer type of OpenTelemetry: the OpenTelemetry layer for `tracing` converts
//! unsigned integers to text.

use std::fmt::Display;
use std::net::SocketAddr;

use tracing::field::{Empty, display};
use tracing::{Span, debug_span};

use crate::proto::call::Traffic;
use crate::proto::program::{Procedure, Program};
use crate::wire::rpc::CallHeader;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Endpoints {
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
}

pub(super) fn client_call<Q: Procedure>(xid: u32) -> Span {
    debug_span!(
        target: "rpcrdma_runtime::calls",
        "call",
        otel.kind = "client",
        otel.name = Q::NAME,
        rpc.system = "onc_rpc",
        rpc.method = Q::NAME,
        onc_rpc.program.name = <Q::Program as Program>::PROGRAM_NAME,
        onc_rpc.program.number = i64::from(<Q::Program as Program>::NUMBER),
        onc_rpc.version = i64::from(<Q::Program as Program>::VERSION),
        onc_rpc.procedure.name = Q::NAME,
        onc_rpc.procedure.number = i64::from(Q::NUMBER),
        onc_rpc.xid = i64::from(xid),
        network.peer.address = Empty,
        network.peer.port = Empty,
        network.local.address = Empty,
        network.local.port = Empty,
        rpcrdma.inline_bytes = Empty,
        rpcrdma.rdma_bytes = Empty,
        rpcrdma.chunks = Empty,
        otel.status_code = Empty,
        exception.message = Empty,
    )
}

/// Creates the span of a received call. The span contains no names, because the header identifies a procedure
/// only by numbers.
pub(super) fn server_call(header: &CallHeader, peer: Option<SocketAddr>) -> Span {
    let CallHeader { xid, program, version, procedure, .. } = *header;
    debug_span!(
        target: "rpcrdma_runtime::calls",
        "call",
        otel.kind = "server",
        rpc.system = "onc_rpc",
        onc_rpc.program.number = i64::from(program),
        onc_rpc.version = i64::from(version),
        onc_rpc.procedure.number = i64::from(procedure),
        onc_rpc.xid = i64::from(xid),
        network.peer.address = peer.map(|peer| display(peer.ip())),
        network.peer.port = peer.map(|peer| i64::from(peer.port())),
        rpcrdma.inline_bytes = Empty,
        rpcrdma.rdma_bytes = Empty,
        rpcrdma.chunks = Empty,
        otel.status_code = Empty,
        exception.message = Empty,
    )
}

pub(super) fn record_failure(span: &Span, why: impl Display) {
    span.record("otel.status_code", "ERROR");
    span.record("exception.message", display(why));
}

pub(super) fn record_endpoints(span: &Span, Endpoints { local, peer }: Endpoints) {
    if let Some(peer) = peer {
        span.record("network.peer.address", display(peer.ip()));
        span.record("network.peer.port", i64::from(peer.port()));
    }
    if let Some(local) = local {
        span.record("network.local.address", display(local.ip()));
        span.record("network.local.port", i64::from(local.port()));
    }
}

pub(super) fn record_traffic(span: &Span, traffic: &Traffic) {
    if span.is_disabled() {
        return;
    }
    let Traffic { read_bytes, position_zero, write_bytes, reply_chunk_bytes, .. } = *traffic;
    let long = u32::from(position_zero > 0).saturating_add(u32::from(traffic.reply_chunk));
    let chunks = traffic.read_chunks.saturating_add(traffic.write_chunks).saturating_add(long);
    let bytes = |parts: &[u64]| {
        let sum = parts.iter().copied().fold(0, u64::saturating_add);
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    span.record("rpcrdma.inline_bytes", bytes(&[traffic.call_inline, traffic.reply_inline]));
    span.record("rpcrdma.rdma_bytes", bytes(&[read_bytes, position_zero, write_bytes, reply_chunk_bytes]));
    span.record("rpcrdma.chunks", i64::from(chunks));
}
