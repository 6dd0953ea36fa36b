//! H01 to H07, H09 and H11: input from a peer before the connection is established.

use std::time::Duration;

use rpcrdma_runtime::proto::iwarp::SetupError;
use rpcrdma_runtime::proto::work::{Action, Completion, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{IwarpConnection, IwarpError, IwarpOptions, connect};
use rpcrdma_runtime::wire::iwarp::{DdpHeader, MpaError, Opcode, fpdu};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::raw::{ask, good_request, listen, next, request, rest, send};

fn impatient() -> IwarpOptions {
    let short = Duration::from_millis(100);
    IwarpOptions { request_timeout: short, reply_timeout: short, ..IwarpOptions::default() }
}

fn is_rejection(answer: &[u8]) -> bool {
    answer.starts_with(b"MPA ID Rep Frame") && answer.get(16).is_some_and(|flags| flags & 0x20 != 0)
}

/// Requirement: R450, R460
#[tokio::test]
async fn h01_a_silent_peer_times_out() {
    let (raw, outcome) = ask(&[], impatient()).await;
    assert!(matches!(outcome, Err(IwarpError::Timeout { .. })), "{outcome:?}");
    assert!(rest(raw).await.is_empty());
}

/// Requirement: R460, R462
#[tokio::test]
async fn h02_an_endless_request_times_out() {
    let (listener, address) = listen(impatient()).await;
    let mut raw = TcpStream::connect(address).await.unwrap();
    let trickle = tokio::spawn(async move {
        for octet in good_request(1, 1).into_iter().chain(std::iter::repeat(0)) {
            if raw.write_all(&[octet]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    let outcome = listener.accept().await.unwrap().request().await;
    assert!(matches!(outcome, Err(IwarpError::Timeout { .. })), "{outcome:?}");
    trickle.await.unwrap();
}

/// Each part takes less than the time limit, but the complete request takes longer.
///
/// Requirement: R460, R462
#[tokio::test]
async fn a_request_in_two_parts_has_one_time_limit() {
    let options = IwarpOptions { request_timeout: Duration::from_millis(400), ..impatient() };
    let (listener, address) = listen(options).await;
    let mut raw = TcpStream::connect(address).await.unwrap();
    let incoming = listener.accept().await.unwrap();
    let sending = async {
        let request = good_request(1, 1);
        for part in request.chunks(request.len() / 2) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // The second part may arrive after the connection is closed.
            let _ = raw.write_all(part).await;
        }
    };
    // The time limit starts before the first part is sent, so a delay in the test cannot prevent the timeout.
    let (outcome, ()) = tokio::join!(biased; incoming.request(), sending);
    assert!(matches!(outcome, Err(IwarpError::Timeout { .. })), "{outcome:?}");
}

/// Requirement: R340, R450, R459, R467, R468
#[tokio::test]
async fn h03_another_protocol_is_closed_at_once_without_a_reply() {
    for octets in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01", b"M!", b"MPA ID Rep Frame"]
    {
        // The responder must close the connection without waiting for the default time limit.
        let (raw, outcome) = ask(octets, IwarpOptions::default()).await;
        assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::Key))), "{outcome:?}");
        assert!(rest(raw).await.is_empty());
    }
}

/// Requirement: R341, R374, R703, R729
#[tokio::test]
async fn h04_unsupported_revisions_are_rejected_or_closed() {
    for revision in [3, 255] {
        let (raw, outcome) = ask(&request(0x50, revision, 4, &[0, 1, 0, 1]), IwarpOptions::default()).await;
        assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::Revision(_)))), "{outcome:?}");
        assert!(rest(raw).await.is_empty());
    }
    let (raw, outcome) = ask(&request(0x40, 0, 0, &[]), IwarpOptions::default()).await;
    assert!(matches!(outcome, Err(IwarpError::Setup(SetupError::Revision(0)))), "{outcome:?}");
    let answer = rest(raw).await;
    assert!(is_rejection(&answer));
    assert_eq!(answer[17], 1, "no frame has revision 0");
    let (raw, outcome) = ask(&request(0x40, 1, 2, b"hi"), IwarpOptions::default()).await;
    let end = outcome.unwrap();
    assert_eq!((end.info().private_data.as_ref(), end.info().ord), (&b"hi"[..], 1));
    drop(end);
    let reply = rest(raw).await;
    assert_eq!(reply[16..], *b"\x40\x01\x00\x05reply", "a request of revision 1 gets a reply of revision 1");
}

/// Requirement: R342, R451, R461, R468, R702, R721
#[tokio::test]
async fn h06_h07_h09_invalid_requests_are_rejected_or_closed() {
    for (octets, rejected) in [
        (request(0x50, 2, 3, &[0, 1, 0]), false), // enhanced, but too short for the depths
        (request(0x50, 2, 65_535, &[0; 600]), false), // too much private data
        (request(0x50, 2, 513, &[0; 513]), false),
        (good_request(0, 16), true),         // serves no RDMA Reads
        (good_request(0x8000 | 1, 0), true), // peer-to-peer without a type of RTR message
    ] {
        let (raw, outcome) = ask(&octets, IwarpOptions::default()).await;
        assert!(outcome.is_err(), "{octets:?}");
        let answer = rest(raw).await;
        assert_eq!((is_rejection(&answer), answer.is_empty()), (rejected, !rejected), "{octets:?}");
        if octets == good_request(0x8000 | 1, 0) {
            // The peer-to-peer flag, IRD 128, the flags for RDMA Write and RDMA Read, and ORD 16.
            assert_eq!(answer[20..24], [0x80, 128, 0xc0, 16], "R721");
        }
    }
}

