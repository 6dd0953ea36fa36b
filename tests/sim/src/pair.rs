use std::collections::BTreeSet;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::rdma::{
    BackwardRequester, BackwardResponder, Config, Requester, RequesterEvent, Responder, ResponderEvent,
};
use rpcrdma_runtime::proto::work::{Action, Completion};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::private_data::{Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{Body, Header, decode_call, decode_reply};

use crate::fabric::{End, EndConfig, Fabric, FabricConfig, Faults, Side};

/// The settings of a [`Pair`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed for all random choices.
    pub seed: u64,
    /// The requester's configuration.
    pub left: Config,
    /// The responder's configuration.
    pub right: Config,
    /// The IRD of both ends.
    pub reads: u32,
    /// The injected faults.
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seed: 1,
            left: Config::default(),
            right: Config::default(),
            reads: 16,
            faults: Faults::default(),
        }
    }
}

/// Returns the configuration of the requester's end.
#[must_use]
pub fn left_config(settings: &Settings) -> EndConfig {
    end(&settings.left, settings.reads)
}

/// Returns the configuration of the responder's end.
#[must_use]
pub fn right_config(settings: &Settings) -> EndConfig {
    end(&settings.right, settings.reads)
}

fn end(config: &Config, ird: u32) -> EndConfig {
    EndConfig {
        private_data: Bytes::copy_from_slice(&config.private_data.encode()),
        receive_size: config.private_data.receive_size,
        ird,
        ..EndConfig::default()
    }
}

/// A requester on the left and a responder on the right.
///
/// The pair checks that its engines follow the protocol's rules, for example on message sizes, credits and
/// posted Receives.
#[derive(Debug)]
pub struct Pair {
    /// The connection.
    pub fabric: Fabric,
    /// The requester.
    pub requester: Requester,
    /// The responder.
    pub responder: Responder,
    /// The responder for backward calls, on the left, if the left peer accepts them.
    pub callee: Option<BackwardResponder>,
    /// The requester for backward calls, on the right.
    pub caller: BackwardRequester,
    /// The negotiated settings.
    pub negotiated: Negotiated,
    /// The complete messages of the requester's Sends.
    pub calls_sent: Vec<Bytes>,
    /// The complete messages of the responder's Sends, each with the handle that the Send invalidates, if
    /// any.
    pub replies_sent: Vec<(Bytes, Option<u32>)>,
    limits: rpcrdma_runtime::proto::rdma::MessageLimits,
    /// XIDs of the requester's calls without a reply.
    unanswered: BTreeSet<u32>,
    /// The grant of the last reply, limited to the range from 1 to the requested credits. Initially 1.
    granted: u32,
    /// How often the grant fell to 1.
    pub drops_to_one: u64,
    client_closed: bool,
    left: End,
    right: End,
    left_receives: Receives,
    right_receives: Receives,
    /// The right peer's Receives for backward replies.
    right_backward: Receives,
    /// The credits that the left peer grants for backward calls, or 0 once its connection has ended.
    backward: u64,
}

#[derive(Debug, Default)]
struct Receives {
    posted: u64,
    taken: u64,
}

