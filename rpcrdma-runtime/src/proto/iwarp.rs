//! An iWARP stream (RDMAP, DDP and MPA) as a state machine, and the negotiation of its parameters.
//!
//! A [`Stream`] processes octets of the TCP stream and [`Action`](super::work::Action)s. It returns octets to
//! send and [`Completion`](super::work::Completion)s. It has no socket and no clock, and the caller supplies
//! the source of randomness. Input from the peer becomes visible only after all checks: the CRC of the FPDU,
//! its headers, the handle, access rights and bounds. After a violation, the stream fences all memory and
//! ends, usually with one Terminate.

use alloc::boxed::Box;

mod outbound;
mod regions;
mod setup;
mod stream;
#[cfg(test)]
mod tests;

pub use setup::{Agreed, Offer, SetupError};
pub use stream::{PROGRESS_COUNTERS, Stream};

/// The local role on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The local peer sent the MPA request, and sends the first FPDU.
    Initiator,
    /// The local peer sent the MPA reply, and sends nothing before it has received an FPDU (RFC 5044 section
    /// 7.1.2).
    Responder,
}

/// The settings of a stream, including the negotiated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// The local role.
    pub role: Role,
    /// Maximum size of a received Send, in octets. A longer Send ends the stream.
    pub receive_size: u32,
    /// Maximum size of a sent FPDU in octets, including its length field, markers, pad and CRC. At least
    /// 136 (140 with markers) and at most 64,772. Received FPDUs may have any size.
    pub max_fpdu: usize,
    /// Whether FPDUs have CRCs.
    pub crc: bool,
    /// Whether the local peer requires markers in received FPDUs.
    pub markers_in: bool,
    /// Whether the peer requires markers in sent FPDUs.
    pub markers_out: bool,
    /// Maximum number of outstanding local RDMA Reads (the local ORD). Any further Read waits and blocks all
    /// later work. At 0, submitting a Read ends the stream.
    pub ord: u32,
    /// Maximum number of outstanding RDMA Reads of the peer (the local IRD). Any further Read ends the
    /// stream.
    pub ird: u32,
    /// Maximum size of a region, in octets.
    pub max_region: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl StreamConfig {
    /// Returns settings with CRCs, without markers, and with up to 16 outstanding RDMA Reads in each
    /// direction. A received Send has at most 1,024 octets and a sent FPDU at most 1,436. Each usually fits
    /// into an Ethernet frame.
    #[must_use]
    pub fn new(role: Role) -> Self {
        StreamConfig {
            role,
            receive_size: 1024,
            max_fpdu: 1436,
            crc: true,
            markers_in: false,
            markers_out: false,
            ord: 16,
            ird: 16,
            max_region: u32::MAX,
            non_exhaustive: (),
        }
    }
}

/// An unpredictable source of random numbers for handles and offsets.
pub trait Entropy: Send {
    /// Returns 64 random bits, or `None` if the source has failed.
    fn random(&mut self) -> Option<u64>;
}

impl<F: FnMut() -> Option<u64> + Send> Entropy for F {
    fn random(&mut self) -> Option<u64> {
        self()
    }
}

impl Entropy for Box<dyn Entropy> {
    fn random(&mut self) -> Option<u64> {
        (**self).random()
    }
}
