use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::export::NfsCaller;

/// How long a user is cached.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Maximum number of cached users.
const KEPT_MAX: usize = 4096;

/// Maps the names that RPCSEC_GSS proves to users of this machine. A user is cached for a minute.
#[derive(Clone)]
pub struct Principals(Arc<Inner>);

/// Finds the user of a name.
type Find = dyn Fn(&[u8]) -> Option<NfsCaller> + Send + Sync;

struct Inner {
    find: Box<Find>,
    kept: Mutex<HashMap<Bytes, (Instant, Option<NfsCaller>)>>,
}

impl Principals {
    /// Uses `find`, which may block, to look up the user of a name. Names without a user are anonymous.
    pub fn new(find: impl Fn(&[u8]) -> Option<NfsCaller> + Send + Sync + 'static) -> Self {
        Principals(Arc::new(Inner { find: Box::new(find), kept: Mutex::default() }))
    }

    /// Returns the user of a name.
    pub(super) async fn user(&self, name: &Bytes) -> Option<NfsCaller> {
        if let Some((found, user)) = self.kept().get(name)
            && found.elapsed() < KEPT_FOR
        {
            return user.clone();
        }
        let (own, requested) = (self.clone(), name.clone());
        let user = tokio::task::spawn_blocking(move || (own.0.find)(&requested)).await.ok().flatten();
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(name.clone(), (Instant::now(), user.clone()));
        user
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Bytes, (Instant, Option<NfsCaller>)>> {
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
