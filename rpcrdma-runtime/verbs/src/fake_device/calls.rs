//! The functions of librdmacm, except those that list devices.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ptr;

use crate::address::{from_storage, to_storage};
use crate::rdmacm_ffi::{CmEvent, CmId, ConnParam, EventChannel, event};
use ibverbs_sys as ib;
use libc::c_int;

use super::cm::{EventQueue, Ident, Parameters, Step};
use super::queues::Signal;
use super::{ADDRESS, UNRESOLVABLE, allocate, device, failed, free, null, zeros};

fn return_value(outcome: Result<(), c_int>) -> c_int {
    outcome.map_or_else(failed, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut EventChannel {
    let mut device = device();
    if device.fails() {
        return null(libc::EMFILE);
    }
    let signal = Signal::new();
    let raw = allocate(EventChannel { fd: signal.descriptor() });
    device.event_queues.insert(raw.addr(), EventQueue { raw, signal, waiting: VecDeque::new() });
    raw
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_event_channel(channel: *mut EventChannel) {
    let mut device = device();
    let at = channel.addr();
    if device.ids.values().any(|ident| ident.channel == at) {
        return device.report("an event channel is destroyed before its id");
    }
    match device.event_queues.remove(&at) {
        // SAFETY: the channel was allocated by `allocate` and is no longer in the table.
        Some(queue) => unsafe { free(queue.raw) },
        None => device.report("an unknown event channel is destroyed"),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_id(
    channel: *mut EventChannel,
    id: *mut *mut CmId,
    _context: *mut c_void,
    _port_space: c_int,
) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    let raw = device.make_id(channel);
    // SAFETY: the caller's pointer is writable.
    unsafe { id.write(raw) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_id(id: *mut CmId) -> c_int {
    return_value(device().destroy_id(id.addr()))
}

fn read_address(address: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: the provider always passes a pointer to a `sockaddr_storage`.
    from_storage(unsafe { &*address.cast() })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_bind_addr(id: *mut CmId, address: *mut libc::sockaddr) -> c_int {
    let mut device = device();
    let Some(address) = read_address(address) else { return failed(libc::EAFNOSUPPORT) };
    if device.fails() {
        return failed(libc::EADDRINUSE);
    }
    if device.gone || address.ip() != IpAddr::from(ADDRESS) {
        let is_unspecified = address.ip() == IpAddr::from(Ipv4Addr::UNSPECIFIED);
        return if is_unspecified { 0 } else { failed(libc::EADDRNOTAVAIL) };
    }
    device.bind_id(id.addr(), address);
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: *mut CmId, _backlog: c_int) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::EADDRINUSE);
    }
    let Some(ident) = device.ids.get_mut(&id.addr()) else { return failed(libc::EINVAL) };
    ident.step = Step::Listening;
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_addr(
    id: *mut CmId,
    _source: *mut libc::sockaddr,
    destination: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    let mut device = device();
    let Some(to) = read_address(destination) else { return failed(libc::EAFNOSUPPORT) };
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    if to.ip() == IpAddr::from(UNRESOLVABLE) {
        device.send_event(id.addr(), event::ADDR_ERROR, -libc::ETIMEDOUT, Parameters::default(), None);
        return 0;
    }
    if device.gone || to.ip() != IpAddr::from(ADDRESS) {
        return failed(libc::ENODEV);
    }
    device.bind_id(id.addr(), SocketAddr::from((ADDRESS, 0)));
    let Some(ident) = device.ids.get_mut(&id.addr()) else { return failed(libc::EINVAL) };
    ident.step = Step::Resolved;
    // SAFETY: the id is in the table, so it is alive.
    unsafe { (*ident.raw).destination = to_storage(to) };
    device.send_plain_event(id.addr(), event::ADDR_RESOLVED);
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_route(id: *mut CmId, _timeout_ms: c_int) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    let resolved = device.ids.get_mut(&id.addr()).filter(|ident| ident.step == Step::Resolved);
    let Some(ident) = resolved else { return failed(libc::EINVAL) };
    ident.step = Step::Routed;
    device.send_plain_event(id.addr(), event::ROUTE_RESOLVED);
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp(
    id: *mut CmId,
    pd: *mut ib::ibv_pd,
    attributes: *mut ib::ibv_qp_init_attr,
) -> c_int {
    let mut device = device();
    // SAFETY: the caller's pointer is valid, and nothing else accesses the attributes during this call.
    let attributes = unsafe { &mut *attributes };
    let context = device.ids.get(&id.addr()).and_then(|ident| ident.context);
    if context.is_none() || device.domains.get(&pd.addr()).map(|domain| domain.context) != context {
        device.report("a queue pair is created with objects of different devices");
        return failed(libc::EINVAL);
    }
    // SAFETY: the id is in the table, so it is alive.
    let verbs = unsafe { (*id).verbs };
    match device.create_pair(verbs, pd, attributes) {
        Ok(raw) => {
            if let Some(ident) = device.ids.get_mut(&id.addr()) {
                ident.pair = Some(raw.addr());
            }
            // SAFETY: as above.
            unsafe { (*id).qp = raw };
            0
        }
        Err(errno) => {
            // The libraries may modify the capacities even if the call fails.
            attributes.cap.max_send_wr = 0;
            failed(errno)
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_qp(id: *mut CmId) {
    let mut device = device();
    match device.ids.get_mut(&id.addr()).and_then(|ident| ident.pair.take()) {
        Some(pair) => device.destroy_pair(pair),
        None => return device.report("an id has no queue pair to destroy"),
    }
    // SAFETY: the id is in the table, so it is alive.
    unsafe { (*id).qp = ptr::null_mut() };
    device.run();
}

#[unsafe(no_mangle)]
extern "C" fn rdma_connect(id: *mut CmId, parameters: *mut ConnParam) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::EADDRNOTAVAIL);
    }
    let routed =
        device.ids.get(&id.addr()).is_some_and(|ident| ident.step == Step::Routed && ident.pair.is_some());
    if !routed {
        return failed(libc::EINVAL);
    }
    // SAFETY: the caller's parameters and private data are valid.
    let parameters = unsafe { Parameters::of(&*parameters) };
    device.connect(id.addr(), parameters);
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_accept(id: *mut CmId, parameters: *mut ConnParam) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    // SAFETY: the caller's parameters and private data are valid.
    let parameters = unsafe { Parameters::of(&*parameters) };
    return_value(device.accept(id.addr(), parameters))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject(id: *mut CmId, private_data: *const c_void, private_data_len: u8) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    // SAFETY: the structure contains only integers and raw pointers, so all zeros is a valid value.
    let parameters = ConnParam { private_data, private_data_len, ..unsafe { zeros() } };
    // SAFETY: the caller's parameters and private data are valid.
    let parameters = unsafe { Parameters::of(&parameters) };
    return_value(device.reject(id.addr(), parameters))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_disconnect(id: *mut CmId) -> c_int {
    return_value(device().disconnect(id.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_cm_event(channel: *mut EventChannel, into: *mut *mut CmEvent) -> c_int {
    let mut device = device();
    let Some(queue) = device.event_queues.get_mut(&channel.addr()) else { return failed(libc::EINVAL) };
    if let Err(errno) = queue.signal.clear() {
        return failed(errno);
    }
    let Some(event) = queue.waiting.pop_front() else { return failed(libc::EIO) };
    let raw = device.deliver(event);
    // SAFETY: the caller's pointer is writable.
    unsafe { into.write(raw) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_ack_cm_event(event: *mut CmEvent) -> c_int {
    let mut device = device();
    let Some(delivered) = device.delivered.remove(&event.addr()) else {
        device.report("an unknown event is acknowledged");
        return failed(libc::EINVAL);
    };
    if let Some(ident) = device.ids.get_mut(&delivered.id) {
        ident.unacknowledged -= 1;
    }
    // SAFETY: `Device::deliver` created both pointers with `Box::into_raw`. The event has been removed from
    // the table, so nothing else frees them.
    unsafe {
        free(delivered.private_data);
        free(delivered.raw);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(id: *mut CmId, channel: *mut EventChannel) -> c_int {
    let mut device = device();
    if device.fails() {
        return failed(libc::ENOMEM);
    }
    let at = id.addr();
    let Some(ident) = device.ids.get_mut(&at) else { return failed(libc::EINVAL) };
    let old = mem::replace(&mut ident.channel, channel.addr());
    if ident.unacknowledged > 0 {
        device.report("an id is migrated before its events are acknowledged, which would deadlock");
    }
    // SAFETY: the id is in the table, so it is alive.
    unsafe { (*id).channel = channel };
    for event in device.withdraw_events(old, |event| event.id == at) {
        device.send_event(at, event.kind, event.status, event.parameters, event.from);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let name = match event {
        event::ADDR_ERROR => c"address error",
        event::CONNECT_ERROR => c"connect error",
        event::REJECTED => c"rejected",
        event::DISCONNECTED => c"disconnected",
        event::DEVICE_REMOVAL => c"device removal",
        _ => c"event",
    };
    name.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_src_port(id: *mut CmId) -> u16 {
    let device = device();
    let source = device.ids.get(&id.addr()).and_then(Ident::source);
    source.map_or(0, |source| source.port().to_be())
}
