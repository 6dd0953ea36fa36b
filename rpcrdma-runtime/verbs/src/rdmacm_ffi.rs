//! Bindings for a part of librdmacm, from `rdma/rdma_cma.h` of rdma-core.
//!
//! librdmacm allocates all channels, ids and events, so their structures here declare only the leading
//! fields, up to the last field in use. The assertions below compare the layout with that of a C compiler.

use core::ffi::{c_char, c_int, c_void};
use core::mem::{offset_of, size_of};

use ibverbs_sys::{ibv_context, ibv_pd, ibv_qp, ibv_qp_init_attr};

/// `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// The leading fields of `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut ibv_context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut ibv_qp,
    pub(super) source: libc::sockaddr_storage,
    pub(super) destination: libc::sockaddr_storage,
    /// The source GID, the destination GID and the partition key (`struct rdma_ib_addr`).
    infiniband: [u64; 5],
    paths: *mut c_void,
    path_count: c_int,
    route_padding: c_int,
    pub(super) port_space: c_int,
    pub(super) port_num: u8,
}

/// `struct rdma_conn_param`.
#[repr(C)]
pub(super) struct ConnParam {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// The leading fields of `struct rdma_cm_event`.
#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    pub(super) listen_id: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) conn: ConnParam,
}

const _: () = {
    assert!(size_of::<libc::sockaddr_storage>() == 128);
    assert!(offset_of!(CmId, verbs) == 0 && offset_of!(CmId, channel) == 8);
    assert!(offset_of!(CmId, context) == 16 && offset_of!(CmId, qp) == 24);
    assert!(offset_of!(CmId, source) == 32 && offset_of!(CmId, destination) == 160);
    assert!(offset_of!(CmId, paths) == 328);
    assert!(offset_of!(CmId, port_space) == 344 && offset_of!(CmId, port_num) == 348);
    assert!(offset_of!(ConnParam, private_data_len) == 8 && offset_of!(ConnParam, responder_resources) == 9);
    assert!(offset_of!(ConnParam, initiator_depth) == 10 && offset_of!(ConnParam, flow_control) == 11);
    assert!(offset_of!(ConnParam, retry_count) == 12 && offset_of!(ConnParam, rnr_retry_count) == 13);
    assert!(offset_of!(ConnParam, srq) == 14 && offset_of!(ConnParam, qp_num) == 16);
    assert!(size_of::<ConnParam>() == 24);
    assert!(offset_of!(CmEvent, listen_id) == 8 && offset_of!(CmEvent, event) == 16);
    assert!(offset_of!(CmEvent, status) == 20 && offset_of!(CmEvent, conn) == 24);
};

/// `RDMA_PS_TCP`: reliable connections with port numbers.
pub(super) const PORT_SPACE_TCP: c_int = 0x0106;

/// `enum rdma_cm_event_type`.
pub(super) mod event {
    use core::ffi::c_int;

    pub(crate) const ADDR_RESOLVED: c_int = 0;
    pub(crate) const ADDR_ERROR: c_int = 1;
    pub(crate) const ROUTE_RESOLVED: c_int = 2;
    pub(crate) const ROUTE_ERROR: c_int = 3;
    pub(crate) const CONNECT_REQUEST: c_int = 4;
    pub(crate) const CONNECT_ERROR: c_int = 6;
    pub(crate) const UNREACHABLE: c_int = 7;
    pub(crate) const REJECTED: c_int = 8;
    pub(crate) const ESTABLISHED: c_int = 9;
    pub(crate) const DISCONNECTED: c_int = 10;
    pub(crate) const DEVICE_REMOVAL: c_int = 11;
    pub(crate) const ADDR_CHANGE: c_int = 14;
    pub(crate) const TIMEWAIT_EXIT: c_int = 15;
}

// SAFETY: the signatures match the header of librdmacm.
#[link(name = "rdmacm")]
unsafe extern "C" {
    pub(super) fn rdma_create_event_channel() -> *mut EventChannel;
    pub(super) fn rdma_destroy_event_channel(channel: *mut EventChannel);
    pub(super) fn rdma_create_id(
        channel: *mut EventChannel,
        id: *mut *mut CmId,
        context: *mut c_void,
        port_space: c_int,
    ) -> c_int;
    pub(super) fn rdma_destroy_id(id: *mut CmId) -> c_int;
    pub(super) fn rdma_bind_addr(id: *mut CmId, address: *mut libc::sockaddr) -> c_int;
    pub(super) fn rdma_listen(id: *mut CmId, backlog: c_int) -> c_int;
    pub(super) fn rdma_resolve_addr(
        id: *mut CmId,
        source: *mut libc::sockaddr,
        destination: *mut libc::sockaddr,
        timeout_ms: c_int,
    ) -> c_int;
    pub(super) fn rdma_resolve_route(id: *mut CmId, timeout_ms: c_int) -> c_int;
    pub(super) fn rdma_create_qp(id: *mut CmId, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> c_int;
    pub(super) fn rdma_destroy_qp(id: *mut CmId);
    pub(super) fn rdma_connect(id: *mut CmId, parameters: *mut ConnParam) -> c_int;
    pub(super) fn rdma_accept(id: *mut CmId, parameters: *mut ConnParam) -> c_int;
    pub(super) fn rdma_reject(id: *mut CmId, private_data: *const c_void, private_data_len: u8) -> c_int;
    pub(super) fn rdma_disconnect(id: *mut CmId) -> c_int;
    pub(super) fn rdma_get_cm_event(channel: *mut EventChannel, event: *mut *mut CmEvent) -> c_int;
    pub(super) fn rdma_ack_cm_event(event: *mut CmEvent) -> c_int;
    pub(super) fn rdma_migrate_id(id: *mut CmId, channel: *mut EventChannel) -> c_int;
    pub(super) fn rdma_event_str(event: c_int) -> *const c_char;
    pub(super) fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context;
    pub(super) fn rdma_free_devices(list: *mut *mut ibv_context);
    pub(super) fn rdma_get_src_port(id: *mut CmId) -> u16;
}
