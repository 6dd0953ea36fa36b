//! Fetches call data: starts RDMA Reads within the limits, and passes on calls that have arrived completely.

use core::mem;

use bytes::Bytes;

use super::super::reads::{Fetch, SegmentRead};
use super::{CallKey, IncomingCall, NO_READS, Responder, ResponderEvent, XIDS_DIFFER};
use crate::proto::work::{Action, Token};

impl Responder {
    pub(super) fn start_reads(&mut self) {
        while self.reading.len() < self.reads_limit
            && let Some((key, _)) = self.read_queue.front()
            && self.may_fetch(*key)
            && let Some((key, SegmentRead { chunk, source, part })) = self.read_queue.pop_front()
        {
            let token = self.token();
            self.reading.push((token, key, chunk));
            self.actions.push_back(Action::Read { token, source, part });
        }
    }

    /// If the requester allows no RDMA Reads, rejects the calls that wait for an RDMA Read. A call with
    /// outstanding RDMA Reads stays in the queue until these Reads are complete. An earlier reply would let
    /// the requester fence memory that is still being read.
    pub(super) fn reject_unread(&mut self) {
        if self.reads_limit > 0 {
            return;
        }
        let mut waiting = mem::take(&mut self.read_queue);
        waiting.retain(|(key, _)| {
            let is_read = self.reading.iter().any(|(_, reading, _)| reading == key);
            if !is_read {
                self.fail(*key, NO_READS, |refusals| &mut refusals.chunks);
            }
            is_read
        });
        self.read_queue = waiting;
    }

    /// Returns false if the call must wait because of [`Config::max_fetched`]. Otherwise, counts its Read
    /// chunks.
    fn may_fetch(&mut self, key: u32) -> bool {
        let Some(call) = self.calls.get_mut(key).filter(|call| !call.counted) else { return true };
        let after = self.fetched.saturating_add(call.fetched());
        if self.fetched > 0 && after > self.config.max_fetched {
            return false;
        }
        call.counted = true;
        self.fetched = after;
        true
    }

    pub(super) fn read_done(&mut self, token: Token, data: Bytes) {
        let Some(at) = self.reading.iter().position(|(reading, ..)| *reading == token) else { return };
        let (_, key, chunk) = self.reading.remove(at);
        if let Some(fetch) = self.calls.get_mut(key).and_then(|call| call.fetch.as_mut()) {
            fetch.read_done(chunk, data);
        }
        self.reject_unread();
        self.start_reads();
        self.run_if_complete(key);
    }

    pub(super) fn run_if_complete(&mut self, key: u32) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if !call.fetch.as_ref().is_some_and(Fetch::is_complete) {
            return;
        }
        let Some(fetch) = call.fetch.take() else { return };
        let (xid, message) = (call.xid, fetch.into_message());
        if message.stream.first_chunk() != Some(&xid.to_be_bytes()) {
            return self.fail(key, XIDS_DIFFER, |refusals| &mut refusals.xid);
        }
        self.events.push_back(ResponderEvent::Call(IncomingCall { key: CallKey(key), xid, message }));
    }
}
