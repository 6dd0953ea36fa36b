//! The private data that both peers exchange in the connection handshake (RFC 8797).

use core::cmp::min;

/// The parameters that one peer announces. [`PrivateData::new`] rounds sizes to values that the format can
/// represent. If a size is set directly, both peers use the value that [`PrivateData::announced`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    /// Whether this peer supports remote invalidation (the R flag, RFC 8797 section 4.1).
    pub remote_invalidation: bool,
    /// The maximum size of this peer's Sends in bytes: a multiple of 1,024 from 1,024 to 262,144.
    pub send_size: u32,
    /// The maximum size of a Send that this peer can receive, in bytes: same constraints as `send_size`.
    pub receive_size: u32,
}

/// The parameters that both peers of a connection have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The inline threshold of calls: the maximum size of a Send from the client to the server, in bytes.
    pub call_threshold: u32,
    /// The inline threshold of replies: the maximum size of a Send from the server to the client, in bytes.
    pub reply_threshold: u32,
    /// Whether both peers set the R flag. If so, the server may use Send with Invalidate.
    pub remote_invalidation: bool,
}

impl Negotiated {
    /// Returns the parameters of the backward direction on the same connection. Calls and replies swap their
    /// thresholds (RFC 8167 section 4.2). Remote invalidation is disabled, because backward calls have no
    /// chunks.
    #[must_use]
    pub fn reversed(self) -> Negotiated {
        Negotiated {
            call_threshold: self.reply_threshold,
            reply_threshold: self.call_threshold,
            remote_invalidation: false,
        }
    }
}

/// Size of the private data in octets.
pub const LEN: usize = 8;
/// The minimum inline threshold, in bytes, which applies without private data (RFC 8166 section 3.3.3).
pub const DEFAULT_INLINE: u32 = 1024;
/// The maximum inline threshold that a peer can announce, in bytes.
pub const MAX_INLINE: u32 = 256 * 1024;

const MAGIC: [u8; 4] = 0xf6ab_0e18u32.to_be_bytes();
const VERSION: u8 = 1;
const FLAG_R: u8 = 0x01;

impl PrivateData {
    /// The values assumed for a peer that sends no private data (RFC 8797 section 5.1).
    pub const ABSENT: PrivateData =
        PrivateData { remote_invalidation: false, send_size: DEFAULT_INLINE, receive_size: DEFAULT_INLINE };

    /// Creates private data. Rounds sizes down to multiples of 1,024 and clamps them to the range from 1,024
    /// to 262,144 bytes.
    #[must_use]
    pub fn new(remote_invalidation: bool, send_size: u32, receive_size: u32) -> PrivateData {
        PrivateData {
            remote_invalidation,
            send_size: announceable(send_size),
            receive_size: announceable(receive_size),
        }
    }

    /// Returns the parameters with rounded sizes, as the peer decodes them. Both peers use these sizes.
    #[must_use]
    pub fn announced(&self) -> PrivateData {
        PrivateData::new(self.remote_invalidation, self.send_size, self.receive_size)
    }

    /// Encodes the parameters that [`PrivateData::announced`] returns.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let [m0, m1, m2, m3] = MAGIC;
        let flags = if self.remote_invalidation { FLAG_R } else { 0 };
        [m0, m1, m2, m3, VERSION, flags, size_octet(self.send_size), size_octet(self.receive_size)]
    }

    /// Finds the private data at any offset in the octets that the connection manager provides (RFC 8797
    /// section 5.2). Returns `None` if the octets contain no complete private data of version 1.
    #[must_use]
    pub fn find(octets: &[u8]) -> Option<PrivateData> {
        octets.windows(LEN).find_map(|window| match window {
            [m0, m1, m2, m3, VERSION, flags, send, receive] if [*m0, *m1, *m2, *m3] == MAGIC => {
                Some(PrivateData {
                    remote_invalidation: flags & FLAG_R != 0,
                    send_size: size_of_octet(*send),
                    receive_size: size_of_octet(*receive),
                })
            }
            _ => None,
        })
    }

    /// Returns the parameters of a connection on which the peers announced `client` and `server` (RFC 8797
    /// section 4.2).
    #[must_use]
    pub fn negotiate(client: &PrivateData, server: &PrivateData) -> Negotiated {
        let (client, server) = (client.announced(), server.announced());
        Negotiated {
            call_threshold: min(client.send_size, server.receive_size),
            reply_threshold: min(server.send_size, client.receive_size),
            remote_invalidation: client.remote_invalidation && server.remote_invalidation,
        }
    }
}

fn size_octet(size: u32) -> u8 {
    u8::try_from((size / 1024).saturating_sub(1)).unwrap_or(u8::MAX)
}

fn announceable(size: u32) -> u32 {
    size_of_octet(size_octet(size))
}

