//! A way to access a test file: this project's client or a Linux mount.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use rpcrdma_tools::cli::nfs3bench::Name;
use tokio::runtime::Runtime;

use crate::called::Called;
use crate::image::Images;
use crate::mounted::Mounted;
use crate::profiler::Profiler;
use crate::turn::{Done, Operation, Work};

/// A way with an open test file.
pub(crate) struct Way<'a> {
    name: String,
    runtime: &'a Runtime,
    file: File,
}

enum File {
    Called(Box<Called>),
    Mounted(Mounted),
}

impl<'a> Way<'a> {
    /// Creates, fills and checks a test file.
    pub(crate) fn open(
        name: &Name,
        file: &'static str,
        spin: Duration,
        runtime: &'a Runtime,
        images: &Images,
    ) -> anyhow::Result<Self> {
        let shown = name.to_string();
        let opened = match name {
            Name::Url(url) => {
                let opened = runtime.block_on(Called::open(url, file, spin));
                opened.map(|file| File::Called(Box::new(file)))
            }
            Name::Directory(path) => Mounted::open(path, file).map(File::Mounted),
        };
        let way = Way { file: opened.with_context(|| shown.clone())?, name: shown, runtime };
        way.fill(&images.old)?;
        way.check(&images.old)?;
        Ok(way)
    }

    /// Makes calls for the given time and returns their number and rate. Restores the file's contents
    /// afterwards.
    pub(crate) fn turn(
        &self,
        work: Work,
        images: &Images,
        profiler: Option<&mut Profiler>,
    ) -> anyhow::Result<Done> {
        let turn = || match &self.file {
            File::Called(file) => self.runtime.block_on(file.turn(work, images)),
            File::Mounted(file) => file.turn(work, images),
        };
        let done = match profiler {
            Some(profiler) => profiler.during(turn)?,
            None => turn(),
        };
        let done = done.with_context(|| format!("{}: {}", self.name, work.operation))?;
        if let Operation::Write(_) = work.operation {
            let mut expected = images.old.to_vec();
            for number in 0..done.calls {
                let part = work.operation.part(number);
                if number > 0 && part.start == 0 {
                    break;
                }
                expected[part.clone()].copy_from_slice(&images.new[part]);
            }
            self.check(&expected)?;
            self.fill(&images.old)?;
        }
        Ok(done)
    }

    fn fill(&self, image: &Bytes) -> anyhow::Result<()> {
        let filled = match &self.file {
            File::Called(file) => self.runtime.block_on(file.fill(image)),
            File::Mounted(file) => file.fill(image),
        };
        filled.with_context(|| self.name.clone())
    }

    /// Checks the complete contents of the file.
    fn check(&self, expected: &[u8]) -> anyhow::Result<()> {
        let same = match &self.file {
            File::Called(file) => self.runtime.block_on(file.has_contents(expected)),
            File::Mounted(file) => file.has_contents(expected),
        };
        ensure!(same.with_context(|| self.name.clone())?, "{}: the file has wrong contents", self.name);
        Ok(())
    }

    /// Removes the file.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        match self.file {
            File::Called(file) => self.runtime.block_on(file.remove()),
            File::Mounted(file) => file.remove(),
        }
        .context(self.name)
    }
}
