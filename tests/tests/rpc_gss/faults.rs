//! Changed, forged and repeated messages.

use super::*;

/// Flips one bit per call, in each octet of the header and of the protected data in turn.
#[tokio::test]
async fn a_changed_call_does_not_run() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let (_, _, after) = offsets(&message);
        for at in 0..after {
            let mut changed = message.clone();
            changed[at] ^= 1;
            let Some(reply) = direct.send(changed.into()).await else { continue };
            let (_, status) = response_of(&reply);
            assert!(status.is_err(), "{service:?}: octet {at} of {}", message.len());
        }
        let end = if service == GssService::None { after } else { message.len() };
        let reply = direct.send(message.into()).await.unwrap();
        assert_eq!(response_of(&reply).1, Ok(()), "changed calls do not use up the sequence number");
        for at in after..end {
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
    let (credential, verifier, after) = offsets(&message);
    let auth = |stat| Err(ReplyError::Auth(stat));
    let faults: [(&str, usize, Result<(), ReplyError>); 7] = [
        ("the version", credential + 3, auth(AuthStat::RejectedCredential)),
        ("the control procedure", credential + 7, auth(AuthStat::BadCredential)),
        ("the service", credential + 15, auth(AuthStat::BadCredential)),
        ("the handle", credential + 20, auth(AuthStat::GssCredentialProblem)),
        ("the header", 23, auth(AuthStat::GssCredentialProblem)),
        ("the flavor of the verifier", verifier - 5, auth(AuthStat::BadVerifier)),
        ("the arguments", after + 8, Err(ReplyError::GarbageArguments)),
    ];
    for (what, at, status) in faults {
        let mut changed = message.clone();
        changed[at] ^= 0x40;
        let reply = direct.send(changed.into()).await.unwrap();
        let (verifier, found) = response_of(&reply);
        assert_eq!(found, status, "{what}");
        let accepted = matches!(found, Err(ReplyError::GarbageArguments));
        assert_eq!(verifier.is_some_and(|verifier| verifier.flavor == 6), accepted, "{what}");
    }
}

#[tokio::test]
async fn a_retransmitted_call_gets_no_second_reply() {
    for service in SERVICES {
        let (direct, client, message) = a_call(service).await;
        let message = Bytes::from(message);
        assert!(direct.send(message.clone()).await.is_some());
        assert_eq!(direct.send(message.clone()).await, None);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(direct.send(message).await, None);
    }
}

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

/// Returns a call to an unknown program, without a credential. The server replies with an error.
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

/// A client retransmits a call on a new connection. The call runs once. With a cache, the first reply is
/// replayed.
#[tokio::test]
async fn a_call_retransmitted_on_another_connection_is_replayed() {
    for service in SERVICES {
        for caches in [true, false] {
            let (direct, client, message) = a_call(service).await;
            let duplicates = caches.then(DuplicateCache::default);
            let address = over_tcp_with(direct.services.clone(), duplicates).await;
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            let first = socket.next().await;
            assert_eq!(response_of(&first).1, Ok(()));
            let mut socket = Records::to(address).await;
            socket.send(&message).await;
            if caches {
                assert_eq!(socket.next().await, first, "{service:?}");
            }
            socket.send(&unavailable(5)).await;
            assert_eq!(
                socket.next().await[..4],
                5u32.to_be_bytes(),
                "a retransmission gets at most the cached reply"
            );
            // The next call has a new sequence number, so it differs from the retransmitted call.
            echo(&client, &args(10, 10, 10)).await.unwrap();
            assert_ne!(direct.last_call().flatten()[32..], message[32..]);
        }
    }
}

/// Returns a copy of `message` with another verifier but the same checksum in the duplicate-request cache.
/// The cache therefore cannot distinguish the copy from `message`. Anyone can compute this checksum, because
/// it has no secret key.
fn forged(message: &[u8]) -> Vec<u8> {
    let (_, verifier, _) = offsets(message);
    let len = u32::from_be_bytes(message[verifier - 4..verifier].try_into().unwrap()) as usize;
    let end = verifier + len - 1;
    let word = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    };
    let mut forged = message.to_vec();
    // Change the last octet of the verifier. Adjust the next 8-octet word so that the checksum is unchanged.
    let last = end & !7;
    forged[end] ^= 1;
    let before = (0..last).step_by(8).fold(0xcbf2_9ce4_8422_2325, |sum, at| step(sum, word(at)));
    let changed = u64::from_be_bytes(forged[last..last + 8].try_into().unwrap());
    let next = word(last + 8) ^ step(before, word(last)) ^ step(before, changed);
    forged[last + 8..last + 16].copy_from_slice(&next.to_be_bytes());
    forged
}

#[tokio::test]
async fn a_cached_reply_goes_only_to_its_authentic_caller() {
    let (direct, _client, message) = a_call(GssService::None).await;
    let address = over_tcp_with(direct.services.clone(), Some(DuplicateCache::default())).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(response_of(&socket.next().await).1, Ok(()));
    socket.send(&forged(&message)).await;
    let refused = response_of(&socket.next().await).1;
    assert_eq!(refused, Err(ReplyError::Auth(AuthStat::GssCredentialProblem)));
}

