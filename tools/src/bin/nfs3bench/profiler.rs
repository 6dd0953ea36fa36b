//! Linux's profiler, which is told when it is to record.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// What `perf record` reads commands from.
pub(crate) struct Profiler {
    commands: File,
}

impl Profiler {
    /// Waits for perf, if that has not opened it yet.
    pub(crate) fn open(fifo: &Path) -> anyhow::Result<Self> {
        let opened = File::options().write(true).open(fifo);
        Ok(Profiler { commands: opened.with_context(|| fifo.display().to_string())? })
    }

    /// Has it record while something is done.
    pub(crate) fn during<T>(&mut self, what: impl FnOnce() -> T) -> anyhow::Result<T> {
        self.commands.write_all(b"enable\n").context("perf")?;
        let done = what();
        self.commands.write_all(b"disable\n").context("perf")?;
        Ok(done)
    }
}
