//! One TCP connection as a stream of records in both directions.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Duration, Instant, Sleep, sleep_until, timeout};

use super::TcpOptions;
use super::requester::Slot;
use crate::provider::{MinRate, try_write};
use crate::wire::rpc::{RecordError, Records, record_mark};
use crate::xdr::Message;

/// Minimum buffer space for one read, in octets.
const READ: usize = 64 << 10;

/// How long to wait for the peer to close its direction of the connection, once the local direction is
/// closed.
const LINGER: Duration = Duration::from_secs(1);

pub(super) struct Incoming {
    socket: OwnedReadHalf,
    input: BytesMut,
    records: Records,
    stall: Stall,
    rate: MinRate,
    /// Octets read so far.
    read: u64,
}

pub(super) struct Outgoing {
    socket: OwnedWriteHalf,
    buffers: VecDeque<Buffer>,
    stall: Stall,
    rate: MinRate,
    /// Octets written so far.
    written: u64,
}

struct Buffer {
    data: Bytes,
    /// The slot to drop when the whole record is written. Only the last buffer of a record contains the slot.
    slot: Option<Slot>,
}

/// Splits a connection into its two directions. The peer must send records and accept output at `min_rate`
/// octets per second or more. A `min_rate` of 0 allows any rate.
pub(super) fn halves(socket: TcpStream, options: &TcpOptions, min_rate: u64) -> (Incoming, Outgoing) {
    let (reader, writer) = socket.into_split();
    let incoming = Incoming {
        socket: reader,
        input: BytesMut::new(),
        records: Records::new(options.max_record),
        stall: Stall::new(options.stall_timeout),
        rate: MinRate::new(min_rate),
        read: 0,
    };
    let (stall, rate) = (Stall::new(options.stall_timeout), MinRate::new(min_rate));
    (incoming, Outgoing { socket: writer, buffers: VecDeque::new(), stall, rate, written: 0 })
}

impl Incoming {
    /// Returns the number of octets read so far.
    pub(super) fn octets(&self) -> u64 {
        self.read
    }

    /// Returns true if at least a part of the next record has arrived.
    pub(super) fn is_partial(&self) -> bool {
        !self.records.is_between() || !self.input.is_empty()
    }

    pub(super) fn buffered(&mut self) -> io::Result<Option<Bytes>> {
        let record = self.records.next(&mut self.input).map_err(io::Error::other)?;
        if record.is_some() {
            self.pause();
        }
        Ok(record)
    }

    /// Returns an upper bound on the length of the next record, or `None` until its first record mark is
    /// buffered.
    pub(super) fn announced(&mut self) -> io::Result<Option<usize>> {
        self.records.announced(&mut self.input).map_err(io::Error::other)
    }

    /// Raises the maximum length of a record to `max` octets, unless the current maximum is higher.
    pub(super) fn admit(&mut self, max: usize) {
        self.records.admit(max);
    }

    /// Returns the part of a message that has arrived, if `error` reports that the message is too long.
    pub(super) fn refused(&self, error: &io::Error) -> Option<&[u8]> {
        error.get_ref()?.downcast_ref::<RecordError>()?;
        self.records.refused(&self.input)
    }

    /// Stops the stall timer and the rate measurement. The next read within a record restarts both.
    pub(super) fn pause(&mut self) {
        self.stall.since = None;
        self.rate.is_missed(None);
    }

    /// Returns the next record, or `None` at the end of the stream.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if let Some(record) = self.buffered()? {
                return Poll::Ready(Ok(Some(record)));
            }
            if !ready!(self.poll_read(cx))? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Reads once. Returns false at the end of the stream. Cancel safe.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Reads and drops input until the peer closes its direction, for at most [`LINGER`]. If a socket with
    /// unread input is closed, the system resets the connection and drops output that the peer has not
    /// received.
    pub(super) async fn discard(&mut self) {
        let discarding = async {
            loop {
                self.input.clear();
                self.input.reserve(READ);
                if !matches!(self.socket.read_buf(&mut self.input).await, Ok(1..)) {
                    break;
                }
            }
        };
        // Fails if the peer does not close its direction in time.
        let _ = timeout(LINGER, discarding).await;
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let between = !self.is_partial();
        self.input.reserve(READ);
        let Poll::Ready(read) = pin!(self.socket.read_buf(&mut self.input)).poll(cx) else {
            if between {
                return Poll::Pending;
            }
            return self
                .stall
                .poll(cx)
                .map(|()| Err(stalled("a record stalled before its end (TcpOptions::stall_timeout)")));
        };
        self.stall.since = None;
        let count = read?;
        self.read = self.read.wrapping_add(count as u64);
        if self.rate.is_missed((!between).then_some(self.read)) {
            return Poll::Ready(Err(stalled("a record arrives too slowly (TcpOptions::min_rate)")));
        }
        match count {
            0 if between => Poll::Ready(Ok(false)),
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => Poll::Ready(Ok(true)),
        }
    }
}