/// Requirement: R370, R661, R662
#[tokio::test]
async fn h09_depths_are_clamped() {
    for (ird, ord, kept_ord, kept_ird) in
        [(1, 0, 1, 0), (0x3fff, 0x3fff, 16, 128), (16_382, 16_382, 16, 128), (8, 5, 8, 5)]
    {
        let (_raw, outcome) = ask(&good_request(ird, ord), IwarpOptions::default()).await;
        let end = outcome.unwrap();
        assert_eq!((end.info().ord, end.info().ird), (kept_ord, kept_ird), "{ird}, {ord}");
    }
}

/// At most 128 RDMA Reads are outstanding, even if no depth is negotiated or the options allow more. A peer
/// announces the depth that it enforces.
///
/// Requirement: R661, R662
#[tokio::test]
async fn depths_are_limited_to_128() {
    let options = IwarpOptions { ird: 1000, ord: 1000, ..impatient() };
    let plain = request(0x40, 1, 0, &[]);
    for (octets, kept_ord, kept_ird) in [
        (good_request(16_382, 16_382), 128, 128),
        (good_request(0x3fff, 0x3fff), 128, 128),
        (good_request(300, 200), 128, 128),
        (plain, 1, 128),
    ] {
        let (_raw, outcome) = ask(&octets, options.clone()).await;
        let end = outcome.unwrap();
        assert_eq!((end.info().ord, end.info().ird), (kept_ord, kept_ird), "{octets:?}");
    }
    for (octets, kept_ord) in [
        (reply(0x50, 2, 4, &[0x3f, 0xfe, 0, 128]), 128),
        (reply(0x50, 2, 4, &[0x3f, 0xff, 0x3f, 0xff]), 128),
        (reply(0x40, 1, 0, &[]), 1),
    ] {
        let (outcome, depths) = request_and_result(octets, &options).await;
        let end = outcome.unwrap();
        assert_eq!((end.info().ord, end.info().ird), (kept_ord, 128));
        assert_eq!(depths, [0, 128, 0, 128], "the request announces 128 for both depths");
    }
}

/// Requirement: R900
#[tokio::test]
async fn h05_markers_that_a_peer_requires_are_sent() {
    let (mut raw, outcome) = ask(&request(0xd0, 2, 4, &[0, 1, 0, 1]), IwarpOptions::default()).await;
    let mut end = outcome.unwrap();
    end.submit(Action::PostReceives { count: 1 });
    raw.write_all(&send(1, b"without markers")).await.unwrap();
    assert!(matches!(next(&mut end).await, Completion::Received { .. }));
    end.submit(Action::Send { token: Token(1), message: vec![vec![7; 600].into()], invalidate: None });
    assert!(matches!(next(&mut end).await, Completion::Sent { .. }));
    drop(end);
    let octets = rest(raw).await;
    let (reply, stream) = octets.split_at(20 + 4 + 5);
    assert_eq!(reply[16], 0x50, "the responder requires CRCs but no markers");
    assert_eq!(stream.len(), 4 + 20 + 600 + 4 + 4, "two markers");
    assert_eq!((&stream[..6], &stream[512..516]), (&[0, 0, 0, 0, 2, 0x6a][..], &[0, 0, 1, 0xfc][..]));
}

/// Requirement: R440, R447
#[tokio::test]
async fn h11_data_after_the_request_closes_the_connection() {
    let octets = [good_request(16, 1), send(1, b"early")].concat();
    let (raw, outcome) = ask(&octets, IwarpOptions::default()).await;
    assert!(matches!(outcome, Err(IwarpError::EarlyData)), "{outcome:?}");
    assert!(rest(raw).await.is_empty());
}

/// One of the replies has no CRC flag. CRCs are enabled nevertheless, because the initiator's request has the
/// flag.
///
/// Requirement: R443, R729
#[tokio::test]
async fn reserved_flags_are_not_checked() {
    let octets = request(0x5f, 2, 4, &[0, 1, 0, 1]);
    let (raw, outcome) = ask(&octets, IwarpOptions::default()).await;
    drop(outcome.unwrap());
    assert_eq!(rest(raw).await[16..18], [0x50, 2], "an enhanced reply without reserved flags");
    for flags in [0x5f, 0x1f] {
        answered(reply(flags, 2, 4, &[0, 1, 0, 1])).await.unwrap();
    }
}

/// Runs a responder that replies with these octets. Returns the initiator's result.
async fn answered(octets: Vec<u8>) -> Result<IwarpConnection, IwarpError> {
    request_and_result(octets, &impatient()).await.0
}

