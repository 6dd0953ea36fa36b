//! Models of the lock and of the wake-ups between callers and the driver. Loom runs each model in all
//! thread interleavings with at most two preemptions, and reports a thread that waits forever.

use std::collections::VecDeque;
use std::future::poll_fn;

use loom::future::block_on;
use loom::thread;

use super::*;
use crate::proto::call::{RequesterEvent, TransportError};
use crate::shell::testing::{self, WakeCount, reply};

/// Messages in transit between a client and its server.
#[derive(Default)]
struct Wire {
    calls: VecDeque<CallId>,
    replies: VecDeque<CallId>,
    client: Option<Waker>,
    server: Option<Waker>,
}

type SharedWire = Arc<Mutex<Wire>>;

/// A connection. If `blocked`, its socket accepts output only from the driver.
struct Wired {
    wire: SharedWire,
    blocked: bool,
}

#[derive(Default)]
struct TestRequester {
    unsent: VecDeque<CallId>,
    events: VecDeque<RequesterEvent>,
    closing: bool,
}

impl SessionRequester for TestRequester {
    fn submit(&mut self, id: CallId, _: &SessionCall) -> Result<(), TransportError> {
        self.unsent.push_back(id);
        Ok(())
    }

    fn cancel(&mut self, call: CallId) {
        self.unsent.retain(|unsent| *unsent != call);
    }

    fn holds_resources(&self, _: CallId) -> bool {
        false
    }

    fn close(&mut self, reason: CloseReason) {
        if !self.closing {
            self.closing = true;
            self.events.push_back(RequesterEvent::Closed(reason));
        }
    }

    fn is_closing(&self) -> bool {
        self.closing
    }

    fn poll_event(&mut self) -> Option<RequesterEvent> {
        self.events.pop_front()
    }

    fn has_work(&self) -> bool {
        !self.events.is_empty()
    }
}

impl Wired {
    fn send(&self, requester: &mut TestRequester) {
        let mut wire = self.wire.lock().unwrap();
        wire.calls.extend(requester.unsent.drain(..));
        let server = wire.server.take();
        drop(wire);
        server.into_iter().for_each(Waker::wake);
    }
}

impl Outbound for Wired {
    type Requester = TestRequester;
    type Key = ();
    type Peer = ();

    fn peer(&self) {}

    fn endpoints(&self) -> Endpoints {
        Endpoints::default()
    }

    fn flush(&mut self, requester: &mut TestRequester) -> bool {
        if !self.blocked && !requester.unsent.is_empty() {
            self.send(requester);
        }
        requester.unsent.is_empty()
    }

    fn poll(&mut self, requester: &mut TestRequester, cx: &mut Context<'_>) -> Poll<()> {
        if !requester.unsent.is_empty() {
            self.send(requester);
            return Poll::Ready(());
        }
        let mut wire = self.wire.lock().unwrap();
        let Some(call) = wire.replies.pop_front() else {
            wire.client = Some(cx.waker().clone());
            return Poll::Pending;
        };
        requester.events.push_back(RequesterEvent::Done { call, outcome: Ok(reply()) });
        Poll::Ready(())
    }

    fn poll_call(&mut self) -> Option<((), Received)> {
        None
    }

    fn reply(&mut self, _: Ended<()>, _: &Warnings) {
        panic!("the server has made no calls on this connection");
    }
}

fn answer(wire: &SharedWire) {
    let call = block_on(poll_fn(|cx| {
        let mut wire = wire.lock().unwrap();
        wire.server = Some(cx.waker().clone());
        wire.calls.pop_front().map_or(Poll::Pending, Poll::Ready)
    }));
    let mut wire = wire.lock().unwrap();
    wire.replies.push_back(call);
    let client = wire.client.take();
    drop(wire);
    client.into_iter().for_each(Waker::wake);
}

fn submit(shared: &Shared<Wired>) -> CallId {
    submit_with(shared, Waker::noop()).unwrap()
}

fn submit_with(shared: &Shared<Wired>, waker: &Waker) -> Result<CallId, CallError> {
    shared.submit(testing::call(shared.next_xid()), waker)
}

/// Returns a connected client without calls, and its driver.
fn client(wire: &SharedWire, blocked: bool) -> (Arc<Shared<Wired>>, Driver<Wired>) {
    let connected = (Wired { wire: wire.clone(), blocked }, TestRequester::default());
    let policy = Policy { idle: None, ..Policy::default() };
    Shared::new(policy, (Some(connected), None), (), &Services::new(), ClientStats::default(), 8)
}

