//! The tables of attacks, and the code that all attacks share.
//!
//! The attacks affect a running server's memory, connections, storage and latency. Named tests cover the
//! other rows of the threat model in SECURITY.md, for example identities, privileges, hostile servers and
//! hostile documents. `nfs/tests/slow_storage.rs` also covers storage that responds only after the test
//! releases it.

mod connections;
mod memory;
mod messages;
mod storage;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rpcrdma_nfs3::NfsFh3;
use rpcrdma_runtime::TcpClient;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::Goal::{Arrivals, Completed, Connections, Memory, MemoryAndCompleted};
use self::memory::LastMib::{Slow, Withheld};
use crate::daemon::{Daemon, SLOW_FILES, slow_file};
use crate::honest::{lookup, root};
use crate::prefix::Prefix;

/// An attack, which ends when its future is dropped.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) goal: Goal,
    pub(crate) run: fn(Target) -> Running,
}

/// The effect that an attack must have, because an attack without effect proves nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The server counts at least this many MiB toward its memory budget.
    Memory(u64),
    /// The server has at least this many connections at the same time.
    Connections(usize),
    /// The server establishes or rejects at least this many connections.
    Arrivals(u64),
    /// At least this many attempts end without an error.
    Completed(u64),
    /// Both [`Goal::Memory`] and [`Goal::Completed`].
    MemoryAndCompleted(u64, u64),
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Infallible> + Send>>;

#[rustfmt::skip] // a table
pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "garbage", goal: Arrivals(100), run: |at| Box::pin(messages::garbage(at)) },
    Attack { name: "oversized private data", goal: Arrivals(100), run: |at| Box::pin(messages::oversized_private_data(at)) },
    Attack { name: "foreign RDMA handles", goal: Arrivals(100), run: |at| Box::pin(messages::foreign_rdma_handles(at)) },
    Attack { name: "foreign file handles", goal: Completed(4), run: |at| Box::pin(messages::foreign_file_handles(at)) },
    Attack { name: "half-open connections", goal: Connections(1000), run: |at| Box::pin(connections::half_open(at)) },
    Attack { name: "slow handshakes", goal: Connections(1000), run: |at| Box::pin(connections::slow_handshakes(at)) },
    Attack { name: "refused addresses", goal: Arrivals(1000), run: |at| Box::pin(connections::refused(at)) },
    Attack { name: "idle over RDMA", goal: Connections(1000), run: |at| Box::pin(connections::idle_over_rdma(at)) },
    Attack { name: "idle over TCP", goal: Connections(1000), run: |at| Box::pin(connections::idle_over_tcp(at)) },
    Attack { name: "busy connections", goal: Connections(1000), run: |at| Box::pin(connections::busy(at)) },
    Attack { name: "unread replies, one host", goal: Memory(20), run: |at| Box::pin(memory::unread_over_rdma(at, 1)) },
    Attack { name: "unread replies, ten hosts", goal: Memory(36), run: |at| Box::pin(memory::unread_over_rdma(at, 10)) },
    Attack { name: "small replies, one host", goal: Memory(20), run: |at| Box::pin(memory::small_unread_over_rdma(at, 1, 100)) },
    Attack { name: "small replies, ten hosts", goal: Memory(36), run: |at| Box::pin(memory::small_unread_over_rdma(at, 10, 100)) },
    Attack { name: "waiting calls", goal: Memory(36), run: |at| Box::pin(memory::waiting_over_rdma(at)) },
    Attack { name: "unread replies over TCP", goal: Memory(36), run: |at| Box::pin(memory::unread_over_tcp(at)) },
    Attack { name: "slow readers over RDMA", goal: MemoryAndCompleted(36, 3), run: |at| Box::pin(memory::slow_over_rdma(at)) },
    Attack { name: "slow readers over TCP", goal: MemoryAndCompleted(36, 3), run: |at| Box::pin(memory::slow_over_tcp(at)) },
    Attack { name: "unfinished Read chunks", goal: Memory(36), run: |at| Box::pin(memory::unfinished_chunks(at, Withheld)) },
    Attack { name: "unfinished records", goal: Memory(36), run: |at| Box::pin(memory::unfinished_records(at, Withheld)) },
    Attack { name: "slow senders over RDMA", goal: MemoryAndCompleted(36, 3), run: |at| Box::pin(memory::unfinished_chunks(at, Slow)) },
    Attack { name: "slow senders over TCP", goal: MemoryAndCompleted(36, 3), run: |at| Box::pin(memory::unfinished_records(at, Slow)) },
    Attack { name: "abandoned writes", goal: Completed(10), run: |at| Box::pin(storage::abandoned_writes(at)) },
    Attack { name: "stable writes to one file", goal: Completed(10), run: |at| Box::pin(storage::stable_writes(at)) },
    Attack { name: "writes past the file limit", goal: Completed(10), run: |at| Box::pin(storage::past_file_limit(at)) },
    Attack { name: "removed files", goal: Completed(500), run: |at| Box::pin(storage::removed_files(at)) },
];