/// Like [`answered`], with these options. Also returns the depths in the initiator's request.
async fn request_and_result(
    octets: Vec<u8>,
    options: &IwarpOptions,
) -> (Result<IwarpConnection, IwarpError>, [u8; 4]) {
    let (outcome, depths, _raw) = exchange(octets, options).await;
    (outcome, depths)
}

/// Like [`request_and_result`]. Also returns the responder's socket.
async fn exchange(
    octets: Vec<u8>,
    options: &IwarpOptions,
) -> (Result<IwarpConnection, IwarpError>, [u8; 4], TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let replying = async {
        let (mut raw, _) = listener.accept().await.unwrap();
        let mut request = [0; 24 + b"hello".len()];
        raw.read_exact(&mut request).await.unwrap();
        raw.write_all(&octets).await.unwrap();
        (raw, request[20..24].try_into().unwrap())
    };
    let (outcome, (raw, depths)) = tokio::join!(connect(address, b"hello", 1024, options), replying);
    (outcome, depths, raw)
}

fn reply(flags: u8, revision: u8, length: u16, rest: &[u8]) -> Vec<u8> {
    [b"MPA ID Rep Frame", &[flags, revision][..], &length.to_be_bytes(), rest].concat()
}

/// Requirement: R340, R342, R445, R447, R455, R456, R459, R461, R462
#[tokio::test]
async fn an_initiator_rejects_invalid_replies() {
    let outcome = answered(reply(0x70, 2, 8, &[0, 1, 0, 1, b'b', b'u', b's', b'y'])).await;
    assert!(matches!(outcome, Err(IwarpError::Refused { private_data }) if private_data == "busy"));
    let outcome = answered(reply(0x50, 2, 3, &[0, 0, 0])).await;
    assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::NoDepths))));
    let outcome = answered(reply(0x50, 2, 0xffff, &[0; 600])).await;
    assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::PrivateData(0xffff)))));
    let outcome = answered(reply(0x50, 3, 4, &[0, 1, 0, 1])).await;
    assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::Revision(3)))));
    let outcome = answered(reply(0x50, 0, 0, &[])).await;
    assert!(matches!(outcome, Err(IwarpError::Setup(SetupError::Revision(0)))));
    // The responder sends a request instead of a reply.
    let outcome = answered(good_request(1, 1)).await;
    assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::Key))));
    let outcome = answered(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()).await;
    assert!(matches!(outcome, Err(IwarpError::Mpa(MpaError::Key))));
    let outcome = answered(reply(0x50, 2, 4, &[0])).await;
    assert!(matches!(outcome, Err(IwarpError::Timeout { .. })));
    let end = answered(reply(0x50, 2, 7, &[0, 1, 0, 1, b'y', b'e', b's'])).await.unwrap();
    assert_eq!(end.info().private_data, "yes");
}

/// The initiator closes the connection with a Terminate that has layer 2 and error code 6. The Terminate has
/// a CRC if either peer requires CRCs.
///
/// Requirement: R714, R715
#[tokio::test]
async fn an_ord_above_the_offered_ird_ends_the_connection() {
    for ird in [1u8, 16, 128] {
        for crc in [true, false] {
            let options = IwarpOptions { ird: ird.into(), crc, ..impatient() };
            let flags = if crc { 0x50 } else { 0x10 };
            let (outcome, _, mut raw) = exchange(reply(flags, 2, 4, &[0, 1, 0, ird]), &options).await;
            assert_eq!(outcome.unwrap().info().ird, u32::from(ird));
            assert_eq!(raw.read(&mut [0]).await.unwrap(), 0, "no Terminate");

            let (outcome, _, raw) = exchange(reply(flags, 2, 4, &[0, 1, 0, ird + 1]), &options).await;
            let expected = SetupError::Depth { ord: u16::from(ird) + 1, ird: ird.into() };
            assert!(matches!(outcome, Err(IwarpError::Setup(error)) if error == expected), "{outcome:?}");
            let fpdu = rest(raw).await;
            let (header, payload) = DdpHeader::parse(fpdu::open(&fpdu, crc).unwrap()).unwrap();
            assert_eq!(Opcode::from_control(header.control()), Ok(Opcode::Terminate));
            assert_eq!(payload[..2], [0x20, 6], "layer 2, type 0, code 6");
            assert_eq!(fpdu.ends_with(&[0; 4]), !crc);
        }
    }
}

#[tokio::test]
async fn a_responder_that_sends_first_is_closed() {
    let mut octets = reply(0x50, 2, 4, &[0, 1, 0, 1]);
    octets.extend(send(1, b"too early"));
    let mut end = answered(octets).await.unwrap();
    let closed = next(&mut end).await;
    assert!(matches!(closed, rpcrdma_runtime::proto::work::Completion::Closed { .. }), "{closed:?}");
}

/// Requirement: R448
#[tokio::test]
async fn private_data_that_is_too_long_is_not_sent() {
    let (listener, address) = listen(IwarpOptions::default()).await;
    let outcome = connect(address, &[0; 197], 1024, &IwarpOptions::default()).await;
    assert!(matches!(outcome, Err(IwarpError::Setup(SetupError::PrivateData(197)))));
    drop(listener);
}
