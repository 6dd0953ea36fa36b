//! An iWARP stream: RDMAP, DDP and MPA behind the MPA frames, as a state machine.
//!
//! Octets of the TCP stream and [`Action`](super::work::Action)s go into a [`Stream`]; octets to send and
//! [`Completion`](super::work::Completion)s come out. It has no socket, no clock and no source of randomness
//! of its own. Everything that the peer says is checked before a single octet is placed: the CRC of the FPDU
//! first, then the headers, then handle, rights and bounds. What breaks a rule is answered with one Terminate,
//! and with it all memory is fenced.

use alloc::boxed::Box;

mod outbound;
mod regions;
mod setup;
mod stream;
#[cfg(test)]
mod tests;

pub use setup::{Agreed, Offer, SetupError, reply};
pub use stream::{OWED, Stream};

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sent the MPA request, and sends the first FPDU.
    Initiator,
    /// It sent the MPA reply, and sends nothing before it has received an FPDU (RFC 5044 section 7.1.2).
    Responder,
}

/// What a stream is set to, and what was agreed on for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Which end this is.
    pub role: Role,
    /// The largest Send that is received, in octets. A longer one ends the stream.
    pub receive_size: u32,
    /// The longest FPDU that is sent, in octets, with its length field, pad and CRC. Kept within 136 and 65,532.
    /// Received are FPDUs of any length.
    pub max_fpdu: usize,
    /// CRCs were agreed on.
    pub crc: bool,
    /// RDMA Reads that this end may have outstanding (its ORD). Further ones wait, and what is behind them.
    pub reads_out: u32,
    /// RDMA Reads that the peer may have outstanding (this end's IRD). One more ends the stream.
    pub reads_in: u32,
    /// The largest region that can be registered, in octets.
    pub max_region: u32,
}

/// Where handles and offsets come from: a source that the peer cannot predict.
pub trait Entropy: Send {
    /// 64 random bits, or `None` if the source has failed.
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
