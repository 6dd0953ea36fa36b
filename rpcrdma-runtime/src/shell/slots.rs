//! The slots for connections of a server, their owners, and their idle times.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::proto::owner::Owner;

/// The peers that may connect to a server. A server closes the connection of any other peer before it takes
/// a slot. Clones share their state.
#[derive(Clone)]
pub struct PeerFilter {
    admits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    changed: watch::Sender<()>,
}

impl PeerFilter {
    /// Returns a filter that admits the addresses for which `admits` returns true. The default admits every
    /// address.
    pub fn new(admits: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        PeerFilter { admits: Arc::new(admits), changed: watch::Sender::default() }
    }

    /// Closes the connections of peers that the filter no longer admits, without replies to their calls.
    pub fn recheck(&self) {
        self.changed.send_replace(());
    }

    pub(super) fn admits(&self, address: IpAddr) -> bool {
        (self.admits)(address.to_canonical())
    }

    /// Returns a receiver that is notified of each [`PeerFilter::recheck`].
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Default for PeerFilter {
    fn default() -> Self {
        PeerFilter::new(|_| true)
    }
}

impl fmt::Debug for PeerFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerFilter").finish_non_exhaustive()
    }
}

/// The slots for connections of one server.
#[derive(Clone)]
pub(super) struct Slots(Arc<Shared>);

struct Shared {
    max: usize,
    max_per_owner: usize,
    /// Idle connections are closed to make room for new ones.
    closes_idle: bool,
    start: Instant,
    state: Mutex<State>,
    /// Notified when a slot becomes free or a connection becomes idle.
    changed: Notify,
}

#[derive(Default)]
struct State {
    connections: HashMap<u64, Arc<Activity>>,
    owners: HashMap<Owner, usize>,
    last: u64,
}

/// Minimum idle time before a connection is closed to make room for another one.
const GRACE: Duration = Duration::from_secs(1);

impl Slots {
    pub(super) fn new(max: usize, max_per_owner: usize, closes_idle: bool) -> Self {
        let (start, state, changed) = (Instant::now(), Mutex::default(), Notify::new());
        let max_per_owner = max_per_owner.max(1);
        Slots(Arc::new(Shared { max, max_per_owner, closes_idle, start, state, changed }))
    }

    /// Waits until a slot is free or a connection is idle.
    pub(super) async fn available(&self) {
        self.wait(|state| state.connections.len() < self.0.max || self.0.most_idle(state).is_some()).await;
    }

    /// Takes a slot for a connection from this address. Returns `None` if its owner has reached its limit.
    /// If no slot is free, closes the connection that has been idle longest.
    pub(super) async fn take(&self, address: IpAddr) -> Option<Slot> {
        let owner = Owner::from(address);
        let is_refused =
            |state: &State| state.owners.get(&owner).is_some_and(|count| *count >= self.0.max_per_owner);
        self.wait(|state| {
            let is_free = is_refused(state) || state.connections.len() < self.0.max;
            if !is_free && let Some(activity) = self.0.most_idle(state) {
                activity.close();
            }
            is_free
        })
        .await;
        let mut state = self.0.lock();
        if is_refused(&state) {
            return None;
        }
        state.last += 1;
        let number = state.last;
        *state.owners.entry(owner.clone()).or_default() += 1;
        let activity = Arc::new(Activity { address, idle_since: AtomicU64::new(0), close: Notify::new() });
        state.connections.insert(number, activity.clone());
        drop(state);
        let slot = Slot { shared: self.0.clone(), owner, number, activity };
        slot.set_idle(true);
        Some(slot)
    }

    /// Closes the connections that have been idle for this long.
    pub(super) fn close_idle(&self, idle: Duration) {
        let now = self.0.now();
        let is_over = |activity: &&Arc<Activity>| {
            activity.idle_since().is_some_and(|since| now.saturating_sub(since) >= idle)
        };
        self.0.lock().connections.values().filter(is_over).for_each(|activity| activity.close());
    }

    /// Closes the connections of peers that may no longer connect.
    pub(super) fn close_refused(&self, peers: &PeerFilter) {
        let is_refused = |activity: &&Arc<Activity>| !peers.admits(activity.address);
        self.0.lock().connections.values().filter(is_refused).for_each(|activity| activity.close());
    }

    /// Waits until the condition holds.
    async fn wait(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if holds(&self.0.lock()) {
                return;
            }
            // A connection can reach the grace period without a notification.
            let _ = timeout(GRACE / 8, changed).await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the connection that has been idle longest, if it has been idle for at least [`GRACE`].
    fn most_idle<'a>(&self, state: &'a State) -> Option<&'a Activity> {
        let connections = state.connections.values().filter(|_| self.closes_idle);
        let idle = connections.filter_map(|activity| Some((activity.idle_since()?, activity)));
        let (since, activity) = idle.min_by_key(|(since, _)| *since)?;
        (self.now().saturating_sub(since) >= GRACE).then_some(&**activity)
    }
}

