//! What a queue pair advertises through memory windows.

use std::io;

use rpcrdma_runtime::proto::work::{Memory, Token};

use super::QueuePair;
use crate::objects::Registered;
use crate::request::Work;
use crate::windows::{Fenced, State, Windows};

impl QueuePair {
    /// Whether what is advertised has windows, so that the peer may invalidate it.
    pub(crate) fn has_windows(&self) -> bool {
        self.windows.is_some()
    }

    /// Advertises memory, through a window if this connection has windows: under which handle.
    ///
    /// # Errors
    /// No window is left; the region comes back.
    pub(crate) fn bind(
        &mut self,
        region: Registered<Memory>,
    ) -> Result<u32, (Registered<Memory>, io::Error)> {
        let domain = self.domain().clone();
        let Some(windows) = &mut self.windows else {
            return Err((region, io::ErrorKind::Unsupported.into()));
        };
        let handle = windows.ask(&domain, region)?;
        self.submit(Work::Bind { handle });
        Ok(handle)
    }

    /// Ends what is advertised through a window; [`QueuePair::fenced`] has it afterwards. False if it is not.
    pub(crate) fn unbind(&mut self, token: Token, handle: u32) -> bool {
        let Some(windows) = &mut self.windows else { return false };
        match windows.state(handle) {
            Some(State::Invalidated) => windows.end(token, handle),
            Some(State::Asked | State::Bound) => self.submit(Work::Unbind { token, handle }),
            Some(State::Fencing(_)) | None => return false,
        }
        true
    }

    /// What no peer reaches any more.
    pub(crate) fn fenced(&mut self) -> Vec<Fenced> {
        self.windows.as_mut().map(Windows::take_fenced).unwrap_or_default()
    }

    /// Ends all windows, for the last time.
    pub(crate) fn end_windows(&mut self) -> Vec<Registered<Memory>> {
        self.windows.take().map(Windows::into_regions).unwrap_or_default()
    }
}
