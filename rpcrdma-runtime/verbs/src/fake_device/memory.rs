//! Protection domains, memory regions and memory windows.

use std::mem::MaybeUninit;
use std::ptr;

use crate::objects::Access;
use ibverbs_sys as ib;
use libc::{c_int, c_void};

use super::{Device, allocate, device, free, null};

/// L_Keys, R_Keys and the handles of windows are in disjoint ranges, so the device rejects a key of the wrong
/// kind.
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
    fn part(&self, address: u64, len: usize) -> Option<*mut u8> {
        let skip = usize::try_from(address.checked_sub(self.at.addr() as u64)?).ok()?;
        // SAFETY: the offset is within the registered memory or at its end.
        (skip.checked_add(len)? <= self.len).then(|| unsafe { self.at.add(skip) })
    }

    /// Accesses the whole region, as the device may do at any time while the region is registered.
    fn touch(&self) {
        touch(self.at, self.len, self.access & LOCAL_WRITE != 0);
    }
}

/// Reads memory and, if `writes` is true, writes the same octets back.
pub(super) fn touch(at: *mut u8, len: usize, writes: bool) {
    let mut copy: Vec<MaybeUninit<u8>> = Vec::with_capacity(len);
    // SAFETY: the memory is registered, so the provider guarantees that it is allocated. If the memory is
    // writable, the provider also guarantees that nothing else accesses the memory. Miri checks both
    // guarantees.
    unsafe { ptr::copy_nonoverlapping(at.cast(), copy.as_mut_ptr(), len) };
    if writes {
        // SAFETY: as for the read above.
        unsafe { ptr::copy_nonoverlapping(copy.as_ptr(), at.cast(), len) };
    }
}

pub(super) struct Window {
    raw: *mut ib::ibv_mw,
    domain: usize,
    /// The upper 24 bits of all handles of this window.
    handle_base: u32,
    last_handle: u32,
    bound: Option<Bound>,
}

impl Window {
    pub(super) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// The memory of a bound window, and the queue pair that bound it.
struct Bound {
    pair: usize,
    region: usize,
    address: u64,
    len: u64,
    access: u32,
}

pub(super) struct Binding {
    pub(super) window: usize,
    pub(super) key: u32,
    pub(super) region: usize,
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) access: u32,
}

impl Device {
    /// Finds the registered memory to which a local scatter/gather element refers. Returns `None` if the
    /// element is invalid, or if `writes` is true and the memory is not writable.
    pub(super) fn local(&self, domain: usize, sge: &ib::ibv_sge, writes: bool) -> Option<*mut u8> {
        let region = self.regions.values().find(|region| region.local_key == sge.lkey)?;
        let allowed = region.domain == domain && (!writes || region.access & LOCAL_WRITE != 0);
        region.part(sge.addr, usize::try_from(sge.length).ok()?).filter(|_| allowed)
    }

