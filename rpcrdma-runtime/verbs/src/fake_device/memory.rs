//! Protection domains, memory regions and memory windows.

use std::mem::MaybeUninit;
use std::ptr;

use crate::objects::Access;
use ibverbs_sys as ib;
use libc::{c_int, c_void};

use super::{Device, device, ended, made, none};

/// Names for this end, and for the peer: one taken for the other is no name.
const LOCAL: u32 = 0x1000_0000;
const REMOTE: u32 = 0x2000_0000;
const WINDOW: u32 = 0x4000_0000;

pub(super) const LOCAL_WRITE: u32 = Access::IBV_ACCESS_LOCAL_WRITE.0;
pub(super) const REMOTE_WRITE: u32 = Access::IBV_ACCESS_REMOTE_WRITE.0;
pub(super) const REMOTE_READ: u32 = Access::IBV_ACCESS_REMOTE_READ.0;
const BIND: u32 = Access::IBV_ACCESS_MW_BIND.0;

pub(super) struct Domain {
    raw: *mut ib::ibv_pd,
    pub(super) context: usize,
}

/// Memory that it can reach, by the pointer that it was given.
pub(super) struct Region {
    raw: *mut ib::ibv_mr,
    domain: usize,
    at: *mut u8,
    len: usize,
    access: u32,
    local_key: u32,
    remote_key: u32,
}

impl Region {
    /// As many octets of it as are asked for, if it has them.
    fn part(&self, address: u64, len: usize) -> Option<*mut u8> {
        let skip = usize::try_from(address.checked_sub(self.at.addr() as u64)?).ok()?;
        // SAFETY: it is within the memory that was registered, or at its end.
        (skip.checked_add(len)? <= self.len).then(|| unsafe { self.at.add(skip) })
    }

    /// Uses all of it, as the device may do at any time while it is registered.
    fn touch(&self) {
        touch(self.at, self.len, self.access & LOCAL_WRITE != 0);
    }
}

/// Reads memory, and writes what is there already if it may.
pub(super) fn touch(at: *mut u8, len: usize, writes: bool) {
    let mut copy: Vec<MaybeUninit<u8>> = Vec::with_capacity(len);
    // SAFETY: the memory is registered, so the provider has promised that it is there, and that nobody looks at it if it may
    // be written. Miri says whether that is so.
    unsafe { ptr::copy_nonoverlapping(at.cast(), copy.as_mut_ptr(), len) };
    if writes {
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(copy.as_ptr(), at.cast(), len) };
    }
}

pub(super) struct Window {
    raw: *mut ib::ibv_mw,
    domain: usize,
    /// The part of its names that stays.
    name: u32,
    last: u32,
    bound: Option<Bound>,
}

impl Window {
    pub(super) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// What a window is over, for the queue pair that has bound it.
struct Bound {
    pair: usize,
    region: usize,
    address: u64,
    len: u64,
    access: u32,
}

/// What work asks to bind.
pub(super) struct Binding {
    pub(super) window: usize,
    pub(super) key: u32,
    pub(super) region: usize,
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) access: u32,
}

impl Device {
    /// Memory that this end names.
    pub(super) fn local(&self, domain: usize, piece: &ib::ibv_sge, writes: bool) -> Option<*mut u8> {
        let region = self.regions.values().find(|region| region.local_key == piece.lkey)?;
        let allowed = region.domain == domain && (!writes || region.access & LOCAL_WRITE != 0);
        region.part(piece.addr, usize::try_from(piece.length).ok()?).filter(|_| allowed)
    }

    /// Memory that the peer of a queue pair names, if the peer has this right.
    pub(super) fn remote(
        &self,
        (pair, domain): (usize, usize),
        key: u32,
        address: u64,
        len: usize,
        access: u32,
    ) -> Option<*mut u8> {
        if let Some(region) = self.regions.values().find(|region| region.remote_key == key) {
            let allowed = region.domain == domain && region.access & access != 0;
            return region.part(address, len).filter(|_| allowed);
        }
        let window = self.windows.values().find(|window| window.last == key)?;
        let bound = window.bound.as_ref()?;
        let allowed = bound.pair == pair && bound.access & access != 0;
        let skip = address.checked_sub(bound.address)?;
        let inside = skip.checked_add(len as u64)? <= bound.len;
        self.regions.get(&bound.region)?.part(address, len).filter(|_| allowed && inside)
    }

    /// Binds a window that is bound to nothing.
    pub(super) fn bind(&mut self, (pair, domain): (usize, usize), asked: &Binding) -> bool {
        let Some(region) = self.regions.get(&asked.region) else { return false };
        let rights = BIND | if asked.access & REMOTE_WRITE != 0 { LOCAL_WRITE } else { 0 };
        let fits = usize::try_from(asked.len).is_ok_and(|len| region.part(asked.address, len).is_some());
        if region.domain != domain || region.access & rights != rights || !fits {
            return false;
        }
        let Some(window) = self.windows.get_mut(&asked.window) else { return false };
        // A name that has just been used could be one that the peer still has.
        let named = window.name == asked.key & !0xff && window.last != asked.key;
        if window.domain != domain || window.bound.is_some() || !named {
            return false;
        }
        let Binding { key, region, address, len, access, .. } = *asked;
        window.last = key;
        window.bound = Some(Bound { pair, region, address, len, access });
        true
    }

