//! RPC-over-RDMA version 1 (RFC 8166): the requester's and the responder's side of one connection.

mod backward;
mod config;
mod counts;
mod credits;
mod fatal;
mod peer_limits;
mod reads;
mod region;
mod reply;
mod requester;
mod resources;
mod responder;
mod returned;
pub mod session;
mod sinks;
mod traffic;
mod transport_error;

pub use crate::wire::rdma::MessageLimits;
pub use backward::{BackwardRequester, BackwardResponder};
pub use config::{Config, LongCall};
pub use counts::{Refusals, TrafficCounts};
pub use credits::Credits;
pub use fatal::FatalCalls;
pub use peer_limits::{Link, PeerLimits};
pub use requester::{CallId, IncomingReply, OutgoingCall, Requester, RequesterEvent};
pub use resources::{ReplyResources, Unbounded};
pub use responder::{CallKey, IncomingCall, Responder, ResponderEvent};
pub use traffic::Traffic;
pub use transport_error::TransportError;
