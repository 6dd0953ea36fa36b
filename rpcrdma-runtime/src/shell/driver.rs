//! The task that owns a client's calls, and one connection after the other.

use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{debug, trace};

use super::ConnectError;
use super::backward::Callee;
use super::calls::{Command, Waiting};
use super::carried::fitted;
use super::stats::ClientStats;
use crate::proto::rdma::session::{CallId, Event, Session};
use crate::proto::rdma::{Config, Requester, Stated};
use crate::proto::rpc::Services;
use crate::proto::time::Time;
use crate::proto::work::Completion;
use crate::provider::{Connection, ConnectionInfo};
use crate::wire::private_data::{Negotiated, PrivateData};

/// A connection that is being made.
pub(super) type Connecting<C> = Pin<Box<dyn Future<Output = Result<C, ConnectError>> + Send>>;

/// Makes connections.
pub(super) type Connect<C> = Box<dyn FnMut() -> Connecting<C> + Send>;

/// What callers can see of the connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// What was agreed on.
    pub(super) negotiated: Negotiated,
    /// The server's address.
    pub(super) address: Option<SocketAddr>,
    /// RDMA Reads that this end serves at once.
    pub(super) reads_in: u32,
}

impl Peer {
    /// What is agreed on with one who says this of itself.
    pub(super) fn new(config: &Config, info: Option<&ConnectionInfo>) -> Self {
        let said = info.and_then(|info| PrivateData::find(&info.private_data));
        let server = said.unwrap_or(PrivateData::ABSENT);
        let mut own = config.private_data;
        own.remote_invalidation &= info.is_none_or(|info| info.remote_invalidation);
        Peer {
            negotiated: PrivateData::negotiate(&own, &server),
            address: info.and_then(|info| info.peer),
            reads_in: info.map_or(0, |info| info.reads_in),
        }
    }
}

/// The last connection's, shared with the callers.
#[derive(Clone, Debug)]
pub(super) struct LastPeer<P = Peer> {
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

/// What the server has said, and on which connection, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) connection: u64,
    pub(super) server: Stated,
}

/// Everything that the task owns.
pub(super) struct Driver<C> {
    session: Session,
    config: Config,
    connect: Option<Connect<C>>,
    connection: Option<C>,
    connecting: Option<Connecting<C>>,
    /// What calls of the server find, and those that there are on this connection.
    backward: Services,
    callee: Option<Callee>,
    peer: LastPeer,
    waiting: Waiting<CallId>,
    began: Instant,
    stats: ClientStats,
    counted: Counted,
}

impl<C: Connection> Driver<C> {
    /// A driver without a connection; without a way to make one either, it needs to be given one.
    pub(super) fn new(
        session: Session,
        config: Config,
        connect: Option<Connect<C>>,
        peer: LastPeer,
        backward: Services,
        stats: ClientStats,
    ) -> Self {
        Driver {
            session,
            config,
            connect,
            connection: None,
            connecting: None,
            backward,
            callee: None,
            peer,
            waiting: Waiting::default(),
            began: Instant::now(),
            stats,
            counted: Counted::default(),
        }
    }

    /// Has the calls use this connection.
    pub(super) fn connected(&mut self, connection: C) {
        let info = connection.info();
        let peer = Peer::new(&self.config, Some(info));
        debug!(peer = ?peer.address, negotiated = ?peer.negotiated, "connected");
        let config = fitted(self.config, info);
        let requester = Requester::new(config, peer.negotiated, info.max_region);
        self.callee = Callee::new(&self.backward, config, peer.negotiated, peer.address);
        self.peer.set(peer);
        self.connection = Some(connection);
        let now = self.now();
        self.session.handle_connected(now, requester);
    }

