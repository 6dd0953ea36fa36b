use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Options;
use crate::proto::iwarp::{Entropy, Role, Settings, Stream};
use crate::proto::work::{Action, CloseReason, Completion};
use crate::provider::{Connection, ConnectionInfo};

/// What one poll sends at most before it looks at what has arrived.
const SEND_BUDGET: usize = 512 << 10;
/// How much is cut into FPDUs ahead of TCP.
const AHEAD: usize = 128 << 10;
/// How much is read at once.
const READ_SIZE: usize = 256 << 10;
/// Pieces in one gathered write.
const SLICES: usize = 64;
/// How long what is left to say may take when the stream is over.
const LINGER: Duration = Duration::from_secs(5);
/// When a silent peer is woken first; then after twice as long each time.
const FIRST_NUDGE: Duration = Duration::from_millis(20);
const NUDGES: u32 = 6;

/// One end of an iWARP connection.
pub struct IwarpConnection {
    tcp: TcpStream,
    info: ConnectionInfo,
    stream: Stream,
    /// Cut into FPDUs and not taken by TCP yet.
    unsent: VecDeque<Bytes>,
    timer: Pin<Box<Sleep>>,
    stall_timeout: Duration,
    /// Since when the peer owes something, or does not take anything.
    progress: Instant,
    nudges_left: u32,
    next_nudge: Option<Instant>,
    nudge_after: Duration,
}

/// Numbers for STags and offsets from the system, some at a time.
fn system_entropy() -> Entropy {
    let mut pool = [0u8; 256];
    let mut rest: usize = 0;
    Entropy::new(move || {
        if rest < 8 {
            // Without unpredictable STags nothing can be advertised; a system that gives none cannot serve.
            getrandom::fill(&mut pool).expect("the system has random numbers");
            rest = pool.len();
        }
        rest -= 8;
        pool.get(rest..).and_then(|tail| tail.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
    })
}

impl IwarpConnection {
    pub(super) fn new(tcp: TcpStream, info: ConnectionInfo, settings: Settings, options: &Options) -> Self {
        let now = Instant::now();
        let nudges_left = if options.nudge && settings.role == Role::Initiator { NUDGES } else { 0 };
        IwarpConnection {
            tcp,
            info,
            stream: Stream::new(settings, system_entropy()),
            unsent: VecDeque::new(),
            timer: Box::pin(sleep_until(now)),
            stall_timeout: options.stall_timeout,
            progress: now,
            nudges_left,
            next_nudge: None,
            nudge_after: FIRST_NUDGE,
        }
    }

    /// Sends until TCP takes no more, nothing is left, or the budget is used up. True in the last case.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        let mut sent = 0;
        loop {
            if self.unsent.is_empty() {
                self.stream.fill(&mut self.unsent, AHEAD);
            }
            if self.unsent.is_empty() {
                return false;
            }
            if sent >= SEND_BUDGET {
                return true;
            }
            match self.tcp.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.fail(&error),
                Poll::Pending => return false,
            }
            let slices: Vec<IoSlice<'_>> =
                self.unsent.iter().take(SLICES).map(|piece| IoSlice::new(piece)).collect();
            match self.tcp.try_write_vectored(&slices) {
                Ok(len) => {
                    sent += len;
                    self.sent(len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return self.fail(&error),
            }
        }
    }

    fn sent(&mut self, mut len: usize) {
        self.progress = Instant::now();
        if self.nudges_left > 0 && self.next_nudge.is_none() && !self.stream.has_heard() {
            self.next_nudge = Some(self.progress + self.nudge_after);
        }
        while let Some(mut piece) = self.unsent.pop_front() {
            if piece.len() > len {
                piece.advance(len);
                self.unsent.push_front(piece);
                return;
            }
            len -= piece.len();
            if len == 0 {
                return;
            }
        }
    }

    /// Receives once; pending if nothing is there.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Err(error) = ready!(self.tcp.poll_read_ready(cx)) {
            self.fail(&error);
            return Poll::Ready(());
        }
        let input = self.stream.input();
        input.reserve(READ_SIZE);
        match self.tcp.try_read_buf(input) {
            // Half a connection is of no use: RDMA streams end both ways at once.
            Ok(0) => self.stream.finish(CloseReason::Peer),
            Ok(_) => {
                self.progress = Instant::now();
                self.stream.process();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.fail(&error);
            }
        }
        Poll::Ready(())
    }

    fn fail(&mut self, error: &io::Error) -> bool {
        // A stream that is over anyway ends for its own reason.
        let reason = self.stream.closing_reason().unwrap_or_else(|| CloseReason::Io(error.to_string()));
        self.stream.finish(reason);
        false
    }

    /// What has to happen by when, if nothing else does.
    fn deadline(&self) -> Option<Instant> {
        let stalled = if self.stream.is_closing() {
            Some(self.progress + LINGER)
        } else if self.stream.is_mid_message() || !self.unsent.is_empty() {
            Some(self.progress + self.stall_timeout)
        } else {
            None
        };
        let nudge = self.next_nudge.filter(|_| !self.stream.has_heard());
        [stalled, nudge].into_iter().flatten().min()
    }

    /// Does what is due. Pending if nothing is.
    fn tick(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        ready!(self.timer.as_mut().poll(cx));
        if self.next_nudge == Some(deadline) && !self.stream.has_heard() {
            self.nudge();
        } else {
            let timed_out =
                || CloseReason::Timeout("the peer neither sent the rest nor took what was sent".to_owned());
            let reason = self.stream.closing_reason().unwrap_or_else(timed_out);
            self.stream.finish(reason);
        }
        Poll::Ready(())
    }

    fn nudge(&mut self) {
        self.stream.nudge();
        self.nudges_left = self.nudges_left.saturating_sub(1);
        self.nudge_after *= 2;
        self.next_nudge = (self.nudges_left > 0).then(|| Instant::now() + self.nudge_after);
    }
}

impl Connection for IwarpConnection {
    fn submit(&mut self, action: Action) {
        if !self.stream.is_mid_message() && self.unsent.is_empty() {
            // Idle time does not count against the peer.
            self.progress = Instant::now();
        }
        self.stream.submit(action);
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        loop {
            let more = self.transmit(cx);
            if let Some(completion) = self.stream.poll_completion() {
                return Poll::Ready(completion);
            }
            if self.stream.is_closed() {
                return Poll::Pending;
            }
            if let Some(reason) = self.stream.closing_reason()
                && self.unsent.is_empty()
                && self.stream.is_drained()
            {
                self.stream.finish(reason);
                continue;
            }
            if self.receive(cx).is_ready() || more {
                continue;
            }
            ready!(self.tick(cx));
        }
    }

    fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

impl fmt::Debug for IwarpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IwarpConnection").field("info", &self.info).finish_non_exhaustive()
    }
}
