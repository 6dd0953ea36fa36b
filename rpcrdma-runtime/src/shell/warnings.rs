//! Warnings that a peer can cause. Their number is limited, so that no peer can fill the log.

use std::collections::HashSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use crate::proto::owner::Owner;
use crate::wire::rpc::CallNumbers;

/// The period in which an owner may cause each kind of warning at most once.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of warnings of one server per period, over all owners.
const MAX_WARNINGS: usize = 64;
/// Maximum number of warnings per period about peers that the peer filter refuses. These warnings do not
/// count toward [`MAX_WARNINGS`], so these peers cannot suppress other warnings.
const MAX_REFUSED: usize = 8;

/// The limiter of one server's warnings. Clones share their state.
#[derive(Clone, Debug)]
pub(super) struct Warnings(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    since: Instant,
    given: HashSet<(Kind, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A call's Read chunks exceed `MessageLimits::max_transfer`.
    CallTooLong,
    /// A reply fits neither inline nor into the chunks of its call.
    ReplyTooLong,
    /// A record over TCP exceeds `TcpOptions::max_record`.
    RecordTooLong,
    Panic,
    /// The peer filter does not admit the address of a connection.
    RefusedPeer,
    /// The results of a handler cannot be encoded, for example because they exceed a bound.
    InvalidResults,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subject {
    pub(super) program: Option<u32>,
    pub(super) version: Option<u32>,
    pub(super) procedure: Option<u32>,
    pub(super) xid: Option<u32>,
    pub(super) peer: Option<SocketAddr>,
    /// The size of the reply in bytes.
    pub(super) bytes: Option<u64>,
}

impl From<Option<CallNumbers>> for Subject {
    fn from(call: Option<CallNumbers>) -> Self {
        Subject {
            program: call.map(|call| call.program),
            version: call.map(|call| call.version),
            procedure: call.map(|call| call.procedure),
            xid: call.map(|call| call.xid),
            ..Subject::default()
        }
    }
}

impl Warnings {
    pub(super) fn new() -> Self {
        Warnings(Arc::new(Mutex::new(State { since: Instant::now(), given: HashSet::new() })))
    }

    /// Logs a warning. If the owner has already caused a warning of this kind in the current [`PERIOD`], or
    /// the server has reached its maximum number of warnings, logs at level DEBUG instead.
    pub(super) fn log(&self, kind: Kind, subject: Subject, what: impl Display) {
        let Subject { program, version, procedure, xid, peer, bytes } = subject;
        let is_warning = self.may_warn(kind, Owner::of_peer(peer));
        let peer = peer.map(tracing::field::display);
        if is_warning {
            warn!(program, version, procedure, xid, peer, bytes, "{what}");
        } else {
            debug!(program, version, procedure, xid, peer, bytes, "{what}");
        }
    }

    pub(super) fn may_warn(&self, kind: Kind, owner: Owner) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.elapsed() >= PERIOD {
            state.since = Instant::now();
            state.given.clear();
        }
        let is_refused = |kind: Kind| kind == Kind::RefusedPeer;
        let max = if is_refused(kind) { MAX_REFUSED } else { MAX_WARNINGS };
        let given = state.given.iter().filter(|(other, _)| is_refused(*other) == is_refused(kind)).count();
        given < max && state.given.insert((kind, owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warnings_are_limited_by_kind_owner_and_time() {
        let warnings = Warnings::new();
        let warn = |kind, address: [u8; 4]| {
            let peer = SocketAddr::from((address, 700));
            warnings.may_warn(kind, Owner::of_peer(Some(peer)))
        };
        assert!(warn(Kind::Panic, [192, 0, 2, 1]) && !warn(Kind::Panic, [192, 0, 2, 1]));
        assert!(warn(Kind::RecordTooLong, [192, 0, 2, 1]) && warn(Kind::Panic, [192, 0, 2, 2]));
        // The server's limits apply to all owners together.
        let refused = (0..=255).filter(|last| warn(Kind::RefusedPeer, [198, 51, 100, *last])).count();
        assert_eq!(refused, MAX_REFUSED, "warnings about refused peers have their own limit");
        let given = (0..=255).filter(|last| warn(Kind::CallTooLong, [192, 0, 2, *last])).count();
        assert_eq!(given, MAX_WARNINGS - 3);
        assert!(!warn(Kind::ReplyTooLong, [192, 0, 2, 3]));
        tokio::time::advance(PERIOD).await;
        assert!(warn(Kind::Panic, [192, 0, 2, 1]) && !warn(Kind::Panic, [192, 0, 2, 1]));
    }
}
