//! Calls that the system can complete from memory: lookups in its caches, reads of cached pages, and writes
//! to a file system in memory. A lookup or a read that would block fails (openat2 with RESOLVE_CACHED,
//! preadv2 with RWF_NOWAIT).
//!
//! These calls still block in rare cases: the first read of an access control list, an access time written
//! to a journal, and swapped-out pages of a file system in memory. A write may wait briefly for the file's
//! lock.
//!
//! These calls do not switch to another user: once a thread has switched, the kernel denies it RDMA devices
//! that other threads have opened.

use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::{ReadWriteFlags, pread, preadv2, pwrite};

use super::{DirectoryExport, Located, Purpose, Stat, after};
use crate::export::{
    Attributes, Before, FileHandle, FileKind, Found, NfsCaller, ReadData, Stability, TryExport, Wcc,
    WriteResult, names,
};

/// The maximum size of a non-blocking read or write, in bytes. Copying more takes at least as long as passing
/// the call to another thread.
const COPIED_MAX: u32 = 64 << 10;

/// Where a file system stores its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    Memory,
    /// On a local device, with recently used data in memory.
    Cached,
    /// On a remote machine, or unknown: cached data may be outdated.
    Unknown,
}

impl Storage {
    pub(super) fn of(top: impl AsFd) -> Self {
        let Ok(of) = fstatfs(top) else { return Storage::Unknown };
        // On 32-bit machines, `f_type` may be signed, and magic numbers above 2^31 - 1 are then negative.
        let magic = u32::try_from(of.f_type).or_else(|_| i32::try_from(of.f_type).map(i32::cast_unsigned));
        // The magic numbers of tmpfs and ramfs, and those of ext2, ext3, ext4, XFS, Btrfs and F2FS.
        match magic {
            Ok(0x0102_1994 | 0x8584_58f6) => Storage::Memory,
            Ok(0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010) => Storage::Cached,
            _ => Storage::Unknown,
        }
    }
}

impl TryExport for DirectoryExport {
    fn try_attributes(&self, file: &FileHandle) -> Option<Attributes> {
        Some(self.try_locate(file)?.stat.attributes)
    }

    fn try_access(&self, caller: &NfsCaller, file: &FileHandle, wanted: u32) -> Option<(u32, Attributes)> {
        let located = self.try_locate(file).filter(|_| self.identities.is_as_caller(caller))?;
        Some((self.granted(&located) & wanted, located.stat.attributes))
    }

    fn try_lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Option<(Found, Attributes)> {
        let dir = self.try_locate(dir).filter(|dir| dir.stat.is(FileKind::Directory))?;
        let is_plain = names::check(name).is_ok() && !names::is_dot(name);
        if !is_plain || !self.identities.is_as_caller(caller) {
            return None;
        }
        let found = at_path(&dir.file, Path::new(OsStr::from_bytes(name)))?;
        Some((self.record(&dir.stat, name, found.stat).ok()?, dir.stat.attributes))
    }

    fn try_read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Option<(ReadData, Attributes)> {
        if count > COPIED_MAX || !self.identities.is_as_caller(caller) {
            return None;
        }
        let located = self.try_locate(file).filter(|located| located.stat.is(FileKind::Regular))?;
        let size = located.stat.attributes.size;
        let wanted = u64::from(count).min(size.saturating_sub(offset));
        let open = self.try_content(&located, Purpose::Read)?;
        let data = self.pages(&open, offset, usize::try_from(wanted).ok()?)?;
        let eof = offset.saturating_add(wanted) >= size;
        Some((ReadData { data: data.into(), eof }, Stat::of(&located.file).ok()?.attributes))
    }

    fn try_write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Option<(WriteResult, Wcc)> {
        let fits = (1..=COPIED_MAX as usize).contains(&data.len());
        // On a file system that is not in memory, a write with RWF_NOWAIT fails if it must update the
        // modification time.
        if !fits || self.read_only || self.storage != Storage::Memory || !self.identities.is_as_caller(caller)
        {
            return None;
        }
        let end = offset.checked_add(data.len() as u64);
        end.filter(|end| i64::try_from(*end).is_ok())?;
        // Waits briefly: otherwise, once one write runs on the blocking pool and holds the lock, all later
        // writes would move to the pool.
        let _held = self.locks.try_one(self.identity(file).ok()?.0)?;
        let located = self.try_locate(file).filter(|located| located.stat.is(FileKind::Regular))?;
        let before = Before::from(&located.stat.attributes);
        let written = pwrite(self.try_content(&located, Purpose::Write)?, data, offset).ok()?;
        let count = u32::try_from(written).ok().filter(|count| *count > 0)?;
        // Data in memory needs no sync.
        Some((WriteResult { count, committed: stable }, Wcc { before: Some(before), after: after(&located) }))
    }
}

