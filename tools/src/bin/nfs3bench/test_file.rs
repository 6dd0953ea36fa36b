//! A test file, accessed with this project's client or on a Linux mount.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use rpcrdma_nfs::output::{self, one_line};
use rpcrdma_tools::cli::nfs3bench::Target;
use tokio::runtime::Runtime;

use crate::client_file::ClientFile;
use crate::image::Images;
use crate::mounted::Mounted;
use crate::profiler::Profiler;
use crate::turn::{Done, Operation, Work};

pub(crate) struct TestFile<'a> {
    name: String,
    runtime: &'a Runtime,
    access: Access,
}

enum Access {
    Client(Box<ClientFile>),
    Mounted(Mounted),
}

impl<'a> TestFile<'a> {
    pub(crate) fn open(
        target: &Target,
        file: &'static str,
        spin: Duration,
        runtime: &'a Runtime,
        images: &Images,
    ) -> anyhow::Result<Self> {
        let shown = target.to_string();
        let opened = match target {
            Target::Url(url) => {
                let opened = runtime.block_on(ClientFile::open(url, file, spin));
                opened.map(|file| Access::Client(Box::new(file)))
            }
            Target::Directory(path) => Mounted::open(path, file).map(Access::Mounted),
        };
        let opened_file = TestFile { access: opened.with_context(|| shown.clone())?, name: shown, runtime };
        let filled = opened_file.fill(&images.old).and_then(|()| opened_file.check(&images.old));
        match filled {
            Ok(()) => Ok(opened_file),
            Err(error) => {
                opened_file.remove();
                Err(error)
            }
        }
    }

    /// Makes calls for the given time and returns their number and the elapsed time. After WRITE calls,
    /// checks the file's contents and restores them.
    pub(crate) fn turn(
        &self,
        work: Work,
        images: &Images,
        profiler: Option<&mut Profiler>,
    ) -> anyhow::Result<Done> {
        let turn = || match &self.access {
            Access::Client(file) => self.runtime.block_on(file.turn(work, images)),
            Access::Mounted(file) => file.turn(work, images),
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
        let filled = match &self.access {
            Access::Client(file) => self.runtime.block_on(file.fill(image)),
            Access::Mounted(file) => file.fill(image),
        };
        filled.with_context(|| self.name.clone())
    }

    fn check(&self, expected: &[u8]) -> anyhow::Result<()> {
        let same = match &self.access {
            Access::Client(file) => self.runtime.block_on(file.has_contents(expected)),
            Access::Mounted(file) => file.has_contents(expected),
        };
        ensure!(same.with_context(|| self.name.clone())?, "{}: the file has wrong contents", self.name);
        Ok(())
    }

    /// Removes the file. A failure causes only a warning, so that it does not hide an error of the
    /// measurement.
    pub(crate) fn remove(self) {
        let removed = match self.access {
            Access::Client(file) => self.runtime.block_on(file.remove()),
            Access::Mounted(file) => file.remove(),
        };
        if let Err(error) = removed.context(self.name) {
            output::warn("nfs3bench", one_line(&error));
        }
    }
}
