//! Call timeouts.

use super::*;

#[test]
fn a_call_times_out_in_every_state() {
    let mut client = Client::new(policy());
    let timed =
        |client: &mut Client, xid, ms| client.submit(SessionCall { timeout: Some(MS(ms)), ..call(xid) });
    let connecting = timed(&mut client, 1, 50);
    client.advance(MS(50));
    assert_eq!(client.failure(connecting), TransportError::Timeout(MS(50)), "while connecting");
    let refused = timed(&mut client, 2, 120);
    client.refuse();
    client.advance(MS(100));
    client.refuse();
    client.advance(MS(20));
    assert_eq!(client.failure(refused), TransportError::Unreachable("refused".to_owned()));
    let (out, queued) = (timed(&mut client, 3, 1000), timed(&mut client, 4, 900));
    client.advance(MS(200));
    client.connect(1024);
    assert_eq!(client.xids(), [3]);
    client.advance(MS(700));
    assert_eq!(client.failure(queued), TransportError::Timeout(MS(900)), "without a credit");
    assert_eq!(client.closing, None);
    client.advance(MS(100));
    assert_eq!(client.failure(out), TransportError::Timeout(MS(1000)));
    assert!(client.closing.is_some(), "the close returns the credit of the timed-out call");
    client.finish_closing();
    assert_eq!((client.connects, client.session.poll_timeout()), (0, None), "no call needs a connection");
}

/// Returns a client with 8 granted credits, over a provider with a local fence.
fn granted() -> Client {
    granted_over(true)
}

fn granted_over(local_fence: bool) -> Client {
    let mut client = Client::new(policy());
    client.local_fence = local_fence;
    client.connect(1024);
    let first = client.submit(call(0));
    client.answer(0);
    assert_eq!(client.replies(), [first]);
    client
}

fn credits_in_use(client: &Client) -> u32 {
    client.session.requester().expect("the session is connected").credits().outstanding()
}

#[test]
fn a_timeout_leaves_the_connection_and_other_calls_unchanged() {
    let mut client = granted();
    let impatient = client.submit(SessionCall { timeout: Some(MS(50)), ..call(1) });
    let once = client.submit(SessionCall { retransmit: Some(false), ..call(2) });
    let others = [once].into_iter().chain((3..8).map(|xid| client.submit(call(xid)))).collect::<Vec<_>>();
    client.advance(MS(50));
    assert_eq!(client.failure(impatient), TransportError::Timeout(MS(50)));
    assert_eq!((client.closing.as_ref(), credits_in_use(&client)), (None, 7));
    (2..8).for_each(|xid| client.answer(xid));
    assert_eq!(client.replies(), others);
    assert_eq!(credits_in_use(&client), 1, "the credit is in use until the late reply");
    assert!(client.session.is_outstanding(1), "the XID is in use until the late reply");
    client.answer(1);
    assert_eq!((credits_in_use(&client), client.done.len()), (0, 0));
    assert_eq!(client.session.counts().retransmissions, 0);
}

#[test]
fn deadlines_of_completed_calls_are_dropped_while_an_earlier_call_is_unanswered() {
    let mut client = granted();
    client.submit(call(1));
    for xid in 2..1000 {
        client.submit(call(xid));
        client.answer(xid);
    }
    let stored = format!("{:?}", client.session).matches("CallId(").count();
    assert!(stored < 100, "the session stores {stored} deadlines and calls");
    client.answer(1);
    assert_eq!(client.replies().len(), 999);
}

/// RDMA devices have no local fence.
#[test]
fn without_a_local_fence_only_exposed_memory_closes_the_connection() {
    let mut client = granted_over(false);
    let timeout = Some(MS(50));
    let plain = client.submit(SessionCall { timeout, ..call(1) });
    let other = client.submit(call(2));
    client.advance(MS(50));
    assert_eq!(client.failure(plain), TransportError::Timeout(MS(50)));
    assert_eq!((client.closing.as_ref(), credits_in_use(&client)), (None, 2));
    client.answer(2);
    assert_eq!((client.replies(), credits_in_use(&client)), (vec![other], 1));
    client.answer(1);
    assert_eq!((credits_in_use(&client), client.done.len()), (0, 0), "the late reply returns the credit");
    let exposing = client.submit(SessionCall { timeout, ..with_item(3, 2000) });
    assert_eq!(client.exposed.len(), 1);
    client.advance(MS(50));
    assert_eq!(client.failure(exposing), TransportError::Timeout(MS(50)));
    assert!(matches!(client.closing, Some(CloseReason::Timeout(_))), "{:?}", client.closing);
    assert!(client.abandoned.is_empty());
    assert_eq!(client.session.counts().retransmissions, 0);
}

#[test]
fn a_timed_out_call_fences_its_sinks_and_keeps_its_sources() {
    let mut client = granted();
    let large = ReplyBounds { unreduced: Size::Bounded(2000), reduced: Size::Bounded(2000), ..SMALL };
    let id = client.submit(SessionCall { bounds: large, timeout: Some(MS(50)), ..with_item(1, 2000) });
    let offered = lists(&client.sent[1]);
    let sink = offered.reply.expect("a Reply chunk").0[0].handle;
    client.advance(MS(50));
    assert_eq!(client.failure(id), TransportError::Timeout(MS(50)));
    assert_eq!((&client.abandoned[..], client.exposed.len()), (&[sink][..], 2));
    assert!(offered.reads.len() == 1 && client.closing.is_none());
    client.answer(1);
    assert!(client.exposed.is_empty() && client.closing.is_none());
    assert_eq!(credits_in_use(&client), 0);
}

#[test]
fn a_connection_closes_once_timed_out_calls_hold_all_credits() {
    let mut client = granted();
    for xid in 1..9 {
        assert_eq!(client.closing, None);
        client.submit(SessionCall { timeout: Some(MS(xid.into())), ..call(xid) });
    }
    client.advance(MS(7));
    assert_eq!(client.closing, None);
    client.advance(MS(1));
    assert!(matches!(client.closing, Some(CloseReason::Timeout(_))));
}

#[test]
fn a_connection_with_a_timed_out_call_closes_if_the_peer_stays_silent() {
    let mut client = granted();
    client.submit(SessionCall { timeout: Some(MS(50)), ..call(1) });
    client.submit(SessionCall { timeout: Some(Duration::from_secs(3600)), ..call(2) });
    client.submit(SessionCall { timeout: Some(Duration::from_secs(3600)), ..call(3) });
    client.advance(Duration::from_secs(29));
    client.answer(2);
    client.advance(Duration::from_secs(29));
    assert_eq!(client.closing, None, "the latest reply arrived 29 seconds ago");
    client.advance(Duration::from_secs(1));
    assert!(matches!(client.closing, Some(CloseReason::Timeout(_))));
}

#[test]
fn a_late_reply_shows_that_the_peer_is_alive() {
    let mut client = granted();
    client.submit(SessionCall { timeout: Some(MS(50)), ..call(1) });
    client.submit(SessionCall { timeout: Some(MS(50)), ..call(2) });
    client.submit(SessionCall { timeout: Some(Duration::from_secs(3600)), ..call(3) });
    client.advance(Duration::from_secs(29));
    client.answer(1);
    client.advance(Duration::from_secs(29));
    assert_eq!(client.closing, None, "the latest reply arrived 29 seconds ago");
    client.advance(Duration::from_secs(1));
    assert!(matches!(client.closing, Some(CloseReason::Timeout(_))));
}
