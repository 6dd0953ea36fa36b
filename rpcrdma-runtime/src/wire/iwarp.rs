//! The wire formats of iWARP as values: MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040).
//!
//! A TCP stream starts with one MPA frame in each direction ([`mpa`]). A sequence of FPDUs follows
//! ([`fpdu`]), with [`markers`] if the receiver requires markers. Each FPDU contains one DDP segment
//! ([`ddp`]) of one RDMAP message ([`rdmap`]). All numbers are big-endian, except the CRC ([`crc`]).

pub mod crc;
pub mod ddp;
pub mod fpdu;
pub mod markers;
pub mod mpa;
pub mod rdmap;
pub mod terminate;

pub use crc::Crc32c;
pub use ddp::{DdpError, DdpHeader};
pub use fpdu::FpduError;
pub use markers::Markers;
pub use mpa::{FrameHeader, FrameKind, MpaError, ReadDepths};
pub use rdmap::{Opcode, RdmapError, ReadRequest};
pub use terminate::{Code, Terminate};

fn take<const N: usize>(octets: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = octets.split_first_chunk::<N>()?;
    *octets = rest;
    Some(*head)
}