/// The peer and the idle time of a connection, and the request to close it.
struct Activity {
    address: IpAddr,
    /// Microseconds from the start of the server to the end of the last call or the start of the
    /// connection. [`BUSY`] while calls run, while the server may call its client, and once the connection
    /// is closed.
    idle_since: AtomicU64,
    close: Notify,
}

const BUSY: u64 = u64::MAX;

impl Activity {
    fn idle_since(&self) -> Option<Duration> {
        let since = self.idle_since.load(Ordering::Relaxed);
        (since != BUSY).then(|| Duration::from_micros(since))
    }

    fn close(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
        self.close.notify_one();
    }
}

/// The slot of one connection. Dropping it frees the slot.
pub(super) struct Slot {
    shared: Arc<Shared>,
    owner: Owner,
    number: u64,
    activity: Arc<Activity>,
}

impl Slot {
    /// Waits until the server needs the slot, the connection has been idle for too long, or its peer may no
    /// longer connect.
    pub(super) async fn closed(&self) {
        self.activity.close.notified().await;
    }

    /// Sets whether the connection is idle.
    pub(super) fn set_idle(&self, is_idle: bool) {
        let since = if is_idle { u64::try_from(self.shared.now().as_micros()).unwrap_or(BUSY) } else { BUSY };
        let before = self.activity.idle_since.swap(since, Ordering::Relaxed);
        if is_idle && before == BUSY {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.connections.remove(&self.number);
        if let Some(count) = state.owners.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                state.owners.remove(&self.owner);
            }
        }
        drop(state);
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// Returns true if a future is still pending after 20 ms.
    async fn waits(future: impl Future) -> bool {
        timeout(Duration::from_millis(20), future).await.is_err()
    }

    #[tokio::test]
    async fn slots_per_owner_are_limited() {
        let slots = Slots::new(8, 2, true);
        let (_first, second) = (slots.take(v4(1)).await.unwrap(), slots.take(v4(1)).await);
        assert!(slots.take(v4(1)).await.is_none());
        let _other = slots.take(v4(2)).await.unwrap();
        drop(second);
        assert!(slots.take(v4(1)).await.is_some());
    }

    #[tokio::test]
    async fn addresses_of_one_ipv6_prefix_share_their_slots() {
        let slots = Slots::new(8, 2, true);
        let take = async |text: &str| slots.take(text.parse().unwrap()).await;
        let (first, second) = (take("2001:db8::1").await, take("2001:db8::ffff:0:0:2").await);
        assert!(first.is_some() && second.is_some());
        assert!(take("2001:db8::3").await.is_none());
        assert!(take("2001:db8:0:1::1").await.is_some(), "another prefix");
        drop(first);
        assert!(take("2001:db8::3").await.is_some());
    }

    /// Requirement: H72
    #[tokio::test]
    async fn the_longest_idle_connection_is_closed_for_a_new_one() {
        let slots = Slots::new(3, 8, true);
        let busy = slots.take(v4(1)).await.unwrap();
        let (idle, later) = (slots.take(v4(2)).await.unwrap(), slots.take(v4(2)).await.unwrap());
        busy.set_idle(false);
        idle.set_idle(true);
        tokio::time::sleep(Duration::from_millis(2)).await;
        later.set_idle(true);
        let mut taking = Box::pin(slots.take(v4(3)));
        assert!(waits(&mut taking).await && waits(idle.closed()).await, "closed before GRACE");
        tokio::select! {
            _ = &mut taking => panic!("took a slot although none is free"),
            () = busy.closed() => panic!("closed a busy connection"),
            () = later.closed() => panic!("closed a connection that was idle for less time"),
            () = idle.closed() => {}
        }
        drop(idle);
        let third = taking.await.unwrap();
        // Without a free slot or an idle connection, a server accepts no connection.
        third.set_idle(false);
        later.set_idle(false);
        assert!(waits(slots.available()).await);
        busy.set_idle(true);
        slots.available().await;
        assert!(slots.0.most_idle(&slots.0.lock()).is_some());
    }

    #[tokio::test]
    async fn busy_connections_are_not_closed_as_idle() {
        let slots = Slots::new(2, 8, true);
        let (busy, idle) = (slots.take(v4(1)).await.unwrap(), slots.take(v4(1)).await.unwrap());
        busy.set_idle(false);
        slots.close_idle(Duration::from_secs(60));
        assert!(waits(idle.closed()).await);
        slots.close_idle(Duration::ZERO);
        idle.closed().await;
        assert!(waits(busy.closed()).await);
    }
}
