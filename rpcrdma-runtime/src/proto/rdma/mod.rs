//! RPC-over-RDMA version 1 (RFC 8166): the requester's and the responder's side of one connection.

mod backward;
mod config;
mod counts;
mod credits;
mod fatal;
mod reads;
mod region;
mod reply;
mod requester;
mod resources;
mod responder;
mod returned;
pub mod session;
mod sinks;
mod stated;
mod traffic;

pub use crate::wire::rdma::Limits;
pub use backward::{BackwardRequester, BackwardResponder};
pub use config::{Config, LongCall};
pub use counts::{Refusals, TrafficCounts};
pub use credits::Credits;
pub use fatal::FatalCalls;
pub use requester::{Call, CallId, Event, FailReason, Reply, Requester};
pub use resources::{ReplyResources, Unbounded};
pub use responder::{CallKey, IncomingCall, Responder, ResponderEvent};
pub use stated::{Link, Stated};
pub use traffic::Traffic;
