//! A user-defined sink.

use rpcrdma_runtime::xdr::{Error, Sink};

/// A sink with only the required methods.
#[derive(Default)]
pub(crate) struct Plain(pub(crate) Vec<u8>);

impl Sink for Plain {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn position(&self) -> u64 {
        self.0.len() as u64
    }
}
