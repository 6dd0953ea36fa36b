use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, Read};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tracing::{debug, trace};

use super::IwarpOptions;
use super::capture::Tap;
use super::deadlines::{Deadlines, Expired, Progress};
use super::options::fpdu_in_segment;
use crate::proto::iwarp::{Agreed, Role, Stream};
use crate::proto::work::{Action, CloseReason, Completion};
use crate::provider::{Connection, ConnectionInfo, try_write};

/// Size to which the output queue is filled, in octets.
const OUTPUT: usize = 256 << 10;
/// Number of octets after which writing to TCP stops, so that input is processed.
const TURN: usize = 1 << 20;
/// Maximum number of octets per read from TCP, except for reads into a placement buffer. Exceeds the length
/// of the longest FPDU.
const INPUT: usize = 72 << 10;
/// Octets to write before FPDUs adapt again to the size of TCP's segments, which grow with the peer's window.
const RESIZE: u64 = 256 << 10;
/// Maximum number of reads from the socket buffer after TCP has failed.
const LAST_READS: usize = 4096;
/// Maximum number of rounds of writing and reading before other tasks run.
const ROUNDS: usize = 32;

thread_local! {
    /// The read buffer for all connections that this thread polls. It contains no input between reads, so
    /// idle connections need no buffer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn with_buffer<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.reserve(INPUT);
        f(buffer)
    })
}

/// An iWARP connection over TCP.
///
/// Each poll both writes and reads, so a peer that does not read cannot block input.
pub struct IwarpConnection {
    socket: TcpStream,
    tap: Tap,
    stream: Stream,
    info: ConnectionInfo,
    output: VecDeque<Bytes>,
    /// Octets in `output`.
    queued: usize,
    /// Octets written to TCP.
    written: u64,
    /// Octets read from TCP.
    read: u64,
    /// The value of `written` at which FPDUs adapt to TCP's segments. `None` if the FPDU size is configured.
    resize_at: Option<u64>,
    phase: Phase,
    deadlines: Deadlines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// All output was sent, and the socket is closed for writing. The peer has not closed its direction yet.
    Closing,
    Closed,
}

impl IwarpConnection {
    pub(super) fn new(
        (socket, mut tap): (TcpStream, Tap),
        role: Role,
        agreed: Agreed,
        receive_size: u32,
        info: ConnectionInfo,
        options: &IwarpOptions,
    ) -> Self {
        let config = agreed.stream(role, receive_size, options.fpdu_for(&socket), options.max_region);
        debug!(?config, peer = ?info.peer, "iWARP connection established");
        tap.begin_fpdus(agreed);
        IwarpConnection {
            stream: Stream::new(config, RandomPool::default()),
            socket,
            tap,
            info,
            output: VecDeque::new(),
            queued: 0,
            written: 0,
            read: 0,
            resize_at: options.max_fpdu.is_none().then_some(RESIZE),
            phase: Phase::Open,
            deadlines: Deadlines::new(options, role == Role::Initiator),
        }
    }

    /// Writes output to TCP. Returns true if TCP accepted any octets or failed. Without a context, no task is
    /// woken once TCP can accept more.
    fn transmit(&mut self, mut cx: Option<&mut Context<'_>>) -> bool {
        let mut accepted = 0;
        while self.phase == Phase::Open && accepted < TURN {
            self.resize_fpdus();
            if self.queued < OUTPUT / 2 {
                self.queued += self.stream.poll_transmit(OUTPUT - self.queued, &mut self.output);
            }
            if self.output.is_empty() {
                break;
            }
            match cx.as_mut().map(|cx| self.socket.poll_write_ready(cx)) {
                None | Some(Poll::Ready(Ok(()))) => {}
                Some(Poll::Ready(Err(error))) => return self.tcp_failed(&error),
                Some(Poll::Pending) => break,
            }
            self.tap.sending_all(&self.output);
            match try_write(&self.socket, self.output.iter().map(|piece| &piece[..])) {
                Ok(count) => {
                    self.wrote(count);
                    accepted += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if cx.is_none() {
                        break;
                    }
                }
                Err(error) => return self.tcp_failed(&error),
            }
            if self.stream.has_completion() {
                break;
            }
        }
        accepted > 0
    }

    fn resize_fpdus(&mut self) {
        if self.resize_at.is_some_and(|at| self.written >= at) {
            self.stream.set_max_fpdu(fpdu_in_segment(&self.socket));
            self.resize_at = self.written.checked_add(RESIZE);
        }
    }