impl DirectoryExport {
    /// Opens the root, or another file by its most recent name, if that does not block.
    fn try_locate(&self, handle: &FileHandle) -> Option<Located> {
        let (key, generation) = self.identity(handle).ok()?;
        self.sweep_if_due();
        if self.storage == Storage::Unknown || key.dev != self.root.key.dev {
            return None;
        }
        let located = if key == self.root.key {
            at_path(&self.top, Path::new("."))?
        } else {
            let (parent, place) = self.table.candidates(key, self.root.key).into_iter().next()?;
            at_path(&self.top, &parent?.join(OsStr::from_bytes(&place.name)))?
        };
        (located.stat.key == key && located.stat.generation == generation).then_some(located)
    }

    /// Returns a descriptor for the content, opened with the server's identity, if the system permits that.
    /// If the cache is full, does not cache the descriptor: closing another descriptor could block on a
    /// device.
    fn try_content(&self, located: &Located, purpose: Purpose) -> Option<Arc<OwnedFd>> {
        if let Some(open) = self.open_files.get(&located.stat, purpose, None) {
            return located.allows(purpose.right()).then_some(open);
        }
        let open = located.open(purpose.flags()).ok()?;
        if self.open_files.has_room() {
            return Some(self.open_files.keep(&located.stat, purpose, None, open));
        }
        Some(Arc::new(open))
    }

    /// Returns `count` bytes from `offset`, or `None` if one non-blocking read cannot return all of them.
    fn pages(&self, open: &OwnedFd, offset: u64, count: usize) -> Option<Vec<u8>> {
        let mut data = vec![0; count];
        // Beyond the end of a file, `count` is 0, and the offset may exceed the system's maximum.
        let read = if count == 0 {
            Ok(0)
        } else if self.storage == Storage::Memory {
            pread(open, &mut data[..], offset)
        } else {
            preadv2(open, &mut [IoSliceMut::new(&mut data)], offset, ReadWriteFlags::NOWAIT)
        };
        (read.ok()? == count).then_some(data)
    }
}

