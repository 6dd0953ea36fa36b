//! Credits as somebody sees them who looks at the wire between two ends.

use crate::framed::{Frame, Splitter};

/// Counts calls and replies of one connection over iWARP, from its first byte.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    /// What goes to the server, and what comes from it.
    ends: [Splitter; 2],
    /// Calls that have no reply, as far as both went by here.
    in_flight: u32,
    /// What the last reply granted; 1 before the first.
    granted: u32,
    /// The most calls without a reply.
    pub(crate) most_in_flight: u32,
    /// The most that was granted.
    pub(crate) most_granted: u32,
    /// Calls that went by when there were as many in flight as were granted. Replies are seen here before the client
    /// sees them, calls after it has sent them, so what is counted here was so at the client, too.
    pub(crate) too_many: u32,
}

impl Credits {
    /// Looks at bytes on their way.
    pub(crate) fn see(&mut self, to_server: bool, bytes: &[u8]) {
        for Frame { opening, octets } in self.ends[usize::from(!to_server)].take(bytes) {
            // An untagged message to the queue of Sends, from its beginning.
            let is_send = octets.len() >= 40
                && octets[2] & 0x80 == 0
                && octets[8..12] == [0; 4]
                && octets[16..20] == [0; 4];
            if !opening && is_send {
                let credits = u32::from_be_bytes(octets[28..32].try_into().unwrap());
                self.message(to_server, credits);
            }
        }
    }

    fn message(&mut self, to_server: bool, credits: u32) {
        if to_server {
            self.too_many += u32::from(self.in_flight >= self.granted.max(1));
            self.in_flight += 1;
            self.most_in_flight = self.most_in_flight.max(self.in_flight);
        } else {
            self.in_flight -= 1;
            self.granted = credits;
            self.most_granted = self.most_granted.max(credits);
        }
    }
}

#[test]
fn calls_are_counted_in_frames_that_come_in_pieces() {
    let opening = [&b"MPA ID Req Frame\x00\x01\x00\x04"[..], b"1234"].concat();
    let message = |credits: u8| {
        let mut frame = vec![0, 34, 0x41, 0x43];
        frame.extend([0; 20]);
        frame.extend([0, 0, 0, 1, 0, 0, 0, credits]);
        frame.resize(36 + 4, 0);
        frame
    };
    let mut credits = Credits::default();
    for byte in [opening.clone(), message(7), message(7)].concat() {
        credits.see(true, &[byte]);
    }
    assert_eq!((credits.most_in_flight, credits.too_many), (2, 1), "1 is granted before the first reply");
    credits.see(false, &[opening, message(3)].concat());
    credits.see(true, &[message(7), message(7), message(7)].concat());
    assert_eq!((credits.most_in_flight, credits.most_granted, credits.too_many), (4, 3, 2));
}
