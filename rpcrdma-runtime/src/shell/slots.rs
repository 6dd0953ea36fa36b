//! The connection slots of a server, with their owners and idle times.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::proto::owner::Owner;

/// The peers that may connect to a server. A server refuses connections from all other peers. Clones share
/// their state.
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

#[derive(Clone)]
pub(super) struct Slots(Arc<Shared>);

struct Shared {
    max: usize,
    max_per_owner: usize,
    makes_room: bool,
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

/// Minimum idle time after which a connection of any owner may be closed to make room. If a connection that
/// was asked to close does not end within this time, the server may close another connection.
const GRACE: Duration = Duration::from_secs(1);

/// Owners with at least this many more connections than the new connection's owner can lose connections that
/// have not been idle for [`GRACE`]. With a difference of 1, two owners could close each other's connections
/// in turn.
const EXCESS: usize = 2;

impl Slots {
    /// If `makes_room` is true, connections may be closed to make room for new connections.
    pub(super) fn new(max: usize, max_per_owner: usize, makes_room: bool) -> Self {
        let (start, state, changed) = (Instant::now(), Mutex::default(), Notify::new());
        let max_per_owner = max_per_owner.max(1);
        Slots(Arc::new(Shared { max, max_per_owner, makes_room, start, state, changed }))
    }

    /// Waits until a slot is free, or a connection can be closed for an owner without connections.
    pub(super) async fn available(&self) {
        let shared = &self.0;
        let is_available =
            |state: &State| state.connections.len() < shared.max || shared.replaceable(state, 0).is_some();
        self.wait(|state| is_available(state).then_some(())).await;
    }

    /// Waits for a slot for a connection from this address. If no slot is free, may close another connection:
    /// the connection that has been idle longest, if it has been idle for at least [`GRACE`]. If no
    /// connection has been idle that long, and [`EXCESS`] permits it, closes a connection of the owner with
    /// the most connections. This is the owner's least recently active idle connection, or else the owner's
    /// least recently active busy connection.
    ///
    /// Returns `None` if the owner of the new connection has reached its limit. Also returns `None` if a
    /// connection may be closed only for an owner with fewer connections: waiting would delay other owners.
    pub(super) async fn take(&self, address: IpAddr) -> Option<Slot> {
        let (owner, shared) = (Owner::from(address), &self.0);
        self.wait(|state| {
            let count = state.count(&owner);
            if count >= shared.max_per_owner {
                return Some(None);
            }
            if state.connections.len() < shared.max {
                return Some(Some(shared.insert(state, owner.clone(), address)));
            }
            let now = shared.now();
            if state.connections.values().any(|activity| activity.is_ending(now)) {
                return None;
            }
            match shared.replaceable(state, count) {
                Some(activity) => {
                    activity.close(now);
                    None
                }
                None => shared.replaceable(state, 0).map(|_| None),
            }
        })
        .await
    }

    pub(super) fn close_idle(&self, idle: Duration) {
        let now = self.0.now();
        let is_over = |activity: &&Arc<Activity>| {
            activity.idle_since().is_some_and(|since| now.saturating_sub(since) >= idle)
        };
        self.0.lock().connections.values().filter(is_over).for_each(|activity| activity.close(now));
    }

    pub(super) fn close_refused(&self, peers: &PeerFilter) {
        let now = self.0.now();
        let is_refused = |activity: &&Arc<Activity>| !peers.admits(activity.address);
        self.0.lock().connections.values().filter(is_refused).for_each(|activity| activity.close(now));
    }

    async fn wait<T>(&self, poll: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.0.changed.notified();
            if let Some(value) = poll(&mut self.0.lock()) {
                return value;
            }
            // The idle time of a connection can reach [`GRACE`] without a notification.
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

    fn insert(self: &Arc<Self>, state: &mut State, owner: Owner, address: IpAddr) -> Slot {
        state.last += 1;
        let number = state.last;
        *state.owners.entry(owner.clone()).or_default() += 1;
        let activity = Arc::new(Activity {
            owner,
            address,
            last_active: AtomicU64::new(micros(self.now())),
            is_idle: AtomicBool::new(true),
            closed: OnceLock::new(),
            close: Notify::new(),
        });
        state.connections.insert(number, activity.clone());
        Slot { shared: self.clone(), number, activity }
    }

    /// Returns the connection to close for a new connection of an owner with `count` connections, or `None`
    /// if no connection may be closed.
    fn replaceable<'a>(&self, state: &'a State, count: usize) -> Option<&'a Activity> {
        if !self.makes_room {
            return None;
        }
        self.most_idle(state).or_else(|| state.least_active_of_largest(count))
    }