/// Opens a path without following links, if all its components are in memory. Opens a link itself, not its
/// target. Does not enter other mounts: a remote file system may not respond.
fn at_path(dir: impl AsFd, path: &Path) -> Option<Located> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let way = way | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
    let file = openat2(dir, path, flags, Mode::empty(), way).ok()?;
    let stat = Stat::of(&file).ok()?;
    Some(Located { file, stat })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::export::Export;

    /// Returns a directory in memory, if possible, and a directory in the default location of temporary
    /// files.
    fn directories() -> Vec<tempfile::TempDir> {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        if let Err(error) = &in_memory {
            not_run::not_run(format_args!("no file system in memory: /dev/shm: {error}"));
        }
        in_memory.into_iter().chain([tempfile::tempdir().unwrap()]).collect()
    }

    /// Returns true if the export's storage is not [`Storage::Unknown`] and the kernel supports
    /// RESOLVE_CACHED (Linux 5.12 and later).
    fn supports_try(export: &DirectoryExport) -> bool {
        export.storage != Storage::Unknown && at_path(&export.top, Path::new(".")).is_some()
    }

    fn file(export: &DirectoryExport, path: &[&str]) -> FileHandle {
        path.iter().fold(export.root(), |dir, name| {
            export.lookup(&NfsCaller::ROOT, &dir, name.as_bytes()).unwrap().handle
        })
    }

    #[test]
    fn try_operations_return_current_state() {
        for dir in directories() {
            fs::create_dir_all(dir.path().join("a/b")).unwrap();
            fs::write(dir.path().join("a/b/file"), vec![7; 100_000]).unwrap();
            symlink("file", dir.path().join("a/b/link")).unwrap();
            let export = DirectoryExport::open(dir.path()).unwrap();
            let known = supports_try(&export);
            eprintln!("{}: {:?}", dir.path().display(), export.storage);
            let caller = NfsCaller::ROOT;
            for path in [&[][..], &["a", "b"], &["a", "b", "file"], &["a", "b", "link"]] {
                let handle = file(&export, path);
                let there = export.attributes(&handle).unwrap();
                assert_eq!(export.try_attributes(&handle), known.then_some(there.clone()), "{path:?}");
                let granted = export.access(&caller, &handle, 0x3f).unwrap();
                assert_eq!(export.try_access(&caller, &handle, 0x3f), known.then_some(granted));
                let found = export.try_lookup(&caller, &handle, b"file");
                assert_eq!(found.is_some(), known && path.len() == 2, "{path:?}");
                if let Some((found, dir)) = found {
                    let looked_up = export.lookup(&caller, &handle, b"file").unwrap();
                    assert_eq!((found.handle, found.attributes), (looked_up.handle, looked_up.attributes));
                    assert_eq!(dir, there);
                }
                for name in [&b"."[..], b"..", b"nothing", b"a/b", b""] {
                    assert!(export.try_lookup(&caller, &handle, name).is_none());
                }
            }
            let handle = file(&export, &["a", "b", "file"]);
            for (offset, count) in
                [(0, 0), (0, 1), (99_999, 1), (99_999, 2), (100_000, 5), (u64::MAX, 1), (7, 65_536)]
            {
                let (read, of) = (export.read(&caller, &handle, offset, count), export.attributes(&handle));
                let there = (read.unwrap(), of.unwrap());
                let tried = export.try_read(&caller, &handle, offset, count);
                assert_eq!(
                    tried.map(|(read, of)| (read.data, read.eof, of.size)),
                    known.then_some((there.0.data, there.0.eof, there.1.size))
                );
            }
            assert!(
                export.try_read(&caller, &handle, 0, COPIED_MAX + 1).is_none(),
                "a non-blocking read copies at most `COPIED_MAX` bytes"
            );
            assert!(export.try_read(&caller, &file(&export, &["a"]), 0, 1).is_none(), "a directory");
        }
    }

    #[test]
    fn data_of_try_write_is_stored() {
        for dir in directories() {
            fs::write(dir.path().join("file"), vec![7; 100_000]).unwrap();
            fs::create_dir(dir.path().join("a")).unwrap();
            let export = DirectoryExport::open(dir.path()).unwrap();
            let (handle, caller) = (file(&export, &["file"]), NfsCaller::ROOT);
            let write =
                |offset, data: &Bytes, stable| export.try_write(&caller, &handle, offset, data, stable);
            let in_memory = export.storage == Storage::Memory && supports_try(&export);
            let mut expected = vec![7; 100_000];
            for (offset, size) in [(0, 1), (99_999, 1), (99_999, 2), (50_000, 65_536), (200_000, 4096)] {
                for stable in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
                    let data = Bytes::from(vec![u8::try_from(size % 251).unwrap(); size]);
                    let before = export.attributes(&handle).unwrap();
                    let written = write(offset as u64, &data, stable);
                    assert_eq!(written.is_some(), in_memory, "{offset} {size} {stable:?}");
                    let Some((written, wcc)) = written else { continue };
                    assert_eq!((written.count as usize, written.committed), (size, stable));
                    expected.resize(expected.len().max(offset + size), 0);
                    expected[offset..offset + size].copy_from_slice(&data);
                    assert_eq!(wcc.before, Some(Before::from(&before)));
                    assert_eq!(wcc.after, Some(export.attributes(&handle).unwrap()));
                    assert!(fs::read(dir.path().join("file")).unwrap() == expected, "{offset} {size}");
                }
            }
            let (none, more) = (Bytes::new(), Bytes::from(vec![0; COPIED_MAX as usize + 1]));
            for (offset, data) in [(0, &none), (0, &more), (i64::MAX.cast_unsigned(), &more.slice(..1))] {
                assert!(write(offset, data, Stability::Unstable).is_none());
            }
            let (one, top) = (Bytes::from_static(b"1"), export.root());
            for of in [&top, &file(&export, &["a"])] {
                assert!(export.try_write(&caller, of, 0, &one, Stability::Unstable).is_none());
            }
            let held = export.locks.one(export.identity(&handle).unwrap().0);
            assert!(write(0, &one, Stability::Unstable).is_none(), "another call holds the file's lock");
            drop(held);
            assert!(fs::read(dir.path().join("file")).unwrap() == expected);
        }
    }

    /// Two threads try to write without blocking and fall back to blocking writes, as the server does. Two
    /// other threads use only blocking writes. All changes are serialized: each starts from the result of the
    /// previous change.
    #[test]
    fn try_writes_and_blocking_writes_are_serialized() {
        for dir in directories() {
            fs::write(dir.path().join("file"), "").unwrap();
            let export = DirectoryExport::open(dir.path()).unwrap();
            let (handle, caller) = (file(&export, &["file"]), NfsCaller::ROOT);
            let write = |number: u64, other: bool| {
                let (data, offset) = (Bytes::from(vec![1; 100]), number * 100);
                let tried = || export.try_write(&caller, &handle, offset, &data, Stability::Unstable);
                let written = (!other).then(tried).flatten();
                let written = written.map(|(_, wcc)| wcc);
                written
                    .unwrap_or_else(|| export.write(&caller, &handle, offset, &data, Stability::Unstable).wcc)
            };
            let wccs: Vec<Wcc> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|of| scope.spawn(move || (0..200).map(|n| write(n * 4 + of, of > 1)).collect()))
                    .collect();
                threads.into_iter().flat_map(|thread| -> Vec<Wcc> { thread.join().unwrap() }).collect()
            });
            let sizes = |wcc: &Wcc| (wcc.after.as_ref().unwrap().size, wcc.before.unwrap().size);
            let mut changes: Vec<(u64, u64)> = wccs.iter().map(sizes).collect();
            // The file only grows, so sorting by size restores the order of the changes.
            changes.sort_unstable();
            assert_eq!(changes.last().unwrap().0, 80_000);
            let mut left = 0;
            for (after, before) in changes {
                assert_eq!(before, left);
                left = after;
            }
        }
    }

    #[test]
    fn try_operations_refuse_moved_files() {
        for dir in directories() {
            let [inside, outside] = ["inside", "outside"].map(|name| dir.path().join(name));
            for top in [&inside, &outside] {
                fs::create_dir_all(top.join("a")).unwrap();
                fs::write(top.join("a/file"), "text").unwrap();
            }
            let export = DirectoryExport::open(&inside).unwrap();
            let handle = file(&export, &["a", "file"]);
            assert_eq!(export.try_attributes(&handle).is_some(), supports_try(&export));
            fs::rename(inside.join("a"), inside.join("b")).unwrap();
            assert_eq!(export.try_attributes(&handle), None);
            symlink("../outside/a", inside.join("a")).unwrap();
            assert_eq!(export.try_attributes(&handle), None, "the path contains a link");
            fs::remove_file(inside.join("a")).unwrap();
            symlink("b", inside.join("a")).unwrap();
            assert_eq!(export.try_attributes(&handle), None, "the same file, behind a link");
            fs::remove_file(inside.join("a")).unwrap();
            fs::rename(outside.join("a"), inside.join("a")).unwrap();
            assert_eq!(export.try_attributes(&handle), None, "another file");
            assert_eq!(
                export.read(&NfsCaller::ROOT, &handle, 0, 4).unwrap().data,
                "text",
                "the blocking read finds the file"
            );
            assert_eq!(export.try_attributes(&handle).is_some(), supports_try(&export));
        }
    }

    #[test]
    fn try_operations_do_not_cross_mount_points() {
        for (top, name) in [("/", "proc"), ("/", "dev"), ("/dev", "shm"), ("/dev", "pts"), ("/", "sys")] {
            let Ok(export) = DirectoryExport::open(Path::new(top)) else { continue };
            let (root, caller) = (export.root(), NfsCaller::ROOT);
            let Ok(found) = export.lookup(&caller, &root, name.as_bytes()) else { continue };
            if found.attributes.fsid != export.attributes(&root).unwrap().fsid {
                assert!(export.try_lookup(&caller, &root, name.as_bytes()).is_none(), "{top} {name}");
                assert!(export.try_attributes(&found.handle).is_none(), "{top} {name}");
            }
        }
    }

    #[test]
    fn try_operations_refuse_other_users() {
        for dir in directories() {
            fs::write(dir.path().join("file"), "text").unwrap();
            let export = DirectoryExport::open(dir.path()).unwrap();
            let (handle, other) =
                (file(&export, &["file"]), NfsCaller { uid: 1234, gid: 1234, gids: vec![] });
            if export.impersonates_callers() {
                assert!(export.try_read(&other, &handle, 0, 4).is_none());
                let data = Bytes::from_static(b"more");
                assert!(export.try_write(&other, &handle, 0, &data, Stability::Unstable).is_none());
                assert!(export.try_access(&other, &handle, 1).is_none());
                assert!(export.try_lookup(&other, &export.root(), b"file").is_none());
            }
        }
    }
}