    /// Finds the registered memory for a key and an address that the peer of the queue pair `pair` sent.
    /// Returns `None` unless the key permits `access` to the whole range.
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
        let window = self.windows.values().find(|window| window.last_handle == key)?;
        let bound = window.bound.as_ref()?;
        let allowed = bound.pair == pair && bound.access & access != 0;
        let skip = address.checked_sub(bound.address)?;
        let inside = skip.checked_add(len as u64)? <= bound.len;
        self.regions.get(&bound.region)?.part(address, len).filter(|_| allowed && inside)
    }

    /// Binds an unbound window. Returns false if the request is invalid.
    pub(super) fn bind(&mut self, (pair, domain): (usize, usize), binding: &Binding) -> bool {
        let Some(region) = self.regions.get(&binding.region) else { return false };
        let rights = BIND | if binding.access & REMOTE_WRITE != 0 { LOCAL_WRITE } else { 0 };
        let fits = usize::try_from(binding.len).is_ok_and(|len| region.part(binding.address, len).is_some());
        if region.domain != domain || region.access & rights != rights || !fits {
            return false;
        }
        let Some(window) = self.windows.get_mut(&binding.window) else { return false };
        // The peer may still use the last handle, so the new handle must differ.
        let is_new_handle = window.handle_base == binding.key & !0xff && window.last_handle != binding.key;
        if window.domain != domain || window.bound.is_some() || !is_new_handle {
            return false;
        }
        let Binding { key, region, address, len, access, .. } = *binding;
        window.last_handle = key;
        window.bound = Some(Bound { pair, region, address, len, access });
        true
    }

    /// Invalidates the window that a queue pair has bound with the handle `key`. Returns false if the queue
    /// pair has bound no window with this handle.
    pub(super) fn unbind(&mut self, pair: usize, key: u32) -> bool {
        let mut windows = self.windows.values_mut();
        let window = windows.find(|window| {
            window.last_handle == key && window.bound.as_ref().is_some_and(|bound| bound.pair == pair)
        });
        window.is_some_and(|window| window.bound.take().is_some())
    }

    /// Accesses all regions whose deregistration failed, because they remain accessible to the device.
    pub(super) fn touch_leaked_regions(&mut self) {
        self.leaked_regions.iter().for_each(Region::touch);
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: *mut ib::ibv_context) -> *mut ib::ibv_pd {
    let mut device = device();
    if device.fails() {
        return null(libc::ENOMEM);
    }
    let raw = allocate(ib::ibv_pd { context, handle: 0 });
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
        device.report("a protection domain is freed before the objects that depend on it");
        return libc::EBUSY;
    }
    let Some(domain) = device.domains.remove(&at) else {
        device.report("an unknown protection domain is freed");
        return libc::EINVAL;
    };
    if device.leaked_regions.iter().any(|region| region.domain == at) {
        device.leaked_domains.push(domain);
        return libc::EBUSY;
    }
    // SAFETY: the domain was allocated by `allocate` and is no longer in the table.
    unsafe { free(domain.raw) };
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
    if device.fails() || device.faults.fail_registration {
        return null(libc::ENOMEM);
    }
    if device.gone {
        return null(libc::EIO);
    }
    let access = access.cast_unsigned();
    if access & REMOTE_WRITE != 0 && access & LOCAL_WRITE == 0 {
        return null(libc::EINVAL);
    }
    if access & BIND != 0 && device.faults.read_only == Some(addr.addr()) {
        return null(libc::EFAULT);
    }
    let handle = device.number();
    let (local_key, remote_key) = (LOCAL | handle << 8, REMOTE | handle << 8);
    // SAFETY: the caller guarantees that the domain is alive.
    let context = unsafe { (*pd).context };
    let raw = allocate(ib::ibv_mr { context, pd, addr, length, handle, lkey: local_key, rkey: remote_key });
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
        device.report("a memory region is deregistered while a window is bound to it");
        return libc::EBUSY;
    }
    let Some(region) = device.regions.remove(&at) else {
        device.report("an unknown memory region is deregistered");
        return libc::EINVAL;
    };
    region.touch();
    if device.is_used_by_work(region.local_key) {
        device.report("a memory region is deregistered while posted work uses it");
    }
    if device.faults.fail_deregistration {
        device.leaked_regions.push(region);
        return libc::EBUSY;
    }
    // SAFETY: the region was allocated by `allocate` and is no longer in the table.
    unsafe { free(region.raw) };
    0
}

pub(super) extern "C" fn alloc_mw(pd: *mut ib::ibv_pd, kind: ib::ibv_mw_type) -> *mut ib::ibv_mw {
    let mut device = device();
    if device.fails() || device.windows.len() >= device.settings.windows {
        return null(libc::ENOMEM);
    }
    if kind != ib::IBV_MW_TYPE_2 {
        return null(libc::EINVAL);
    }
    let handle = device.number();
    let handle_base = WINDOW | handle << 8;
    // SAFETY: the caller guarantees that the domain is alive.
    let context = unsafe { (*pd).context };
    let raw = allocate(ib::ibv_mw { context, pd, rkey: handle_base, handle, type_: kind });
    let window = Window { raw, domain: pd.addr(), handle_base, last_handle: handle_base, bound: None };
    device.windows.insert(raw.addr(), window);
    raw
}

pub(super) extern "C" fn dealloc_mw(mw: *mut ib::ibv_mw) -> c_int {
    let mut device = device();
    let Some(window) = device.windows.remove(&mw.addr()) else {
        device.report("an unknown memory window is freed");
        return libc::EINVAL;
    };
    // SAFETY: the window was allocated by `allocate` and is no longer in the table.
    unsafe { free(window.raw) };
    0
}
