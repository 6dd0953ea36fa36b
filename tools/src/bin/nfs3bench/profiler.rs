//! Controls `perf record` through a FIFO.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

pub(crate) struct Profiler {
    commands: File,
}

impl Profiler {
    /// Opens the FIFO. Blocks until perf opens it for reading.
    pub(crate) fn open(fifo: &Path) -> anyhow::Result<Self> {
        let opened = File::options().write(true).open(fifo);
        Ok(Profiler { commands: opened.with_context(|| fifo.display().to_string())? })
    }

    /// Enables recording while `work` runs.
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        self.commands.write_all(b"enable\n").context("cannot send `enable` to perf")?;
        let done = work();
        self.commands.write_all(b"disable\n").context("cannot send `disable` to perf")?;
        Ok(done)
    }
}
