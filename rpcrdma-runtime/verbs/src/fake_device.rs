//! A fake RDMA device, in place of libibverbs and librdmacm where Miri runs the tests of this provider.
//!
//! Miri takes a function of C for the one here of that name. So the whole provider runs, with its descriptors in tokio, and
//! Miri sees all that it does with memory, and all that the device does: data is moved through the very pointers that were
//! registered, at any time between registration and its end. The device checks keys, rights and bounds as hardware does,
//! counts every object, and complains of whatever is destroyed while something stands on it, which fails the test.

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

use cm::{EventQueue, Given, Ident};
use memory::{Domain, Region, Window};
use queues::{CompletionEvents, Completions};
use work::Pair;

use super::rdmacm_ffi::event;

/// Its address.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// One where nobody is.
pub(super) const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

/// What kind of device it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) iwarp: bool,
    /// Memory windows of type 2 that it has.
    pub(super) windows: usize,
    /// Pieces of memory that one request names at most.
    pub(super) pieces: u32,
    /// Octets of the longest message.
    pub(super) message: u32,
    /// Octets that go along with a request at most.
    pub(super) inline: u32,
    /// Octets to which it fills up private data, as InfiniBand's connection manager does.
    pub(super) filled_up: usize,
}

impl Settings {
    pub(super) const CARD: Settings =
        Settings { iwarp: false, windows: 8, pieces: 4, message: 1 << 20, inline: 64, filled_up: 56 };
}

/// What goes wrong, from when a test says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// It does nothing that was posted.
    pub(super) idle: bool,
    /// It does it right before a completion queue is asked to ring for the next completion.
    pub(super) late: bool,
    /// Of what is read, only the first half comes, and it says nothing of that.
    pub(super) reads_half: bool,
    /// It registers no memory.
    pub(super) registers_nothing: bool,
    /// It registers nothing for windows that is at this address, as if it were of constants.
    pub(super) constants: Option<usize>,
    /// It does not let go of memory.
    pub(super) keeps_memory: bool,
    /// It takes no work, or no Receive.
    pub(super) takes_no_work: bool,
    pub(super) takes_no_receive: bool,
    /// It makes no queue pair.
    pub(super) makes_no_queue_pair: bool,
    /// Connections that are accepted do not come about.
    pub(super) never_established: bool,
    /// Nobody answers the end of a connection.
    pub(super) end_unanswered: bool,
    /// Of the calls that may fail, this one does, counted from 1.
    pub(super) failing_call: Option<u32>,
}

/// What its calls do is done under one lock, so Miri's account of threads sees the order in which memory changes hands.
static DEVICE: Mutex<Device> = Mutex::new(Device::new());
/// One test at a time has it.
static TURN: Mutex<()> = Mutex::new(());

fn device() -> MutexGuard<'static, Device> {
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that it has. Objects are known by the address of what was handed out.
struct Device {
    settings: Settings,
    faults: Faults,
    calls: u32,
    numbers: u32,
    /// Requests whose data came along with them.
    inlined: u32,
    /// Requests that have a completion of their own.
    signaled: u32,
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
    given: BTreeMap<usize, Given>,
    lists: BTreeMap<usize, *mut [*mut ib::ibv_device; 2]>,
    complaints: Vec<String>,
    /// Memory of which it does not let go, and the domains of that, for ever.
    kept_regions: Vec<Region>,
    kept_domains: Vec<Domain>,
    hardware: *mut ib::ibv_device,
}

// SAFETY: the pointers lead to memory that no thread owns, and all use of them is under the lock.
unsafe impl Send for Device {}

/// A context of the device: each id has its own, so that whatever outlives its id uses memory that is free.
struct Context {
    raw: *mut ib::ibv_context,
}

impl Device {
    const fn new() -> Self {
        Device {
            settings: Settings::CARD,
            faults: Faults {
                idle: false,
                late: false,
                reads_half: false,
                registers_nothing: false,
                constants: None,
                keeps_memory: false,
                takes_no_work: false,
                takes_no_receive: false,
                makes_no_queue_pair: false,
                never_established: false,
                end_unanswered: false,
                failing_call: None,
            },
            calls: 0,
            numbers: 0,
            inlined: 0,
            signaled: 0,
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
            given: BTreeMap::new(),
            lists: BTreeMap::new(),
            complaints: Vec::new(),
            kept_regions: Vec::new(),
            kept_domains: Vec::new(),
            hardware: ptr::null_mut(),
        }
    }

    fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }

    /// Counts a call that may fail; whether it is to.
    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.faults.failing_call == Some(self.calls)
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// How many objects there are, of each kind that has any.
    fn left(&self) -> Vec<(&'static str, usize)> {
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
            ("events", self.given.len()),
            ("lists of devices", self.lists.len()),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// An object as the libraries hand it out.
fn made<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The end of such an object: who uses it afterwards uses memory that is free.
///
/// # Safety
/// It was [`made`], and this is its only end.
unsafe fn ended<T: ?Sized>(raw: *mut T) {
    // SAFETY: as the caller says.
    drop(unsafe { Box::from_raw(raw) });
}

/// All zeros, for what the libraries have that is numbers and pointers only.
///
/// # Safety
/// All zeros is a value of it.
unsafe fn zeros<T>() -> T {
    // SAFETY: as the caller says.
    unsafe { mem::zeroed() }
}

/// How librdmacm's calls fail.
fn failed(errno: c_int) -> c_int {
    // SAFETY: the place of the number is this thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// How calls fail that return an object.
fn none<T>(errno: c_int) -> *mut T {
    failed(errno);
    ptr::null_mut()
}

/// What a test has of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct FakeDevice(());

impl FakeDevice {
    /// Changes what goes wrong.
    pub(super) fn faults(self, change: impl FnOnce(&mut Faults)) {
        change(&mut device().faults);
    }

    /// Does what was posted meanwhile.
    pub(super) fn go_on(self) {
        let mut device = device();
        device.faults.idle = false;
        device.go_on();
    }

    /// Calls that may fail, so far.
    pub(super) fn calls(self) -> u32 {
        device().calls
    }

    /// The device goes: whoever has an id of it is told, and it does nothing any more.
    pub(super) fn goes(self) {
        let mut device = device();
        device.gone = true;
        device.tell_all(event::DEVICE_REMOVAL);
    }

    /// It is back.
    pub(super) fn comes_back(self) {
        device().gone = false;
    }

    /// The network device has another address: whoever has an id is told.
    pub(super) fn changes_its_address(self) {
        device().tell_all(event::ADDR_CHANGE);
    }

    /// How many memory regions there are, and windows that are bound.
    pub(super) fn memory(self) -> (usize, usize) {
        let device = device();
        (device.regions.len(), device.windows.values().filter(|window| window.is_bound()).count())
    }

    /// Requests whose data came along with them, so far.
    pub(super) fn inlined(self) -> u32 {
        device().inlined
    }

    /// Requests that have a completion of their own, so far.
    pub(super) fn signaled(self) -> u32 {
        device().signaled
    }

    /// Pieces of memory of which the device does not let go, in all tests.
    pub(super) fn kept(self) -> usize {
        device().kept_regions.len()
    }
}

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(200);

/// Runs a test with a device of its own, and sees that it leaves nothing behind.
pub(super) fn with(settings: Settings, test: impl AsyncFnOnce(FakeDevice)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut device = device();
        let kept = (mem::take(&mut device.kept_regions), mem::take(&mut device.kept_domains));
        let hardware = device.hardware;
        *device = Device { settings, hardware, ..Device::new() };
        (device.kept_regions, device.kept_domains) = kept;
        device.switch_on();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::select! {
            biased;
            // By Miri's clock, which goes on where there is nothing to do.
            () = tokio::time::sleep(LIMIT) => panic!("the test comes to no end"),
            () = test(FakeDevice(())) => {}
        }
    });
    drop(runtime);
    // Blocking work may still be running.
    for _ in 0..100 {
        if device().left().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut device = device();
    device.use_what_is_kept();
    assert_eq!(device.complaints, [""; 0], "the device complains");
    assert_eq!(device.left(), [], "the device has objects that nobody destroyed");
}

/// Where a listener of the device may be.
pub(super) fn any_port() -> SocketAddr {
    SocketAddr::from((ADDRESS, 0))
}
