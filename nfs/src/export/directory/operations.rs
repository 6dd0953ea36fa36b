#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, CWD, DirEntry, FileType, Mode, OFlags, chmod, fstatvfs, ftruncate, linkat, makedev, mkdirat,
    mknodat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};

use super::change::{check, check_mode, set_attributes, verifier_times};
use super::identity::ThreadIdentity;
use super::{DirectoryExport, Located, PATH_MAX, Purpose, Stat, after, at_name};
use crate::export::{
    Attributes, Before, Cookie, CreateHow, Entry, Export, ExportLimits, FileHandle, FileKind, FileTime,
    Found, Listed, NfsCaller, NfsError, NfsVerifier, Outcome, ReadData, Renamed, SetAttributes, SetTime,
    Space, Stability, TRANSFER_MAX, Wcc, WriteResult, names,
};

/// S_ISGID: new files in the directory get its group.
const SET_GROUP: u32 = 0o2000;

impl Export for DirectoryExport {
    const BLOCKS: bool = true;

    fn root(&self) -> FileHandle {
        self.handle(&self.root)
    }

    fn owns(&self, file: &FileHandle) -> bool {
        self.identity(file).is_ok()
    }

    fn write_verifier(&self) -> NfsVerifier {
        self.write_verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    fn limits(&self) -> ExportLimits {
        ExportLimits::default()
    }

    fn attributes(&self, file: &FileHandle) -> Result<Attributes, NfsError> {
        Ok(self.locate(file)?.stat.attributes)
    }

    fn set_attributes(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        new: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Outcome<()> {
        let sets_any = *new != SetAttributes::default();
        self.change(
            caller,
            self.locate(file),
            |located, acting| {
                if guard.is_some_and(|guard| guard != located.stat.attributes.ctime) {
                    return Err(NfsError::NotSync);
                }
                set_attributes(located, new, acting)
            },
            |located, ()| if sets_any { self.sync_metadata(located) } else { Ok(()) },
        )
    }

    fn lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Result<Found, NfsError> {
        let dir = self.locate_directory(dir)?;
        names::check(name)?;
        let _acting = self.identities.impersonate(caller)?;
        if names::is_dot(name) {
            return self.dot(&dir, name);
        }
        let stat = Stat::of_name(&dir.file, name)?;
        self.must_be_served(&stat)?;
        self.record(&dir.stat, name, stat)
    }

    fn access(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        wanted: u32,
    ) -> Result<(u32, Attributes), NfsError> {
        let located = self.locate(file)?;
        let acting = self.identities.impersonate(caller)?;
        let granted = self.granted(&located);
        drop(acting);
        Ok((granted & wanted, located.stat.attributes))
    }

    fn readlink(&self, _caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError> {
        let located = self.locate(file)?;
        if !located.stat.is(FileKind::Symlink) {
            return Err(NfsError::Inval);
        }
        let target = readlinkat(&located.file, c"", Vec::with_capacity(256))?;
        Ok(Bytes::from(target.into_bytes()))
    }

    fn read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, NfsError> {
        let located = self.locate(file)?;
        located.must_be_regular()?;
        let size = located.stat.attributes.size;
        let count = u64::from(count.min(TRANSFER_MAX)).min(size.saturating_sub(offset));
        let mut data = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let acting = self.identities.impersonate(caller)?;
        let open = self.content(&located, Purpose::Read, &acting, || self.open_to_read(&located, &acting))?;
        while data.len() as u64 != count {
            let at = offset.saturating_add(data.len() as u64);
            match pread(&open, spare_capacity(&mut data), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let end = offset.saturating_add(data.len() as u64);
        // A short read means that the file was truncated.
        let eof = (data.len() as u64) < count || end >= size;
        Ok(ReadData { data: data.into(), eof })
    }

    fn write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Outcome<WriteResult> {
        self.change(
            caller,
            self.locate(file),
            |located, acting| {
                located.must_be_regular()?;
                let data = data.slice(..data.len().min(TRANSFER_MAX as usize));
                let end = offset.checked_add(data.len() as u64);
                end.filter(|end| i64::try_from(*end).is_ok()).ok_or(NfsError::FBig)?;
                let open = self.locked_content(located, Purpose::Write, acting)?;
                Ok((write_all(&open, &data, offset)?, open))
            },
            |located, (count, open)| {
                if stable != Stability::Unstable {
                    self.sync(located.stat.key, &open)?;
                }
                Ok(WriteResult { count, committed: stable })
            },
        )
    }

    fn create(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found> {
        self.change_names_and_file(caller, self.locate_directory(dir), |dir, acting| {
            names::check_new(name)?;
            let new = match how {
                CreateHow::Unchecked(new) | CreateHow::Guarded(new) => settable(new, acting)?,
                CreateHow::Exclusive(verifier) => marked(*verifier),
            };
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&dir.file, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => self.created(dir, name, file, new, acting),
                Err(Errno::EXIST) => self.recreate(dir, name, how),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn mkdir(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        new: &SetAttributes,
    ) -> Outcome<Found> {
        self.change_names_and_file(caller, self.locate_directory(dir), |dir, acting| {
            names::check_new(name)?;
            let new = SetAttributes { size: None, ..settable(new, acting)? };
            mkdirat(&dir.file, name, Mode::RWXU)?;
            self.made(dir, name, at_name(&dir.file, name), new, acting)
        })
    }

    fn symlink(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        target: &Bytes,
        new: &SetAttributes,
    ) -> Outcome<Found> {
        self.change_names_and_file(caller, self.locate_directory(dir), |dir, acting| {
            names::check_new(name)?;
            if target.len() >= PATH_MAX {
                return Err(NfsError::NameTooLong);
            }
            if target.is_empty() || target.contains(&0) {
                return Err(NfsError::Inval);
            }
            let new = SetAttributes { size: None, mode: None, ..settable(new, acting)? };
            symlinkat(&target[..], &dir.file, name)?;
            self.made(dir, name, at_name(&dir.file, name), new, acting)
        })
    }

    /// Only root may create devices. If the server lacks CAP_MKNOD, even root cannot create devices.
    fn mknod(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        (kind, device): (FileKind, (u32, u32)),
        new: &SetAttributes,
    ) -> Outcome<Found> {
        self.change_names_and_file(caller, self.locate_directory(dir), |dir, acting| {
            names::check_new(name)?;
            let (kind, number) = match kind {
                FileKind::Fifo => (FileType::Fifo, 0),
                FileKind::Socket => (FileType::Socket, 0),
                FileKind::Block => (FileType::BlockDevice, makedev(device.0, device.1)),
                FileKind::Character => (FileType::CharacterDevice, makedev(device.0, device.1)),
                _ => return Err(NfsError::BadType),
            };
            let new = SetAttributes { size: None, ..settable(new, acting)? };
            match mknodat(&dir.file, name, kind, Mode::RUSR | Mode::WUSR, number) {
                Ok(()) => {}
                // If root or the server's own user is refused, no caller can create such a file.
                Err(Errno::PERM) if acting.is_root() || !acting.is_caller() => return Err(NfsError::NotSupp),
                Err(error) => return Err(error.into()),
            }
            self.made(dir, name, at_name(&dir.file, name), new, acting)
        })
    }

    fn remove(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        self.unlink(caller, dir, name, AtFlags::empty())
    }

    fn rmdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        self.unlink(caller, dir, name, AtFlags::REMOVEDIR)
    }

    fn rename(&self, caller: &NfsCaller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed {
        let (from_dir, to_dir) = match (self.locate_directory(from.0), self.locate_directory(to.0)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(error), _) | (_, Err(error)) => return Renamed::failed(error),
        };
        if self.read_only {
            return Renamed::failed(NfsError::RoFs);
        }
        let held = self.locks.two(from_dir.stat.key, to_dir.stat.key);
        let before = [&from_dir, &to_dir]
            .map(|dir| Stat::of(&dir.file).ok().map(|stat| Before::from(&stat.attributes)));
        let moved = |_| self.move_name((&from_dir, from.1), (&to_dir, to.1));
        let result = self.identities.impersonate(caller).and_then(moved);
        let [from_before, to_before] = before;
        let (from, to) = (
            Wcc { before: from_before, after: after(&from_dir) },
            Wcc { before: to_before, after: after(&to_dir) },
        );
        drop(held);
        let result = result.and_then(|()| {
            self.sync_metadata(&to_dir)?;
            if from_dir.stat.key == to_dir.stat.key { Ok(()) } else { self.sync_metadata(&from_dir) }
        });
        Renamed { result, from, to }
    }

    fn link(&self, caller: &NfsCaller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        let located = self.locate(file);
        self.change_names(caller, self.locate_directory(dir), |dir, _| {
            let located = located?;
            names::check_new(name)?;
            if located.stat.is(FileKind::Directory) {
                return Err(NfsError::IsDir);
            }
            linkat(CWD, located.path(), &dir.file, name, AtFlags::SYMLINK_FOLLOW)?;
            self.table.record(located.stat.key, false, dir.stat.key, name);
            Ok(())
        })
    }

    fn list(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        after: (Cookie, NfsVerifier),
        plus: bool,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Listed, NfsError> {
        let dir = self.locate_directory(dir)?;
        let _acting = self.identities.impersonate(caller)?;
        let mut names = rustix::fs::Dir::new(dir.open(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        // The file system's cookies stay valid when names change and when the server restarts, so the
        // verifier never changes.
        let verifier = NfsVerifier::default();
        let from = i64::try_from(after.0).map_err(|_| NfsError::BadCookie)?;
        if from != 0 {
            names.seek(from).map_err(|_| NfsError::BadCookie)?;
        }
        while let Some(entry) = names.read() {
            let entry = entry?;
            let Ok(found) = self.listed(&dir, &entry, plus) else { continue };
            let entry = Entry {
                fileid: found.as_ref().map_or(entry.ino(), |found| found.attributes.fileid),
                name: Bytes::copy_from_slice(entry.file_name().to_bytes()),
                cookie: entry.offset().cast_unsigned(),
                found: found.filter(|_| plus),
            };
            if !take(entry) {
                return Ok(Listed { verifier, eof: false });
            }
        }
        Ok(Listed { verifier, eof: true })
    }

    fn space(&self, file: &FileHandle) -> Result<Space, NfsError> {
        let of = fstatvfs(&self.locate(file)?.file)?;
        let bytes = [of.f_blocks, of.f_bfree, of.f_bavail].map(|blocks| blocks.saturating_mul(of.f_frsize));
        Ok(Space { bytes, files: [of.f_files, of.f_ffree, of.f_favail] })
    }

    fn commit(&self, caller: &NfsCaller, file: &FileHandle, _offset: u64, _count: u32) -> Outcome<()> {
        self.change(
            caller,
            self.locate(file),
            |located, acting| {
                located.must_be_regular()?;
                // If the file cannot be opened for writing, opens it for reading: the caller may have only
                // the right to read, or the file is a running program (ETXTBSY).
                match self.locked_content(located, Purpose::Write, acting) {
                    Err(NfsError::Acces | NfsError::Io) => {
                        self.locked_content(located, Purpose::Read, acting)
                    }
                    opened => opened,
                }
            },
            |located, open| self.sync(located.stat.key, &open),
        )
    }
}

impl DirectoryExport {
    /// Looks up `.` or `..`; `..` of the root is the root.
    fn dot(&self, dir: &Located, name: &[u8]) -> Result<Found, NfsError> {
        let is_top = dir.stat.key == self.root.key;
        if name == b"." || is_top {
            return Ok(Found { handle: self.handle(&dir.stat), attributes: dir.stat.attributes.clone() });
        }
        let expected = self.table.parent(dir.stat.key).ok_or(NfsError::Stale)?;
        let above = Stat::of_name(&dir.file, b"..")?;
        // A different parent means that another process moved the directory, possibly out of the export.
        if above.key != expected {
            return Err(NfsError::Stale);
        }
        Ok(Found { handle: self.handle(&above), attributes: above.attributes })
    }

    /// Returns an entry's file, if available. Without `plus`, returns only the files of `.` and `..`. Their
    /// inode numbers replace those that the system lists: for `..` of the root, the system lists a directory
    /// outside the export.
    ///
    /// # Errors
    /// The errors of [`DirectoryExport::must_be_served`].
    fn listed(&self, dir: &Located, entry: &DirEntry, plus: bool) -> Result<Option<Found>, NfsError> {
        let name = entry.file_name().to_bytes();
        if names::is_dot(name) {
            return Ok(self.dot(dir, name).ok());
        }
        let may_be_mount = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if !plus && (self.cross_mounts || !may_be_mount) {
            return Ok(None);
        }
        let Ok(stat) = Stat::of_name(&dir.file, name) else { return Ok(None) };
        self.must_be_served(&stat)?;
        Ok(if plus { self.record(&dir.stat, name, stat).ok() } else { None })
    }

    /// Calls [`DirectoryExport::made`] for a new regular file. Uses the descriptor of the file, because
    /// another process may have replaced the name.
    fn created(
        &self,
        dir: &Located,
        name: &[u8],
        file: OwnedFd,
        new: SetAttributes,
        acting: &ThreadIdentity<'_>,
    ) -> Result<(Found, Option<Located>), NfsError> {
        let located = Stat::of(&file).map(|stat| Located { file, stat });
        self.made(dir, name, located, new, acting)
    }

    /// Sets the attributes of a new file and records its name. Also returns the located file if any attribute
    /// was set, so that the attributes are synced. If the attributes or the name cannot be stored, or if the
    /// file was not located, removes the file. If the file stayed, the client's second attempt would find it.
    fn made(
        &self,
        dir: &Located,
        name: &[u8],
        located: Result<Located, NfsError>,
        new: SetAttributes,
        acting: &ThreadIdentity<'_>,
    ) -> Result<(Found, Option<Located>), NfsError> {
        let sets_any = new != SetAttributes::default();
        let made = match &located {
            Ok(located) => self.completed(dir, name, located, new, acting),
            Err(error) => Err(*error),
        };
        let found = made.inspect_err(|_| {
            let Ok(there) = Stat::of_name(&dir.file, name) else { return };
            // Another process may have replaced the file. If the new file was not located, it cannot be
            // recognized, so a regular file with data is kept.
            let is_new = match &located {
                Ok(located) => located.stat.key == there.key,
                Err(_) => !there.is(FileKind::Regular) || there.attributes.size == 0,
            };
            let flags = if there.is(FileKind::Directory) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // The first error is more useful than an error from the removal.
            if is_new && unlinkat(&dir.file, name, flags).is_ok() {
                self.open_files.close(there.key);
                self.table.forget(there.key, dir.stat.key, name);
            }
        })?;
        Ok((found, located.ok().filter(|_| sets_any)))
    }

    fn completed(
        &self,
        dir: &Located,
        name: &[u8],
        located: &Located,
        mut new: SetAttributes,
        acting: &ThreadIdentity<'_>,
    ) -> Result<Found, NfsError> {
        // Keeps the inherited setgid bit, even if the creator is not in the directory's group.
        let inherited = located.stat.attributes.mode & SET_GROUP;
        let is_makers = located.stat.is(FileKind::Directory) && acting.is(located.stat.attributes.uid);
        if is_makers
            && inherited != 0
            && let Some(mode) = new.mode.take()
        {
            let mode = Mode::from_raw_mode(mode & 0o7777 | inherited);
            acting.as_server(|| Ok(chmod(located.path(), mode)?))?;
        }
        set_attributes(located, &new, acting)?;
        let stat = Stat::of(&located.file)?;
        self.record(&dir.stat, name, stat)
    }

    /// Handles a CREATE of an existing name. Returns the existing file if `how` permits its use. Also returns
    /// the located file if its attributes must be synced.
    fn recreate(
        &self,
        dir: &Located,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<(Found, Option<Located>), NfsError> {
        let located = at_name(&dir.file, name)?;
        self.must_be_served(&located.stat)?;
        let attributes = &located.stat.attributes;
        match how {
            _ if !located.stat.is(FileKind::Regular) => Err(NfsError::Exist),
            CreateHow::Unchecked(new) => {
                if let Some(size) = new.size {
                    // Like open(2), truncates the file only if the caller may write to it.
                    i64::try_from(size).map_err(|_| NfsError::FBig)?;
                    ftruncate(located.open(OFlags::WRONLY)?, size)?;
                }
                let stat = Stat::of(&located.file)?;
                Ok((self.record(&dir.stat, name, stat)?, new.size.map(|_| located)))
            }
            CreateHow::Exclusive(verifier)
                if attributes.size == 0
                    && [attributes.atime, attributes.mtime] == verifier_times(*verifier) =>
            {
                Ok((self.record(&dir.stat, name, located.stat.clone())?, Some(located)))
            }
            _ => Err(NfsError::Exist),
        }
    }

    fn unlink(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], flags: AtFlags) -> Outcome<()> {
        self.change_names(caller, self.locate_directory(dir), |dir, _| {
            names::check_old(name)?;
            let stat = Stat::of_name(&dir.file, name)?;
            self.must_be_served(&stat)?;
            let is_directory = stat.is(FileKind::Directory);
            if is_directory && !flags.contains(AtFlags::REMOVEDIR) {
                return Err(NfsError::IsDir);
            }
            unlinkat(&dir.file, name, flags)?;
            self.open_files.close(stat.key);
            self.table.forget(stat.key, dir.stat.key, name);
            Ok(())
        })
    }

    fn move_name(&self, from: (&Located, &[u8]), to: (&Located, &[u8])) -> Result<(), NfsError> {
        names::check_old(from.1)?;
        names::check(to.1)?;
        if names::is_dot(to.1) {
            return Err(NfsError::Inval);
        }
        let moved = Stat::of_name(&from.0.file, from.1)?;
        let replaced = Stat::of_name(&to.0.file, to.1).ok();
        [Some(&moved), replaced.as_ref()].into_iter().flatten().try_for_each(|of| self.must_be_served(of))?;
        match renameat(&from.0.file, from.1, &to.0.file, to.1) {
            Ok(()) => {}
            // RFC 1813 section 3.3.14 defines a single error for all targets that cannot be replaced.
            Err(Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => return Err(NfsError::Exist),
            Err(error) => return Err(error.into()),
        }
        self.open_files.close(moved.key);
        if let Some(replaced) = &replaced {
            self.open_files.close(replaced.key);
            self.table.forget(replaced.key, to.0.stat.key, to.1);
        }
        // If both names refer to the same file, rename(2) keeps both names.
        if replaced.is_none_or(|replaced| replaced.key != moved.key) {
            self.table.forget(moved.key, from.0.stat.key, from.1);
        }
        self.table.record(moved.key, moved.is(FileKind::Directory), to.0.stat.key, to.1);
        Ok(())
    }
}

/// Returns the attributes to set on a new file. If an attribute is invalid, fails before anything is created.
/// Only root can set the owner and the group; other callers' values are ignored.
fn settable(new: &SetAttributes, acting: &ThreadIdentity<'_>) -> Result<SetAttributes, NfsError> {
    let mut new = new.clone();
    if !acting.is_root() {
        (new.uid, new.gid) = (None, None);
    }
    check(&new)?;
    check_mode(new.mode.unwrap_or(0), acting)?;
    Ok(new)
}

/// Returns the attributes that mark a file as created by an exclusive CREATE with this verifier.
fn marked(verifier: NfsVerifier) -> SetAttributes {
    let [atime, mtime] = verifier_times(verifier).map(|time| Some(SetTime::To(time)));
    SetAttributes { atime, mtime, ..SetAttributes::default() }
}

/// Writes data at an offset. If an error follows a partial write, returns the number of bytes written.
fn write_all(file: impl AsFd, data: &[u8], offset: u64) -> Result<u32, NfsError> {
    let mut done = 0;
    while let Some(rest) = data.get(done..)
        && !rest.is_empty()
    {
        match pwrite(&file, rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done = done.saturating_add(count),
            Err(Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    u32::try_from(done).map_err(|_| NfsError::ServerFault)
}
