use std::collections::BTreeSet;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::rdma::{
    BackwardRequester, BackwardResponder, Config, Event, Requester, Responder, ResponderEvent,
};
use rpcrdma_runtime::proto::work::{Action, Completion};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::private_data::{Negotiated, PrivateData};
use rpcrdma_runtime::wire::rdma::{Body, Header, decode_call, decode_reply};

use crate::fabric::{End, EndConfig, Fabric, FabricConfig, Faults, Side};

/// Two engines and what is between them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The requester's.
    pub left: Config,
    /// The responder's.
    pub right: Config,
    /// RDMA Reads that the requester serves at once.
    pub reads: u32,
    /// What goes wrong.
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

/// What the requester says when it connects.
#[must_use]
pub fn left_config(settings: &Settings) -> EndConfig {
    end(&settings.left, settings.reads)
}

/// What the responder says when it connects.
#[must_use]
pub fn right_config(settings: &Settings) -> EndConfig {
    end(&settings.right, settings.reads)
}

fn end(config: &Config, reads_in: u32) -> EndConfig {
    EndConfig {
        private_data: Bytes::copy_from_slice(&config.private_data.encode()),
        receive_size: config.private_data.receive_size,
        reads_in,
        ..EndConfig::default()
    }
}

/// A requester on the left, a responder on the right. Every rule that can be seen from outside of both is checked
/// as their messages pass.
#[derive(Debug)]
pub struct Pair {
    /// The connection.
    pub fabric: Fabric,
    /// The requester.
    pub requester: Requester,
    /// The responder.
    pub responder: Responder,
    /// Calls of the right end, at the left one; nothing, if it takes none.
    pub callee: Option<BackwardResponder>,
    /// The same at the right end.
    pub caller: BackwardRequester,
    /// What both agreed on.
    pub negotiated: Negotiated,
    /// Every Send of the requester, whole.
    pub calls_sent: Vec<Bytes>,
    /// Every Send of the responder, whole, and what it invalidated.
    pub replies_sent: Vec<(Bytes, Option<u32>)>,
    limits: rpcrdma_runtime::proto::rdma::Limits,
    /// XIDs of calls that the requester sent and that have no reply.
    unanswered: BTreeSet<u32>,
    /// What the last of its replies granted.
    granted: u32,
    /// How often the grant fell to 1.
    pub few: u64,
    gone: bool,
    left: End,
    right: End,
    left_receives: Receives,
    right_receives: Receives,
    /// Those for replies in the backward direction.
    right_backward: Receives,
    /// How many calls in the backward direction the left end grants, as long as it is connected.
    backward: u64,
}

/// A side's Receives.
#[derive(Debug, Default)]
struct Receives {
    posted: u64,
    taken: u64,
}

