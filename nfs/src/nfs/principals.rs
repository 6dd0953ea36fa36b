use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::export::Caller;

/// How long a user is kept.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Maximum number of kept users.
const KEPT_MAX: usize = 4096;

/// The users of this machine behind the names that RPCSEC_GSS proves. A user is kept for a minute.
#[derive(Clone)]
pub struct Principals(Arc<Inner>);

/// Finds the user of a name.
type Find = dyn Fn(&[u8]) -> Option<Caller> + Send + Sync;

struct Inner {
    find: Box<Find>,
    kept: Mutex<HashMap<Bytes, (Instant, Option<Caller>)>>,
}

impl Principals {
    /// Asks `find`, which may block, for the user of a name. Names without a user are anonymous.
    pub fn new(find: impl Fn(&[u8]) -> Option<Caller> + Send + Sync + 'static) -> Self {
        Principals(Arc::new(Inner { find: Box::new(find), kept: Mutex::default() }))
    }

    /// Returns the user of a name.
    pub(super) async fn user(&self, name: &Bytes) -> Option<Caller> {
        if let Some((found, user)) = self.kept().get(name)
            && found.elapsed() < KEPT_FOR
        {
            return user.clone();
        }
        let (own, asked) = (self.clone(), name.clone());
        let user = tokio::task::spawn_blocking(move || (own.0.find)(&asked)).await.ok().flatten();
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(name.clone(), (Instant::now(), user.clone()));
        user
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Bytes, (Instant, Option<Caller>)>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Principals {
    /// No name has a user.
    fn default() -> Self {
        Principals::new(|_| None)
    }
}

impl fmt::Debug for Principals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principals").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}
