//! A fake RDMA device that replaces libibverbs and librdmacm when Miri runs the tests of this provider.
//!
//! Miri calls the functions in this module instead of the C functions of the same names. The whole provider
//! therefore runs under Miri, and tokio polls its descriptors. Miri checks every memory access of the
//! provider and of the device. The device accesses memory through the registered pointers, as hardware may do
//! at any time between registration and deregistration.
//!
//! The device checks keys, access rights and bounds as hardware does. It counts all objects, and it reports
//! an error if an object is destroyed while another object depends on it. Such errors fail the test.

mod calls;
mod cm;
mod hardware;
mod memory;
mod queues;
mod work;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, thread};

use ibverbs_sys as ib;
use libc::c_int;

use cm::{Delivered, EventQueue, Ident};
use memory::{Domain, Region, Window};
use queues::{CompletionEvents, Completions};
use work::Pair;

use super::rdmacm_ffi::event;

pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// An address that does not resolve.
pub(super) const UNRESOLVABLE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) iwarp: bool,
    /// The maximum number of type 2 memory windows.
    pub(super) windows: usize,
    pub(super) max_sges: u32,
    /// The maximum length of a message, in octets.
    pub(super) max_message: u32,
    /// The maximum length of the inline data of a request, in octets.
    pub(super) max_inline: u32,
    /// The device pads shorter private data with zeros to this length, as InfiniBand's connection manager
    /// does.
    pub(super) padded_private_data: usize,
}

impl Settings {
    pub(super) const CARD: Settings = Settings {
        iwarp: false,
        windows: 8,
        max_sges: 4,
        max_message: 1 << 20,
        max_inline: 64,
        padded_private_data: 56,
    };
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Posted work is not executed.
    pub(super) stalled: bool,
    /// Before the device arms a completion queue, it sets `stalled` to false and executes the posted work.
    pub(super) late_completions: bool,
    /// An RDMA Read fills only half of its sink and still succeeds.
    pub(super) short_reads: bool,
    pub(super) fail_registration: bool,
    /// Registering memory at this address for a window fails, as it does for read-only memory.
    pub(super) read_only: Option<usize>,
    pub(super) fail_deregistration: bool,
    pub(super) fail_sends: bool,
    pub(super) fail_receives: bool,
    pub(super) fail_queue_pairs: bool,
    /// Accepted connections are not established.
    pub(super) never_established: bool,
    /// The peer is not notified of a disconnect.
    pub(super) ignore_disconnect: bool,
    /// The number of the call that fails. Only calls that can fail are counted, starting at 1.
    pub(super) failing_call: Option<u32>,
}

/// The device. Every call that uses the device holds this lock, so Miri sees an order between the memory
/// accesses of different threads.
static DEVICE: Mutex<Device> = Mutex::new(Device::new());
static TEST_LOCK: Mutex<()> = Mutex::new(());

fn device() -> MutexGuard<'static, Device> {
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the device. The keys of the tables are the addresses of the C objects.
struct Device {
    settings: Settings,
    faults: Faults,
    calls: u32,
    numbers: u32,
    /// The number of posted requests with inline data.
    inlined: u32,
    /// The number of posted requests with the flag `IBV_SEND_SIGNALED`.
    signaled: u32,
    /// The destination address of the last RDMA Write.
    last_write: usize,
    gone: bool,
    contexts: BTreeMap<usize, Context>,
    domains: BTreeMap<usize, Domain>,
    regions: BTreeMap<usize, Region>,
    windows: BTreeMap<usize, Window>,
    channels: BTreeMap<usize, CompletionEvents>,
    queues: BTreeMap<usize, Completions>,
    pairs: BTreeMap<usize, Pair>,
    ids: BTreeMap<usize, Ident>,
    event_queues: BTreeMap<usize, EventQueue>,
    delivered: BTreeMap<usize, Delivered>,
    lists: BTreeMap<usize, *mut [*mut ib::ibv_device; 2]>,
    errors: Vec<String>,
    /// Regions whose deregistration failed, and their domains. They are kept until the process exits.
    leaked_regions: Vec<Region>,
    leaked_domains: Vec<Domain>,
    hardware: *mut ib::ibv_device,
}

// SAFETY: the pointed-to objects are not bound to a thread and are used only while the lock is held.
unsafe impl Send for Device {}

/// A device context. Each id has its own context, so that Miri detects a use of the context after the id is
/// destroyed.
struct Context {
    raw: *mut ib::ibv_context,
}

impl Device {
    const fn new() -> Self {
        Device {
            settings: Settings::CARD,
            faults: Faults {
                stalled: false,
                late_completions: false,
                short_reads: false,
                fail_registration: false,
                read_only: None,
                fail_deregistration: false,
                fail_sends: false,
                fail_receives: false,
                fail_queue_pairs: false,
                never_established: false,
                ignore_disconnect: false,
                failing_call: None,
            },
            calls: 0,
            numbers: 0,
            inlined: 0,
            signaled: 0,
            last_write: 0,
            gone: false,
            contexts: BTreeMap::new(),
            domains: BTreeMap::new(),
            regions: BTreeMap::new(),
            windows: BTreeMap::new(),
            channels: BTreeMap::new(),
            queues: BTreeMap::new(),
            pairs: BTreeMap::new(),
            ids: BTreeMap::new(),
            event_queues: BTreeMap::new(),
            delivered: BTreeMap::new(),
            lists: BTreeMap::new(),
            errors: Vec::new(),
            leaked_regions: Vec::new(),
            leaked_domains: Vec::new(),
            hardware: ptr::null_mut(),
        }
    }

