/// Flow control of a requester (RFC 8166 section 3.3.1): how many calls may be unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    asked: u32,
    granted: u32,
    in_flight: u32,
    /// Of these, calls that were sent and have no reply.
    unanswered: u32,
}

impl Credits {
    /// On a new connection one call may be made, until a reply says more (RFC 8166 section 3.3.3).
    #[must_use]
    pub fn new(asked: u32) -> Self {
        Credits { asked: asked.max(1), granted: 1, in_flight: 0, unanswered: 0 }
    }

    /// What every call asks for.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// What the responder grants, kept between 1 and what was asked for.
    #[must_use]
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Calls that have a credit: from before their memory is advertised until it is fenced.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Takes a credit, if there is one.
    #[must_use]
    pub fn take(&mut self) -> bool {
        let free = self.in_flight < self.granted;
        if free {
            self.in_flight = self.in_flight.saturating_add(1);
        }
        free
    }

    /// Sends a call that has a credit, unless so many are unanswered as are granted now: that may be fewer than when it
    /// got its credit (RFC 8166 section 3.3.1).
    #[must_use]
    pub fn send(&mut self) -> bool {
        let free = self.unanswered < self.granted;
        if free {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        free
    }

    /// A call that was sent has its reply.
    pub fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// A call has ended.
    pub fn give_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A reply grants: 0 counts as 1, more than was asked for as what was asked for.
    pub fn grant(&mut self, granted: u32) {
        self.granted = granted.clamp(1, self.asked);
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
    fn r025_a_smaller_grant_holds_back_until_enough_ended() {
        let mut credits = Credits::new(8);
        credits.grant(4);
        assert!((0..4).all(|_| credits.take()));
        credits.grant(2);
        credits.give_back();
        credits.give_back();
        assert!(!credits.take(), "two are in flight and two are granted");
        credits.give_back();
        assert!(credits.take());
    }

    /// Requirement: R025
    #[test]
    fn a_call_that_has_its_credit_is_not_sent_into_a_grant_that_shrank() {
        let mut credits = Credits::new(8);
        credits.grant(2);
        assert!(credits.take() && credits.take() && credits.send());
        credits.grant(1);
        assert!(!credits.send(), "one is granted, and one is unanswered");
        credits.answered();
        assert!(credits.send());
    }

    /// Requirement: R026
    #[test]
    fn h62_zero_is_one_and_excess_is_what_was_asked_for() {
        let mut credits = Credits::new(8);
        credits.grant(0);
        assert_eq!(credits.granted(), 1);
        credits.grant(u32::MAX);
        assert_eq!(credits.granted(), 8);
    }
}