/// Runs a model of a client. The driver runs on its own thread until the client is closed.
fn model(blocked: bool, caller: impl Fn(&Arc<Shared<Wired>>, &SharedWire) + Send + Sync + 'static) {
    check(move || {
        let wire = SharedWire::default();
        let (shared, driver) = client(&wire, blocked);
        let driver = thread::spawn(move || block_on(driver));
        caller(&shared, &wire);
        shared.close();
        driver.join().unwrap();
    });
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    testing::check(model);
}

fn a_call_is_answered(blocked: bool) {
    model(blocked, |shared, wire| {
        let wire = wire.clone();
        let server = thread::spawn(move || answer(&wire));
        let mut submitted = None;
        let outcome = block_on(poll_fn(|cx| match submitted {
            Some(call) => shared.poll_outcome(call, cx),
            None => {
                submitted = Some(submit_with(shared, cx.waker()).unwrap());
                Poll::Pending
            }
        }));
        assert!(matches!(outcome, Some(Ok(_))));
        server.join().unwrap();
    });
}

#[test]
fn a_call_that_its_caller_sends_is_answered() {
    a_call_is_answered(false);
}

#[test]
fn a_call_that_the_driver_sends_is_answered() {
    a_call_is_answered(true);
}

#[test]
fn calls_that_are_made_together_share_a_write() {
    check(|| {
        let wire = SharedWire::default();
        let (shared, mut driver) = client(&wire, false);
        let mut poll = || {
            assert!(Pin::new(&mut driver).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        };
        poll();
        let _ = [submit(&shared), submit(&shared), submit(&shared)];
        assert_eq!(wire.lock().unwrap().calls.len(), 1);
        assert!(shared.lock().driver.is_none(), "the driver is woken");
        poll();
        assert_eq!(wire.lock().unwrap().calls.len(), 3);
    });
}

#[test]
fn a_driver_lets_other_tasks_run() {
    const MORE: usize = 3;
    check(|| {
        let wire = SharedWire::default();
        let (shared, mut driver) = client(&wire, false);
        let call = submit(&shared);
        let replies = MAX_STEPS * MAX_POLLS + MORE;
        wire.lock().unwrap().replies.extend(std::iter::repeat_n(call, replies));
        let woken = Arc::new(WakeCount::default());
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        for (left, is_woken) in [(MORE, true), (0, false)] {
            assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
            assert_eq!(wire.lock().unwrap().replies.len(), left);
            assert_eq!(woken.take() > 0, is_woken);
        }
    });
}

#[test]
fn an_abandoned_call_does_not_keep_the_driver_running() {
    model(true, |shared, _| {
        let call = submit(shared);
        shared.cancel(call);
        assert!(block_on(poll_fn(|cx| shared.poll_outcome(call, cx))).is_none());
    });
}

#[test]
fn closing_fails_a_call_of_another_thread() {
    model(false, |shared, _| {
        let other = shared.clone();
        let call = submit(shared);
        let waits = thread::spawn(move || block_on(poll_fn(|cx| other.poll_outcome(call, cx))));
        shared.close();
        assert!(matches!(waits.join().unwrap(), Some(Err(TransportError::Closed(_)))));
    });
}

/// A runtime that shuts down drops the driver.
#[test]
fn dropping_the_driver_fails_a_waiting_call() {
    for blocked in [false, true] {
        check(move || {
            let (shared, mut driver) = client(&SharedWire::default(), blocked);
            let driver = thread::spawn(move || {
                let mut cx = Context::from_waker(Waker::noop());
                assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
                drop(driver);
            });
            match submit_with(&shared, Waker::noop()) {
                Ok(call) => assert!(block_on(poll_fn(|cx| shared.poll_outcome(call, cx))).is_none()),
                Err(error) => assert!(matches!(error, CallError::Disconnected)),
            }
            driver.join().unwrap();
        });
    }
}

#[test]
fn a_call_on_an_idle_connection_does_not_wake_the_driver() {
    check(|| {
        let (shared, mut driver) = client(&SharedWire::default(), false);
        assert!(Pin::new(&mut driver).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        submit(&shared);
        assert!(shared.lock().driver.is_some(), "not woken: the driver's timer is already armed");
    });
}

#[test]
fn a_reply_does_not_reach_another_connection() {
    check(|| {
        let (_shared, mut driver) = client(&SharedWire::default(), false);
        driver.running = Some((0, Running::new(Serving::plain(Services::new()).executor(None))));
        driver.replies.push(Ended { key: (), info: None, span: tracing::Span::none(), reply: None });
        driver.reply();
        assert!(driver.replies.is_empty());
    });
}
