//! RPC replies of a server (RFC 5531 section 9), independent of the transport.

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{AuthStat, CallContext, Credential, Program, Reject, Service};
use rpcrdma_runtime::wire::rpc::{AuthSys, CallHeader, ReplyError, decode_reply};
use rpcrdma_runtime::xdr::{Encode, Item, Message, Opaque, Placed, Reader, Received, Reducer, Sink, Writer};
use rpcrdma_sim::{Args, Echo, ResultLengths, call};

const XID: u32 = 0x0506_0708;

/// A service that encodes part of a result and then rejects the call.
struct Rejecting {
    program: u32,
    version: u32,
    reject: Reject,
}

impl Service for Rejecting {
    fn program(&self) -> u32 {
        self.program
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        _: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        let encoded = Opaque::<100>::from(&b"half a result"[..]).encode(reply);
        Box::pin(ready(encoded.map_err(|_| Reject::SystemError).and(Err(self.reject))))
    }
}

fn services() -> Services {
    let mut services = Services::new();
    services.add(Echo);
    services.add(Rejecting { program: 7, version: 3, reject: Reject::SystemError });
    services.add(Rejecting { program: 7, version: 5, reject: Reject::AuthError(AuthStat::TooWeak) });
    services
}

fn answer(message: &Received) -> Option<Message> {
    let services = services();
    let answered = pin!(services.answer(message, None)).poll(&mut Context::from_waker(Waker::noop()));
    match answered {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the service must not wait"),
    }
}

fn error(message: &Received) -> ReplyError {
    let answer = answer(message).expect("a reply").flatten();
    let mut reader = Reader::from_bytes(&answer);
    let error = decode_reply(&mut reader, XID).expect_err("an error reply");
    reader.finish().expect("the partial result is removed");
    error
}

