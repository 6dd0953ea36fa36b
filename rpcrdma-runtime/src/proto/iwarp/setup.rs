use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Role;
use super::outbound::Outbound;
use crate::wire::iwarp::mpa::{MAX_SENT_PRIVATE_DATA, NOT_NEGOTIATED, REVISION};
use crate::wire::iwarp::{Code, FrameHeader, FrameKind, ReadDepths, Terminate};

/// The maximum number of outstanding RDMA Reads in each direction, the same as in Linux's siw.
const MAX_DEPTH: u16 = 128;
/// The assumed IRD of a peer that announces neither IRD nor ORD.
const UNKNOWN_DEPTH: u16 = 1;

/// The local parameters of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether to request CRCs in FPDUs. CRCs are also used if only the peer requests them.
    pub crc: bool,
    /// Whether to require markers in received FPDUs.
    pub markers: bool,
    /// The local IRD, the maximum number of RDMA Reads to serve at once, from 1 to 128.
    pub ird: u16,
    /// The local ORD, the maximum number of outstanding local RDMA Reads, from 1 to 128.
    pub ord: u16,
}

/// The negotiated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Whether FPDUs have CRCs.
    pub crc: bool,
    /// Whether received FPDUs have markers.
    pub markers_in: bool,
    /// Whether sent FPDUs have markers.
    pub markers_out: bool,
    /// The maximum number of outstanding RDMA Reads of the peer.
    pub ird: u32,
    /// The maximum number of outstanding local RDMA Reads.
    pub ord: u32,
}

/// The reason why a negotiation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The peer uses MPA revision 0.
    #[error("unsupported MPA revision: {0}")]
    Revision(u8),
    /// The peer serves no RDMA Reads, so no Read chunk can be fetched.
    #[error("the peer serves no RDMA Reads (its IRD is 0)")]
    NoReads,
    /// The peer's ORD exceeds the local IRD, which was in the request (RFC 6581 section 9.1).
    #[error("the peer announces an ORD of {ord}, above the local IRD of {ird}")]
    Depth {
        /// The responder's ORD.
        ord: u16,
        /// The local IRD.
        ird: u16,
    },
    /// The peer requires a ready-to-receive message of an unsupported type (RFC 6581 section 9.2).
    #[error("no common type of ready-to-receive (RTR) message")]
    NoReadyMessage,
    /// The local private data is too long.
    #[error("too much private data: {0} octets (limit 196, or 200 without IRD and ORD)")]
    PrivateData(usize),
}

fn frame(mut header: FrameHeader, depths: ReadDepths, private_data: &[u8]) -> Result<Vec<u8>, SetupError> {
    let depths = depths.encode();
    let depths = if header.enhanced { &depths[..] } else { &[] };
    let length = depths.len().saturating_add(private_data.len());
    let fits = u16::try_from(length).ok().filter(|_| length <= MAX_SENT_PRIVATE_DATA);
    header.private_data_len = fits.ok_or(SetupError::PrivateData(private_data.len()))?;
    Ok([&header.encode()[..], depths, private_data].concat())
}

/// Returns a local depth (IRD or ORD) after the negotiation, and its value in the reply. `peers` is the
/// peer's ORD if `own` is the local IRD, and vice versa. If the peer does not negotiate this depth, the local
/// depth is unchanged and the reply does not negotiate it either (RFC 6581 section 9.1).
fn answer_depth(own: u16, peers: u16) -> (u16, u16) {
    if peers == NOT_NEGOTIATED { (own, NOT_NEGOTIATED) } else { (own.min(peers), own.min(peers)) }
}

impl Offer {
    fn depths(&self) -> ReadDepths {
        ReadDepths {
            ird: self.ird.clamp(1, MAX_DEPTH),
            ord: self.ord.clamp(1, MAX_DEPTH),
            ..ReadDepths::default()
        }
    }

    /// Creates the enhanced MPA request (revision 2) for this offer.
    ///
    /// # Errors
    /// [`SetupError::PrivateData`] if the private data exceeds 196 octets.
    pub fn request(&self, private_data: &[u8]) -> Result<Vec<u8>, SetupError> {
        let header = FrameHeader {
            kind: FrameKind::Request,
            markers: self.markers,
            crc: self.crc,
            reject: false,
            enhanced: true,
            reserved: 0,
            revision: REVISION,
            private_data_len: 0,
        };
        frame(header, self.depths(), private_data)
    }

