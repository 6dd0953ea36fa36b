//! The task that owns the calls of a client over TCP, and one connection after the other.

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::debug;

use super::super::ConnectError;
use super::super::calls::{Command, Waiting};
use super::super::driver::{Connect, Connecting};
use super::super::serving::Serving;
use super::super::stats::ClientStats;
use super::TcpOptions;
use super::callee::Callee;
use super::line::{Slot, TcpLine};
use super::stream::{Incoming, Outgoing, halves};
use crate::proto::rdma::CallId;
use crate::proto::rdma::session::{Event, Line, Session};
use crate::proto::rpc::Services;
use crate::proto::time::Time;
use crate::proto::work::CloseReason;
use crate::wire::rpc::MessageKind;
use crate::xdr::Message;

/// A connection and whom it leads to.
pub(super) type Dialled = (TcpStream, SocketAddr);

/// Everything that the task owns.
pub(super) struct Driver {
    session: Session<TcpLine>,
    options: TcpOptions,
    connect: Connect<Dialled>,
    connection: Option<(Incoming, Outgoing)>,
    connecting: Option<Connecting<Dialled>>,
    /// What calls of the server find, and those that there are on this connection.
    backward: Services,
    callee: Option<Callee>,
    peer: LastPeer<SocketAddr>,
    stats: ClientStats,
    waiting: Waiting<CallId>,
    began: Instant,
}

impl Driver {
    /// A driver without a connection.
    pub(super) fn new(
        session: Session<TcpLine>,
        options: TcpOptions,
        connect: Connect<Dialled>,
        peer: LastPeer<SocketAddr>,
        backward: Services,
        stats: ClientStats,
    ) -> Self {
        Driver {
            session,
            options,
            connect,
            connection: None,
            connecting: None,
            backward,
            callee: None,
            peer,
            stats,
            waiting: Waiting::default(),
            began: Instant::now(),
        }
    }

    /// Has the calls use this connection.
    pub(super) fn connected(&mut self, (socket, peer): Dialled) {
        debug!(%peer, "connected");
        self.peer.set(peer);
        self.connection = Some(halves(socket, &self.options));
        self.callee = self.backward.programs().next().map(|_| {
            // Nothing is sent again on one connection, and a server makes no other.
            let server = Serving::plain(self.backward.clone()).caller(Some(peer));
            Callee::new(server, self.options.backward_calls, &self.options)
        });
        let now = self.now();
        self.session.handle_connected(now, TcpLine::new(&self.options, self.options.calls));
    }

