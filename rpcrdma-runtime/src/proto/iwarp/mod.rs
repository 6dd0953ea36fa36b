//! One iWARP stream after its set-up, as a state machine: bytes and work go in, bytes and completions come out.

mod inbound;
mod outbound;
mod regions;
mod stream;

pub use regions::Entropy;
pub use stream::{Role, Settings, Stream};
