//! The time that an engine's owner supplies.

use core::time::Duration;

/// A moment, as the duration since an origin that the engine's owner chooses. The owner reads the time from a
/// monotonic clock or a simulation. Engines do not read a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

impl Time {
    /// Returns the moment that is `duration` later, or `None` on overflow.
    #[must_use]
    pub fn after(self, duration: Duration) -> Option<Time> {
        self.0.checked_add(duration).map(Time)
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is later than this moment.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