    fn wrote(&mut self, count: usize) {
        self.written = self.written.wrapping_add(u64::try_from(count).unwrap_or(0));
        self.queued = self.queued.saturating_sub(count);
        self.tap.sent(count);
        let mut remaining = count;
        while remaining > 0 {
            let Some(piece) = self.output.front_mut() else { return };
            let part = piece.len().min(remaining);
            piece.advance(part);
            remaining -= part;
            if piece.is_empty() {
                self.output.pop_front();
            }
        }
    }

    /// Reads from TCP once. Returns true if octets arrived or the connection ended. After a read that does
    /// not fill its buffer, Tokio skips the next read, which would only return `WouldBlock`.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let read = match self.stream.placement_buffer() {
            Some(mut place) => {
                let read = pin!(self.socket.read_buf(&mut place)).poll(cx);
                if let Poll::Ready(Ok(count @ 1..)) = read {
                    self.count(count);
                    self.stream.commit_placement(|octets| self.tap.received(octets));
                }
                read
            }
            None => with_buffer(|buffer| {
                let read = pin!(self.socket.read_buf(&mut buffer.limit(INPUT))).poll(cx);
                if read.is_ready() {
                    self.handle_input(buffer);
                }
                read
            }),
        };
        match read {
            Poll::Ready(Ok(0)) => {
                self.tap.peer_closed();
                self.end(CloseReason::Peer);
            }
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return self.tcp_failed(&error),
            Poll::Pending => return false,
        }
        true
    }

    /// Passes input to the stream, which discards the input if the stream has ended. Even then, the socket
    /// is emptied, so that the system does not reset the connection and lose output.
    fn handle_input(&mut self, octets: &[u8]) {
        self.count(octets.len());
        self.tap.received(octets);
        self.stream.receive(octets);
    }

    fn count(&mut self, octets: usize) {
        self.read = self.read.wrapping_add(u64::try_from(octets).unwrap_or(0));
    }

    /// Handles a failure of TCP. Reads the input received before the failure, because it may contain a reply,
    /// or a Terminate that explains the failure better than the error. Then ends the connection.
    fn tcp_failed(&mut self, error: &io::Error) -> bool {
        trace!(%error, "TCP failed");
        // Bypasses tokio, which may not have seen the input yet.
        with_buffer(|buffer| {
            buffer.resize(INPUT, 0);
            for _ in 0..LAST_READS {
                let socket = SockRef::from(&self.socket);
                let Ok(count @ 1..) = (&*socket).read(buffer) else { break };
                self.handle_input(buffer.get(..count).unwrap_or_default());
            }
        });
        self.tap.peer_reset();
        self.end(CloseReason::Io(error.to_string()));
        true
    }

    /// Ends the connection without sending the remaining output.
    fn end(&mut self, reason: CloseReason) {
        self.stream.abort(reason);
        self.output.clear();
        self.queued = 0;
        self.phase = Phase::Closed;
    }

    fn shut_down(&mut self, cx: &mut Context<'_>) {
        if self.phase != Phase::Open || self.stream.is_open() {
            return;
        }
        if self.output.is_empty() && !self.stream.has_output() {
            match Pin::new(&mut self.socket).poll_shutdown(cx) {
                Poll::Ready(Ok(())) => {
                    self.tap.closed();
                    self.phase = Phase::Closing;
                }
                Poll::Ready(Err(error)) => self.end(CloseReason::Io(error.to_string())),
                Poll::Pending => {}
            }
        }
    }

    /// Probes a silent peer, or ends the connection if another deadline has expired. Returns true if any
    /// deadline has expired.
    fn check_deadlines(&mut self, cx: &mut Context<'_>) -> bool {
        let sending = !self.output.is_empty() || self.stream.has_output();
        let progress = Progress {
            sending: (self.phase == Phase::Open && sending).then_some(self.written),
            input: self.stream.peer_progress(),
            flushing: self.phase == Phase::Open && !self.stream.is_open(),
            closing: self.phase == Phase::Closing,
            silent: self.stream.is_open() && !sending && self.written > 0 && self.read == 0,
        };
        let Poll::Ready(expired) = self.deadlines.poll(cx, progress) else { return false };
        debug!(?expired, peer = ?self.info.peer, "deadline expired");
        match expired {
            Expired::Silent => self.stream.probe(),
            Expired::Sending => {
                self.end(CloseReason::Timeout("the peer accepts data too slowly, or not at all".to_owned()));
            }
            Expired::Receiving => {
                self.end(CloseReason::Timeout(
                    "the rest of a message or an RDMA Read Response did not arrive, or arrived too slowly"
                        .to_owned(),
                ));
            }
            Expired::Closing => {
                self.end(CloseReason::Timeout("the peer did not close the connection".to_owned()))
            }
        }
        true
    }
}

