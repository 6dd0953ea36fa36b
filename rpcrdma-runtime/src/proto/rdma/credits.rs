/// Flow control of a requester (RFC 8166 section 3.3.1): limits the number of unanswered calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    requested: u32,
    granted: u32,
    outstanding: u32,
    /// The number of sent calls without a reply. `outstanding` includes these calls.
    unanswered: u32,
}

impl Credits {
    /// Creates the state of a new connection. One call is allowed until a reply grants more (RFC 8166
    /// section 3.3.3).
    #[must_use]
    pub fn new(requested: u32) -> Self {
        Credits { requested: requested.max(1), granted: 1, outstanding: 0, unanswered: 0 }
    }

    /// Returns the number of credits that every call requests.
    #[must_use]
    pub fn requested(&self) -> u32 {
        self.requested
    }

    /// Returns the number of granted credits, between 1 and the requested number.
    #[must_use]
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns the number of calls with a credit. A call keeps its credit until its memory is fenced.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Takes a credit. Returns false if no credit is free.
    #[must_use]
    pub fn take(&mut self) -> bool {
        let free = self.outstanding < self.granted;
        if free {
            self.outstanding = self.outstanding.saturating_add(1);
        }
        free
    }

    /// Returns true if a call with a credit may be sent. In that case, also counts the call as sent. The
    /// grant may have shrunk since the call got its credit (RFC 8166 section 3.3.1).
    #[must_use]
    pub fn send(&mut self) -> bool {
        let free = self.unanswered < self.granted;
        if free {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        free
    }

    /// Records the reply to a sent call.
    pub fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// Releases the credit of a completed call.
    pub fn release(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Applies the grant of a reply: 0 counts as 1, and the requested number is the maximum.
    pub fn grant(&mut self, granted: u32) {
        self.granted = granted.clamp(1, self.requested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r030_one_credit_until_a_reply_grants_more() {
        let mut credits = Credits::new(8);
        assert!(credits.take() && !credits.take());
        credits.grant(3);
        assert!(credits.take() && credits.take() && !credits.take());
    }

    /// Requirement: R026, R027
    #[test]
    fn r025_a_smaller_grant_delays_calls_until_enough_have_completed() {
        let mut credits = Credits::new(8);
        credits.grant(4);
        assert!((0..4).all(|_| credits.take()));
        credits.grant(2);
        credits.release();
        credits.release();
        assert!(!credits.take(), "two calls are outstanding, and two credits are granted");
        credits.release();
        assert!(credits.take());
    }

    /// Requirement: R025
    #[test]
    fn a_call_with_a_credit_waits_after_the_grant_shrank() {
        let mut credits = Credits::new(8);
        credits.grant(2);
        assert!(credits.take() && credits.take() && credits.send());
        credits.grant(1);
        assert!(!credits.send(), "one credit is granted, and one call is unanswered");
        credits.answered();
        assert!(credits.send());
    }

    /// Requirement: R023, R026
    #[test]
    fn h62_zero_credits_count_as_one_and_excess_is_capped() {
        let mut credits = Credits::new(8);
        credits.grant(0);
        assert_eq!(credits.granted(), 1);
        credits.grant(u32::MAX);
        assert_eq!(credits.granted(), 8);
    }
}
