//! Callers that wait for the outcomes of their calls.

use std::mem;
use std::task::{Context, Poll, Waker};

use super::CallError;
use crate::proto::call::{CallId, IncomingReply, TransportError, Unsendable};
use crate::proto::session::SessionCall;
use crate::proto::table::Table;

pub(super) type Outcome = Result<IncomingReply, TransportError>;

pub(super) trait Submit: Send + Sync {
    /// Returns an XID that no outstanding call uses.
    fn next_xid(&self) -> u32;

    /// Starts a call. [`Submit::poll_outcome`] returns its outcome. `waker` is invoked once the call has
    /// ended, unless [`Submit::poll_outcome`] replaces it.
    ///
    /// # Errors
    /// [`CallError::TooMany`], [`CallError::Disconnected`], or [`Unsendable::RepeatedXid`].
    fn submit(&self, call: SessionCall, waker: &Waker) -> Result<CallId, CallError>;

    /// Returns the outcome of a call once, and `None` afterwards. Also returns `None` if the session ended
    /// before the call had an outcome.
    fn poll_outcome(&self, call: CallId, cx: &mut Context<'_>) -> Poll<Option<Outcome>>;

    /// Abandons a call whose outcome was not taken.
    fn cancel(&self, call: CallId);
}

/// The callers, indexed by the XIDs of their calls.
pub(super) struct Waiters {
    callers: Table<Caller>,
    max_calls: usize,
    next_xid: u32,
    /// The wakers to invoke after the lock of this table is released.
    woken: Vec<Waker>,
    /// True once the session or the connection has ended: new calls fail.
    closed: bool,
}

pub(super) struct Caller {
    call: CallId,
    state: CallerState,
}

enum CallerState {
    Waiting(Waker),
    Ended(Outcome),
}

impl Waiters {
    /// The first XID is random, if possible.
    pub(super) fn new(max_calls: usize) -> Self {
        let next_xid = getrandom::u32().unwrap_or_else(|_| std::process::id());
        Waiters { callers: Table::default(), max_calls, next_xid, woken: Vec::new(), closed: false }
    }

    /// Returns the next XID that neither a caller nor the connection uses. The XID of an abandoned call is
    /// reused only after the counter wraps around, so a late reply to that call matches no call.
    pub(super) fn next_xid(&mut self, is_used: impl Fn(u32) -> bool) -> u32 {
        loop {
            let xid = self.next_xid;
            self.next_xid = xid.wrapping_add(1);
            if !self.callers.contains(xid) && !is_used(xid) {
                return xid;
            }
        }
    }

    pub(super) fn admit(
        &mut self,
        call: SessionCall,
        waker: &Waker,
        submit: impl FnOnce(SessionCall) -> CallId,
    ) -> Result<CallId, CallError> {
        if self.closed {
            return Err(CallError::Disconnected);
        }
        if self.callers.len() >= self.max_calls {
            return Err(CallError::TooMany(self.max_calls));
        }
        if CallId::new(0, &call.message).1.is_some_and(|xid| self.callers.contains(xid)) {
            return Err(TransportError::Unsendable(Unsendable::RepeatedXid).into());
        }
        let call = submit(call);
        let _ = self.callers.insert(call.xid(), Caller { call, state: CallerState::Waiting(waker.clone()) });
        Ok(call)
    }

    fn get_mut(&mut self, call: CallId) -> Option<&mut Caller> {
        self.callers.get_mut(call.xid()).filter(|caller| caller.call == call)
    }

    /// Implements [`Submit::poll_outcome`]. Also returns the replaced waker, which must be dropped after the
    /// lock is released.
    pub(super) fn poll_outcome(
        &mut self,
        call: CallId,
        cx: &mut Context<'_>,
    ) -> (Poll<Option<Outcome>>, Option<Waker>) {
        let Some(caller) = self.get_mut(call) else { return (Poll::Ready(None), None) };
        if let CallerState::Waiting(waker) = &mut caller.state {
            let is_new = !waker.will_wake(cx.waker());
            return (Poll::Pending, is_new.then(|| mem::replace(waker, cx.waker().clone())));
        }
        match self.callers.remove(call.xid()).map(|caller| caller.state) {
            Some(CallerState::Ended(outcome)) => (Poll::Ready(Some(outcome)), None),
            _ => (Poll::Ready(None), None),
        }
    }

