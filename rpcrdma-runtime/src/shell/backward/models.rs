//! Models of the lock, the flags and the wake-ups between the tasks that make backward calls and the task of
//! their connection. Loom runs each model in all thread interleavings with at most two preemptions, and
//! reports a thread that waits forever.

use std::future::poll_fn;
use std::task::Waker;

use loom::future::block_on;
use loom::thread;

use self::calling::{Backward, Calling};
use crate::proto::call::{CallId, RequesterEvent};
use crate::shell::CallError;
use crate::shell::testing::{call, check, reply};
use crate::shell::waiters::Submit;
use crate::xdr::Message;

/// `calling.rs` with the locks and atomics of loom.
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod)]
#[path = "calling.rs"]
mod calling;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

/// An engine whose peer replies to every call.
#[derive(Default)]
struct Answering {
    calls: Vec<CallId>,
    events: Vec<RequesterEvent>,
}

impl Backward for Answering {
    fn ready(&mut self) {}

    fn submit(&mut self, message: Message) -> CallId {
        let call = CallId::new(1, &message).0;
        self.calls.push(call);
        call
    }

    fn cancel(&mut self, call: CallId) {
        self.calls.retain(|other| *other != call);
    }

    fn is_outstanding(&self, xid: u32) -> bool {
        self.calls.iter().any(|call| call.xid() == xid)
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.events.pop()
    }
}

impl Answering {
    /// Replies to all queued calls. Returns true if any replies are ready.
    fn answer(&mut self) -> bool {
        let done = |call| RequesterEvent::Done { call, outcome: Ok(reply()) };
        self.events.extend(self.calls.drain(..).map(done));
        !self.events.is_empty()
    }
}

fn submit(calls: &(impl Submit + ?Sized)) -> Result<CallId, CallError> {
    calls.submit(call(calls.next_xid()), Waker::noop())
}

/// The connection's task checks `used` without the lock and then waits, as [`RdmaInbound`] does.
///
/// [`RdmaInbound`]: crate::shell::rdma::RdmaInbound
#[test]
fn the_task_of_the_connection_sends_calls() {
    check(|| {
        let calling = Calling::new(Answering::default(), 8);
        let calls = calling.calls();
        let task = thread::spawn(move || {
            while !calling.with_used(Answering::answer) {
                block_on(calling.changed());
            }
            calling
        });
        let call = submit(&*calls).unwrap();
        assert!(matches!(block_on(poll_fn(|cx| calls.poll_outcome(call, cx))), Some(Ok(_))));
        drop(task.join().unwrap());
    });
}

#[test]
fn callers_fail_once_the_connection_is_dropped() {
    check(|| {
        let calling = Calling::new(Answering::default(), 8);
        let calls = calling.calls();
        let task = thread::spawn(move || drop(calling));
        match submit(&*calls) {
            Ok(call) => assert!(block_on(poll_fn(|cx| calls.poll_outcome(call, cx))).is_none()),
            Err(error) => assert!(matches!(error, CallError::Disconnected)),
        }
        task.join().unwrap();
    });
}

#[test]
fn an_abandoned_call_gets_no_outcome() {
    check(|| {
        let calling = Calling::new(Answering::default(), 8);
        let calls = calling.calls();
        let task = thread::spawn(move || {
            calling.with_used(Answering::answer);
            calling
        });
        let call = submit(&*calls).unwrap();
        calls.cancel(call);
        assert!(block_on(poll_fn(|cx| calls.poll_outcome(call, cx))).is_none());
        drop(task.join().unwrap());
    });
}