    /// Runs until the session is over; it closes it when every [`super::TcpClient`] of it is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut clients = true;
        let mut alarm = Box::pin(sleep_until(self.began));
        while !self.work() {
            self.stats.session(self.session.counts());
            let alarm = set(alarm.as_mut(), self.began, self.session.poll_timeout());
            let (incoming, outgoing) = self.connection.as_mut().map(|(read, write)| (read, write)).unzip();
            let may_read = self.callee.as_ref().is_none_or(|callee| callee.has_room(true));
            tokio::select! {
                record = next(incoming), if may_read => match record {
                    Ok(Some(record)) => self.received(record),
                    Ok(None) => self.lost(CloseReason::Peer),
                    Err(error) => self.lost(CloseReason::Io(error.to_string())),
                },
                (reply, slot) = answer(self.callee.as_mut()) => self.send(reply, slot),
                written = write(outgoing) => if let Err(error) = written {
                    self.lost(CloseReason::Io(error.to_string()));
                },
                made = made(self.connecting.as_mut()) => {
                    self.connecting = None;
                    match made {
                        Ok(dialled) => self.connected(dialled),
                        Err(error) => {
                            debug!(%error, "no connection");
                            let now = self.now();
                            self.session.handle_connect_failed(now, error.to_string());
                        }
                    }
                }
                command = commands.recv(), if clients => {
                    clients = command.is_some();
                    self.obey(command.unwrap_or(Command::Close));
                }
                () = ring(alarm) => {
                    let now = self.now();
                    self.session.handle_timeout(now);
                }
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// Does what the session asks for. True once it is over.
    fn work(&mut self) -> bool {
        loop {
            self.exchange();
            while let Some(event) = self.session.poll_event() {
                match event {
                    Event::Done { call, outcome } => self.waiting.end(call, outcome),
                    Event::Connect => self.connecting = Some((self.connect)()),
                    Event::Disconnected(reason) => debug!(%reason, "connection closed"),
                    Event::Ended(reason) => {
                        debug!(%reason, "session ended");
                        return true;
                    }
                }
            }
            if !self.session.line().is_some_and(Line::is_closing) {
                return false;
            }
        }
    }

    /// Gives the connection what is to be sent, or ends it.
    fn exchange(&mut self) {
        if let Some(callee) = &mut self.callee {
            callee.start();
        }
        let Some(line) = self.session.line_mut() else { return };
        if let Some(reason) = line.closing().cloned() {
            return self.lost(reason);
        }
        while let (Some((_, outgoing)), Some((message, slot))) = (&mut self.connection, line.poll_send()) {
            if let Err(error) = outgoing.push(message, slot) {
                // The line has looked at its length.
                return self.lost(CloseReason::Io(error.to_string()));
            }
        }
        let now = self.now();
        self.session.settle(now);
    }

    fn received(&mut self, record: Bytes) {
        let is_call = MessageKind::of(&record) == Some(MessageKind::Call);
        self.with_line(|line| line.hear());
        match &mut self.callee {
            _ if !is_call => self.with_line(|line| line.received(record)),
            Some(callee) => callee.take(record),
            None => debug!("a call of the server, which may not call"),
        }
    }

    /// Sends the reply to a call of the server, if it gets one.
    fn send(&mut self, reply: Option<Message>, slot: Slot) {
        let (Some((_, outgoing)), Some(message)) = (&mut self.connection, reply) else { return };
        if let Err(error) = outgoing.push(message, slot) {
            self.lost(CloseReason::Io(error.to_string()));
        }
    }

    fn lost(&mut self, reason: CloseReason) {
        self.connection = None;
        self.callee = None;
        self.with_line(|line| line.ended(&reason));
    }

    fn with_line(&mut self, give: impl FnOnce(&mut TcpLine)) {
        if let Some(line) = self.session.line_mut() {
            give(line);
        }
        let now = self.now();
        self.session.settle(now);
    }

    fn obey(&mut self, command: Command) {
        let now = self.now();
        match self.waiting.obey(command, &mut self.session, now) {
            None => {}
        }
    }
}

async fn next(incoming: Option<&mut Incoming>) -> io::Result<Option<Bytes>> {
    match incoming {
        Some(incoming) => incoming.next().await,
        None => pending().await,
    }
}

async fn answer(callee: Option<&mut Callee>) -> (Option<Message>, Slot) {
    match callee {
        Some(callee) => callee.answer().await,
        None => pending().await,
    }
}

async fn write(outgoing: Option<&mut Outgoing>) -> io::Result<()> {
    match outgoing {
        Some(outgoing) if !outgoing.is_empty() => outgoing.write().await,
        _ => pending().await,
    }
}

/// The last connection's, shared with the callers.
#[derive(Clone, Debug)]
pub(super) struct LastPeer<P> {
    peer: Arc<Mutex<P>>,
    /// How many connections there were.
    made: watch::Sender<u64>,
}

impl<P: Clone> LastPeer<P> {
    pub(super) fn new(peer: P) -> Self {
        LastPeer { peer: Arc::new(Mutex::new(peer)), made: watch::Sender::new(0) }
    }

    pub(super) fn get(&self) -> P {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many connections there were.
    pub(super) fn made(&self) -> u64 {
        *self.made.borrow()
    }

    /// Waits until there were more connections than `seen`, and says how many; nothing, if `over` comes first.
    pub(super) async fn next(&self, seen: u64, over: impl Future<Output = ()>) -> Option<u64> {
        let mut made = self.made.subscribe();
        tokio::select! {
            biased;
            made = made.wait_for(|made| *made > seen) => made.ok().map(|made| *made),
            () = over => None,
        }
    }

    pub(super) fn set(&self, peer: P) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer;
        self.made.send_modify(|made| *made = made.saturating_add(1));
    }
}

/// Sets the alarm to a moment, if there is one. One that rings too early does no harm and is cheaper than one that is
/// always put right.
fn set(mut alarm: Pin<&mut Sleep>, began: Instant, at: Option<Time>) -> Option<Pin<&mut Sleep>> {
    let at = began.checked_add(at?.0)?;
    if at < alarm.deadline() || alarm.is_elapsed() {
        alarm.as_mut().reset(at);
    }
    Some(alarm)
}

async fn made<C>(connecting: Option<&mut Connecting<C>>) -> Result<C, ConnectError> {
    match connecting {
        Some(connecting) => connecting.await,
        None => pending().await,
    }
}

async fn ring(alarm: Option<Pin<&mut Sleep>>) {
    match alarm {
        Some(alarm) => alarm.await,
        None => pending().await,
    }
}