/// An attack that needs privileges.
pub(crate) struct Privileged {
    pub(crate) attack: Attack,
    /// The address at which the server listens.
    pub(crate) server: IpAddr,
    /// Returns an error if the machine does not allow the attack. Otherwise, returns the prefix that must
    /// exist during the attack, if any.
    pub(crate) prepare: fn() -> anyhow::Result<Option<Prefix>>,
}

pub(crate) const PRIVILEGED_ATTACKS: &[Privileged] = &[
    Privileged {
        attack: Attack {
            name: "idle, one IPv6 prefix",
            goal: Connections(200),
            run: |at| Box::pin(connections::idle_from_one_prefix(at)),
        },
        server: IpAddr::V6(Ipv6Addr::LOCALHOST),
        prepare: || Prefix::add().map(Some),
    },
    Privileged {
        attack: Attack {
            name: "slow storage",
            goal: MemoryAndCompleted(36, 10),
            run: |at| Box::pin(storage::slow_storage(at)),
        },
        server: IpAddr::V4(Ipv4Addr::LOCALHOST),
        prepare: || storage::can_delay_opens().map(|()| None),
    },
];

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) rdma: SocketAddr,
    pub(crate) tcp: SocketAddr,
    pub(crate) root: NfsFh3,
    pub(crate) large: NfsFh3,
    pub(crate) shared: NfsFh3,
    pub(crate) slow: Arc<[NfsFh3]>,
    pub(crate) served: PathBuf,
    effort: Arc<Effort>,
}

#[derive(Default)]
pub(crate) struct Effort {
    pub(crate) attempts: AtomicU64,
    pub(crate) completed: AtomicU64,
    /// The error of the first failed attempt.
    pub(crate) first_error: Mutex<Option<String>>,
    pub(crate) breach: Mutex<Option<String>>,
    /// The first XID that [`Target::new_xids`] has not returned.
    next_xid: AtomicU32,
}

/// The pause of a task between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

impl Target {
    pub(crate) async fn find(daemon: &Daemon) -> anyhow::Result<Self> {
        let (rdma, tcp) = (daemon.rdma, daemon.tcp);
        let connection = TcpClient::connect(tcp).await?.into();
        let root = root(&connection).await?;
        let large = lookup(&connection, &root, "large").await?;
        let shared = lookup(&connection, &root, "shared").await?;
        let mut slow = Vec::new();
        for number in 0..SLOW_FILES {
            slow.push(lookup(&connection, &root, &slow_file(number)).await?);
        }
        let (slow, served) = (slow.into(), daemon.served());
        Ok(Target { rdma, tcp, root, large, shared, slow, served, effort: Arc::default() })
    }

    pub(crate) fn with_new_effort(&self) -> Self {
        Target { effort: Arc::default(), ..self.clone() }
    }

    pub(crate) fn effort(&self) -> &Arc<Effort> {
        &self.effort
    }

    pub(crate) fn record_breach(&self, how: String) {
        self.effort.breach.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(how);
    }

    /// Returns XIDs that this method has not returned before during the attack. The server rejects the XIDs
    /// of calls whose RDMA Reads or Writes may have ended an earlier connection of the same host.
    pub(crate) fn new_xids(&self, count: u32) -> Range<u32> {
        let first = self.effort.next_xid.fetch_add(count, Ordering::Relaxed);
        first..first.saturating_add(count)
    }

    /// Runs this many concurrent tasks, each of which repeats `attempt` with its own number. Attempts
    /// may fail.
    pub(crate) async fn repeat<Attempt>(
        self,
        tasks: usize,
        attempt: impl Fn(Target, usize) -> Attempt + Clone + Send + 'static,
    ) -> Infallible
    where
        Attempt: Future<Output = anyhow::Result<()>> + Send,
    {
        let mut running = JoinSet::new();
        for number in 0..tasks {
            let (target, attempt) = (self.clone(), attempt.clone());
            running.spawn(async move {
                loop {
                    let outcome = attempt(target.clone(), number).await;
                    target.effort.attempts.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = outcome {
                        let mut first =
                            target.effort.first_error.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert_with(|| format!("{error:#}"));
                    } else {
                        target.effort.completed.fetch_add(1, Ordering::Relaxed);
                    }
                    sleep(PAUSE).await;
                }
            });
        }
        loop {
            running.join_next().await;
        }
    }
}