    /// Ends a window of a queue pair.
    pub(super) fn unbind(&mut self, pair: usize, key: u32) -> bool {
        let mut windows = self.windows.values_mut();
        let window = windows.find(|window| {
            window.last == key && window.bound.as_ref().is_some_and(|bound| bound.pair == pair)
        });
        window.is_some_and(|window| window.bound.take().is_some())
    }

    /// Uses all memory of which it did not let go: it never will.
    pub(super) fn use_what_is_kept(&mut self) {
        self.kept_regions.iter().for_each(Region::touch);
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: *mut ib::ibv_context) -> *mut ib::ibv_pd {
    let mut device = device();
    if device.fails() {
        return none(libc::ENOMEM);
    }
    let raw = made(ib::ibv_pd { context, handle: 0 });
    device.domains.insert(raw.addr(), Domain { raw, context: context.addr() });
    raw
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(pd: *mut ib::ibv_pd) -> c_int {
    let mut device = device();
    let at = pd.addr();
    let used = device.regions.values().any(|region| region.domain == at)
        || device.windows.values().any(|window| window.domain == at)
        || device.pairs.values().any(|pair| pair.domain == at);
    if used {
        device.complain("a protection domain is freed before what stands on it");
        return libc::EBUSY;
    }
    let Some(domain) = device.domains.remove(&at) else {
        device.complain("a protection domain is freed that is not there");
        return libc::EINVAL;
    };
    if device.kept_regions.iter().any(|region| region.domain == at) {
        device.kept_domains.push(domain);
        return libc::EBUSY;
    }
    // SAFETY: it was made, and is not in the table any more.
    unsafe { ended(domain.raw) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr(
    pd: *mut ib::ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ib::ibv_mr {
    let mut device = device();
    if device.fails() || device.faults.registers_nothing {
        return none(libc::ENOMEM);
    }
    if device.gone {
        return none(libc::EIO);
    }
    let access = access.cast_unsigned();
    if access & REMOTE_WRITE != 0 && access & LOCAL_WRITE == 0 {
        return none(libc::EINVAL);
    }
    if access & BIND != 0 && device.faults.constants == Some(addr.addr()) {
        return none(libc::EFAULT);
    }
    let handle = device.number();
    let (local_key, remote_key) = (LOCAL | handle << 8, REMOTE | handle << 8);
    // SAFETY: the domain is the caller's, and lives.
    let context = unsafe { (*pd).context };
    let raw = made(ib::ibv_mr { context, pd, addr, length, handle, lkey: local_key, rkey: remote_key });
    let (domain, at, len) = (pd.addr(), addr.cast(), length);
    let region = Region { raw, domain, at, len, access, local_key, remote_key };
    region.touch();
    device.regions.insert(raw.addr(), region);
    raw
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dereg_mr(mr: *mut ib::ibv_mr) -> c_int {
    let mut device = device();
    let at = mr.addr();
    if device.windows.values().any(|window| window.bound.as_ref().is_some_and(|bound| bound.region == at)) {
        device.complain("a memory region is destroyed while a window is over it");
        return libc::EBUSY;
    }
    let Some(region) = device.regions.remove(&at) else {
        device.complain("a memory region is destroyed that is not there");
        return libc::EINVAL;
    };
    region.touch();
    if device.is_named_by_work(region.local_key) {
        device.complain("a memory region is destroyed while work names it");
    }
    if device.faults.keeps_memory {
        device.kept_regions.push(region);
        return libc::EBUSY;
    }
    // SAFETY: it was made, and is not in the table any more.
    unsafe { ended(region.raw) };
    0
}

pub(super) extern "C" fn alloc_mw(pd: *mut ib::ibv_pd, kind: ib::ibv_mw_type) -> *mut ib::ibv_mw {
    let mut device = device();
    if device.fails() || device.windows.len() >= device.settings.windows {
        return none(libc::ENOMEM);
    }
    if kind != ib::IBV_MW_TYPE_2 {
        return none(libc::EINVAL);
    }
    let handle = device.number();
    let name = WINDOW | handle << 8;
    // SAFETY: the domain is the caller's, and lives.
    let context = unsafe { (*pd).context };
    let raw = made(ib::ibv_mw { context, pd, rkey: name, handle, type_: kind });
    device.windows.insert(raw.addr(), Window { raw, domain: pd.addr(), name, last: name, bound: None });
    raw
}

pub(super) extern "C" fn dealloc_mw(mw: *mut ib::ibv_mw) -> c_int {
    let mut device = device();
    let Some(window) = device.windows.remove(&mw.addr()) else {
        device.complain("a memory window is freed that is not there");
        return libc::EINVAL;
    };
    // SAFETY: it was made, and is not in the table any more.
    unsafe { ended(window.raw) };
    0
}
