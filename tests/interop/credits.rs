//! Observes credits in a relay between a client and a server.

use crate::framed::{Frame, Splitter};

/// The calls in flight and the granted credits of one iWARP connection. All bytes of the connection, from the
/// first, must be passed to [`Credits::see`].
#[derive(Debug, Default)]
pub(crate) struct Credits {
    /// The splitters for the bytes to the server (index 0) and from the server (index 1).
    splitters: [Splitter; 2],
    in_flight: u32,
    /// The credits that the last reply granted. Before the first reply, 1 credit is assumed.
    granted: u32,
    pub(crate) max_in_flight: u32,
    pub(crate) max_granted: u32,
    /// The number of calls that were sent although all granted credits were in use.
    ///
    /// The relay sees a reply before the client receives it, and a call after the client has sent it.
    /// Unless the server lowers the grant, a call that exceeds the grant at the relay therefore also exceeds
    /// the grant at the client.
    pub(crate) over_grant: u32,
}

impl Credits {
    pub(crate) fn see(&mut self, to_server: bool, bytes: &[u8]) {
        for Frame { handshake, octets } in self.splitters[usize::from(!to_server)].take(bytes) {
            // A Send starts with an untagged segment at offset 0 of a message on queue 0.
            let is_send = octets.len() >= 40
                && octets[2] & 0x80 == 0
                && octets[8..12] == [0; 4]
                && octets[16..20] == [0; 4];
            if !handshake && is_send {
                let credits = u32::from_be_bytes(octets[28..32].try_into().unwrap());
                self.message(to_server, credits);
            }
        }
    }

    fn message(&mut self, to_server: bool, credits: u32) {
        if to_server {
            self.over_grant += u32::from(self.in_flight >= self.granted.max(1));
            self.in_flight += 1;
            self.max_in_flight = self.max_in_flight.max(self.in_flight);
        } else {
            self.in_flight -= 1;
            self.granted = credits;
            self.max_granted = self.max_granted.max(credits);
        }
    }
}

#[test]
fn calls_are_counted_when_frames_arrive_in_pieces() {
    let handshake = [&b"MPA ID Req Frame\x00\x01\x00\x04"[..], b"1234"].concat();
    let message = |credits: u8| {
        let mut frame = vec![0, 34, 0x41, 0x43];
        frame.extend([0; 20]);
        frame.extend([0, 0, 0, 1, 0, 0, 0, credits]);
        frame.resize(36 + 4, 0);
        frame
    };
    let mut credits = Credits::default();
    for byte in [handshake.clone(), message(7), message(7)].concat() {
        credits.see(true, &[byte]);
    }
    assert_eq!(
        (credits.max_in_flight, credits.over_grant),
        (2, 1),
        "one credit is assumed before the first reply"
    );
    credits.see(false, &[handshake, message(3)].concat());
    credits.see(true, &[message(7), message(7), message(7)].concat());
    assert_eq!((credits.max_in_flight, credits.max_granted, credits.over_grant), (4, 3, 2));
}
