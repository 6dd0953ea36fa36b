//! Messages that were changed, forged or repeated.

use super::*;

/// Each octet of the header, and of what is protected, flipped.
#[tokio::test]
async fn a_call_that_was_changed_on_its_way_is_not_run() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let (_, _, behind) = places(&message);
        for at in 0..behind {
            let mut changed = message.clone();
            changed[at] ^= 1;
            let Some(reply) = direct.send(changed.into()).await else { continue };
            let (_, status) = said(&reply);
            assert!(status.is_err(), "{service:?}: octet {at} of {}", message.len());
        }
        let end = if service == GssService::None { behind } else { message.len() };
        let reply = direct.send(message.into()).await.unwrap();
        assert_eq!(said(&reply).1, Ok(()), "none of them has used the sequence number up");
        for at in behind..end {
            direct.change_calls(move |mut call| {
                call[at] ^= 1;
                call
            });
            let answer = echo(&client, &args(10, 10, 10)).await;
            let garbage =
                matches!(answer, Err(CallError::Gss(GssFailure::Rejected(ReplyError::GarbageArguments))));
            assert!(garbage, "{service:?}: octet {at} of {end}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn each_fault_has_its_status() {
    let (direct, _, message) = a_call(GssService::Integrity).await;
    let (credential, verifier, behind) = places(&message);
    let auth = |stat| Err(ReplyError::Auth(stat));
    let faults: [(&str, usize, Result<(), ReplyError>); 7] = [
        ("the version", credential + 3, auth(AuthStat::RejectedCredential)),
        ("the control procedure", credential + 7, auth(AuthStat::BadCredential)),
        ("the service", credential + 15, auth(AuthStat::BadCredential)),
        ("the handle", credential + 20, auth(AuthStat::GssCredentialProblem)),
        ("the header", 23, auth(AuthStat::GssCredentialProblem)),
        ("the flavor of the verifier", verifier - 5, auth(AuthStat::BadVerifier)),
        ("the arguments", behind + 8, Err(ReplyError::GarbageArguments)),
    ];
    for (what, at, status) in faults {
        let mut changed = message.clone();
        changed[at] ^= 0x40;
        let reply = direct.send(changed.into()).await.unwrap();
        let (verifier, found) = said(&reply);
        assert_eq!(found, status, "{what}");
        let accepted = matches!(found, Err(ReplyError::GarbageArguments));
        assert_eq!(verifier.is_some_and(|verifier| verifier.flavor == 6), accepted, "{what}");
    }
}

#[tokio::test]
async fn a_call_that_comes_again_gets_no_answer() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let message = Bytes::from(message);
        assert!(direct.send(message.clone()).await.is_some());
        assert_eq!(direct.send(message.clone()).await, None);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(direct.send(message).await, None);
    }
}

/// A connection by TCP, record by record.
struct Records(tokio::net::TcpStream);

impl Records {
    async fn to(address: SocketAddr) -> Self {
        Records(tokio::net::TcpStream::connect(address).await.unwrap())
    }

    async fn send(&mut self, call: &[u8]) {
        let mark = rpcrdma_runtime::wire::rpc::record_mark(call.len() as u64).unwrap();
        self.0.write_all(&[&mark, call].concat()).await.unwrap();
    }

    async fn next(&mut self) -> Bytes {
        let next = async {
            let mark = self.0.read_u32().await?;
            let mut reply = vec![0; (mark & 0x7fff_ffff) as usize];
            self.0.read_exact(&mut reply).await?;
            std::io::Result::Ok(reply.into())
        };
        tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().expect("the connection is open")
    }
}

/// A call without a credential, of a program that is not there: one that is answered.
fn unavailable(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 77, 1, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect()
}