impl Outgoing {
    /// Queues a message. The slot is dropped once the message is written. Fails if the message is 2 GiB or
    /// longer.
    pub(super) fn push(&mut self, message: Message, slot: Slot) -> io::Result<()> {
        let mark = record_mark(message.unreduced_len()).ok_or(io::ErrorKind::InvalidInput)?;
        let mark = Bytes::copy_from_slice(&mark);
        let buffers = std::iter::once(mark).chain(message.into_pieces());
        self.buffers.extend(buffers.map(|data| Buffer { data, slot: None }));
        if let Some(last) = self.buffers.back_mut() {
            last.slot = Some(slot);
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Writes a part of the queued output, which must not be empty. Cancel safe.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.try_write()? {
            let Poll::Ready(writable) = self.socket.as_ref().poll_write_ready(cx) else {
                return self
                    .stall
                    .poll(cx)
                    .map(|()| Err(stalled("the peer accepts no output (TcpOptions::stall_timeout)")));
            };
            writable?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes a part of the queued output without waiting. Returns true if any bytes were written.
    pub(super) fn try_write(&mut self) -> io::Result<bool> {
        let buffers = self.buffers.iter().map(|buffer| &buffer.data[..]);
        match try_write(self.socket.as_ref(), buffers) {
            Ok(written) => {
                self.stall.since = None;
                self.remove_written(written);
                self.written = self.written.wrapping_add(written as u64);
                if self.rate.is_missed((!self.is_empty()).then_some(self.written)) {
                    return Err(stalled("the peer accepts output too slowly (TcpOptions::min_rate)"));
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove_written(&mut self, mut octets: usize) {
        while let Some(buffer) = self.buffers.front_mut() {
            let taken = octets.min(buffer.data.len());
            buffer.data.advance(taken);
            octets -= taken;
            if !buffer.data.is_empty() {
                break;
            }
            self.buffers.pop_front();
        }
    }

    pub(super) async fn finish(&mut self) -> io::Result<()> {
        while !self.is_empty() {
            self.write().await?;
        }
        self.socket.shutdown().await
    }
}

/// The time limit of a stalled direction. Dropping a future that waits for this direction does not reset the
/// limit.
struct Stall {
    limit: Duration,
    since: Option<Instant>,
    /// Fires at the time limit of this stall or of an earlier stall. An early wake-up costs less than
    /// resetting the timer for each stall.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    fn new(limit: Duration) -> Self {
        Stall { limit, since: None, timer: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = self.since.get_or_insert_with(Instant::now);
        let Some(end) = since.checked_add(self.limit) else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }
}

fn stalled(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;

    use socket2::SockRef;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    use super::*;

    async fn connected() -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (local, peer) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let peer = peer.unwrap().0.into_std().unwrap();
        peer.set_nonblocking(false).unwrap();
        (local.unwrap(), peer)
    }

    /// Sends up to 8 parts of a record, each with `part` octets, at intervals of 11 s. Returns the number of
    /// accepted parts, and the error, if any.
    async fn send_slowly(part: usize) -> (usize, Option<String>) {
        let (local, mut peer) = connected().await;
        let (mut incoming, _outgoing) = halves(local, &TcpOptions::default(), 64 << 10);
        peer.write_all(&(1_u32 << 31 | 8 << 20).to_be_bytes()).unwrap();
        assert!(incoming.read().await.unwrap() && incoming.buffered().unwrap().is_none());
        for accepted in 0..8 {
            // Each piece fits into the socket buffers.
            for piece in vec![0; part].chunks(16 << 10) {
                peer.write_all(piece).unwrap();
                let end = incoming.read + piece.len() as u64;
                while incoming.read < end {
                    if let Err(error) = incoming.read().await {
                        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                        return (accepted, Some(error.to_string()));
                    }
                    assert!(incoming.buffered().unwrap().is_none());
                }
            }
            tokio::time::advance(Duration::from_secs(11)).await;
        }
        (8, None)
    }

    /// A peer that regularly sends small parts of a record never stalls, but is too slow.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_too_slowly_is_noticed() {
        let error = "a record arrives too slowly (TcpOptions::min_rate)".to_owned();
        assert_eq!(send_slowly(1000).await, (1, Some(error)));
        // 760 KiB per 11 s exceeds the minimum rate of 64 KiB/s.
        assert_eq!(send_slowly(760 << 10).await, (8, None));
    }

    /// A peer that regularly reads small amounts never stalls, but is too slow.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_too_slowly_is_noticed() {
        let (local, mut peer) = connected().await;
        SockRef::from(&local).set_send_buffer_size(64 << 10).unwrap();
        let (_incoming, mut outgoing) = halves(local, &TcpOptions::default(), 64 << 10);
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap().into();
        outgoing.push(Message::unreduced(vec![0; 64 << 20].into()), slot).unwrap();
        let mut octets = vec![0; 256 << 10];
        let mut ended = None;
        for _ in 0..1000 {
            match outgoing.try_write() {
                Ok(true) => {}
                Ok(false) => {
                    tokio::time::advance(Duration::from_secs(11)).await;
                    assert!(peer.read(&mut octets).unwrap() > 0);
                    let writable = outgoing.socket.as_ref().writable();
                    let _ = tokio::time::timeout(Duration::from_millis(1), writable).await;
                }
                Err(error) => {
                    ended = Some(error.kind());
                    break;
                }
            }
        }
        assert_eq!(ended, Some(io::ErrorKind::TimedOut));
        assert!(!outgoing.is_empty());
    }
}
