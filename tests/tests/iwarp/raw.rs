//! A peer that the test controls octet by octet, and the connection under test.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::provider::iwarp::{IwarpConnection, IwarpError, IwarpListener, IwarpOptions};
use rpcrdma_runtime::wire::iwarp::{Code, Crc32c, DdpHeader, Opcode, ReadRequest, Terminate, fpdu};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const WAIT: Duration = Duration::from_secs(20);
pub(crate) const SIZE: u32 = 64;
/// The ORD that the peer in [`establish`] announces.
pub(crate) const READS: u16 = 2;
pub(crate) const SEND: Opcode = Opcode::Send { invalidate: false, solicited: false };
pub(crate) const SEND_INVALIDATE: Opcode = Opcode::Send { invalidate: true, solicited: false };

pub(crate) fn request(flags: u8, revision: u8, length: u16, rest: &[u8]) -> Vec<u8> {
    [b"MPA ID Req Frame", &[flags, revision][..], &length.to_be_bytes(), rest].concat()
}

/// Encodes an enhanced request that requires CRCs.
pub(crate) fn good_request(ird: u16, ord: u16) -> Vec<u8> {
    request(0x50, 2, 4, &[ird.to_be_bytes(), ord.to_be_bytes()].concat())
}

pub(crate) fn frame(ulpdu: &[u8]) -> Vec<u8> {
    let mut octets = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    octets.extend_from_slice(ulpdu);
    octets.resize(octets.len() + fpdu::padding(ulpdu.len()), 0);
    let mut crc = Crc32c::new();
    crc.update(&octets);
    octets.extend(crc.octets());
    octets
}

pub(crate) fn segment(header: DdpHeader, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    header.encode(|piece| octets.extend_from_slice(piece));
    octets.extend_from_slice(payload);
    octets
}

pub(crate) fn tagged(opcode: Opcode, last: bool, stag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    frame(&segment(DdpHeader::Tagged { last, control: opcode.control(), stag, offset }, payload))
}

pub(crate) fn write(stag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    tagged(Opcode::Write, true, stag, offset, payload)
}

/// The queue, MSN and offset of an untagged segment.
pub(crate) type At = (u32, u32, u32);

pub(crate) fn untagged(
    opcode: Opcode,
    last: bool,
    word: u32,
    (queue, msn, offset): At,
    payload: &[u8],
) -> Vec<u8> {
    let control = opcode.control();
    frame(&segment(DdpHeader::Untagged { last, control, word, queue, msn, offset }, payload))
}

pub(crate) fn send(msn: u32, payload: &[u8]) -> Vec<u8> {
    untagged(SEND, true, 0, (0, msn, 0), payload)
}

pub(crate) fn read_request(msn: u32, source_stag: u32, source_offset: u64, length: u32) -> Vec<u8> {
    let request = ReadRequest { sink_stag: 9, sink_offset: 0, length, source_stag, source_offset };
    let mut payload = Vec::new();
    request.encode(|piece| payload.extend_from_slice(piece));
    untagged(Opcode::ReadRequest, true, 0, (1, msn, 0), &payload)
}

pub(crate) fn segments(mut octets: &[u8]) -> Vec<(Opcode, DdpHeader, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((one, rest)) = fpdu::len(octets).and_then(|len| octets.split_at_checked(len)) {
        let (header, payload) = DdpHeader::parse(fpdu::open(one, true).unwrap()).unwrap();
        found.push((Opcode::from_control(header.control()).unwrap(), header, payload.to_vec()));
        octets = rest;
    }
    assert!(octets.is_empty(), "the last FPDU is incomplete");
    found
}

/// Returns the code of the Terminate that ends a peer's output, if any.
pub(crate) fn terminate_code(octets: &[u8]) -> Option<Code> {
    let all = segments(octets);
    let terminates = all.iter().filter(|(opcode, ..)| *opcode == Opcode::Terminate).count();
    assert!(terminates <= 1, "more than one Terminate");
    match all.last() {
        Some((Opcode::Terminate, _, payload)) => Terminate::read_code(payload),
        _ => None,
    }
}

pub(crate) struct Established {
    pub(crate) raw: TcpStream,
    pub(crate) end: IwarpConnection,
    pub(crate) sink: Segment,
    pub(crate) source: Segment,
}

pub(crate) async fn listen(options: IwarpOptions) -> (IwarpListener, SocketAddr) {
    let listener = IwarpListener::bind("127.0.0.1:0", options).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends these octets as an initiator. Returns the initiator's socket and the responder's result.
pub(crate) async fn ask(
    octets: &[u8],
    options: IwarpOptions,
) -> (TcpStream, Result<IwarpConnection, IwarpError>) {
    let (listener, address) = listen(options).await;
    let mut raw = TcpStream::connect(address).await.unwrap();
    raw.set_nodelay(true).unwrap();
    raw.write_all(octets).await.unwrap();
    let request = listener.accept().await.unwrap().request().await;
    let outcome = match request {
        Ok(request) => request.accept(b"reply", 1024).await,
        Err(error) => Err(error),
    };
    (raw, outcome)
}

/// Establishes a connection with two posted Receives, and with a sink and a source of 64 octets each.
pub(crate) async fn establish(options: IwarpOptions) -> Established {
    let (mut raw, end) = ask(&good_request(16, READS), options).await;
    let mut end = end.unwrap();
    let mut reply = [0; 20 + 4 + 5];
    raw.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply[..16], *b"MPA ID Rep Frame");
    end.submit(Action::PostReceives { count: 2 });
    let sink = register(&mut end, Memory::Sink(BytesMut::zeroed(SIZE as usize))).await;
    let source = register(&mut end, Memory::Source(Bytes::from_static(&[7; SIZE as usize]))).await;
    Established { raw, end, sink, source }
}

pub(crate) async fn register(end: &mut IwarpConnection, memory: Memory) -> Segment {
    end.submit(Action::Register { token: Token(0), memory });
    match next(end).await {
        Completion::Registered { segment, .. } => segment,
        other => panic!("not registered: {other:?}"),
    }
}

pub(crate) async fn next(end: &mut IwarpConnection) -> Completion {
    let waiting = poll_fn(|cx| end.poll_completion(cx));
    tokio::time::timeout(WAIT, waiting).await.expect("a completion")
}

/// The completions before `Closed`, and the fields of `Closed`.
pub(crate) struct Ended {
    pub(crate) before: Vec<Completion>,
    pub(crate) reason: CloseReason,
    pub(crate) returned: Vec<Memory>,
}

pub(crate) async fn until_closed(end: &mut IwarpConnection) -> Ended {
    let mut before = Vec::new();
    loop {
        match next(end).await {
            Completion::Closed { reason, returned } => return Ended { before, reason, returned },
            other => before.push(other),
        }
    }
}

pub(crate) fn assert_no_completion(end: &mut IwarpConnection) {
    let next = end.poll_completion(&mut Context::from_waker(Waker::noop()));
    assert!(next.is_pending(), "{next:?}");
}

/// Reads until the peer closes the connection, and then closes the socket. Returns the received octets.
pub(crate) async fn rest(mut raw: TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    let reading = raw.read_to_end(&mut octets);
    // A reset also ends the stream.
    let _ = tokio::time::timeout(WAIT, reading).await.expect("a close");
    octets
}