    fn most_idle<'a>(&self, state: &'a State) -> Option<&'a Activity> {
        let connections = state.connections.values();
        let idle = connections.filter_map(|activity| Some((activity.idle_since()?, activity)));
        let (since, activity) = idle.min_by_key(|(since, _)| *since)?;
        (self.now().saturating_sub(since) >= GRACE).then_some(&**activity)
    }
}

impl State {
    fn count(&self, owner: &Owner) -> usize {
        self.owners.get(owner).copied().unwrap_or_default()
    }

    /// Returns the least recently active connection of the owners with the most connections. Prefers idle
    /// connections to busy connections, and skips connections that were asked to close. Returns `None` if
    /// these owners have fewer than `count + EXCESS` connections each.
    fn least_active_of_largest(&self, count: usize) -> Option<&Activity> {
        let most = *self.owners.values().max().filter(|most| **most >= count.saturating_add(EXCESS))?;
        let of_largest = self
            .connections
            .values()
            .filter(|activity| activity.closed.get().is_none() && self.count(&activity.owner) == most);
        let order = |activity: &&Arc<Activity>| {
            (activity.idle_since().is_none(), activity.last_active.load(Ordering::Relaxed))
        };
        of_largest.min_by_key(order).map(|activity| &**activity)
    }
}

struct Activity {
    owner: Owner,
    address: IpAddr,
    /// Microseconds from the start of the server to the last recorded activity of the connection.
    last_active: AtomicU64,
    /// False while calls arrive, run or have unsent replies, and while the server may call its client.
    is_idle: AtomicBool,
    /// When the connection was asked to close, measured from the start of the server.
    closed: OnceLock<Duration>,
    close: Notify,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    /// Returns the start of the idle time, measured from the start of the server. Returns `None` if the
    /// connection is busy or was asked to close.
    fn idle_since(&self) -> Option<Duration> {
        // `Acquire` makes the time of the last activity visible.
        let is_idle = self.is_idle.load(Ordering::Acquire) && self.closed.get().is_none();
        is_idle.then(|| Duration::from_micros(self.last_active.load(Ordering::Relaxed)))
    }

    /// Returns true if the connection was asked to close less than [`GRACE`] ago. Its slot should soon become
    /// free.
    fn is_ending(&self, now: Duration) -> bool {
        self.closed.get().is_some_and(|closed| now.saturating_sub(*closed) < GRACE)
    }

    fn close(&self, now: Duration) {
        let _ = self.closed.set(now);
        self.close.notify_one();
    }
}

/// The slot of one connection. Dropping this value frees the slot.
pub(super) struct Slot {
    shared: Arc<Shared>,
    number: u64,
    activity: Arc<Activity>,
}

impl Slot {
    /// Waits until the server decides to close the connection.
    pub(super) async fn closed(&self) {
        self.activity.close.notified().await;
    }

