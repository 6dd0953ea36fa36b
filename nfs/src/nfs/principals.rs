use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::export::NfsCaller;

/// The time for which a user is cached.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Number of cached names at which all completed lookups are dropped.
const KEPT_MAX: usize = 4096;

/// Maps authenticated names of RPCSEC_GSS callers to users of this machine. A user is cached for a minute.
/// Concurrent calls share the lookup of a name, so each name occupies at most one thread.
#[derive(Clone)]
pub struct Principals(Arc<Inner>);

type Find = dyn Fn(&[u8]) -> Option<NfsCaller> + Send + Sync;

struct Inner {
    find: Box<Find>,
    kept: Mutex<HashMap<Bytes, Lookup>>,
}

/// The lookup of a name: `None` while the lookup runs, then its completion time and the user. If the lookup
/// panicked, the channel is closed without a value.
type Lookup = watch::Receiver<Option<(Instant, Option<NfsCaller>)>>;

fn is_running(lookup: &Lookup) -> bool {
    lookup.borrow().is_none() && lookup.has_changed().is_ok()
}

impl Principals {
    /// Uses `find`, which may block, to look up the user of a name. A caller whose name has no user is
    /// anonymous.
    pub fn new(find: impl Fn(&[u8]) -> Option<NfsCaller> + Send + Sync + 'static) -> Self {
        Principals(Arc::new(Inner { find: Box::new(find), kept: Mutex::default() }))
    }

    pub(super) async fn user(&self, name: &Bytes) -> Option<NfsCaller> {
        let mut lookup = self.lookup(name);
        let found = lookup.wait_for(Option::is_some).await.ok()?;
        found.as_ref().and_then(|(_, user)| user.clone())
    }

    fn lookup(&self, name: &Bytes) -> Lookup {
        let mut kept = self.kept();
        if let Some(lookup) = kept.get(name) {
            let is_recent = lookup.borrow().as_ref().is_some_and(|(end, _)| end.elapsed() < KEPT_FOR);
            if is_recent || is_running(lookup) {
                return lookup.clone();
            }
        }
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, lookup| is_running(lookup));
        }
        let (sender, lookup) = watch::channel(None);
        kept.insert(name.clone(), lookup.clone());
        let (own, name) = (self.clone(), name.clone());
        // Runs to completion even if all calls that wait for the user are abandoned.
        tokio::task::spawn_blocking(move || {
            let user = (own.0.find)(&name);
            sender.send_replace(Some((Instant::now(), user)));
        });
        lookup
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Bytes, Lookup>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Principals {
    /// Returns a mapping without users.
    fn default() -> Self {
        Principals::new(|_| None)
    }
}

impl fmt::Debug for Principals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principals").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn alice() -> NfsCaller {
        NfsCaller { uid: 1000, gid: 100, gids: vec![4] }
    }

    #[tokio::test]
    async fn calls_share_the_lookup_of_a_name() {
        let lookups = Arc::new(AtomicUsize::new(0));
        let (release, held) = mpsc::channel::<()>();
        let (counted, held) = (lookups.clone(), Mutex::new(held));
        let principals = Principals::new(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            // Blocks until the test drops `release`.
            let _ = held.lock().unwrap().recv();
            (name == b"alice").then(alice)
        });
        let call = || {
            let principals = principals.clone();
            tokio::spawn(async move { principals.user(&"alice".into()).await })
        };
        let abandoned: Vec<_> = (0..100).map(|_| call()).collect();
        tokio::task::yield_now().await;
        for call in abandoned {
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        }
        let waiting = [call(), call()];
        tokio::task::yield_now().await;
        drop(release);
        for call in waiting {
            assert_eq!(call.await.unwrap(), Some(alice()));
        }
        assert_eq!(principals.user(&"alice".into()).await, Some(alice()));
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_lookup_that_panicked_is_repeated() {
        let lookups = AtomicUsize::new(0);
        let principals = Principals::new(move |_| {
            assert!(lookups.fetch_add(1, Ordering::SeqCst) > 0, "the first lookup fails");
            Some(alice())
        });
        assert_eq!(principals.user(&"alice".into()).await, None);
        assert_eq!(principals.user(&"alice".into()).await, Some(alice()));
    }
}