fn received(bytes: impl Into<Bytes>) -> Received {
    Received::unreduced(bytes.into())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn header(program: u32, version: u32, procedure: u32) -> Received {
    let mut writer = Writer::new();
    let header = CallHeader { xid: XID, program, version, procedure, credential: Credential::None };
    header.encode(&mut writer).expect("a header");
    received(writer.into_bytes())
}

fn args() -> Args {
    Args::new(9, [5, 6, 7], ResultLengths { note: 3, item: 5, other: 0 })
}

/// Requirement: R237, R322, R323, R324
#[test]
fn unknown_programs_versions_and_procedures_are_rejected() {
    let (program, version) = (<Echo as Program>::NUMBER, <Echo as Program>::VERSION);
    assert_eq!(error(&header(8, 1, 0)), ReplyError::ProgramUnavailable);
    assert_eq!(error(&header(7, 4, 0)), ReplyError::ProgramMismatch { low: 3, high: 5 });
    assert_eq!(error(&header(program, 2, 1)), ReplyError::ProgramMismatch { low: 1, high: 1 });
    assert_eq!(error(&header(program, version, 99)), ReplyError::ProcedureUnavailable);
    assert_eq!(error(&header(7, 3, 1)), ReplyError::SystemError);
    assert_eq!(error(&header(7, 5, 1)), ReplyError::Auth(AuthStat::TooWeak));
}

/// Requirement: R321
#[test]
fn another_version_of_rpc_is_denied() {
    let message = received(words(&[XID, 0, 3, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(error(&message), ReplyError::RpcMismatch { low: 2, high: 2 });
}

/// Requirement: R174, R325
#[test]
fn only_calls_get_replies_even_if_truncated() {
    let complete = call(XID, &args(), usize::MAX).flatten();
    for cut in 0..complete.len() {
        let message = received(complete.slice(..cut));
        match cut {
            0..8 => assert_eq!(answer(&message), None, "cut at {cut}"),
            8..24 => assert_eq!(error(&message), ReplyError::GarbageArguments, "cut at {cut}"),
            24..32 => assert_eq!(error(&message), ReplyError::Auth(AuthStat::BadCredential), "cut at {cut}"),
            32..40 => assert_eq!(error(&message), ReplyError::Auth(AuthStat::BadVerifier), "cut at {cut}"),
            _ => assert_eq!(error(&message), ReplyError::GarbageArguments, "R174, cut at {cut}"),
        }
    }
    let more = [&complete[..], &[0; 4]].concat();
    assert_eq!(error(&received(more)), ReplyError::GarbageArguments, "bytes after the arguments");
    assert_eq!(answer(&received(words(&[XID, 1, 0, 0, 0, 0]))), None, "a reply");
}

/// Requirement: R326, R327, R328, H70
#[test]
fn h68_credentials_beyond_their_bounds_are_rejected() {
    let with_credential = |flavor: u32, length: u32, body: &[u8]| {
        let mut call = words(&[XID, 0, 2, 7, 3, 1, flavor, length]);
        call.extend_from_slice(body);
        call.extend_from_slice(&words(&[0, 0]));
        received(call)
    };
    let refused = ReplyError::Auth(AuthStat::BadCredential);
    let passed = ReplyError::SystemError;
    let unknown = ReplyError::Auth(AuthStat::RejectedCredential);
    assert_eq!(
        error(&with_credential(99, 400, &[0; 400])),
        unknown,
        "a credential of the maximum length, with an unknown flavor"
    );
    assert_eq!(error(&with_credential(99, 401, &[0; 404])), refused);
    assert_eq!(error(&with_credential(1, u32::MAX, &[0; 400])), refused);
    assert_eq!(error(&with_credential(1, 0xffff_fffd, &[0; 400])), refused, "H70");
    let sys = |name: &str, gids: usize| {
        let mut writer = Writer::new();
        let body = (0u32, name.len(), gids);
        writer.put_u32(body.0).expect("memory");
        writer.put_u32(u32::try_from(body.1).expect("short")).expect("memory");
        writer.put_padded(name.as_bytes()).expect("memory");
        (0..2 + 1 + gids).for_each(|at| {
            let word = if at == 2 { u32::try_from(gids).expect("few") } else { 5 };
            writer.put_u32(word).expect("memory");
        });
        writer.into_vec()
    };
    let long = "x".repeat(255);
    for (name, gids, expected) in [
        ("lab", 16, &passed),
        ("lab", 17, &refused),
        (&long, 16, &passed),
        (&format!("{long}x"), 0, &refused),
    ] {
        let body = sys(name, gids);
        let length = u32::try_from(body.len()).expect("short");
        assert_eq!(&error(&with_credential(1, length, &body)), expected, "{} {gids}", name.len());
    }
    let mut long_verifier = words(&[XID, 0, 2, 7, 3, 1, 0, 0, 0, 401]);
    long_verifier.extend_from_slice(&[0; 404]);
    assert_eq!(error(&received(long_verifier)), ReplyError::Auth(AuthStat::BadVerifier));
    let mut trailing = sys("lab", 0);
    trailing.extend_from_slice(&[0; 4]);
    let length = u32::try_from(trailing.len()).expect("short");
    assert_eq!(error(&with_credential(1, length, &trailing)), refused, "bytes after the credential");
}

/// Requirement: R326, R327
#[test]
fn a_credential_that_breaks_its_bounds_is_not_sent() {
    let encode = |credential| {
        let header = CallHeader { xid: XID, program: 1, version: 1, procedure: 1, credential };
        header.encode(&mut Writer::new())
    };
    let sys = |gids| Credential::Sys(AuthSys { machine_name: "lab".into(), gids, ..AuthSys::default() });
    assert!(encode(sys(vec![1; 16])).is_ok());
    assert!(encode(sys(vec![1; 17])).is_err());
    assert!(encode(Credential::Other { flavor: 6, body: Bytes::from(vec![0; 401]) }).is_err());
}

/// Requirement: R082
#[test]
fn h27_r057_a_chunk_that_differs_from_its_count_is_garbage() {
    let message = call(XID, &args(), 1);
    let placed = |data: &[&[u8]]| {
        let items = message.items.iter().zip(data);
        let items =
            items.map(|(item, data)| Item { position: item.position, data: Bytes::copy_from_slice(data) });
        Received { stream: message.stream.clone(), items: Placed::Positioned(items.collect()) }
    };
    let data: Vec<Vec<u8>> = message.items.iter().map(|item| item.data.to_vec()).collect();
    let [first, second] = &data[..] else { panic!("two items") };
    let accepted = |items: &[&[u8]]| {
        let answer = answer(&placed(items)).expect("a reply").flatten();
        decode_reply(&mut Reader::from_bytes(&answer), XID)
    };
    assert_eq!(accepted(&[first, second]), Ok(()));
    let padded = [&first[..], &[9; 3]].concat();
    assert_eq!(accepted(&[&padded, second]), Ok(()), "R082: padding with any content is accepted");
    for wrong in [&first[..4], &[&first[..], &[0]].concat(), &[&first[..], &[0; 7]].concat(), &[]] {
        assert_eq!(accepted(&[wrong, second]), Err(ReplyError::GarbageArguments), "{wrong:?}");
    }
    assert_eq!(accepted(&[first]), Err(ReplyError::GarbageArguments), "one chunk is missing");
}

/// Requirement: R175, R186
#[test]
fn r185_a_chunk_where_no_eligible_item_begins_is_garbage() {
    let message = call(XID, &args(), usize::MAX).flatten();
    for position in (4..message.len()).step_by(4) {
        let position = u32::try_from(position).expect("small");
        let item = Item { position, data: Bytes::from_static(b"1234") };
        let received = Received { stream: message.clone(), items: Placed::Positioned(vec![item]) };
        // A chunk with a position within the RPC header is detected only at the end of the arguments.
        assert_ne!(answer(&received), None);
        assert_eq!(error(&received), ReplyError::GarbageArguments, "at {position}");
    }
}
