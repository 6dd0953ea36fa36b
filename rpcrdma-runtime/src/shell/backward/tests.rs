use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::*;
use crate::proto::call::{CallId, RequesterEvent};
use crate::shell::CallError;
use crate::shell::testing::{WakeCount, call};
use crate::xdr::Message;

/// An engine whose calls get no reply. All even XIDs are in use.
struct Unanswered(#[expect(dead_code, reason = "shows when the engine is dropped")] Arc<()>);

impl Backward for Unanswered {
    fn ready(&mut self) {}

    fn submit(&mut self, message: Message) -> CallId {
        CallId::new(1, &message).0
    }

    fn cancel(&mut self, _: CallId) {}

    fn is_outstanding(&self, xid: u32) -> bool {
        xid.is_multiple_of(2)
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        None
    }
}

#[test]
fn the_engine_and_the_task_are_dropped_with_the_connection() {
    let alive = Arc::new(());
    let calling = Calling::new(Unanswered(alive.clone()), 8);
    let calls = calling.calls();
    assert!(!calling.is_used());
    calls.ready();
    assert!(calling.is_used());
    let task = Arc::new(WakeCount::default());
    let waker = Waker::from(task.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(pin!(calling.changed()).poll(&mut cx).is_ready());
    assert!(pin!(calling.changed()).poll(&mut cx).is_pending());
    drop(waker);
    assert_eq!((Arc::strong_count(&alive), Arc::strong_count(&task)), (2, 2));
    drop(calling);
    assert_eq!((Arc::strong_count(&alive), Arc::strong_count(&task)), (1, 1));
    assert!(matches!(calls.submit(call(0), Waker::noop()), Err(CallError::Disconnected)));
}

#[test]
fn xids_that_the_engine_uses_are_skipped() {
    let calling = Calling::new(Unanswered(Arc::default()), 8);
    let calls = calling.calls();
    assert!((0..4).all(|_| calls.next_xid() % 2 == 1));
    // The engine is dropped with the connection.
    drop(calling);
    assert_ne!(calls.next_xid() % 2, calls.next_xid() % 2);
}
