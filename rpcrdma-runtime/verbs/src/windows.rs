//! Type 2 memory windows.
//!
//! A region is registered without remote access, and a window over the whole region is advertised. The
//! request that binds the window is posted before the message that carries its handle. Remote access ends
//! when the window is invalidated, either by a local request or by the peer with Send with Invalidate.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use ib::ibv_wr_opcode;
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{Memory, Token};

use super::objects::{Access, Domain, Registered, check_destroyed};

/// The maximum number of free windows that are kept for reuse.
const MAX_FREE: usize = 256;

/// A window, which is dropped before the region that it is bound to.
#[derive(Debug)]
struct Window {
    raw: NonNull<ib::ibv_mw>,
    _domain: Arc<Domain>,
}

// SAFETY: any thread may call verbs.
unsafe impl Send for Window {}

impl Window {
    fn new(domain: &Arc<Domain>) -> io::Result<Self> {
        // SAFETY: domain and context are alive. Opening the device initialized the function table.
        let alloc = unsafe { (*(*domain.as_ptr()).context).ops.alloc_mw };
        let alloc = alloc.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the window holds the domain, so the domain is alive as long as the window.
        let raw = NonNull::new(unsafe { alloc(domain.as_ptr(), ib::IBV_MW_TYPE_2) });
        let raw = raw.ok_or_else(io::Error::last_os_error)?;
        Ok(Window { raw, _domain: domain.clone() })
    }

    fn next_handle(&self) -> u32 {
        // SAFETY: the window is alive.
        next_handle(unsafe { self.raw.as_ref().rkey })
    }

    /// Records the handle of the last bind, from which the next handle is derived.
    fn set_handle(&mut self, handle: u32) {
        // SAFETY: the window is alive. The device is not using the window, because all work requests that
        // refer to the window are complete.
        unsafe { self.raw.as_mut().rkey = handle };
    }
}

/// Returns the window's next handle after `handle`. The lowest octet is incremented and wraps from 0xff to 0.
fn next_handle(handle: u32) -> u32 {
    handle & !0xff | handle.wrapping_add(1) & 0xff
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: window and context are alive.
        let dealloc = unsafe { (*self.raw.as_ref().context).ops.dealloc_mw };
        if let Some(dealloc) = dealloc {
            // SAFETY: the window is freed once. Work requests that refer to the window are complete, or fail
            // without using the window.
            check_destroyed("memory window", unsafe { dealloc(self.raw.as_ptr()) });
        }
    }
}

#[derive(Debug)]
struct Bound {
    state: State,
    access: Access,
    window: Window,
    region: Registered<Memory>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The request that binds the window is queued.
    Queued,
    /// The request that binds the window is prepared for posting.
    Bound,
    /// The peer has invalidated the window.
    Invalidated,
    /// A request that invalidates the window is prepared for posting. The token belongs to
    /// the `Action::Invalidate`.
    Fencing(Token),
}

/// Memory that the peer can no longer access. Its region is not yet deregistered.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) token: Token,
    pub(super) handle: u32,
    pub(super) region: Registered<Memory>,
}

#[derive(Debug)]
pub(super) struct Windows {
    bound: BTreeMap<u32, Bound>,
    /// First in, first out, so that a handle is reused as late as possible.
    free: VecDeque<Window>,
    fenced: Vec<Fenced>,
}

impl Windows {
    /// Creates the first window. Fails if the device cannot allocate a window.
    pub(super) fn new(domain: &Arc<Domain>) -> io::Result<Self> {
        let free = VecDeque::from([Window::new(domain)?]);
        Ok(Windows { bound: BTreeMap::new(), free, fenced: Vec::new() })
    }

    /// Assigns a window to a region and returns the handle for [`Windows::bind`].
    pub(super) fn allocate(
        &mut self,
        domain: &Arc<Domain>,
        region: Registered<Memory>,
    ) -> Result<u32, (Registered<Memory>, io::Error)> {
        let window = match self.free.pop_front().map_or_else(|| Window::new(domain), Ok) {
            Ok(window) => window,
            Err(error) => return Err((region, error)),
        };
        let access = match region.memory() {
            Memory::Source(_) => Access::IBV_ACCESS_REMOTE_READ,
            Memory::Sink(_) => Access::IBV_ACCESS_REMOTE_WRITE,
        };
        let handle = window.next_handle();
        self.bound.insert(handle, Bound { state: State::Queued, access, window, region });
        Ok(handle)
    }

