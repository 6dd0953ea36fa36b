//! The rows of the report: the calls, their number, and the goals.

use super::log::Log;

/// A procedure and the size of its data in bytes.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Null,
    Getattr,
    Read(u32),
    Write(u32),
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The row's name in `ONLY`.
    pub(crate) key: &'static str,
    pub(crate) call: Call,
    pub(crate) outstanding: usize,
    /// Calls per round.
    pub(crate) calls: u32,
    pub(crate) base: Base,
    /// The goals for iWARP with and without CRCs: the maximum ratios of the row's time to that of `base`.
    pub(crate) goals: [Option<f64>; 2],
    pub(crate) log: Log,
}

/// The divisor of a row's times.
#[derive(Clone, Copy)]
pub(crate) enum Base {
    /// The time of the row with this key over raw TCP.
    Raw(&'static str),
    /// The time of the row with this key over the same transport.
    Same(&'static str),
}

impl Row {
    pub(crate) fn calls_as_f64(&self) -> f64 {
        f64::from(self.calls)
    }
}

const MIB: u32 = 1 << 20;
/// The sizes of the smallest and the largest message over raw TCP, in bytes.
pub(crate) const SMALLEST: usize = 128;
pub(crate) const LARGEST: usize = MIB as usize;

pub(crate) const ROWS: [Row; 11] = [
    row("NULL", "null", Call::Null, 1, 2000, Base::Raw("null"), [Some(1.3), Some(1.3)]),
    row("NULL, 16 in flight", "null16", Call::Null, 16, 4000, Base::Raw("null"), [Some(0.3), Some(0.3)]),
    // Spans that the log does not record should cost nothing.
    logged("NULL, log at INFO", "nullinfo", Log::Info, [Some(1.0), Some(1.0)]),
    logged("NULL, spans logged", "nullspans", Log::Spans, [None, None]),
    row("GETATTR", "getattr", Call::Getattr, 1, 2000, Base::Raw("getattr"), [None, None]),
    row("READ 4 KiB", "read4k", Call::Read(4096), 1, 1500, Base::Raw("read4k"), [Some(1.5), Some(1.5)]),
    row(
        "READ 4 KiB, 16 in flight",
        "read4k16",
        Call::Read(4096),
        16,
        3000,
        Base::Raw("read4k"),
        [None, None],
    ),
    row("READ 64 KiB", "read64k", Call::Read(65_536), 1, 750, Base::Raw("read64k"), [Some(1.5), Some(1.5)]),
    row("READ 1 MiB", "read1m", Call::Read(MIB), 1, 100, Base::Raw("read1m"), [Some(1.33), Some(1.1)]),
    row(
        "READ 1 MiB, 16 in flight",
        "read1m16",
        Call::Read(MIB),
        16,
        150,
        Base::Same("read1m"),
        [Some(1.0), Some(1.0)],
    ),
    row("WRITE 1 MiB", "write1m", Call::Write(MIB), 1, 100, Base::Raw("write1m"), [Some(1.33), Some(1.1)]),
];

const fn row(
    name: &'static str,
    key: &'static str,
    call: Call,
    outstanding: usize,
    calls: u32,
    base: Base,
    goals: [Option<f64>; 2],
) -> Row {
    Row { name, key, call, outstanding, calls, base, goals, log: Log::Off }
}

const fn logged(name: &'static str, key: &'static str, log: Log, goals: [Option<f64>; 2]) -> Row {
    Row { log, ..row(name, key, Call::Null, 1, 2000, Base::Same("null"), goals) }
}

impl Call {
    /// Returns the request and reply sizes over raw TCP. [`SMALLEST`] stands for headers, arguments and
    /// attributes.
    pub(crate) fn raw_sizes(self) -> (usize, usize) {
        match self {
            Call::Null | Call::Getattr => (SMALLEST, SMALLEST),
            Call::Read(len) => (SMALLEST, len as usize),
            Call::Write(len) => (len as usize, SMALLEST),
        }
    }
}
