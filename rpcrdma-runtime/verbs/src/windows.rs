//! Memory windows of type 2. A region is registered without any right of the peer's, and what is advertised is a window over all
//! of it: the work that binds one goes ahead of the message that names it, and whoever ends it, this end by work of its own or
//! the peer by Send with Invalidate, ends all access at the device.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use ib::ibv_wr_opcode;
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{Memory, Token};

use super::objects::{Access, Domain, Registered, destroyed};

/// Windows that are kept for the next piece of memory.
const KEPT: usize = 256;

/// One window. It goes before the region that it is bound to.
#[derive(Debug)]
struct Window {
    raw: NonNull<ib::ibv_mw>,
    _domain: Arc<Domain>,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Window {}

impl Window {
    fn new(domain: &Arc<Domain>) -> io::Result<Self> {
        // SAFETY: the domain lives, and its context with it; the table of calls was filled when the device was opened.
        let alloc = unsafe { (*(*domain.as_ptr()).context).ops.alloc_mw };
        let alloc = alloc.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the domain lives as long as the window, which keeps it.
        let raw = NonNull::new(unsafe { alloc(domain.as_ptr(), ib::IBV_MW_TYPE_2) });
        let raw = raw.ok_or_else(io::Error::last_os_error)?;
        Ok(Window { raw, _domain: domain.clone() })
    }

    /// What it is called when it is bound the next time: its last octet is another one each time.
    fn next_handle(&self) -> u32 {
        // SAFETY: the window lives.
        next(unsafe { self.raw.as_ref().rkey })
    }

    /// The device calls it so now, since it was bound under this name; who binds it again has to know.
    fn is_called(&mut self, handle: u32) {
        // SAFETY: the window lives, and nobody else looks at it now: work that names it is complete.
        unsafe { self.raw.as_mut().rkey = handle };
    }
}

/// The name after this one, of the same window.
fn next(handle: u32) -> u32 {
    handle & !0xff | handle.wrapping_add(1) & 0xff
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window lives, and its context with it.
        let dealloc = unsafe { (*self.raw.as_ref().context).ops.dealloc_mw };
        if let Some(dealloc) = dealloc {
            // SAFETY: it is freed once; work that names it is complete, or finds that it is gone.
            destroyed("a memory window", unsafe { dealloc(self.raw.as_ptr()) });
        }
    }
}

/// A window over memory.
#[derive(Debug)]
struct Bound {
    state: State,
    access: Access,
    window: Window,
    region: Registered<Memory>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is to be bound.
    Asked,
    /// The device was told to bind it.
    Bound,
    /// The peer has ended it.
    Invalidated,
    /// It is to be ended, and that has this name.
    Fencing(Token),
}

/// Memory that no peer reaches any more. Its region is still to be destroyed.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) token: Token,
    pub(super) handle: u32,
    pub(super) region: Registered<Memory>,
}

/// The windows of one connection.
#[derive(Debug)]
pub(super) struct Windows {
    bound: BTreeMap<u32, Bound>,
    /// The one that was free for the longest time is used first, so that a name comes back late.
    free: VecDeque<Window>,
    fenced: Vec<Fenced>,
}

impl Windows {
    /// With a first one, or the device has none for this connection.
    pub(super) fn new(domain: &Arc<Domain>) -> io::Result<Self> {
        let free = VecDeque::from([Window::new(domain)?]);
        Ok(Windows { bound: BTreeMap::new(), free, fenced: Vec::new() })
    }

    pub(super) fn ask(
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
        self.bound.insert(handle, Bound { state: State::Asked, access, window, region });
        Ok(handle)
    }

    /// Has the request bind a window. False if that is gone.
    ///
    /// The request names window and region, which stay until work that ends the window is complete, or the peer has ended it:
    /// neither is before the request has been posted.
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

    /// Has the request end a window. False if there is nothing to post, since the peer has done that.
    pub(super) fn unbind(&mut self, token: Token, handle: u32, request: &mut ib::ibv_send_wr) -> bool {
        let Some(bound) = self.bound.get_mut(&handle) else { return false };
        if bound.state == State::Invalidated {
            self.end(token, handle);
            return false;
        }
        bound.state = State::Fencing(token);
        request.opcode = ibv_wr_opcode::IBV_WR_LOCAL_INV;
        request.__bindgen_anon_1.invalidate_rkey = handle;
        true
    }

    /// The device has ended a window, as it was asked to.
    pub(super) fn unbound(&mut self, handle: u32) {
        if let Some(Bound { state: State::Fencing(token), .. }) = self.bound.get(&handle) {
            let token = *token;
            self.end(token, handle);
        }
    }

    /// The peer has ended a window. False if it is none that was there for it to end.
    pub(super) fn invalidated(&mut self, handle: u32) -> bool {
        match self.bound.get_mut(&handle) {
            Some(bound) if bound.state == State::Bound => {
                bound.state = State::Invalidated;
                true
            }
            _ => false,
        }
    }

    pub(super) fn end(&mut self, token: Token, handle: u32) {
        let Some(Bound { mut window, region, .. }) = self.bound.remove(&handle) else { return };
        window.is_called(handle);
        if self.free.len() < KEPT {
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

    /// Ends all of them; what they were over is still registered.
    pub(super) fn into_regions(self) -> Vec<Registered<Memory>> {
        let bound = self.bound.into_values().map(|Bound { window, region, .. }| {
            drop(window);
            region
        });
        bound.chain(self.fenced.into_iter().map(|fenced| fenced.region)).collect()
    }
}

/// Registers memory that is to be advertised: by the region itself, or through a window over it.
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
        // Linux registers nothing for windows that it could not write, whatever their rights are; constants are such.
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
    fn a_window_has_256_names_in_turns() {
        assert_eq!(next(0x1234_5600), 0x1234_5601);
        assert_eq!(next(0xffff_ffff), 0xffff_ff00);
        let names: std::collections::BTreeSet<u32> =
            std::iter::successors(Some(0xab_cdef), |name| Some(next(*name))).take(300).collect();
        assert_eq!(names.len(), 256);
        assert!(names.iter().all(|name| name >> 8 == 0xabcd));
    }
}