    /// Returns a responder's parameters after a request, and the depths to put in the reply. `depths` is
    /// `None` unless the request is enhanced.
    ///
    /// # Errors
    /// Returns the reason to reject the request.
    pub fn answer(
        &self,
        request: &FrameHeader,
        depths: Option<ReadDepths>,
    ) -> Result<(Agreed, ReadDepths), SetupError> {
        if request.revision == 0 {
            return Err(SetupError::Revision(0));
        }
        let own = self.depths();
        let Some(depths) = depths else {
            return Ok((self.agreed(request, own.ird, own.ord.min(UNKNOWN_DEPTH)), own));
        };
        if depths.ird == 0 {
            return Err(SetupError::NoReads);
        }
        let (mut kept_ird, ird) = answer_depth(own.ird, depths.ord);
        let (kept_ord, ord) = answer_depth(own.ord, depths.ird);
        let mut reply = ReadDepths { ird, ord, ..ReadDepths::default() };
        if depths.peer_to_peer {
            reply.peer_to_peer = true;
            reply.rtr_write = depths.rtr_write;
            reply.rtr_read = depths.rtr_read && !depths.rtr_write;
            if !reply.rtr_write && !reply.rtr_read {
                return Err(SetupError::NoReadyMessage);
            }
            kept_ird = kept_ird.max(u16::from(reply.rtr_read));
            reply.ird = reply.ird.max(kept_ird);
        }
        Ok((self.agreed(request, kept_ird, kept_ord), reply))
    }

    /// Returns the depths to put in a reply that rejects a request. For a peer-to-peer request, the result
    /// also has the flags of the supported ready-to-receive messages (RFC 6581 section 9.2).
    #[must_use]
    pub fn rejection(&self, depths: Option<ReadDepths>) -> ReadDepths {
        let peer_to_peer = depths.is_some_and(|depths| depths.peer_to_peer);
        ReadDepths { peer_to_peer, rtr_write: peer_to_peer, rtr_read: peer_to_peer, ..self.depths() }
    }

    /// Returns the initiator's parameters after a reply that is not a rejection. `depths` is `None` unless
    /// the reply is enhanced.
    ///
    /// # Errors
    /// Returns the reason why the reply is unacceptable.
    pub fn conclude(&self, reply: &FrameHeader, depths: Option<ReadDepths>) -> Result<Agreed, SetupError> {
        if reply.revision == 0 {
            return Err(SetupError::Revision(0));
        }
        let own = self.depths();
        let kept_ord = match depths {
            None => own.ord.min(UNKNOWN_DEPTH),
            Some(ReadDepths { ord, .. }) if ord != NOT_NEGOTIATED && ord > own.ird => {
                return Err(SetupError::Depth { ord, ird: own.ird });
            }
            // `NOT_NEGOTIATED` exceeds every local ORD, so the local ORD then applies.
            //
            // An IRD of 0 is accepted: a client of RPC-over-RDMA sends no RDMA Reads. Linux's NFS server
            // announces this IRD to a client with an ORD of 0.
            Some(depths) => own.ord.min(depths.ird),
        };
        Ok(self.agreed(reply, own.ird, kept_ord))
    }

    fn agreed(&self, peer: &FrameHeader, ird: u16, ord: u16) -> Agreed {
        Agreed {
            // CRCs are used if either peer requires them (RFC 5044 section 7.1.1).
            crc: self.crc || peer.crc,
            markers_in: self.markers,
            markers_out: peer.markers,
            ird: ird.into(),
            ord: ord.into(),
        }
    }

    /// Returns the FPDU with the Terminate that an initiator sends before it closes the connection because of
    /// [`SetupError::Depth`].
    #[must_use]
    pub fn terminate(&self, reply: &FrameHeader) -> Vec<u8> {
        let mut outbound = Outbound::new(0, self.crc || reply.crc, reply.markers);
        outbound.end(Some(Terminate { code: Code::INSUFFICIENT_IRD, segment: None, read_request: None }));
        let mut octets = VecDeque::new();
        outbound.emit(&mut octets);
        outbound.flush(&mut octets);
        octets.into_iter().flatten().collect()
    }

    /// Creates the MPA reply to a request, with the same revision. The reply is enhanced if the request is
    /// enhanced.
    ///
    /// # Errors
    /// [`SetupError::PrivateData`] if the private data exceeds 196 octets, or 200 in a reply without depths.
    pub fn reply(
        &self,
        request: &FrameHeader,
        reject: bool,
        depths: ReadDepths,
        private_data: &[u8],
    ) -> Result<Vec<u8>, SetupError> {
        let header = FrameHeader {
            kind: FrameKind::Reply,
            markers: self.markers,
            crc: self.crc || request.crc,
            reject,
            enhanced: request.enhanced,
            reserved: 0,
            // Revision 0 is rejected, and no frame has this revision.
            revision: request.revision.max(1),
            private_data_len: 0,
        };
        frame(header, depths, private_data)
    }
}

