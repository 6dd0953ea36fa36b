//! RPC-over-RDMA version 1 (RFC 8166): the requester and the responder of one connection.

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
mod sink_pool;

pub use super::call::{CallId, IncomingReply, RequesterEvent, Traffic, TransportError, Unsendable};
pub use crate::wire::rdma::MessageLimits;
pub use backward::{BackwardRequester, BackwardResponder};
pub use config::{Config, LongCall};
pub use counts::{Refusals, TrafficCounts};
pub use credits::Credits;
pub use fatal::FatalCalls;
pub use peer_limits::{Link, PeerLimits};
pub use reply::{NoRoom, Place};
pub use requester::{OutgoingCall, Requester};
pub use resources::{OfferError, ReplyResources};
pub use responder::{CallKey, IncomingCall, Responder, ResponderEvent};
