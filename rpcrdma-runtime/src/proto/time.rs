//! Time as the engines know it: what their owner says it is.

use core::time::Duration;

/// A moment, as the time since a beginning that the engine's owner chooses. It comes from a clock that never goes back
/// (or from a simulation); an engine reads none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

impl Time {
    /// The moment this much later; none if it is too far away to be told.
    #[must_use]
    pub fn after(self, duration: Duration) -> Option<Time> {
        self.0.checked_add(duration).map(Time)
    }

    /// How long it is from an earlier moment to this one; nothing from a later one.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
