//! Abandoned calls: the caller stops waiting for the reply.

use rpcrdma_runtime::proto::rdma::{Config, Requester};
use rpcrdma_runtime::proto::work::{Action, Completion, Segment};
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists};

use super::{Peer, answer, msg, offering, requester, returning, rpc_reply, short};

/// Returns the requester's next action other than `PostReceives`.
fn action(requester: &mut Requester) -> Option<Action> {
    std::iter::from_fn(|| requester.poll_action())
        .find(|action| !matches!(action, Action::PostReceives { .. }))
}

/// Requirement: H37, H74
#[test]
fn r202_an_abandoned_call_keeps_its_credit_and_its_memory_until_its_reply() {
    let mut peer = Peer::new();
    let call = offering(1, &[8], None);
    let id = peer.call(1, call);
    let Body::Msg(lists) = peer.next_sent().0.body else { panic!("short") };
    peer.call(2, short(2));
    peer.requester.cancel(id);
    peer.collect();
    assert_eq!((peer.exposed.len(), peer.sent.len()), (1, 0), "the responder may still write");
    peer.receive(msg(1, 1, returning(vec![lists.writes[0].filled(8)], None), &rpc_reply(1, 4)));
    assert!(peer.exposed.is_empty() && peer.events.is_empty());
    assert_eq!(peer.sent.len(), 1, "the abandoned call's credit goes to the next call");
}

#[test]
fn a_call_that_is_abandoned_in_the_queue_is_never_sent() {
    let mut peer = Peer::new();
    peer.call(1, short(1));
    let id = peer.call(2, short(2));
    peer.requester.cancel(id);
    peer.receive(answer(1));
    assert_eq!((peer.sent.len(), peer.requester.queued()), (1, 0));
}

#[test]
fn a_call_that_is_abandoned_while_its_memory_is_registered_is_never_sent() {
    let mut requester = requester();
    let (id, next) = (requester.submit(offering(1, &[8], None)), requester.submit(short(2)));
    let Some(Action::Register { token, memory }) = action(&mut requester) else { panic!("no Register") };
    requester.cancel(id);
    let segment = Segment { handle: 7, length: 8, offset: 0 };
    requester.handle_completion(Completion::Registered { token, segment });
    let Some(Action::Invalidate { token, handle }) = action(&mut requester) else { panic!("no Invalidate") };
    assert!(
        action(&mut requester).is_none() && requester.holds_resources(id),
        "the call waits for the fence"
    );
    requester.handle_completion(Completion::Invalidated { token, handle, memory });
    assert!(!requester.holds_resources(id) && requester.poll_event().is_none());
    assert!(matches!(action(&mut requester), Some(Action::Send { .. })), "the credit goes to the next call");
    assert!(requester.holds_resources(next));
}

#[test]
fn a_call_that_is_abandoned_while_it_waits_for_a_grant_that_shrank_is_never_sent() {
    let mut requester = requester();
    let reply = |requester: &mut Requester, xid, credits| {
        let message = msg(xid, credits, ChunkLists::default(), &rpc_reply(xid, 16));
        requester.handle_completion(Completion::Received { message, invalidated: None });
    };
    requester.submit(short(1));
    assert!(matches!(action(&mut requester), Some(Action::Send { .. })));
    reply(&mut requester, 1, 3);
    for xid in [2, 3] {
        requester.submit(short(xid));
        assert!(matches!(action(&mut requester), Some(Action::Send { .. })));
    }
    let id = requester.submit(offering(4, &[8], None));
    let Some(Action::Register { token, memory }) = action(&mut requester) else { panic!("no Register") };
    reply(&mut requester, 2, 1);
    let segment = Segment { handle: 7, length: 8, offset: 0 };
    requester.handle_completion(Completion::Registered { token, segment });
    assert!(action(&mut requester).is_none(), "the only credit is in use by call 3");
    requester.cancel(id);
    let Some(Action::Invalidate { token, handle }) = action(&mut requester) else { panic!("no Invalidate") };
    requester.handle_completion(Completion::Invalidated { token, handle, memory });
    reply(&mut requester, 3, 1);
    assert!(action(&mut requester).is_none() && !requester.holds_resources(id));
    let next = requester.submit(short(5));
    assert!(matches!(action(&mut requester), Some(Action::Send { .. })) && requester.holds_resources(next));
}

#[test]
fn a_call_that_is_abandoned_after_it_ended_has_no_event() {
    let mut requester = Peer::with(Config { max_segment: 16, ..Config::default() }).requester;
    let id = requester.submit(offering(1, &[2000], None));
    requester.cancel(id);
    assert!(requester.poll_event().is_none());
}