impl Pair {
    /// Connects a requester and a responder.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let (fabric, left, right) = Fabric::pair(FabricConfig {
            seed: settings.seed,
            ends: [left_config(settings), right_config(settings)],
            delay: Duration::from_millis(1),
            faults: settings.faults,
            automatic: false,
        });
        let private_data =
            |end: &End| PrivateData::find(&end.info().private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&private_data(&right), &private_data(&left));
        Pair {
            requester: Requester::new(settings.left, negotiated, left.info().max_region)
                .with_local_fence(left.info().local_fence),
            responder: Responder::new(settings.right, negotiated, right.info().ord),
            callee: None,
            caller: BackwardRequester::new(settings.right, negotiated),
            negotiated,
            calls_sent: Vec::new(),
            replies_sent: Vec::new(),
            limits: settings.left.limits,
            unanswered: BTreeSet::new(),
            granted: 1,
            drops_to_one: 0,
            client_closed: false,
            fabric,
            left,
            right,
            left_receives: Receives::default(),
            right_receives: Receives::default(),
            right_backward: Receives::default(),
            backward: 0,
        }
    }

    /// Connects two peers that can both send calls.
    #[must_use]
    pub fn bidirectional(settings: &Settings) -> Self {
        let mut pair = Pair::new(settings);
        pair.callee = Some(BackwardResponder::new(settings.left, pair.negotiated));
        pair.backward = settings.left.backward_credits.max(1).into();
        pair.caller.ready();
        pair
    }

    /// Calls [`Pair::settle`], and then runs the next simulated event. Returns false if no simulated event is
    /// left.
    pub fn step(&mut self) -> bool {
        self.settle();
        self.fabric.advance()
    }

    /// Exchanges actions and completions between the engines and the fabric until none are left.
    pub fn settle(&mut self) {
        loop {
            let mut moved = false;
            while let Some(action) = self.requester.poll_action() {
                self.check_call(&action);
                self.left.submit(action);
                moved = true;
            }
            while let Some(action) = self.responder.poll_action() {
                self.check_reply(&action);
                self.right.submit(action);
                moved = true;
            }
            while let Some(action) = self.callee.as_mut().and_then(BackwardResponder::poll_action) {
                self.check_backward_reply(&action);
                self.left.submit(action);
                moved = true;
            }
            while let Some(action) = self.caller.poll_action() {
                self.check_backward_call(&action);
                self.right.submit(action);
                moved = true;
            }
            while let Some(completion) = next(&mut self.left) {
                self.handle_left(completion);
                moved = true;
            }
            while let Some(completion) = next(&mut self.right) {
                self.handle_right(completion);
                moved = true;
            }
            if !moved {
                return self.check_flow();
            }
        }
    }

    fn handle_left(&mut self, completion: Completion) {
        self.left_receives.count(&completion);
        if matches!(completion, Completion::Closed { .. }) {
            self.backward = 0;
            self.client_closed = true;
        }
        let completion = match &mut self.callee {
            Some(callee) => callee.take(completion),
            None => Some(completion),
        };
        if let Some(completion) = completion {
            self.note_grant(&completion);
            self.requester.handle_completion(completion);
        }
    }

    fn note_grant(&mut self, completion: &Completion) {
        let Completion::Received { message, .. } = completion else { return };
        let Ok((Header { xid, credits, .. }, _)) = decode_reply(message, &self.limits) else { return };
        self.drops_to_one += u64::from(credits == 1 && self.granted > 1);
        self.granted = credits.clamp(1, self.requester.credits().requested());
        assert!(self.unanswered.remove(&xid), "a reply without a matching call");
    }

    fn handle_right(&mut self, completion: Completion) {
        let mut one = Receives::default();
        one.count(&completion);
        if let Some(completion) = self.caller.take(completion) {
            self.right_receives.taken += one.taken;
            self.responder.handle_completion(completion);
        } else {
            self.right_backward.taken += one.taken;
        }
    }

    /// Returns true if the connection has ended for the requester. The connection may still be open for the
    /// responder.
    #[must_use]
    pub fn client_is_closed(&self) -> bool {
        self.client_closed
    }

    /// Runs simulated events until the requester reports an event. Returns the requester's event.
    ///
    /// # Panics
    /// Panics if no simulated event is left.
    pub fn next_event(&mut self) -> RequesterEvent {
        loop {
            self.settle();
            if let Some(event) = self.requester.poll_event() {
                return event;
            }
            assert!(self.fabric.advance(), "the requester has no event");
        }
    }

    /// Runs simulated events until the responder reports an event. Returns the responder's event.
    ///
    /// # Panics
    /// Panics if no simulated event is left.
    pub fn next_call(&mut self) -> ResponderEvent {
        loop {
            self.settle();
            if let Some(event) = self.responder.poll_event() {
                return event;
            }
            assert!(self.fabric.advance(), "the responder has no event");
        }
    }

    fn check_call(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.left_receives.posted += u64::from(*count),
            Action::Send { message, .. } => {
                let message: Bytes = message.concat().into();
                assert!(
                    message.len() <= self.negotiated.call_threshold as usize,
                    "R045: the call exceeds the threshold: {message:?}"
                );
                let xid = message.first_chunk().map(|word| u32::from_be_bytes(*word)).expect("a header");
                assert!(self.unanswered.insert(xid), "two calls with one XID");
                let (unanswered, granted) = (self.unanswered.len(), self.granted);
                assert!(unanswered <= granted as usize, "R025: {unanswered} calls, {granted} credits");
                self.calls_sent.push(message);
            }
            Action::Read { .. } | Action::Write { .. } => {
                panic!("a requester must not submit RDMA Reads or Writes")
            }
            Action::Register { .. }
            | Action::Invalidate { .. }
            | Action::Abandon { .. }
            | Action::Close { .. } => {}
        }
    }

    fn check_reply(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.right_receives.posted += u64::from(*count),
            Action::Send { message, invalidate, .. } => {
                let message: Bytes = message.concat().into();
                assert!(
                    message.len() <= self.negotiated.reply_threshold as usize,
                    "R045: the reply exceeds the threshold: {message:?}"
                );
                let granted = match decode_reply(&message, &self.limits) {
                    Ok((Header { credits, .. }, _)) => u64::from(credits),
                    Err(refusal) => panic!("an invalid reply: {refusal:?}"),
                };
                assert!(granted > 0, "R023: a grant must not be 0");
                self.replies_sent.push((message, *invalidate));
                let unanswered = self.right_receives.posted - self.replies_sent.len() as u64;
                assert!(unanswered >= granted, "R029: {granted} credits granted with {unanswered} Receives");
            }
            Action::Register { .. } | Action::Invalidate { .. } | Action::Abandon { .. } => {
                panic!("a responder must not advertise memory")
            }
            Action::Read { .. } | Action::Write { .. } | Action::Close { .. } => {}
        }
    }

    fn check_backward_call(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.right_backward.posted += u64::from(*count),
            Action::Send { message, invalidate: None, .. } => {
                let message: Bytes = message.concat().into();
                assert!(
                    message.len() <= self.negotiated.reply_threshold as usize,
                    "R218: the message exceeds the threshold: {message:?}"
                );
                let (header, _) = decode_call(&message, &self.limits).expect("a call");
                assert!(header.credits > 0, "R035: the requested credits must not be 0");
                assert!(
                    matches!(header.body, Body::Msg(lists) if lists.is_empty()),
                    "a backward message has chunks: {message:?}"
                );
            }
            other => panic!("unexpected action of the backward requester: {other:?}"),
        }
    }

    fn check_backward_reply(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.left_receives.posted += u64::from(*count),
            Action::Send { message, invalidate: None, .. } => {
                let message: Bytes = message.concat().into();
                assert!(
                    message.len() <= self.negotiated.call_threshold as usize,
                    "R218: the message exceeds the threshold: {message:?}"
                );
                let (header, _) = decode_reply(&message, &self.limits).expect("a reply");
                assert!(header.credits > 0, "R035: a grant must not be 0");
                let plain = match header.body {
                    Body::Msg(lists) => lists.is_empty(),
                    Body::NoMsg(_) => false,
                    Body::Error(_) => true,
                };
                assert!(plain, "a backward message has chunks: {message:?}");
            }
            other => panic!("unexpected action of the backward responder: {other:?}"),
        }
    }

    fn check_backward_flow(&self) {
        let credits = self.caller.credits();
        assert!(credits.granted() >= 1 && credits.granted() <= credits.requested(), "{credits:?}");
        let waiting = self.right_backward.posted - self.right_backward.taken;
        assert!(waiting >= u64::from(credits.outstanding()), "R215: {credits:?} with {waiting} Receives");
        let Some(callee) = &self.callee else { return };
        let waiting = self.left_receives.posted - self.left_receives.taken;
        let expected = self.backward.saturating_sub(callee.in_progress() as u64);
        let replies = u64::from(self.requester.credits().outstanding());
        assert!(
            waiting >= expected + replies,
            "R214: {waiting} Receives for {expected} calls and {replies} replies"
        );
    }

    fn check_flow(&self) {
        self.check_backward_flow();
        let credits = self.requester.credits();
        assert!(credits.granted() >= 1 && credits.granted() <= credits.requested(), "{credits:?}");
        let waiting = self.left_receives.posted - self.left_receives.taken;
        assert!(waiting >= u64::from(credits.outstanding()), "R036: {credits:?} with {waiting} Receives");
        assert!(self.fabric.exposed(Side::Right).is_empty(), "a responder must not advertise memory");
        if credits.outstanding() == 0 {
            assert_eq!(
                self.fabric.registered(Side::Left),
                0,
                "R200: memory is registered without an outstanding call"
            );
        }
    }
}

impl Receives {
    fn count(&mut self, completion: &Completion) {
        if matches!(completion, Completion::Received { .. }) {
            self.taken += 1;
        }
    }
}

fn next(end: &mut End) -> Option<Completion> {
    match end.poll_completion(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(completion) => Some(completion),
        Poll::Pending => None,
    }
}
