//! The RDMA devices of this machine.

use std::ffi::CStr;
use std::io;
use std::net::Ipv6Addr;
use std::ptr::NonNull;

use ibverbs_sys as ib;

use super::cm::Id;
use super::objects::Capabilities;

/// An RDMA device, as it is for who looks for one.
#[derive(Clone, Debug)]
pub struct Device {
    /// What the system calls it: `siw0`.
    pub name: String,
    /// What tells it from all others, in hexadecimal.
    pub guid: String,
    /// Whether it speaks iWARP; else it is InfiniBand or RoCE.
    pub iwarp: bool,
    /// Its ports.
    pub ports: Vec<Port>,
    /// RDMA Reads that a connection serves, and may have outstanding.
    pub reads_in: u32,
    /// The latter.
    pub reads_out: u32,
    /// Work that a queue takes.
    pub work: u32,
    /// The largest region that it registers, in bytes.
    pub region: u64,
    /// Whether it has memory windows of type 2, which [`MemoryWindows`](super::MemoryWindows) is about.
    pub windows: bool,
}

/// A port of a device.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number, from 1 on.
    pub number: u8,
    /// Whether it is up.
    pub active: bool,
    /// The longest message, in bytes.
    pub message: u32,
    /// Its addresses, without those that are empty.
    pub gids: Vec<Ipv6Addr>,
}

/// The devices that are there. None is no error; nor is a kernel without RDMA.
///
/// # Errors
/// What the system says of one that cannot be asked.
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
        // The crate takes the number, which is in network order, for one in this machine's.
        let guid = device.guid().map_or(0, |guid| u64::from_be(guid.into()));
        if let Some(open) = Open::new(&name)? {
            found.push(open.about(name, format!("{guid:016x}"))?);
        }
    }
    Ok(found)
}

/// The name of the device that an id is bound to.
pub(super) fn name(id: &Id, verbs: NonNull<ib::ibv_context>) -> String {
    let _keeps = id;
    // SAFETY: the id keeps the context open, and the device of an open context is there.
    let name = unsafe { ib::ibv_get_device_name((*verbs.as_ptr()).device) };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the name is a text that lives as long as the device.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// An open device.
struct Open(NonNull<ib::ibv_context>);

impl Open {
    /// `None`, if it has gone away meanwhile.
    fn new(name: &str) -> io::Result<Option<Self>> {
        let mut count = 0;
        // SAFETY: `count` takes a number.
        let list = unsafe { ib::ibv_get_device_list(&raw mut count) };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut opened = Ok(None);
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has as many devices, until it is freed.
            let device = unsafe { *list.add(index) };
            // SAFETY: the device is in the list, and its name is a text.
            let called = unsafe { CStr::from_ptr(ib::ibv_get_device_name(device)) };
            if called.to_bytes() == name.as_bytes() {
                // SAFETY: the device is in the list.
                let context = NonNull::new(unsafe { ib::ibv_open_device(device) });
                opened = context.map(|context| Some(Open(context))).ok_or_else(io::Error::last_os_error);
            }
        }
        // SAFETY: it is freed once; an open device stays.
        unsafe { ib::ibv_free_device_list(list) };
        opened
    }

    fn about(&self, name: String, guid: String) -> io::Result<Device> {
        // SAFETY: the context is open.
        let of_first = unsafe { Capabilities::ask(self.0, 1)? };
        let ports = self.ports(of_first.ports)?;
        Ok(Device {
            name,
            guid,
            iwarp: of_first.iwarp,
            ports,
            reads_in: of_first.reads_in,
            reads_out: of_first.reads_out,
            work: of_first.work,
            region: of_first.region,
            windows: of_first.windows,
        })
    }

    fn ports(&self, count: u8) -> io::Result<Vec<Port>> {
        (1..=count)
            .map(|number| {
                // SAFETY: the context is open.
                let known = unsafe { Capabilities::ask(self.0, number)? };
                let gids = (0..known.gids).filter_map(|index| self.gid(number, index)).collect();
                Ok(Port { number, active: known.active, message: known.message, gids })
            })
            .collect()
    }

    fn gid(&self, port: u8, index: i32) -> Option<Ipv6Addr> {
        let mut gid = ib::ibv_gid::default();
        // SAFETY: the context is open, and `gid` takes what is said.
        let failed = unsafe { ib::ibv_query_gid(self.0.as_ptr(), port, index, &raw mut gid) };
        // SAFETY: any sixteen octets are such a value.
        let octets = unsafe { gid.raw };
        (failed == 0 && octets != [0; 16]).then(|| Ipv6Addr::from(octets))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: it is closed once, and nothing of it is used any more.
        unsafe { ib::ibv_close_device(self.0.as_ptr()) };
    }
}