    pub(super) fn end(&mut self, call: CallId, outcome: Outcome) {
        if let Some(caller) = self.get_mut(call)
            && let CallerState::Waiting(waker) = mem::replace(&mut caller.state, CallerState::Ended(outcome))
        {
            self.woken.push(waker);
        }
    }

    /// Removes and returns a caller, which must be dropped after the lock is released.
    pub(super) fn remove(&mut self, call: CallId) -> Option<Caller> {
        self.get_mut(call)?;
        self.callers.remove(call.xid())
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        for (xid, caller) in mem::take(&mut self.callers).drain() {
            match caller.state {
                CallerState::Waiting(waker) => self.woken.push(waker),
                CallerState::Ended(_) => drop(self.callers.insert(xid, caller)),
            }
        }
    }

    /// Takes the wakers to invoke after the lock is released. An empty list is not taken, so that its memory
    /// is reused.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        if self.woken.is_empty() { Vec::new() } else { mem::take(&mut self.woken) }
    }

    pub(super) fn woken(&mut self) -> &mut Vec<Waker> {
        &mut self.woken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shell::testing::{self, WakeCount, reply};

    fn starting_at(next_xid: u32) -> Waiters {
        Waiters { next_xid, ..Waiters::new(8) }
    }

    fn admit(waiters: &mut Waiters, xid: u32) -> CallId {
        admit_with(waiters, xid, Waker::noop())
    }

    fn admit_with(waiters: &mut Waiters, xid: u32, waker: &Waker) -> CallId {
        waiters.admit(testing::call(xid), waker, |call| CallId::new(1, &call.message).0).unwrap()
    }

    #[test]
    fn xids_in_use_are_skipped() {
        let mut waiters = starting_at(u32::MAX - 1);
        assert_eq!(waiters.next_xid(|_| false), u32::MAX - 1);
        let abandoned = admit(&mut waiters, u32::MAX);
        admit(&mut waiters, 1);
        assert_eq!([waiters.next_xid(|xid| xid == 2), waiters.next_xid(|xid| xid == 2)], [0, 3]);
        // A late reply to an abandoned call matches no other call.
        waiters.remove(abandoned);
        assert!((0..1000).all(|_| waiters.next_xid(|_| false) != abandoned.xid()));
    }

    #[test]
    fn clients_start_with_different_xids() {
        let [first, second] =
            [Waiters::new(8), Waiters::new(8)].map(|mut waiters| waiters.next_xid(|_| false));
        assert_ne!(first, second);
    }

    #[test]
    fn a_caller_that_has_not_polled_again_is_woken() {
        for closes in [false, true] {
            let (mut waiters, count) = (starting_at(1), Arc::new(WakeCount::default()));
            let call = admit_with(&mut waiters, 1, &Waker::from(count.clone()));
            if closes {
                waiters.close()
            } else {
                waiters.end(call, Err(TransportError::NotReady))
            }
            waiters.take_woken().into_iter().for_each(Waker::wake);
            assert_eq!(count.take(), 1);
        }
    }

    #[test]
    fn a_reply_wakes_its_caller_once() {
        let (mut waiters, count) = (starting_at(1), Arc::new(WakeCount::default()));
        let [call, other] = [1, 2].map(|xid| admit(&mut waiters, xid));
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..2 {
            assert!(waiters.poll_outcome(call, &mut cx).0.is_pending());
        }
        let wake = |waiters: &mut Waiters| {
            waiters.take_woken().into_iter().for_each(Waker::wake);
            count.take()
        };
        waiters.end(other, Ok(reply()));
        assert_eq!(wake(&mut waiters), 0, "the end of one call does not wake another call");
        waiters.end(call, Ok(reply()));
        assert_eq!(wake(&mut waiters), 1);
        waiters.end(call, Err(TransportError::NotReady));
        waiters.close();
        assert_eq!(wake(&mut waiters), 0);
        assert!(matches!(waiters.poll_outcome(call, &mut cx).0, Poll::Ready(Some(_))));
        assert!(matches!(waiters.poll_outcome(call, &mut cx).0, Poll::Ready(None)));
    }
}