    fn report(&mut self, what: impl Into<String>) {
        self.errors.push(what.into());
    }

    /// Counts a call that can fail. Returns true if the call should fail.
    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.faults.failing_call == Some(self.calls)
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn object_counts(&self) -> Vec<(&'static str, usize)> {
        let counts = [
            ("contexts", self.contexts.len()),
            ("protection domains", self.domains.len()),
            ("memory regions", self.regions.len()),
            ("memory windows", self.windows.len()),
            ("completion channels", self.channels.len()),
            ("completion queues", self.queues.len()),
            ("queue pairs", self.pairs.len()),
            ("ids", self.ids.len()),
            ("event channels", self.event_queues.len()),
            ("events", self.delivered.len()),
            ("device lists", self.lists.len()),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

fn allocate<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees a C object, so that Miri detects later uses.
///
/// # Safety
/// The pointer must come from [`Box::into_raw`], as in [`allocate`], and must not be used afterwards.
unsafe fn free<T: ?Sized>(raw: *mut T) {
    // SAFETY: guaranteed by the caller.
    drop(unsafe { Box::from_raw(raw) });
}

/// Returns a zeroed C structure.
///
/// # Safety
/// All zeros must be a valid value of `T`.
unsafe fn zeros<T>() -> T {
    // SAFETY: guaranteed by the caller.
    unsafe { mem::zeroed() }
}

/// Sets `errno` and returns -1.
fn failed(errno: c_int) -> c_int {
    // SAFETY: the pointer refers to the `errno` of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Sets `errno` and returns a null pointer.
fn null<T>(errno: c_int) -> *mut T {
    failed(errno);
    ptr::null_mut()
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FakeDevice(());

impl FakeDevice {
    pub(super) fn faults(self, change: impl FnOnce(&mut Faults)) {
        change(&mut device().faults);
    }

    /// Ends [`Faults::stalled`] and executes posted work.
    pub(super) fn resume(self) {
        let mut device = device();
        device.faults.stalled = false;
        device.run();
    }

    /// Returns the number of calls so far that can fail.
    pub(super) fn calls(self) -> u32 {
        device().calls
    }

    /// Removes the device: all ids that are bound to it receive an event, and the device executes no more
    /// work.
    pub(super) fn remove(self) {
        let mut device = device();
        device.gone = true;
        device.send_event_to_all(event::DEVICE_REMOVAL);
    }

    pub(super) fn restore(self) {
        device().gone = false;
    }

    /// Simulates an address change of the network device: all ids that are bound to the RDMA device receive
    /// an event.
    pub(super) fn change_address(self) {
        device().send_event_to_all(event::ADDR_CHANGE);
    }

    /// Returns the number of memory regions and the number of bound windows.
    pub(super) fn memory(self) -> (usize, usize) {
        let device = device();
        (device.regions.len(), device.windows.values().filter(|window| window.is_bound()).count())
    }

    pub(super) fn inlined(self) -> u32 {
        device().inlined
    }

    pub(super) fn signaled(self) -> u32 {
        device().signaled
    }

    pub(super) fn last_write(self) -> usize {
        device().last_write
    }

    /// Returns the total number of regions, over all tests so far, whose deregistration failed.
    pub(super) fn leaked(self) -> usize {
        device().leaked_regions.len()
    }
}

/// The timeout of a test, longer than any test takes.
const LIMIT: Duration = Duration::from_secs(200);

/// Runs a test with a new device. Fails if the device reports an error or objects are left.
pub(super) fn with(settings: Settings, test: impl AsyncFnOnce(FakeDevice)) {
    let _test_lock = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut device = device();
        let kept = (mem::take(&mut device.leaked_regions), mem::take(&mut device.leaked_domains));
        let hardware = device.hardware;
        *device = Device { settings, hardware, ..Device::new() };
        (device.leaked_regions, device.leaked_domains) = kept;
        device.init();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::select! {
            biased;
            // Miri's virtual clock advances even while all tasks wait, so this timeout also ends a deadlock.
            () = tokio::time::sleep(LIMIT) => panic!("the test timed out"),
            () = test(FakeDevice(())) => {}
        }
    });
    drop(runtime);
    // Blocking jobs may still be running.
    for _ in 0..100 {
        if device().object_counts().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut device = device();
    device.touch_leaked_regions();
    assert_eq!(device.errors, [""; 0], "the device reported errors");
    assert_eq!(device.object_counts(), [], "objects were not destroyed");
}

pub(super) fn any_port() -> SocketAddr {
    SocketAddr::from((ADDRESS, 0))
}
