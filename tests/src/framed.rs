//! Decodes MPA frames with the codec of `rpcrdma-runtime` and encodes them again. `tests/interop/` also uses
//! this module.

use rpcrdma_runtime::wire::iwarp::{
    Crc32c, DdpHeader, FrameHeader, FrameKind, Opcode, ReadDepths, ReadRequest, Terminate, fpdu, mpa,
};
use rpcrdma_runtime::wire::rdma::{MessageLimits, decode_call, decode_reply};

/// Splits one direction of a TCP connection, from its first octet, into frames.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The octets after the last complete frame.
    unread: Vec<u8>,
    past_handshake: bool,
}

/// An MPA frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// True for the MPA request or reply, false for an FPDU.
    pub handshake: bool,
    /// The complete frame.
    pub octets: Vec<u8>,
}

impl Splitter {
    /// Appends octets of the connection. Returns the frames that are now complete.
    pub fn take(&mut self, octets: &[u8]) -> Vec<Frame> {
        self.unread.extend_from_slice(octets);
        let (mut frames, mut rest) = (Vec::new(), &self.unread[..]);
        while let Some((octets, after)) = self.len_of(rest).and_then(|len| rest.split_at_checked(len)) {
            frames.push(Frame { handshake: !self.past_handshake, octets: octets.to_vec() });
            self.past_handshake = true;
            rest = after;
        }
        self.unread = rest.to_vec();
        frames
    }

    /// Returns the octets after the last complete frame.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.unread
    }

    fn len_of(&self, octets: &[u8]) -> Option<usize> {
        if self.past_handshake {
            return fpdu::len(octets);
        }
        let length = octets.get(mpa::HEADER_LEN - 2..)?.first_chunk()?;
        Some(mpa::HEADER_LEN + usize::from(u16::from_be_bytes(*length)))
    }
}

/// Returns true if this request and reply enable CRCs. CRCs are enabled if either peer requires them
/// (RFC 5044 section 7.1.1).
///
/// # Panics
/// Panics if the frames are not an MPA request and reply.
#[must_use]
pub fn have_crcs(request: &[u8], reply: &[u8]) -> bool {
    parse_handshake(request).0.crc || parse_handshake(reply).0.crc
}

fn parse_handshake(octets: &[u8]) -> (FrameHeader, &[u8]) {
    let (head, rest) = octets.split_first_chunk().expect("a frame's header");
    let kind = [FrameKind::Request, FrameKind::Reply].into_iter().find(|kind| kind.may_begin_with(head));
    let header = FrameHeader::parse(kind.expect("a key"), head).expect("a header");
    assert_eq!(usize::from(header.private_data_len), rest.len());
    (header, rest)
}

/// Decodes an MPA request or reply and encodes it again.
///
/// # Panics
/// Panics if the frame is invalid.
#[must_use]
pub fn reencode_handshake(octets: &[u8]) -> Vec<u8> {
    let (header, private_data) = parse_handshake(octets);
    let mut again = header.encode().to_vec();
    if header.enhanced {
        let (depths, rest) = ReadDepths::split(private_data).expect("depths");
        again.extend_from_slice(&depths.encode());
        again.extend_from_slice(rest);
    } else {
        again.extend_from_slice(private_data);
    }
    again
}

/// Decodes an FPDU and encodes it again, including the DDP header, the RDMAP opcode, and a payload of a known
/// format. If `crc` is true, checks and encodes the CRC. Returns the opcode and the encoded FPDU.
///
/// # Panics
/// Panics if the frame is invalid.
#[must_use]
pub fn reencode_fpdu(octets: &[u8], crc: bool, from_client: bool) -> (Opcode, Vec<u8>) {
    let ulpdu = fpdu::open(octets, crc).expect("an FPDU");
    let (mut header, payload) = DdpHeader::parse(ulpdu).expect("a DDP header");
    let opcode = Opcode::from_control(header.control()).expect("an opcode");
    assert_eq!(opcode.is_tagged(), header.is_tagged());
    let (DdpHeader::Tagged { control, .. } | DdpHeader::Untagged { control, .. }) = &mut header;
    *control = opcode.control();
    let mut again = u16::try_from(ulpdu.len()).expect("a length").to_be_bytes().to_vec();
    header.encode(|piece| again.extend_from_slice(piece));
    again.extend_from_slice(&reencode_payload(header, opcode, payload, from_client));
    again.resize(again.len() + fpdu::padding(ulpdu.len()), 0);
    let mut sum = Crc32c::new();
    sum.update(&again);
    again.extend_from_slice(&if crc { sum.octets() } else { [0; fpdu::CRC_LEN] });
    (opcode, again)
}

fn reencode_payload(header: DdpHeader, opcode: Opcode, payload: &[u8], from_client: bool) -> Vec<u8> {
    let mut again = Vec::new();
    match (opcode, header) {
        (Opcode::ReadRequest, _) => {
            let request = ReadRequest::parse(payload).expect("a Read Request");
            request.encode(|piece| again.extend_from_slice(piece));
        }
        (Opcode::Terminate, _) => {
            assert!(Terminate::read_code(payload).is_some(), "a Terminate");
            again.extend_from_slice(payload);
        }
        // The segment contains a complete RPC-over-RDMA message.
        (Opcode::Send { .. }, DdpHeader::Untagged { last: true, offset: 0, .. }) => {
            let (message, limits) = (payload.to_vec().into(), MessageLimits::default());
            let (header, rest) = if from_client {
                decode_call(&message, &limits).expect("a call's header")
            } else {
                decode_reply(&message, &limits).expect("a reply's header")
            };
            again.extend_from_slice(&header.encode());
            again.extend_from_slice(&rest);
        }
        _ => again.extend_from_slice(payload),
    }
    again
}