impl Connection for IwarpConnection {
    fn submit(&mut self, action: Action) {
        self.stream.submit(action);
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        for _ in 0..ROUNDS {
            if let Some(completion) = self.stream.poll_completion() {
                return Poll::Ready(completion);
            }
            if self.phase == Phase::Closed {
                return Poll::Pending;
            }
            let mut progress = self.transmit(Some(cx));
            if self.phase != Phase::Closed {
                progress |= self.receive(cx);
            }
            self.shut_down(cx);
            if self.phase != Phase::Closed {
                progress |= self.check_deadlines(cx);
            }
            if !progress && !self.stream.has_completion() && self.phase != Phase::Closed {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn try_completion(&mut self) -> Option<Completion> {
        self.stream.poll_completion()
    }

    fn try_flush(&mut self) -> bool {
        if self.phase == Phase::Open && self.stream.is_open() {
            self.transmit(None);
        }
        // Until the peer has sent something, the deadlines must be checked: see [`Stream::probe`].
        let quiet = self.output.is_empty() && !self.stream.has_output() && !self.stream.has_completion();
        self.phase == Phase::Open && self.stream.is_open() && quiet && self.read > 0
    }

    fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

impl fmt::Debug for IwarpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IwarpConnection")
            .field("info", &self.info)
            .field("stream", &self.stream)
            .field("phase", &self.phase)
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct RandomPool {
    octets: Vec<u8>,
}

impl crate::proto::iwarp::Entropy for RandomPool {
    fn random(&mut self) -> Option<u64> {
        const EACH: usize = 8;
        const AT_ONCE: usize = 64 * EACH;
        if self.octets.len() < EACH {
            self.octets.resize(AT_ONCE, 0);
            if getrandom::fill(&mut self.octets).is_err() {
                self.octets.clear();
                return None;
            }
        }
        let (rest, number) = self.octets.split_last_chunk::<EACH>()?;
        let number = u64::from_ne_bytes(*number);
        let remaining = rest.len();
        self.octets.truncate(remaining);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::super::{IwarpListener, connect};
    use super::*;
    use crate::proto::work::Token;

    /// Requirement: R428, R432, R500
    #[tokio::test]
    async fn fpdus_adapt_to_growing_segments() {
        for max_fpdu in [None, Some(200)] {
            let options = IwarpOptions { max_fpdu, ..IwarpOptions::default() };
            let [mut initiator, mut responder] = connected(&options).await;
            assert_eq!(initiator.stream.max_fpdu(), options.fpdu_for(&initiator.socket));
            initiator.stream.set_max_fpdu(200);
            responder.submit(Action::PostReceives { count: 1000 });
            for number in 0..1000 {
                let message = vec![Bytes::from_static(&[7; 1024])];
                initiator.submit(Action::Send { token: Token(number), message, invalidate: None });
                loop {
                    tokio::select! {
                        _ = poll_fn(|cx| initiator.poll_completion(cx)) => {}
                        _ = poll_fn(|cx| responder.poll_completion(cx)) => break,
                    }
                }
            }
            let fpdu = initiator.stream.max_fpdu();
            assert_eq!(fpdu > 1024, max_fpdu.is_none(), "{fpdu} octets");
        }
    }

    async fn connected(options: &IwarpOptions) -> [IwarpConnection; 2] {
        let listener = IwarpListener::bind("127.0.0.1:0", options.clone()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept = async {
            let request = listener.accept().await.unwrap().request().await.unwrap();
            request.accept(&[], 1024).await.unwrap()
        };
        let (initiator, responder) = tokio::join!(connect(address, &[], 1024, options), accept);
        [initiator.unwrap(), responder]
    }

    #[tokio::test]
    async fn both_peers_enable_keepalive() {
        for connection in connected(&IwarpOptions::default()).await {
            assert!(SockRef::from(&connection.socket).keepalive().unwrap());
        }
    }
}