async fn over_tcp_with(services: Services, duplicates: Option<DuplicateCache>) -> SocketAddr {
    let options = TcpServerOptions { duplicates, ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// As a client does whose connection went away: the call is run once, and its reply comes again if it is
/// remembered.
#[tokio::test]
async fn a_call_that_is_sent_again_on_another_connection_is_answered_as_before() {
    for service in SERVICES {
        for remembers in [true, false] {
            let (direct, client, message) = a_call(service).await;
            let duplicates = remembers.then(DuplicateCache::default);
            let address = over_tcp_with(direct.services.clone(), duplicates).await;
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            let first = socket.next().await;
            assert_eq!(said(&first).1, Ok(()));
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            if remembers {
                assert_eq!(socket.next().await, first, "{service:?}");
            }
            socket.send(&unavailable(5)).await;
            assert_eq!(socket.next().await[..4], 5u32.to_be_bytes(), "no other reply has come");
            // Another number makes another call of it.
            echo(&client, &args(10, 10, 10)).await.unwrap();
            assert_ne!(direct.last_call().flatten()[32..], message[32..]);
        }
    }
}

/// A call with another verifier that the cache cannot tell from the first one: its checksum is not a secret.
fn forged(message: &[u8]) -> Vec<u8> {
    let (_, verifier, _) = places(message);
    let len = u32::from_be_bytes(message[verifier - 4..verifier].try_into().unwrap()) as usize;
    let end = verifier + len - 1;
    let word = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    };
    let mut forged = message.to_vec();
    // The last octet of the verifier, and the word of arguments behind it that makes up for the change.
    let last = end & !7;
    forged[end] ^= 1;
    let before = (0..last).step_by(8).fold(0xcbf2_9ce4_8422_2325, |sum, at| step(sum, word(at)));
    let changed = u64::from_be_bytes(forged[last..last + 8].try_into().unwrap());
    let next = word(last + 8) ^ step(before, word(last)) ^ step(before, changed);
    forged[last + 8..last + 16].copy_from_slice(&next.to_be_bytes());
    forged
}

#[tokio::test]
async fn a_cached_reply_is_for_its_authentic_caller_only() {
    let (direct, _client, message) = a_call(GssService::None).await;
    let address = over_tcp_with(direct.services.clone(), Some(DuplicateCache::default())).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    socket.send(&forged(&message)).await;
    let refused = said(&socket.next().await).1;
    assert_eq!(refused, Err(ReplyError::Auth(AuthStat::GssCredentialProblem)));
}

/// RFC 2203 section 5.3.3.1 has the server say nothing to it; the connection has other calls.
#[tokio::test]
async fn a_call_that_is_not_answered_leaves_its_tcp_connection_to_the_others() {
    let (direct, client, message) = a_call(GssService::Integrity).await;
    let address = over_tcp_with(direct.services.clone(), None).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    // More of them than calls may be under way.
    for n in 0..300 {
        socket.send(&message).await;
        socket.send(&unavailable(n)).await;
        assert_eq!(socket.next().await[..4], n.to_be_bytes());
    }
    for _ in 0..300 {
        socket.send(&message).await;
    }
    // What the client sends next is taken.
    direct.change_calls(|_| vec![0; 4]);
    assert!(echo(&client, &args(10, 10, 10)).await.is_err());
    socket.send(&direct.last_call().flatten()).await;
    assert_eq!(said(&socket.next().await).1, Ok(()));
    // Nor does the server wait for it, once the client has said that nothing more comes.
    socket.send(&message).await;
    socket.0.shutdown().await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), socket.0.read_u8()).await.unwrap();
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_reply_that_was_changed_on_its_way_is_no_result() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        echo(&client, &args(10, 10, 10)).await.unwrap();
        // Its verifier and its status, and from 64 on what may be protected.
        let end = if service == GssService::None { 64 } else { 101 };
        for at in [16, 24, 40, 60, 70, 80, 100].into_iter().filter(|at| *at < end) {
            let before = direct.calls.lock().unwrap().len();
            direct.change_replies(move |mut reply| {
                reply[at] ^= 1;
                reply
            });
            let answer = echo(&client, &args(10, 10, 10)).await;
            assert!(answer.is_err(), "{service:?} {at}");
            assert_eq!(direct.calls.lock().unwrap().len(), before + 1, "it may have been executed");
            *direct.reply.lock().unwrap() = None;
            echo(&client, &args(10, 10, 10)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_reply_to_another_call_is_no_result() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        direct.change_replies(move |reply| {
            *keep.lock().unwrap() = reply.clone();
            reply
        });
        echo(&client, &args(10, 10, 10)).await.unwrap();
        let earlier = kept.lock().unwrap().clone();
        direct.change_replies(move |reply| [&reply[..4], &earlier[4..]].concat());
        let answer = echo(&client, &args(10, 10, 10)).await;
        assert!(matches!(answer, Err(CallError::Gss(GssFailure::Unverified))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_weaker_service_than_the_server_wants_is_refused() {
    let options = GssServerOptions { at_least: GssService::Integrity, ..GssServerOptions::default() };
    for service in SERVICES {
        let (services, _, _) = secured(options);
        let client = GssClient::new(Direct::new(services), Toy::new("alice"), service);
        let answer = echo(&client, &args(1, 1, 1)).await;
        match answer {
            Ok(()) => assert!(service >= GssService::Integrity),
            Err(CallError::Gss(GssFailure::Rejected(ReplyError::Auth(AuthStat::TooWeak)))) => {
                assert_eq!(service, GssService::None);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A message over RPCSEC_GSS that says this.
fn message(procedure: u32, body: impl Into<Bytes>, verifier: &Verifier, rest: &[u8]) -> Bytes {
    let mut sink = Reducer::disabled();
    let header = CallHeader {
        xid: 9,
        program: <Echo as Program>::NUMBER,
        version: <Echo as Program>::VERSION,
        procedure,
        credential: Credential::Other { flavor: 6, body: body.into() },
    };
    header.encode_unverified(&mut sink).unwrap();
    CallHeader::encode_verifier(verifier, &mut sink).unwrap();
    [&sink.into_message().stream[..], rest].concat().into()
}

#[tokio::test]
async fn strange_tokens_and_strange_control_messages() {
    use rpcrdma_runtime::proto::rpc::gss::GssControl::{ContinueInit, Destroy, Init};
    let (services, gss, _) = secured(GssServerOptions::default());
    let direct = Direct::new(services);
    let credential = |control, handle: &'static [u8]| {
        let handle = Bytes::from_static(handle);
        GssCredential { control, sequence: 1, service: Some(GssService::None), handle }.encode().unwrap()
    };
    let (none, token) = (Verifier::default(), [&[0, 0, 0, 2][..], b"a:", &[0, 0]].concat());
    let some = Verifier { flavor: 1, body: Bytes::from_static(b"1234") };
    let auth = |stat| Err(ReplyError::Auth(stat));
    for (what, message, expected) in [
        ("procedure 1", message(1, credential(Init, b""), &none, &token), auth(AuthStat::BadCredential)),
        ("a handle", message(0, credential(Init, b"a handle"), &none, &token), auth(AuthStat::BadCredential)),
        ("a verifier", message(0, credential(Init, b""), &some, &token), auth(AuthStat::BadVerifier)),
        ("no token", message(0, credential(Init, b""), &none, &[]), Err(ReplyError::GarbageArguments)),
        (
            "a long token",
            message(0, credential(Init, b""), &none, &[0xff; 8]),
            Err(ReplyError::GarbageArguments),
        ),
        (
            "nothing to continue",
            message(0, credential(ContinueInit, b"0123456789abcdef"), &none, &token),
            auth(AuthStat::RejectedCredential),
        ),
        (
            "nothing to destroy",
            message(0, credential(Destroy, b"0123456789abcdef"), &some, &[]),
            auth(AuthStat::GssCredentialProblem),
        ),
        ("an empty credential", message(0, Bytes::new(), &none, &token), auth(AuthStat::BadCredential)),
    ] {
        let reply = direct.send(message).await.unwrap();
        assert_eq!(said(&reply).1, expected, "{what}");
    }
    assert_eq!(gss.contexts(), 0);
    // Contexts that nobody goes on to make have a bound.
    let gss = Arc::new(GssServer::with(
        Toy { rounds: 2, ..Toy::new("server") },
        GssServerOptions { unfinished: 10, ..GssServerOptions::default() },
    ));
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss.clone());
    let direct = Direct::new(services);
    let toy = Toy { rounds: 2, ..Toy::new("alice") };
    let client = GssClient::new(direct.clone(), toy.clone(), GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    for _ in 0..100 {
        direct.send(message(0, credential(Init, b""), &none, &token)).await.unwrap();
    }
    assert_eq!((gss.contexts(), gss.unfinished()), (1, 10));
    echo(&client, &args(1, 1, 1)).await.unwrap();
    assert_eq!(toy.begun.load(Ordering::Relaxed), 1, "strangers do not drive out who is known");
}
