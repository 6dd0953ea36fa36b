//! Advertising memory through memory windows.

use std::io;

use rpcrdma_runtime::proto::work::{Memory, Token};

use super::QueuePair;
use crate::objects::Registered;
use crate::request::Work;
use crate::windows::{Fenced, State, Windows};

impl QueuePair {
    /// Returns true if memory is advertised through windows, which the peer may invalidate.
    pub(crate) fn has_windows(&self) -> bool {
        self.windows.is_some()
    }

    /// Binds a window to a region and returns the handle.
    ///
    /// # Errors
    /// Fails if the connection has no windows, or if no window is free and the device cannot allocate
    /// another. The error contains the region.
    pub(crate) fn bind(
        &mut self,
        region: Registered<Memory>,
    ) -> Result<u32, (Registered<Memory>, io::Error)> {
        let domain = self.domain().clone();
        let Some(windows) = &mut self.windows else {
            return Err((region, io::ErrorKind::Unsupported.into()));
        };
        let handle = windows.allocate(&domain, region)?;
        self.submit(Work::Bind { handle });
        Ok(handle)
    }

    /// Invalidates a window. Returns false if no window has this handle, or if a request that invalidates the
    /// window is already prepared. Once the window is invalidated, [`QueuePair::fenced`] returns the region.
    pub(crate) fn unbind(&mut self, token: Token, handle: u32) -> bool {
        let Some(windows) = &mut self.windows else { return false };
        match windows.state(handle) {
            Some(State::Invalidated) => windows.fence(token, handle),
            Some(State::Queued | State::Bound) => self.submit(Work::Unbind { token, handle }),
            Some(State::Fencing(_)) | None => return false,
        }
        true
    }

    /// Takes the regions whose windows are invalidated.
    pub(crate) fn fenced(&mut self) -> Vec<Fenced> {
        self.windows.as_mut().map(Windows::take_fenced).unwrap_or_default()
    }

    pub(crate) fn destroy_windows(&mut self) -> Vec<Registered<Memory>> {
        self.windows.take().map(Windows::into_regions).unwrap_or_default()
    }
}