impl Agreed {
    /// Returns the settings of a stream with these parameters.
    #[must_use]
    pub fn stream(
        &self,
        role: Role,
        receive_size: u32,
        max_fpdu: usize,
        max_region: u32,
    ) -> super::StreamConfig {
        super::StreamConfig {
            role,
            receive_size,
            max_fpdu,
            crc: self.crc,
            markers_in: self.markers_in,
            markers_out: self.markers_out,
            ord: self.ord,
            ird: self.ird,
            max_region,
            non_exhaustive: (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Offer = Offer { crc: false, markers: false, ird: 128, ord: 16 };

    fn request(crc: bool) -> FrameHeader {
        let octets = Offer { crc, ..OWN }.request(&[]).unwrap();
        FrameHeader::parse(FrameKind::Request, octets.first_chunk().unwrap()).unwrap()
    }

    fn depths(ird: u16, ord: u16) -> ReadDepths {
        ReadDepths { ird, ord, ..ReadDepths::default() }
    }

    /// Requirement: R370, R371, R372, R712, R714, R729
    #[test]
    fn depths_are_limited_by_both_peers() {
        // Each case has the depths of a request, and the depths that the responder uses. If the request does
        // not negotiate its ORD (or IRD), the reply does not negotiate its IRD (or ORD).
        for ((ird, ord), (kept_ird, kept_ord)) in [
            ((128, 0), (0, 16)),
            ((1, 1), (1, 1)),
            ((16, 16), (16, 16)),
            ((NOT_NEGOTIATED, NOT_NEGOTIATED), (128, 16)),
            ((NOT_NEGOTIATED, 3), (3, 16)),
            ((16_382, 16_382), (128, 16)),
        ] {
            let (agreed, reply) = OWN.answer(&request(false), Some(depths(ird, ord))).unwrap();
            let sent = |depth, peers| if peers == NOT_NEGOTIATED { NOT_NEGOTIATED } else { depth };
            assert_eq!((reply.ird, reply.ord), (sent(kept_ird, ord), sent(kept_ord, ird)), "{ird}, {ord}");
            assert_eq!((agreed.ird, agreed.ord), (kept_ird.into(), kept_ord.into()));
        }
        let refused = OWN.answer(&request(false), Some(depths(0, 16)));
        assert_eq!(refused.unwrap_err(), SetupError::NoReads);
        for (ird, kept_ord) in [(0, 0), (1, 1), (128, 16), (NOT_NEGOTIATED, 16)] {
            let reply = FrameHeader { kind: FrameKind::Reply, ..request(false) };
            let agreed = OWN.conclude(&reply, Some(depths(ird, 128))).unwrap();
            assert_eq!((agreed.ord, agreed.ird), (kept_ord, 128));
        }
    }

    #[test]
    fn a_depth_is_at_least_1_and_at_most_128() {
        for (own, offered) in [(0, 1), (1, 1), (128, 128), (129, 128), (u16::MAX, 128)] {
            let octets = Offer { ird: own, ord: own, ..OWN }.request(&[]).unwrap();
            let (depths, _) = ReadDepths::split(&octets[20..]).unwrap();
            assert_eq!((depths.ird, depths.ord), (offered, offered));
        }
    }

    /// Requirement: R343
    #[test]
    fn crc_is_used_if_one_peer_requires_it() {
        for (own, peers, used) in
            [(false, false, false), (false, true, true), (true, false, true), (true, true, true)]
        {
            let offer = Offer { crc: own, ..OWN };
            assert_eq!(offer.answer(&request(peers), Some(depths(1, 1))).unwrap().0.crc, used);
        }
        let without = FrameHeader { kind: FrameKind::Reply, ..request(false) };
        let with_crc = Offer { crc: true, ..OWN };
        assert!(with_crc.conclude(&without, None).unwrap().crc, "the local offer requires CRCs");
        assert!(!OWN.conclude(&without, None).unwrap().crc);
        let with = FrameHeader { crc: true, ..without };
        assert!(OWN.conclude(&with, Some(depths(1, 1))).unwrap().crc, "the peer requires CRCs");
    }

    /// Requirement: R902
    #[test]
    fn markers_are_decided_by_the_receiver() {
        for (own, peers) in [(false, false), (false, true), (true, false), (true, true)] {
            let offer = Offer { markers: own, ..OWN };
            let request = FrameHeader { markers: peers, ..request(false) };
            let (agreed, depths) = offer.answer(&request, Some(depths(1, 1))).unwrap();
            assert_eq!((agreed.markers_in, agreed.markers_out), (own, peers));
            let octets = offer.reply(&request, false, depths, &[]).unwrap();
            let reply = FrameHeader::parse(FrameKind::Reply, octets.first_chunk().unwrap()).unwrap();
            assert_eq!(reply.markers, own);
            let agreed = Offer { markers: peers, ..OWN }.conclude(&reply, Some(depths)).unwrap();
            assert_eq!((agreed.markers_in, agreed.markers_out), (peers, own));
        }
        let octets = Offer { markers: true, ..OWN }.request(&[]).unwrap();
        assert!(FrameHeader::parse(FrameKind::Request, octets.first_chunk().unwrap()).unwrap().markers);
    }

    /// Requirement: R373, R718, R719
    #[test]
    fn peer_to_peer_is_granted_with_one_ready_message() {
        let requested = |write, read, send| ReadDepths {
            peer_to_peer: true,
            rtr_write: write,
            rtr_read: read,
            rtr_send: send,
            ..depths(8, 0)
        };
        let (_, reply) = OWN.answer(&request(false), Some(requested(true, true, true))).unwrap();
        assert!(reply.peer_to_peer && reply.rtr_write && !reply.rtr_read && !reply.rtr_send);
        let (agreed, reply) = OWN.answer(&request(false), Some(requested(false, true, false))).unwrap();
        assert!(reply.rtr_read && agreed.ird == 1, "the ready-to-receive Read must be served");
        let refused = OWN.answer(&request(false), Some(requested(false, false, true)));
        assert_eq!(refused.unwrap_err(), SetupError::NoReadyMessage);
    }

    /// Requirement: R719, R721
    #[test]
    fn a_rejection_lists_the_supported_ready_messages() {
        let requested = ReadDepths { peer_to_peer: true, rtr_send: true, ..depths(8, 0) };
        let reply = OWN.rejection(Some(requested));
        assert!(reply.peer_to_peer && reply.rtr_write && reply.rtr_read && !reply.rtr_send);
        for plain in [None, Some(depths(0, 16))] {
            let reply = OWN.rejection(plain);
            assert!(!reply.peer_to_peer && !reply.rtr_write && !reply.rtr_read && !reply.rtr_send);
        }
    }

    /// Requirement: R725, R726, R727
    #[test]
    fn without_peer_to_peer_the_flags_are_clear_and_ignored() {
        let flags = ReadDepths { rtr_write: true, rtr_read: true, rtr_send: true, ..depths(8, 0) };
        let (agreed, reply) = OWN.answer(&request(false), Some(flags)).unwrap();
        assert_eq!((agreed.ird, agreed.ord), (0, 8));
        assert_eq!(reply, depths(0, 8));
        let octets = OWN.rejection(Some(flags)).encode();
        assert_eq!((octets[0] | octets[2]) & 0xc0, 0);
    }

    /// Requirement: R448
    #[test]
    fn private_data_is_at_most_196_octets() {
        assert_eq!(OWN.request(&[1; 196]).unwrap().len(), 220);
        assert_eq!(OWN.request(&[1; 197]), Err(SetupError::PrivateData(197)));
    }

    /// Requirement: R442, R443, R449, R701, R702, R710, R724, R726
    #[test]
    fn frames_equal_those_of_linux() {
        let octets = Offer { ord: 1, ..OWN }.request(b"\xf6\xab\x0e\x18\x01\x01\x03\x03");
        let mut linux =
            b"MPA ID Req Frame\x10\x02\x00\x0c\x00\x80\x00\x00\xf6\xab\x0e\x18\x01\x01\x03\x03".to_vec();
        linux[23] = 1; // Linux's ORD is 0; the local minimum is 1.
        assert_eq!(octets.unwrap(), linux);
        let (_, depths) = OWN.answer(&request(false), Some(depths(128, 0))).unwrap();
        let reply = OWN.reply(&request(false), false, depths, b"\xf6\xab\x0e\x18\x01\x00\x03\x03");
        assert_eq!(
            reply.unwrap(),
            b"MPA ID Rep Frame\x10\x02\x00\x0c\x00\x00\x00\x10\xf6\xab\x0e\x18\x01\x00\x03\x03"
        );
    }
}