    /// Runs until the session is over; it closes it when every [`super::Client`] of it is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command<Said>>) {
        let mut clients = true;
        let mut alarm = Box::pin(sleep_until(self.began));
        loop {
            if self.work() {
                return;
            }
            self.count();
            let alarm = set(alarm.as_mut(), self.began, self.session.poll_timeout());
            tokio::select! {
                completion = hear(self.connection.as_mut()) => {
                    trace!(?completion, "hear");
                    let now = self.now();
                    let completion = match &mut self.callee {
                        Some(callee) => callee.take(completion),
                        None => Some(completion),
                    };
                    if let Some(completion) = completion {
                        self.session.handle_completion(now, completion);
                    }
                }
                () = answer(self.callee.as_mut()) => {}
                made = made(self.connecting.as_mut()) => {
                    self.connecting = None;
                    match made {
                        Ok(connection) => self.connected(connection),
                        Err(error) => self.connect_failed(&error),
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

    /// Publishes what has happened since the last time.
    fn count(&mut self) {
        let now = self.now();
        let before = self.counted;
        if before.queued > 0 {
            self.stats.waited(before.queued, now.since(before.at));
        }
        self.stats.session(self.session.counts());
        let Some(line) = self.session.line() else {
            self.counted = Counted { at: now, ..Counted::default() };
            return;
        };
        self.stats.granted(line.credits().granted());
        let (credit_waits, discarded) = (line.credit_waits(), line.discarded());
        // Another connection counts from 0 on.
        let beyond = |count: u64, before: u64| count.checked_sub(before).unwrap_or(count);
        self.stats.connection(beyond(credit_waits, before.credit_waits), beyond(discarded, before.discarded));
        self.counted = Counted { at: now, queued: line.queued(), credit_waits, discarded };
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// Does what the session asks for. True once it is over.
    fn work(&mut self) -> bool {
        if let (Some(callee), Some(connection)) = (&mut self.callee, &mut self.connection) {
            callee.work(connection);
        }
        while self.session.has_work() {
            while let Some(action) = self.session.poll_action() {
                trace!(?action, "ask");
                if let Some(connection) = &mut self.connection {
                    connection.submit(action);
                }
            }
            while let Some(event) = self.session.poll_event() {
                match event {
                    Event::Done { call, outcome } => self.waiting.end(call, outcome),
                    Event::Connect => self.connect(),
                    Event::Disconnected(reason) => {
                        debug!(%reason, "connection closed");
                        self.connection = None;
                        self.callee = None;
                    }
                    Event::Ended(reason) => {
                        debug!(%reason, "session ended");
                        return true;
                    }
                }
            }
        }
        false
    }

    fn connect(&mut self) {
        match &mut self.connect {
            Some(connect) => self.connecting = Some(connect()),
            None => {
                let now = self.now();
                self.session.handle_connect_failed(now, "it was given, and cannot be made again".to_owned());
            }
        }
    }

    fn connect_failed(&mut self, error: &ConnectError) {
        debug!(%error, "no connection");
        let now = self.now();
        self.session.handle_connect_failed(now, error.to_string());
    }

    fn obey(&mut self, command: Command<Said>) {
        let now = self.now();
        // What the server has said on one connection is nothing to the next.
        if let Some(Said { connection, server }) = self.waiting.obey(command, &mut self.session, now)
            && connection == self.peer.made()
            && let Some(requester) = self.session.line_mut()
        {
            requester.limit(server);
        }
    }
}

/// Sets the alarm to a moment, if there is one. One that rings too early does no harm and is cheaper than one that is
/// always put right.
pub(super) fn set(mut alarm: Pin<&mut Sleep>, began: Instant, at: Option<Time>) -> Option<Pin<&mut Sleep>> {
    let at = began.checked_add(at?.0)?;
    if at < alarm.deadline() || alarm.is_elapsed() {
        alarm.as_mut().reset(at);
    }
    Some(alarm)
}

async fn hear<C: Connection>(connection: Option<&mut C>) -> Completion {
    match connection {
        Some(connection) => poll_fn(|cx| connection.poll_completion(cx)).await,
        None => pending().await,
    }
}

async fn answer(callee: Option<&mut Callee>) {
    match callee {
        Some(callee) => callee.answer().await,
        None => pending().await,
    }
}

pub(super) async fn made<C>(connecting: Option<&mut Connecting<C>>) -> Result<C, ConnectError> {
    match connecting {
        Some(connecting) => connecting.await,
        None => pending().await,
    }
}

pub(super) async fn ring(alarm: Option<Pin<&mut Sleep>>) {
    match alarm {
        Some(alarm) => alarm.await,
        None => pending().await,
    }
}

/// What was published of the connection that stands.
#[derive(Clone, Copy, Default)]
struct Counted {
    at: Time,
    /// Calls that wait for a credit since then.
    queued: usize,
    credit_waits: u64,
    discarded: u64,
}
