//! The RDMA devices of this machine.

use std::ffi::CStr;
use std::io;
use std::net::Ipv6Addr;
use std::ptr::NonNull;

use ibverbs_sys as ib;

use super::cm::Id;
use super::objects::Capabilities;

/// An RDMA device and its limits.
#[derive(Clone, Debug)]
pub struct Device {
    /// The system's name for the device, for example `siw0`.
    pub name: String,
    /// The globally unique identifier, in hexadecimal.
    pub guid: String,
    /// True for iWARP, false for InfiniBand and RoCE.
    pub iwarp: bool,
    /// The ports.
    pub ports: Vec<Port>,
    /// Maximum number of concurrent RDMA Reads that the peer of a connection may issue (IRD).
    pub ird: u32,
    /// Maximum number of outstanding RDMA Reads that the device may issue on a connection (ORD).
    pub ord: u32,
    /// Maximum number of work requests in a queue.
    pub max_work_requests: u32,
    /// The size of the largest memory region, in octets.
    pub max_region: u64,
    /// Whether the device supports type 2 memory windows. See [`MemoryWindows`](super::MemoryWindows).
    pub windows: bool,
}

/// A port of a device.
#[derive(Clone, Debug)]
pub struct Port {
    /// The number, starting at 1.
    pub number: u8,
    /// Whether the port is up.
    pub active: bool,
    /// The maximum length of a message, in octets.
    pub max_message: u32,
    /// The GIDs, without unused table entries.
    pub gids: Vec<Ipv6Addr>,
}

/// Returns the RDMA devices of this machine. The list is empty if the kernel has no RDMA support.
///
/// # Errors
/// Fails if the devices cannot be listed, or if a device cannot be opened or queried.
pub fn devices() -> io::Result<Vec<Device>> {
    let list = match ibverbs::devices() {
        Ok(list) => list,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::ENODEV | libc::ENOENT)) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for device in list.iter() {
        let name = device.name().map(CStr::to_string_lossy).unwrap_or_default().into_owned();
        // The GUID is in network byte order, although `ibverbs` treats it as a number in host byte order.
        let guid = device.guid().map_or(0, |guid| u64::from_be(guid.into()));
        if let Some(open) = Open::new(&name)? {
            found.push(open.describe(name, format!("{guid:016x}"))?);
        }
    }
    Ok(found)
}

pub(super) fn name(id: &Id, verbs: NonNull<ib::ibv_context>) -> String {
    let _keeps_context_open = id;
    // SAFETY: the id keeps the context open, and an open context has a valid device.
    let name = unsafe { ib::ibv_get_device_name((*verbs.as_ptr()).device) };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the name is a C string that is valid as long as the device.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

struct Open(NonNull<ib::ibv_context>);

impl Open {
    /// Opens a device by name. Returns `None` if no device has this name.
    fn new(name: &str) -> io::Result<Option<Self>> {
        let mut count = 0;
        // SAFETY: `count` is writable.
        let list = unsafe { ib::ibv_get_device_list(&raw mut count) };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut opened = Ok(None);
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` entries until it is freed.
            let device = unsafe { *list.add(index) };
            // SAFETY: the device is in the list, and its name is a C string.
            let device_name = unsafe { CStr::from_ptr(ib::ibv_get_device_name(device)) };
            if device_name.to_bytes() == name.as_bytes() {
                // SAFETY: the device is in the list.
                let context = NonNull::new(unsafe { ib::ibv_open_device(device) });
                opened = context.map(|context| Some(Open(context))).ok_or_else(io::Error::last_os_error);
            }
        }
        // SAFETY: the list is freed once. An open device remains valid.
        unsafe { ib::ibv_free_device_list(list) };
        opened
    }

    fn describe(&self, name: String, guid: String) -> io::Result<Device> {
        // SAFETY: the context is open.
        let capabilities = unsafe { Capabilities::query(self.0, 1)? };
        let ports = self.ports(capabilities.ports)?;
        Ok(Device {
            name,
            guid,
            iwarp: capabilities.iwarp,
            ports,
            ird: capabilities.ird,
            ord: capabilities.ord,
            max_work_requests: capabilities.max_work_requests,
            max_region: capabilities.max_region,
            windows: capabilities.windows,
        })
    }

    fn ports(&self, count: u8) -> io::Result<Vec<Port>> {
        (1..=count)
            .map(|number| {
                // SAFETY: the context is open.
                let port = unsafe { Capabilities::query(self.0, number)? };
                let gids = (0..port.gids).filter_map(|index| self.gid(number, index)).collect();
                Ok(Port { number, active: port.active, max_message: port.max_message, gids })
            })
            .collect()
    }

    fn gid(&self, port: u8, index: i32) -> Option<Ipv6Addr> {
        let mut gid = ib::ibv_gid::default();
        // SAFETY: the context is open, and `gid` is writable.
        let errno = unsafe { ib::ibv_query_gid(self.0.as_ptr(), port, index, &raw mut gid) };
        // SAFETY: any sixteen octets are a valid GID.
        let octets = unsafe { gid.raw };
        (errno == 0 && octets != [0; 16]).then(|| Ipv6Addr::from(octets))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the context is closed once and not used afterwards.
        unsafe { ib::ibv_close_device(self.0.as_ptr()) };
    }
}
