//! A test file on a Linux mount. Direct I/O bypasses the page cache, so each read or write is one call.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail, ensure};
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};

use crate::image::{Aligned, Images, PIECE, SIZE, looks_like};
use crate::turn::{Done, Operation, Turn, Work};

/// The maximum number of calls on the mount during a turn, in addition to the measured calls.
const STRAY: u64 = 8;

pub(crate) struct Mounted {
    file: File,
    path: PathBuf,
    mount: PathBuf,
}

impl Mounted {
    pub(crate) fn open(mount: &Path, name: &str) -> anyhow::Result<Self> {
        let mount = mount.canonicalize()?;
        let path = mount.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let direct = i32::try_from(OFlags::DIRECT.bits())?;
        let is_new = !path.exists();
        let opened = options.custom_flags(direct).open(&path);
        if opened.is_err() && is_new {
            // A file system without direct I/O creates the file before the open fails.
            let _ = fs::remove_file(&path);
        }
        Ok(Mounted { file: opened.context("cannot open the file for direct I/O")?, path, mount })
    }

    pub(crate) fn fill(&self, image: &[u8]) -> anyhow::Result<()> {
        for (piece, at) in image.chunks(PIECE).zip((0..).step_by(PIECE)) {
            self.file.write_all_at(piece, at)?;
        }
        Ok(())
    }

    pub(crate) fn has_contents(&self, expected: &[u8]) -> anyhow::Result<bool> {
        let mut buffer = Aligned::new(PIECE);
        for (piece, at) in expected.chunks(PIECE).zip((0..).step_by(PIECE)) {
            self.file.read_exact_at(buffer.bytes(), at)?;
            if buffer.bytes() != piece {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes calls for the given time, with one thread for each outstanding call.
    pub(crate) fn turn(&self, work: Work, images: &Images) -> anyhow::Result<Done> {
        let before = call_counts(&self.mount)?;
        let turn = Turn::begin(work.time);
        thread::scope(|scope| {
            let caller = || scope.spawn(|| self.calls(work.operation, &turn, images));
            let callers: Vec<_> = (0..work.in_flight).map(|_| caller()).collect();
            let mut results = callers.into_iter().map(|caller| caller.join());
            results.try_for_each(|result| result.unwrap_or_else(|_| bail!("a thread panicked")))
        })?;
        let done = turn.end();
        if let (Some(before), Some(after)) = (before, call_counts(&self.mount)?) {
            check_counts(work.operation, done.calls, &before, &after)?;
        }
        Ok(done)
    }

    fn calls(&self, operation: Operation, turn: &Turn, images: &Images) -> anyhow::Result<()> {
        let mut buffer = Aligned::new(operation.part(0).len());
        while let Some(number) = turn.next() {
            let part = operation.part(number);
            let at = part.start as u64;
            match operation {
                Operation::Getattr => {
                    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
                    let found = statx(&self.file, c"", flags, StatxFlags::BASIC_STATS)?;
                    ensure!(found.stx_size == SIZE as u64, "GETATTR: the file size is not {SIZE} bytes");
                }
                Operation::Read(_) => {
                    self.file.read_exact_at(buffer.bytes(), at)?;
                    ensure!(looks_like(buffer.bytes(), &images.old[part]), "READ: wrong data");
                }
                Operation::Write(_) => self.file.write_all_at(&images.new[part], at)?,
            }
        }
        Ok(())
    }

    pub(crate) fn remove(self) -> anyhow::Result<()> {
        drop(self.file);
        Ok(fs::remove_file(self.path)?)
    }
}

/// Returns Linux's count of calls for each procedure on the mount, or `None` if the directory is not the
/// mount point of an NFS export.
fn call_counts(mount: &Path) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
    let stats = fs::read_to_string("/proc/self/mountstats")?;
    let begins = format!(" mounted on {} with fstype nfs", mount.display());
    let mut lines = stats.lines().skip_while(|line| !line.contains(&begins));
    if lines.next().is_none() {
        return Ok(None);
    }
    let own = lines.take_while(|line| !line.starts_with("device "));
    let operations = own.skip_while(|line| !line.contains("per-op statistics")).filter_map(|line| {
        let (name, numbers) = line.trim().split_once(':')?;
        Some((name.to_owned(), numbers.split_whitespace().next()?.parse().ok()?))
    });
    Ok(Some(operations.collect()))
}

/// Checks that the mount counted at least `calls` calls of the operation's procedure, and at most
/// `calls + STRAY` calls in total.
fn check_counts(
    operation: Operation,
    calls: u64,
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> anyhow::Result<()> {
    let made = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    let own = made(operation.procedure());
    let all: u64 = after.keys().map(|name| made(name)).sum();
    if own < calls || all > calls + STRAY {
        let made: Vec<_> =
            after.keys().map(|name| (name, made(name))).filter(|(_, made)| *made > 0).collect();
        bail!("expected {calls} {} calls, counted {made:?}", operation.procedure());
    }
    Ok(())
}