fn size_of_octet(octet: u8) -> u32 {
    (u32::from(octet)).saturating_add(1).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX_CLIENT: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
    const LINUX_SERVER: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3];

    fn private_data(remote_invalidation: bool, send_size: u32, receive_size: u32) -> PrivateData {
        PrivateData { remote_invalidation, send_size, receive_size }
    }

    /// Requirement: R283
    #[test]
    fn r281_linux_announces_4096_bytes_in_both_directions() {
        assert_eq!(PrivateData::find(&LINUX_CLIENT), Some(private_data(true, 4096, 4096)));
        assert_eq!(PrivateData::find(&[0xf6, 0xab, 0x0e, 0x19, 1, 1, 3, 3]), None, "another identifier");
        assert_eq!(PrivateData::find(&LINUX_SERVER), Some(private_data(false, 4096, 4096)));
        assert_eq!(private_data(true, 4096, 4096).encode(), LINUX_CLIENT);
        assert_eq!(private_data(false, 4096, 4096).encode(), LINUX_SERVER);
    }

    #[test]
    fn r282_reserved_flags_are_ignored_and_never_sent() {
        let mut octets = LINUX_CLIENT;
        octets[5] = 0xfe;
        assert_eq!(PrivateData::find(&octets), Some(private_data(false, 4096, 4096)));
        assert_eq!(private_data(true, 1024, 1024).encode()[5], 1);
    }

    #[test]
    fn r284_every_size_octet() {
        for octet in 0..=255u8 {
            let size = (u32::from(octet) + 1) * 1024;
            let octets = private_data(false, size, MAX_INLINE).encode();
            assert_eq!(octets[6..], [octet, 255]);
            assert_eq!(PrivateData::find(&octets), Some(private_data(false, size, MAX_INLINE)));
        }
        assert_eq!(private_data(false, 0, u32::MAX).encode()[6..], [0, 255]);
    }

    /// Requirement: R041, R043, R288
    #[test]
    fn r285_the_smaller_size_applies_in_each_direction() {
        let negotiated =
            PrivateData::negotiate(&private_data(true, 8192, 2048), &private_data(true, 4096, 65536));
        assert_eq!(
            negotiated,
            Negotiated { call_threshold: 8192, reply_threshold: 2048, remote_invalidation: true }
        );
        let swapped =
            PrivateData::negotiate(&private_data(true, 4096, 65536), &private_data(true, 8192, 2048));
        assert_eq!((swapped.call_threshold, swapped.reply_threshold), (2048, 8192));
        assert!(
            !PrivateData::negotiate(&private_data(true, 1024, 1024), &PrivateData::ABSENT)
                .remote_invalidation
        );
    }

    /// Requirement: R044, R280, H75
    #[test]
    fn r289_r291_a_peer_without_private_data_has_the_defaults() {
        let other_magic = b"\xf6\xab\x0e\x19\x01\x01\x03\x03";
        for octets in [&b""[..], b"something else", &LINUX_CLIENT[..7], other_magic] {
            assert_eq!(PrivateData::find(octets), None, "{octets:?}");
        }
        let large = private_data(true, MAX_INLINE, MAX_INLINE);
        let defaults = Negotiated { call_threshold: 1024, reply_threshold: 1024, remote_invalidation: false };
        for (client, server) in [(large, PrivateData::ABSENT), (PrivateData::ABSENT, large)] {
            assert_eq!(PrivateData::negotiate(&client, &server), defaults);
        }
    }

    /// Requirement: R042, R043, H10
    #[test]
    fn both_peers_apply_the_announced_sizes() {
        for (set, announced) in [
            (0, 1024),
            (1, 1024),
            (1023, 1024),
            (2047, 1024),
            (5000, 4096),
            (262_145, MAX_INLINE),
            (u32::MAX, MAX_INLINE),
        ] {
            let own = private_data(false, set, set);
            assert_eq!(own.announced(), private_data(false, announced, announced), "{set}");
            assert_eq!(PrivateData::new(false, set, set), own.announced(), "{set}");
            assert_eq!(PrivateData::find(&own.encode()), Some(own.announced()), "{set}");
            let peer = private_data(false, MAX_INLINE, MAX_INLINE);
            let negotiated = PrivateData::negotiate(&own, &peer);
            assert_eq!(
                (negotiated.call_threshold, negotiated.reply_threshold),
                (announced, announced),
                "{set}"
            );
            assert_eq!(PrivateData::negotiate(&peer, &own), negotiated, "{set}");
        }
    }

    /// Requirement: R292, H08
    #[test]
    fn r290_private_data_is_found_at_any_offset_if_complete() {
        for offset in 0..60 {
            let mut octets = vec![0u8; offset];
            octets.extend_from_slice(&LINUX_CLIENT);
            assert!(PrivateData::find(&octets).is_some(), "offset {offset}");
            for cut in offset..octets.len() {
                assert_eq!(PrivateData::find(&octets[..cut]), None, "cut at {cut}");
            }
            octets.extend_from_slice(&[0; 40]);
            assert!(PrivateData::find(&octets).is_some(), "offset {offset}, padded");
        }
    }

    /// Requirement: R292, H08
    #[test]
    fn r296_another_version_is_absent() {
        let mut octets = LINUX_CLIENT;
        octets[4] = 2;
        assert_eq!(PrivateData::find(&octets), None);
    }
}