impl Pair {
    /// Connects them.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let (fabric, left, right) = Fabric::pair(FabricConfig {
            seed: settings.seed,
            ends: [left_config(settings), right_config(settings)],
            delay: Duration::from_millis(1),
            faults: settings.faults,
            automatic: false,
        });
        let said = |end: &End| PrivateData::find(&end.info().private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&said(&right), &said(&left));
        Pair {
            requester: Requester::new(settings.left, negotiated, left.info().max_region)
                .with_local_fence(left.info().local_fence),
            responder: Responder::new(settings.right, negotiated, right.info().reads_out),
            callee: None,
            caller: BackwardRequester::new(settings.right, negotiated),
            negotiated,
            calls_sent: Vec::new(),
            replies_sent: Vec::new(),
            limits: settings.left.limits,
            unanswered: BTreeSet::new(),
            granted: 1,
            few: 0,
            gone: false,
            fabric,
            left,
            right,
            left_receives: Receives::default(),
            right_receives: Receives::default(),
            right_backward: Receives::default(),
            backward: 0,
        }
    }

    /// Connects them, and both may call.
    #[must_use]
    pub fn both_ways(settings: &Settings) -> Self {
        let mut pair = Pair::new(settings);
        pair.callee = Some(BackwardResponder::new(settings.left, pair.negotiated));
        pair.backward = settings.left.backward_credits.max(1).into();
        pair.caller.ready();
        pair
    }

    /// Lets both engines do what they can do now, then goes on to the next thing that happens. False if nothing
    /// is under way.
    pub fn step(&mut self) -> bool {
        self.settle();
        self.fabric.advance()
    }

    /// Lets both engines do what they can do now.
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
                self.hear_left(completion);
                moved = true;
            }
            while let Some(completion) = next(&mut self.right) {
                self.hear_right(completion);
                moved = true;
            }
            if !moved {
                return self.check_flow();
            }
        }
    }

    fn hear_left(&mut self, completion: Completion) {
        self.left_receives.count(&completion);
        if matches!(completion, Completion::Closed { .. }) {
            self.backward = 0;
            self.gone = true;
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

    /// What a reply grants, and which call it answers.
    fn note_grant(&mut self, completion: &Completion) {
        let Completion::Received { message, .. } = completion else { return };
        let Ok((Header { xid, credits, .. }, _)) = decode_reply(message, &self.limits) else { return };
        self.few += u64::from(credits == 1 && self.granted > 1);
        self.granted = credits.clamp(1, self.requester.credits().asked());
        assert!(self.unanswered.remove(&xid), "a reply to no call");
    }

    fn hear_right(&mut self, completion: Completion) {
        let mut one = Receives::default();
        one.count(&completion);
        if let Some(completion) = self.caller.take(completion) {
            self.right_receives.taken += one.taken;
            self.responder.handle_completion(completion);
        } else {
            self.right_backward.taken += one.taken;
        }
    }

    /// Whether the requester has heard the last of its provider. The responder need not have.
    #[must_use]
    pub fn client_is_gone(&self) -> bool {
        self.gone
    }

    /// Steps until the requester says something.
    ///
    /// # Panics
    /// If it has nothing to say.
    pub fn next_event(&mut self) -> Event {
        loop {
            self.settle();
            if let Some(event) = self.requester.poll_event() {
                return event;
            }
            assert!(self.fabric.advance(), "the requester has nothing to say");
        }
    }

    /// Steps until the responder says something.
    ///
    /// # Panics
    /// If it has nothing to say.
    pub fn next_call(&mut self) -> ResponderEvent {
        loop {
            self.settle();
            if let Some(event) = self.responder.poll_event() {
                return event;
            }
            assert!(self.fabric.advance(), "the responder has nothing to say");
        }
    }

    fn check_call(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.left_receives.posted += u64::from(*count),
            Action::Send { message, .. } => {
                let message: Bytes = message.concat().into();
                assert!(
                    message.len() <= self.negotiated.call_threshold as usize,
                    "R045: a call of {message:?}"
                );
                let xid = message.first_chunk().map(|word| u32::from_be_bytes(*word)).expect("a header");
                assert!(self.unanswered.insert(xid), "two calls with one XID");
                let (unanswered, granted) = (self.unanswered.len(), self.granted);
                assert!(unanswered <= granted as usize, "R025: {unanswered} unanswered, {granted} granted");
                self.calls_sent.push(message);
            }
            Action::Read { .. } | Action::Write { .. } => panic!("a requester neither reads nor writes"),
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
                    "R045: a reply of {message:?}"
                );
                let granted = match decode_reply(&message, &self.limits) {
                    Ok((Header { credits, .. }, _)) => u64::from(credits),
                    Err(refusal) => panic!("a reply that nobody can read: {refusal:?}"),
                };
                assert!(granted > 0, "R023: the grant is never 0");
                self.replies_sent.push((message, *invalidate));
                let unanswered = self.right_receives.posted - self.replies_sent.len() as u64;
                assert!(unanswered >= granted, "R029: {granted} granted with {unanswered} Receives");
            }
            Action::Register { .. } | Action::Invalidate { .. } | Action::Abandon { .. } => {
                panic!("a responder advertises nothing")
            }
            Action::Read { .. } | Action::Write { .. } | Action::Close { .. } => {}
        }
    }

    fn check_backward_call(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.right_backward.posted += u64::from(*count),
            Action::Send { message, invalidate: None, .. } => {
                let message: Bytes = message.concat().into();
                assert!(message.len() <= self.negotiated.reply_threshold as usize, "R218: {message:?}");
                let (header, _) = decode_call(&message, &self.limits).expect("a call");
                assert!(header.credits > 0, "R035: the credits are never 0");
                assert!(matches!(header.body, Body::Msg(lists) if lists.is_empty()), "chunks: {message:?}");
            }
            other => panic!("a call in the backward direction is a Send: {other:?}"),
        }
    }

    fn check_backward_reply(&mut self, action: &Action) {
        match action {
            Action::PostReceives { count } => self.left_receives.posted += u64::from(*count),
            Action::Send { message, invalidate: None, .. } => {
                let message: Bytes = message.concat().into();
                assert!(message.len() <= self.negotiated.call_threshold as usize, "R218: {message:?}");
                let (header, _) = decode_reply(&message, &self.limits).expect("a reply");
                assert!(header.credits > 0, "R035: the grant is never 0");
                let plain = match header.body {
                    Body::Msg(lists) => lists.is_empty(),
                    Body::NoMsg(_) => false,
                    Body::Error(_) => true,
                };
                assert!(plain, "chunks: {message:?}");
            }
            other => panic!("a reply in the backward direction is a Send: {other:?}"),
        }
    }

    /// Receives for the calls of the right end and for their replies.
    fn check_backward_flow(&self) {
        let credits = self.caller.credits();
        assert!(credits.granted() >= 1 && credits.granted() <= credits.asked(), "{credits:?}");
        let waiting = self.right_backward.posted - self.right_backward.taken;
        assert!(waiting >= u64::from(credits.in_flight()), "R215: {credits:?} with {waiting} Receives");
        let Some(callee) = &self.callee else { return };
        let waiting = self.left_receives.posted - self.left_receives.taken;
        let expected = self.backward.saturating_sub(callee.in_progress() as u64);
        let replies = u64::from(self.requester.credits().in_flight());
        assert!(
            waiting >= expected + replies,
            "R214: {waiting} Receives for {expected} calls, {replies} replies"
        );
    }

    fn check_flow(&self) {
        self.check_backward_flow();
        let credits = self.requester.credits();
        assert!(credits.granted() >= 1 && credits.granted() <= credits.asked(), "{credits:?}");
        let waiting = self.left_receives.posted - self.left_receives.taken;
        assert!(waiting >= u64::from(credits.in_flight()), "R036: {credits:?} with {waiting} Receives");
        assert!(self.fabric.exposed(Side::Right).is_empty(), "a responder advertises nothing");
        if credits.in_flight() == 0 {
            assert_eq!(
                self.fabric.registered(Side::Left),
                0,
                "R200: memory is advertised and no call is out"
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