    /// Records activity, and sets whether the connection is idle.
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.activity.last_active.store(micros(self.shared.now()), Ordering::Relaxed);
        let was_idle = self.activity.is_idle.swap(is_idle, Ordering::AcqRel);
        if is_idle && !was_idle {
            self.shared.changed.notify_waiters();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.connections.remove(&self.number);
        let owner = &self.activity.owner;
        if let Some(count) = state.owners.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                state.owners.remove(owner);
            }
        }
        drop(state);
        self.shared.changed.notify_waiters();
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
        let (idle, later) = (slots.take(v4(2)).await.unwrap(), slots.take(v4(3)).await.unwrap());
        busy.set_idle(false);
        idle.set_idle(true);
        tokio::time::sleep(Duration::from_millis(2)).await;
        later.set_idle(true);
        let mut taking = Box::pin(slots.take(v4(4)));
        assert!(waits(&mut taking).await && waits(idle.closed()).await, "closed before GRACE");
        tokio::select! {
            _ = &mut taking => panic!("took a slot although none is free"),
            () = busy.closed() => panic!("closed a busy connection"),
            () = later.closed() => panic!("closed a connection that was idle for less time"),
            () = idle.closed() => {}
        }
        drop(idle);
        let third = taking.await.unwrap();
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

    async fn busy(slots: &Slots, owner: u8, count: usize) -> Vec<Slot> {
        let mut taken = Vec::new();
        for _ in 0..count {
            let slot = slots.take(v4(owner)).await.unwrap();
            slot.set_idle(false);
            taken.push(slot);
        }
        taken
    }

    #[tokio::test]
    async fn a_busy_owner_makes_room_for_another() {
        let slots = Slots::new(4, 8, true);
        let (mut heavy, other) = (busy(&slots, 1, 3).await, busy(&slots, 2, 1).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
        heavy[0].set_idle(false);
        // An idle connection is closed first, even if it is the most recently active connection.
        tokio::time::sleep(Duration::from_millis(2)).await;
        heavy[1].set_idle(true);
        timeout(GRACE / 2, slots.available()).await.unwrap();
        let mut taking = Box::pin(slots.take(v4(3)));
        tokio::select! {
            _ = &mut taking => panic!("took a slot although none is free"),
            () = heavy[0].closed() => panic!("closed a busy connection instead of the idle connection"),
            () = other[0].closed() => panic!("closed the only connection of an owner"),
            () = heavy[2].closed() => panic!("closed a busy connection instead of the idle connection"),
            closed = timeout(GRACE / 2, heavy[1].closed()) => closed.unwrap(),
        }
        assert!(waits(&mut taking).await && waits(heavy[2].closed()).await, "closed two connections");
        drop(heavy.remove(1));
        let third = timeout(GRACE, taking).await.unwrap().unwrap();
        third.set_idle(false);
        // Of the busy connections, the least recently active connection is closed first.
        let fourth = slots.take(v4(4));
        tokio::select! {
            _ = fourth => panic!("took a slot although none is free"),
            () = heavy[0].closed() => panic!("closed a more recently active connection"),
            closed = timeout(GRACE / 2, heavy[1].closed()) => closed.unwrap(),
        }
    }

    #[tokio::test]
    async fn owners_with_equal_shares_keep_their_slots() {
        let slots = Slots::new(4, 8, true);
        let mut taken = busy(&slots, 1, 2).await;
        taken.extend(busy(&slots, 2, 2).await);
        // These owners have the most connections. Further connections from them must not delay other owners.
        for owner in [1, 2] {
            assert!(timeout(GRACE / 2, slots.take(v4(owner))).await.unwrap().is_none());
        }
        for slot in &taken {
            assert!(waits(slot.closed()).await);
        }
        // A third owner takes a slot from one of these owners. The losing owner cannot take the slot back.
        let mut taking = Box::pin(slots.take(v4(3)));
        assert!(waits(&mut taking).await);
        let mut closed = Vec::new();
        for (at, slot) in taken.iter().enumerate() {
            if !waits(slot.closed()).await {
                closed.push(at);
            }
        }
        assert_eq!(closed.len(), 1, "{closed:?}");
        drop(taken.remove(closed[0]));
        let third = timeout(GRACE, taking).await.unwrap().unwrap();
        third.set_idle(false);
        let victim = if closed[0] < 2 { 1 } else { 2 };
        assert!(timeout(GRACE / 2, slots.take(v4(victim))).await.unwrap().is_none());
        assert!(waits(third.closed()).await);
        for slot in &taken {
            assert!(waits(slot.closed()).await);
        }
    }

    /// A handler that blocks delays the end of its connection.
    #[tokio::test]
    async fn a_connection_that_does_not_end_delays_another_only_briefly() {
        let slots = Slots::new(3, 8, true);
        let heavy = busy(&slots, 1, 3).await;
        let started = Instant::now();
        let replaced = async {
            heavy[0].closed().await;
            heavy[1].closed().await;
        };
        tokio::select! {
            _ = slots.take(v4(2)) => panic!("took a slot although none is free"),
            replaced = timeout(GRACE * 4, replaced) => replaced.unwrap(),
        }
        assert!(started.elapsed() >= GRACE);
    }

    #[tokio::test]
    async fn connections_without_an_idle_limit_are_kept() {
        let slots = Slots::new(3, 8, false);
        let taken = busy(&slots, 1, 3).await;
        assert!(waits(slots.available()).await && waits(slots.take(v4(2))).await);
        for slot in &taken {
            assert!(waits(slot.closed()).await);
        }
    }
}