/// RFC 2203 section 5.3.3.1 requires the server to drop repeated calls. Other calls on the connection
/// continue.
#[tokio::test]
async fn an_unanswered_call_does_not_affect_other_calls_on_its_tcp_connection() {
    let (direct, client, message) = a_call(GssService::Integrity).await;
    let address = over_tcp_with(direct.services.clone(), None).await;
    let mut socket = Records::to(address).await;
    socket.send(&message).await;
    assert_eq!(response_of(&socket.next().await).1, Ok(()));
    // Send more calls than may run concurrently.
    for n in 0..300 {
        socket.send(&message).await;
        socket.send(&unavailable(n)).await;
        assert_eq!(socket.next().await[..4], n.to_be_bytes());
    }
    for _ in 0..300 {
        socket.send(&message).await;
    }
    // The server still accepts the client's next message.
    direct.change_calls(|_| vec![0; 4]);
    assert!(echo(&client, &args(10, 10, 10)).await.is_err());
    socket.send(&direct.last_call().flatten()).await;
    assert_eq!(response_of(&socket.next().await).1, Ok(()));
    // Unanswered calls do not keep the connection open once the client has closed the connection for writing.
    socket.send(&message).await;
    socket.0.shutdown().await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), socket.0.read_u8()).await.unwrap();
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_changed_reply_is_rejected() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        echo(&client, &args(10, 10, 10)).await.unwrap();
        // The verifier and the status end before octet 64, where the protected data starts.
        let end = if service == GssService::None { 64 } else { 101 };
        for at in [16, 24, 40, 60, 70, 80, 100].into_iter().filter(|at| *at < end) {
            let before = direct.calls.lock().unwrap().len();
            direct.change_replies(move |mut reply| {
                reply[at] ^= 1;
                reply
            });
            let answer = echo(&client, &args(10, 10, 10)).await;
            assert!(answer.is_err(), "{service:?} {at}");
            assert_eq!(
                direct.calls.lock().unwrap().len(),
                before + 1,
                "a possibly executed call must not be repeated"
            );
            *direct.reply.lock().unwrap() = None;
            echo(&client, &args(10, 10, 10)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_reply_to_another_call_is_rejected() {
    for service in SERVICES {
        let (direct, client, _) = direct(service);
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let recording = recorded.clone();
        direct.change_replies(move |reply| {
            *recording.lock().unwrap() = reply.clone();
            reply
        });
        echo(&client, &args(10, 10, 10)).await.unwrap();
        let earlier = recorded.lock().unwrap().clone();
        direct.change_replies(move |reply| [&reply[..4], &earlier[4..]].concat());
        let answer = echo(&client, &args(10, 10, 10)).await;
        assert!(matches!(answer, Err(CallError::Gss(GssFailure::Unverified))), "{answer:?}");
    }
}

#[tokio::test]
async fn modified_results_are_unverified() {
    for service in [GssService::Integrity, GssService::Privacy] {
        let (direct, client, _) = direct(service);
        echo(&client, &args(12, 12, 12)).await.unwrap();
        direct.change_replies(|mut reply| {
            let position = reply.len() - 4; // the last octet before the padding
            reply[position] ^= 1;
            reply
        });
        let answer = echo(&client, &args(12, 12, 12)).await;
        assert!(matches!(answer, Err(CallError::Gss(GssFailure::Unverified))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_service_below_the_servers_minimum_is_rejected() {
    let options = GssServerOptions { min_service: GssService::Integrity, ..GssServerOptions::default() };
    for service in SERVICES {
        let (services, _, _) = gss_services(options);
        let client = GssClient::new(Direct::new(services), TestMechanism::new("alice"), service);
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
async fn invalid_tokens_and_control_messages_are_rejected() {
    use rpcrdma_runtime::proto::rpc::gss::GssControl::{ContinueInit, Destroy, Init};
    let (services, gss, _) = gss_services(GssServerOptions::default());
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
        assert_eq!(response_of(&reply).1, expected, "{what}");
    }
    assert_eq!(gss.contexts(), 0);
    // The number of incomplete contexts is limited.
    let gss = Arc::new(GssServer::with(
        TestMechanism { rounds: 2, ..TestMechanism::new("server") },
        GssServerOptions { max_unfinished: 10, ..GssServerOptions::default() },
    ));
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss.clone());
    let direct = Direct::new(services);
    let mechanism = TestMechanism { rounds: 2, ..TestMechanism::new("alice") };
    let client = GssClient::new(direct.clone(), mechanism.clone(), GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    for _ in 0..100 {
        direct.send(message(0, credential(Init, b""), &none, &token)).await.unwrap();
    }
    assert_eq!((gss.contexts(), gss.unfinished()), (1, 10));
    echo(&client, &args(1, 1, 1)).await.unwrap();
    assert_eq!(
        mechanism.started.load(Ordering::Relaxed),
        1,
        "incomplete contexts must not evict complete ones"
    );
}