    /// Fills in a request that binds a window. Returns false if the handle belongs to no window.
    ///
    /// The request refers to the window and its region. Both stay alive until the window is invalidated or
    /// the connection ends. A window is invalidated only after this request is posted.
    pub(super) fn bind(&mut self, handle: u32, request: &mut ib::ibv_send_wr) -> bool {
        let Some(bound) = self.bound.get_mut(&handle) else { return false };
        bound.state = State::Bound;
        request.opcode = ibv_wr_opcode::IBV_WR_BIND_MW;
        request.__bindgen_anon_2.bind_mw = ib::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
            mw: bound.window.raw.as_ptr(),
            rkey: handle,
            bind_info: ib::ibv_mw_bind_info {
                mr: bound.region.as_ptr(),
                addr: bound.region.address(),
                length: bound.region.len() as u64,
                mw_access_flags: bound.access.0,
            },
        };
        true
    }

    /// Fills in a request that invalidates a window. Returns false if the handle belongs to no window, or if
    /// the peer has already invalidated the window. In the latter case, also fences the region.
    pub(super) fn unbind(&mut self, token: Token, handle: u32, request: &mut ib::ibv_send_wr) -> bool {
        let Some(bound) = self.bound.get_mut(&handle) else { return false };
        if bound.state == State::Invalidated {
            self.fence(token, handle);
            return false;
        }
        bound.state = State::Fencing(token);
        request.opcode = ibv_wr_opcode::IBV_WR_LOCAL_INV;
        request.__bindgen_anon_1.invalidate_rkey = handle;
        true
    }

    /// Handles the completion of a local invalidation.
    pub(super) fn unbound(&mut self, handle: u32) {
        if let Some(Bound { state: State::Fencing(token), .. }) = self.bound.get(&handle) {
            let token = *token;
            self.fence(token, handle);
        }
    }

    /// Handles a remote invalidation. Returns false if the peer had no right to invalidate this handle.
    pub(super) fn invalidated(&mut self, handle: u32) -> bool {
        match self.bound.get_mut(&handle) {
            Some(bound) if bound.state == State::Bound => {
                bound.state = State::Invalidated;
                true
            }
            _ => false,
        }
    }

    /// Moves the region of an invalidated window to the fenced regions. Keeps the window for reuse unless
    /// [`MAX_FREE`] windows are free.
    pub(super) fn fence(&mut self, token: Token, handle: u32) {
        let Some(Bound { mut window, region, .. }) = self.bound.remove(&handle) else { return };
        window.set_handle(handle);
        if self.free.len() < MAX_FREE {
            self.free.push_back(window);
        }
        self.fenced.push(Fenced { token, handle, region });
    }

    pub(super) fn state(&self, handle: u32) -> Option<State> {
        self.bound.get(&handle).map(|bound| bound.state)
    }

    pub(super) fn take_fenced(&mut self) -> Vec<Fenced> {
        std::mem::take(&mut self.fenced)
    }

    /// Destroys all windows. The returned regions are still registered.
    pub(super) fn into_regions(self) -> Vec<Registered<Memory>> {
        let bound = self.bound.into_values().map(|Bound { window, region, .. }| {
            drop(window);
            region
        });
        bound.chain(self.fenced.into_iter().map(|fenced| fenced.region)).collect()
    }
}

/// Registers memory that will be advertised: through a window if `windowed`, otherwise by the region's own
/// handle.
pub(super) fn register(
    domain: &Arc<Domain>,
    memory: Memory,
    windowed: bool,
) -> Result<Registered<Memory>, (Memory, io::Error)> {
    let access = match (&memory, windowed) {
        (Memory::Source(_), false) => Access::IBV_ACCESS_REMOTE_READ,
        (Memory::Sink(_), false) => Access::IBV_ACCESS_REMOTE_WRITE | Access::IBV_ACCESS_LOCAL_WRITE,
        (Memory::Source(_), true) => Access::IBV_ACCESS_MW_BIND,
        (Memory::Sink(_), true) => Access::IBV_ACCESS_MW_BIND | Access::IBV_ACCESS_LOCAL_WRITE,
    };
    match Registered::new(domain, memory, access) {
        // Linux refuses to register read-only memory, such as constants, for windows, even if no window
        // grants write access. The provider then registers a copy.
        Err((Memory::Source(data), error)) if windowed && error.raw_os_error() == Some(libc::EFAULT) => {
            let copy = Memory::Source(Bytes::copy_from_slice(&data));
            Registered::new(domain, copy, access).map_err(|(_, error)| (Memory::Source(data), error))
        }
        registered => registered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_cycles_through_256_handles() {
        assert_eq!(next_handle(0x1234_5600), 0x1234_5601);
        assert_eq!(next_handle(0xffff_ffff), 0xffff_ff00);
        let handles: std::collections::BTreeSet<u32> =
            std::iter::successors(Some(0xab_cdef), |handle| Some(next_handle(*handle))).take(300).collect();
        assert_eq!(handles.len(), 256);
        assert!(handles.iter().all(|handle| handle >> 8 == 0xabcd));
    }
}
