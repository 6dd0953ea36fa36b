//! iWARP over TCP: MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040) as values.

mod crc;
mod fpdu;
mod header;
mod mpa;
mod terminate;

pub use crc::Crc32c;
pub use fpdu::{FpduError, MAX_ULPDU, Trailer, next_fpdu};
pub use header::{Ddp, HeaderError, Opcode, Queue, ReadRequest, TAGGED_LEN, UNTAGGED_LEN};
pub use mpa::{Enhanced, Frame, HEAD_LEN, Head, Kind, MAX_DEPTH, MAX_PRIVATE_DATA, MpaError};
pub use terminate::{Fault, Layer};
