//! Writes of data, names and attributes to stable storage.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{Mode, OFlags, fsync, openat, syncfs};
use rustix::io::Errno;

use super::identity::ThreadIdentity;
use super::stat::Key;
use super::try_ops::Storage;
use super::{DirectoryExport, Located};
use crate::export::{FileKind, Found, NfsCaller, NfsError, Outcome};

impl DirectoryExport {
    /// Writes a file's data to stable storage. If this fails, changes the write verifier, so that all clients
    /// write their unstable data again. The system reports a failure only once, but the failure can affect
    /// several clients.
    pub(super) fn sync(&self, key: Key, open: impl AsFd) -> Result<(), NfsError> {
        self.sync_by(key, || fsync(&open))
    }

    /// Like [`DirectoryExport::sync`], but syncs the file with the given function.
    fn sync_by(&self, key: Key, fsync: impl FnOnce() -> rustix::io::Result<()>) -> Result<(), NfsError> {
        self.syncs.sync(key, || {
            fsync().map_err(|error| {
                self.write_verifier.fetch_add(1, Ordering::SeqCst);
                error.into()
            })
        })
    }

    /// Writes a file's attributes, or a directory's names and attributes, to stable storage.
    pub(super) fn sync_metadata(&self, located: &Located) -> Result<(), NfsError> {
        if self.storage == Storage::Memory && located.stat.key.dev == self.root.key.dev {
            return Ok(());
        }
        let opened = match located.stat.attributes.kind {
            FileKind::Regular | FileKind::Directory => located.open(OFlags::RDONLY),
            // The system cannot open a link, and opening a device or FIFO has side effects.
            _ => Err(NfsError::Inval),
        };
        let Ok(open) = opened else { return self.sync_file_system(located.stat.key.dev) };
        self.sync_by(located.stat.key, || match fsync(&open) {
            // Some file systems cannot sync a directory.
            Err(Errno::INVAL) => syncfs(&open),
            synced => synced,
        })
    }

    /// Writes all files of a file system to stable storage. Calls that wait for the same file system share a
    /// sync.
    fn sync_file_system(&self, dev: u64) -> Result<(), NfsError> {
        // No file has inode number 0, so this key stands for the file system.
        self.sync_by(Key { dev, ino: 0 }, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            // cap-std opened `top` for lookups only, and syncfs needs a directory that is open for reading.
            match openat(&self.top, c".", flags, Mode::empty()) {
                Ok(top) if dev == self.root.key.dev => syncfs(&top),
                _ => {
                    rustix::fs::sync();
                    Ok(())
                }
            }
        })
    }

    /// Changes the names in a directory. The change is on stable storage before the call ends (RFC 1813
    /// section 4.7).
    pub(super) fn change_names<T>(
        &self,
        caller: &NfsCaller,
        dir: Result<Located, NfsError>,
        change: impl FnOnce(&Located, &ThreadIdentity<'_>) -> Result<T, NfsError>,
    ) -> Outcome<T> {
        self.change(caller, dir, change, |dir, changed| self.sync_metadata(dir).map(|()| changed))
    }

    /// Like [`DirectoryExport::change_names`], for a change that can also set the attributes of a file. If
    /// `change` returns the file, its attributes are also on stable storage before the call ends.
    pub(super) fn change_names_and_file(
        &self,
        caller: &NfsCaller,
        dir: Result<Located, NfsError>,
        change: impl FnOnce(&Located, &ThreadIdentity<'_>) -> Result<(Found, Option<Located>), NfsError>,
    ) -> Outcome<Found> {
        self.change(caller, dir, change, |dir, (found, file)| {
            file.map_or(Ok(()), |file| self.sync_metadata(&file))?;
            self.sync_metadata(dir)?;
            Ok(found)
        })
    }
}
