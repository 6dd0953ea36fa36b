//! The device list, the device attributes and the contexts.

use std::ffi::c_char;
use std::ptr;

use ibverbs_sys as ib;
use libc::c_int;

use super::{ADDRESS, Context, Device, allocate, device, failed, free, memory, null, queues, work, zeros};

/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`.
const EXTENSIONS: u32 = 1 << 21;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2B`.
const WINDOWS: u32 = 1 << 24;

impl Device {
    pub(super) fn init(&mut self) {
        if self.hardware.is_null() {
            // SAFETY: the structure contains only integers and optional functions, so all zeros is a valid
            // value.
            let mut hardware: ib::ibv_device = unsafe { zeros() };
            for (to, from) in hardware.name.iter_mut().zip(*b"fake0") {
                *to = from.cast_signed();
            }
            self.hardware = allocate(hardware);
        }
        let transport = if self.settings.iwarp { ib::IBV_TRANSPORT_IWARP } else { ib::IBV_TRANSPORT_IB };
        // SAFETY: the device is allocated once and never freed.
        unsafe { (*self.hardware).transport_type = transport };
    }

    pub(super) fn open(&mut self) -> *mut ib::ibv_context {
        let mut raw = ib::ibv_context {
            device: self.hardware,
            // SAFETY: the structure contains only integers, raw pointers and optional functions, so all zeros
            // is a valid value.
            ..unsafe { zeros() }
        };
        raw.ops.alloc_mw = Some(memory::alloc_mw);
        raw.ops.dealloc_mw = Some(memory::dealloc_mw);
        raw.ops.poll_cq = Some(queues::poll_cq);
        raw.ops.req_notify_cq = Some(queues::req_notify_cq);
        raw.ops.post_send = Some(work::post_send);
        raw.ops.post_recv = Some(work::post_recv);
        let raw = allocate(raw);
        self.contexts.insert(raw.addr(), Context { raw });
        raw
    }

    pub(super) fn close(&mut self, at: usize) {
        let used = self.domains.values().any(|domain| domain.context == at)
            || self.channels.values().any(|channel| channel.context == at)
            || self.queues.values().any(|queue| queue.context == at);
        if used {
            self.report("a context is closed before the objects that depend on it");
        }
        match self.contexts.remove(&at) {
            // SAFETY: the context was allocated by `allocate` and is no longer in the table.
            Some(context) => unsafe { free(context.raw) },
            None => self.report("an unknown context is closed"),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ib::ibv_device {
    let mut device = device();
    let (first, length) = if device.gone { (ptr::null_mut(), 0) } else { (device.hardware, 1) };
    // SAFETY: the caller's pointer is writable.
    unsafe { count.write(length) };
    let list = allocate([first, ptr::null_mut()]);
    device.lists.insert(list.addr(), list);
    list.cast()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(list: *mut *mut ib::ibv_device) {
    let mut device = device();
    match device.lists.remove(&list.addr()) {
        // SAFETY: the list was allocated by `allocate` and is no longer in the table. The caller's pointer
        // may have the provenance of the first element only, so the list is freed through the pointer from
        // the table.
        Some(list) => unsafe { free(list) },
        None => device.report("an unknown device list is freed"),
    }
}

/// Returns an empty list, which the caller must free. Unlike this function, librdmacm returns a null
/// pointer if no device is present.
#[unsafe(no_mangle)]
extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ib::ibv_context {
    // SAFETY: the caller's pointer is writable.
    unsafe { count.write(0) };
    allocate(ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_free_devices(list: *mut *mut ib::ibv_context) {
    // SAFETY: the list was allocated by `rdma_get_devices`.
    unsafe { free(list) };
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_name(device: *mut ib::ibv_device) -> *const c_char {
    // SAFETY: the device is in a list or open. Its name is never modified.
    unsafe { (&raw const (*device).name).cast() }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_guid(_device: *mut ib::ibv_device) -> ib::__be64 {
    0x0102_0304_0506_0708_u64.to_be()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(_device: *mut ib::ibv_device) -> *mut ib::ibv_context {
    let mut device = device();
    if device.gone || device.fails() {
        return null(libc::ENODEV);
    }
    device.open()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(context: *mut ib::ibv_context) -> c_int {
    device().close(context.addr());
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_device(_context: *mut ib::ibv_context, into: *mut ib::ibv_device_attr) -> c_int {
    let device = device();
    let settings = device.settings;
    let windows = c_int::try_from(settings.windows).unwrap_or(c_int::MAX);
    let attributes = ib::ibv_device_attr {
        max_qp_wr: 1024,
        max_cqe: 4096,
        max_sge: settings.max_sges.cast_signed(),
        max_mr_size: 1 << 30,
        max_qp_rd_atom: 16,
        max_qp_init_rd_atom: 8,
        phys_port_cnt: 1,
        max_mw: windows,
        device_cap_flags: EXTENSIONS | if windows > 0 { WINDOWS } else { 0 },
        // SAFETY: the structure contains only integers, so all zeros is a valid value.
        ..unsafe { zeros() }
    };
    // SAFETY: the caller's pointer is writable.
    unsafe { into.write(attributes) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_port(
    _context: *mut ib::ibv_context,
    port: u8,
    into: *mut ib::_compat_ibv_port_attr,
) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    let message = device().settings.max_message;
    // SAFETY: the structure contains only integers, so all zeros is a valid value.
    let zeros: ib::ibv_port_attr = unsafe { zeros() };
    let active = ib::ibv_port_state::IBV_PORT_ACTIVE;
    let attributes = ib::ibv_port_attr { state: active, gid_tbl_len: 2, max_msg_sz: message, ..zeros };
    // SAFETY: the caller's pointer refers to a writable `ibv_port_attr`, although its declared type is the
    // older form.
    unsafe { into.cast::<ib::ibv_port_attr>().write(attributes) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_gid(
    _context: *mut ib::ibv_context,
    port: u8,
    index: c_int,
    into: *mut ib::ibv_gid,
) -> c_int {
    let raw = match (port, index) {
        (1, 0) => ADDRESS.to_ipv6_mapped().octets(),
        (1, 1) => [0; 16],
        _ => return failed(libc::EINVAL),
    };
    // SAFETY: the caller's pointer is writable.
    unsafe { into.write(ib::ibv_gid { raw }) };
    0
}
