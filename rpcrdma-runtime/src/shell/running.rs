use std::collections::HashMap;

use tokio::task::{self, JoinError, JoinSet};
use tracing::{Instrument, debug_span, warn};

use super::serving::Connected;
use crate::proto::rpc::Services;
use crate::xdr::{Message, Received};

/// Calls whose handlers run, each a task. `K` names a call to its connection.
pub(super) struct Running<K> {
    tasks: JoinSet<Option<Message>>,
    calls: HashMap<task::Id, (K, u32)>,
}

impl<K> Default for Running<K> {
    fn default() -> Self {
        Running { tasks: JoinSet::new(), calls: HashMap::new() }
    }
}

impl<K> Running<K> {
    pub(super) fn start(&mut self, key: K, xid: u32, message: Received, caller: Connected) {
        let span = debug_span!("call", xid);
        let task = self.tasks.spawn(caller.answer(message).instrument(span));
        self.calls.insert(task.id(), (key, xid));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next call that has its reply.
    pub(super) async fn next(&mut self) -> Option<(K, Option<Message>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let (key, xid) = self.calls.remove(&id)?;
        let reply = ended.map_or_else(|error| panicked(&error, xid), |(_, reply)| reply);
        Some((key, reply))
    }
}

/// A handler that panicked answers SYSTEM_ERR; its connection and the others go on.
fn panicked(error: &JoinError, xid: u32) -> Option<Message> {
    warn!(%error, xid, "a handler panicked");
    Services::system_error(xid)
}
