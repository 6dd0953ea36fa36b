//! Serves a local directory.
//!
//! No call reaches a file outside the served directory. Paths relative to the served directory are resolved
//! in a sandbox (cap-std, or openat2 with RESOLVE_BENEATH), and each name in a call must be a single path
//! component. A symbolic link as the last component is never followed. An opened file is compared with its
//! handle before it is used.
//!
//! Limitations:
//! - Only a server that runs as root uses its callers' identities. Such a server accesses files with the
//!   caller's user, group and supplementary groups, and new files belong to the caller. Any other server has
//!   the rights of its own user for all callers, and new files belong to that user
//!   ([`DirectoryExport::impersonates_callers`]).
//! - If another process renames a file, the file's handles are stale until a client looks up the new name.
//!   The first stale handle, for example one from before a restart of the server, starts a walk over the
//!   whole directory. The walk also finds renamed files. It runs only once, and stops after 1,048,576 files.
//! - If the file system stores no creation times, or if two files have the same creation time, a handle of a
//!   removed file can refer to a later file with the same inode number.
//! - LOOKUP and MKDIR fail with [`NfsError::NameTooLong`] for a directory that is more than 1,024 levels
//!   below the served directory.
//! - A change of the attributes of a link, pipe, socket or device writes the whole file system to stable
//!   storage, because fsync is impossible on such a file. So does a change of a directory, or of a file's
//!   attributes, if the server cannot read the directory or file.
//! - Attributes before and after a change are atomic with the change only among this server's callers; other
//!   processes on this machine can interfere.
//! - NFS lets the owner read and write a file regardless of its mode. A server that is not root temporarily
//!   adds these rights to the mode. If the server is killed at that time, the rights remain.
//! - Requires `/proc`: files are reopened and changed through `/proc/self/fd`.
//! - Files stay open for up to two seconds after they were last read or written. During this time, a written
//!   file cannot be executed (ETXTBSY). At most 512 descriptors per export stay open, and fewer if the
//!   process's limit on open files is low.
//! - If the process handles or ignores SIGXFSZ, as `nfs3d` does, a WRITE past RLIMIT_FSIZE fails with
//!   [`NfsError::FBig`]. Otherwise, the signal terminates the process.
//! - Each known file uses about 150 bytes of memory until a client removes the file. A sweep frees the memory
//!   of files that other processes removed. A sweep starts when at least 65,536 files are known and their
//!   number has doubled since the previous sweep.

mod change;
mod errno;
mod identity;
mod key;
mod locks;
mod open_files;
mod operations;
mod rediscovery;
mod stable_storage;
mod stat;
mod sweep;
mod syncs;
mod table;
mod try_ops;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Once};

use cap_std::fs::Dir;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, chmod, openat};
use rustix::process::geteuid;

pub use self::key::HandleKey;

use self::identity::{Identities, ThreadIdentity};
use self::locks::Locks;
use self::open_files::{OpenFiles, Purpose};
use self::stat::{Key, Stat};
use self::sweep::open_at;
use self::syncs::Syncs;
use self::table::Table;
use self::try_ops::Storage;
use super::permissions::access_bits;
use super::{FileHandle, FileKind, Found, NfsCaller, NfsError, Outcome, Wcc, names};
use crate::export::Before;

/// The length of a handle in bytes: four numbers and their checksum.
const HANDLE: usize = 4 * 8 + 16;
/// The maximum size of a path in a system call, in bytes, including a terminating NUL.
const PATH_MAX: usize = 4096;

/// An export of a directory.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
/// use rpcrdma_nfs::nfs::NfsHandler;
///
/// // With a stored key, file handles stay valid when the server restarts.
/// let key = HandleKey::load_or_create(Path::new("/var/lib/server/handle-key"))?;
/// let export = DirectoryExport::open(Path::new("/srv/files"))?.keyed(key).read_only(true);
/// let handler = NfsHandler::new(Arc::new(export));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DirectoryExport {
    top: Dir,
    root: Stat,
    table: Arc<Table>,
    locks: Locks,
    syncs: Syncs,
    open_files: OpenFiles,
    /// Completed by the single walk over the whole directory ([`DirectoryExport::record_all`]).
    walked: Once,
    /// Changes after each failed sync.
    write_verifier: AtomicU64,
    key: HandleKey,
    identities: Identities,
    storage: Storage,
    cross_mounts: bool,
    read_only: bool,
}

/// An open file and its attributes. The descriptor may give no access to the content (O_PATH).
#[derive(Debug)]
struct Located {
    file: OwnedFd,
    stat: Stat,
}

impl Located {
    fn open(&self, flags: OFlags) -> Result<OwnedFd, NfsError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        Ok(openat(CWD, self.path(), flags, Mode::empty())?)
    }

    /// Opens the content of a regular file. NFS permits more than the mode: the owner may read and write, and
    /// a caller that may execute may read. NFS has no OPEN, so a program that makes its open file read-only
    /// must be able to continue writing (RFC 1813 section 4.4).
    ///
    /// A server that does not impersonate its callers temporarily widens the mode of a file of its own user.
    /// Then the calling function must hold the file's lock and must have read `stat` under this lock.
    fn open_content(&self, purpose: Purpose, acting: &ThreadIdentity<'_>) -> Result<OwnedFd, NfsError> {
        let open = || self.open(purpose.flags());
        let opened = open();
        if !matches!(opened, Err(NfsError::Acces)) || !self.is_permitted_by_nfs(purpose, acting) {
            return opened;
        }
        if acting.is_caller() {
            return acting.as_server(open);
        }
        let mode = Mode::from_raw_mode(self.stat.attributes.mode);
        chmod(self.path(), mode | Mode::RUSR | Mode::WUSR)?;
        let opened = open();
        chmod(self.path(), mode)?;
        opened
    }

    /// Returns true if NFS permits the access despite the file's mode.
    fn is_permitted_by_nfs(&self, purpose: Purpose, acting: &ThreadIdentity<'_>) -> bool {
        if !acting.is_caller() {
            return self.is_ours();
        }
        let runs = || purpose == Purpose::Read && self.allows(Access::EXEC_OK);
        self.stat.is(FileKind::Regular) && (acting.is(self.stat.attributes.uid) || runs())
    }

    fn may_open(&self, purpose: Purpose, acting: &ThreadIdentity<'_>) -> bool {
        self.allows(purpose.right()) || self.is_permitted_by_nfs(purpose, acting)
    }

    /// Returns true if the system grants this access to the current thread's identity.
    fn allows(&self, how: Access) -> bool {
        accessat(CWD, self.path(), how, AtFlags::EACCESS).is_ok()
    }

    fn granted(&self) -> u32 {
        let [read, write, execute] =
            [Access::READ_OK, Access::WRITE_OK, Access::EXEC_OK].map(|how| self.allows(how));
        let when = |granted: bool, bits: u32| if granted { bits } else { 0 };
        if self.stat.is(FileKind::Directory) {
            when(read, access_bits::READ)
                | when(execute, access_bits::LOOKUP)
                | when(write && execute, access_bits::CHANGES)
        } else {
            when(read, access_bits::READ)
                | when(write, access_bits::MODIFY | access_bits::EXTEND)
                | when(execute, access_bits::EXECUTE)
        }
    }

    fn is_ours(&self) -> bool {
        self.stat.is(FileKind::Regular) && self.stat.attributes.uid == geteuid().as_raw()
    }

    /// Returns a path that refers to this file even after a rename.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// # Errors
    /// [`NfsError::IsDir`], or [`NfsError::Inval`] for any other file that is not a regular file.
    fn must_be_regular(&self) -> Result<(), NfsError> {
        match self.stat.attributes.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(NfsError::IsDir),
            _ => Err(NfsError::Inval),
        }
    }
}

impl DirectoryExport {
    /// Opens a directory. Handles are valid until the returned value is dropped. With a stored key
    /// ([`DirectoryExport::keyed`]), handles also stay valid when the server restarts.
    ///
    /// # Errors
    /// Fails if the path cannot be opened or is not a directory, or if the system cannot provide random bytes
    /// or start a thread. Also fails if the process runs as root but cannot act as its callers, for example
    /// without CAP_SETUID or CAP_SETGID.
    pub fn open(path: &Path) -> io::Result<Self> {
        let top = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
        let root = Stat::of(&top).map_err(io::Error::other)?;
        let storage = Storage::of(&top);
        Ok(DirectoryExport {
            top,
            root,
            table: Arc::default(),
            locks: Locks::default(),
            syncs: Syncs::default(),
            open_files: OpenFiles::start()?,
            walked: Once::new(),
            write_verifier: RandomState::new().build_hasher().finish().into(),
            key: HandleKey::random()?,
            identities: Identities::of_this_process()?,
            storage,
            cross_mounts: false,
            read_only: false,
        })
    }

    /// Sets the key of the handles. Only handles that were created with the same key are valid.
    #[must_use]
    pub fn keyed(self, key: HandleKey) -> Self {
        DirectoryExport { key, ..self }
    }

    /// Sets whether file systems mounted below the directory are served. By default, their files are refused
    /// with [`NfsError::Acces`] and omitted from listings. READDIR still lists the name of a mount point that
    /// is not a directory.
    #[must_use]
    pub fn cross_mounts(self, cross_mounts: bool) -> Self {
        DirectoryExport { cross_mounts, ..self }
    }

    /// Sets whether changes are refused. If the server is not root and changes are refused, an owner cannot
    /// read a file whose mode forbids reading.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        DirectoryExport { read_only, ..self }
    }

    /// Returns true if a caller's rights depend on its identity. Otherwise the server is not root, and
    /// every caller has the rights of the server's user.
    #[must_use]
    pub fn impersonates_callers(&self) -> bool {
        self.identities.impersonates_callers()
    }

    fn handle(&self, stat: &Stat) -> FileHandle {
        let words = [self.root.key.ino, stat.key.dev, stat.key.ino, stat.generation];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(self.key.sum(&bytes).to_be_bytes());
        FileHandle::new(&bytes).unwrap_or_default()
    }

    /// # Errors
    /// [`NfsError::BadHandle`] for a handle of the wrong length, [`NfsError::Stale`] for a handle of another
    /// export or with a wrong checksum.
    fn identity(&self, handle: &FileHandle) -> Result<(Key, u64), NfsError> {
        let bytes: &[u8; HANDLE] = handle.as_slice().try_into().map_err(|_| NfsError::BadHandle)?;
        let (bytes, sum) = bytes.split_last_chunk().ok_or(NfsError::BadHandle)?;
        // Compares numbers, not bytes: a byte comparison stops at the first difference, so its duration would
        // reveal where the bytes differ.
        if self.key.sum(bytes) != u128::from_be_bytes(*sum) {
            return Err(NfsError::Stale);
        }
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_be_bytes).map_err(|_| NfsError::BadHandle)?;
        }
        let [root, dev, ino, generation] = words;
        if root != self.root.key.ino {
            return Err(NfsError::Stale);
        }
        Ok((Key { dev, ino }, generation))
    }

    fn locate(&self, handle: &FileHandle) -> Result<Located, NfsError> {
        let (key, generation) = self.identity(handle)?;
        self.sweep_if_due();
        match self.locate_known(key, generation) {
            Err(NfsError::Stale) if key != self.root.key => {
                self.walked.call_once(|| self.record_all());
                self.locate_known(key, generation)
            }
            located => located,
        }
    }

    /// Opens the root, or another file by one of its recorded names.
    fn locate_known(&self, key: Key, generation: u64) -> Result<Located, NfsError> {
        let is_it = |Located { stat, .. }: &Located| {
            stat.key == key && stat.generation == generation && self.must_be_served(stat).is_ok()
        };
        if key == self.root.key {
            return Some(at_name(&self.top, b".")?).filter(is_it).ok_or(NfsError::Stale);
        }
        let mut refused = NfsError::Stale;
        for (path, place) in self.table.candidates(key, self.root.key) {
            let Some(path) = path else { continue };
            match open_at(&self.top, &path, &place.name) {
                Ok(located) if is_it(&located) => return Ok(located),
                // The recorded name does not refer to the file.
                Ok(_) | Err(NfsError::NoEnt | NfsError::NotDir | NfsError::Inval) => {}
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// # Errors
    /// [`NfsError::NotDir`].
    fn locate_directory(&self, handle: &FileHandle) -> Result<Located, NfsError> {
        let located = self.locate(handle)?;
        if located.stat.is(FileKind::Directory) { Ok(located) } else { Err(NfsError::NotDir) }
    }

    /// Returns a descriptor for the content of a regular file, from the cache if possible. Checks the
    /// caller's rights for each call.
    fn content(
        &self,
        located: &Located,
        purpose: Purpose,
        acting: &ThreadIdentity<'_>,
        open: impl FnOnce() -> Result<OwnedFd, NfsError>,
    ) -> Result<Arc<OwnedFd>, NfsError> {
        match self.open_files.get(&located.stat, purpose, acting.caller()) {
            Some(file) if located.may_open(purpose, acting) => Ok(file),
            _ => Ok(self.open_files.keep(&located.stat, purpose, acting.caller(), open()?)),
        }
    }

    /// Returns a descriptor like [`DirectoryExport::content`], for a call that holds the file's lock.
    fn locked_content(
        &self,
        located: &Located,
        purpose: Purpose,
        acting: &ThreadIdentity<'_>,
    ) -> Result<Arc<OwnedFd>, NfsError> {
        self.content(located, purpose, acting, || located.open_content(purpose, acting))
    }

    fn open_to_read(&self, located: &Located, acting: &ThreadIdentity<'_>) -> Result<OwnedFd, NfsError> {
        if acting.is_caller() {
            return located.open_content(Purpose::Read, acting);
        }
        let opened = located.open(OFlags::RDONLY);
        if self.read_only || !matches!(opened, Err(NfsError::Acces)) || !located.is_ours() {
            return opened;
        }
        let _held = self.locks.one(located.stat.key);
        let reopened = Located { file: located.file.try_clone()?, stat: Stat::of(&located.file)? };
        reopened.open_content(Purpose::Read, acting)
    }

    /// # Errors
    /// [`NfsError::Acces`] for a file on another mount that is not served.
    fn must_be_served(&self, stat: &Stat) -> Result<(), NfsError> {
        let is_served = self.cross_mounts || stat.mount == self.root.mount;
        if is_served { Ok(()) } else { Err(NfsError::Acces) }
    }

    /// Returns the rights of the current thread's identity to a file, as ACCESS3 bits.
    fn granted(&self, located: &Located) -> u32 {
        let granted = located.granted();
        if self.read_only { granted & !access_bits::CHANGES } else { granted }
    }

    /// # Errors
    /// [`NfsError::NameTooLong`] for a directory that is too deep: its files could not be located.
    fn record(&self, dir: &Stat, name: &[u8], stat: Stat) -> Result<Found, NfsError> {
        if stat.key != self.root.key {
            let is_directory = stat.is(FileKind::Directory);
            self.table.record(stat.key, is_directory, dir.key, name);
            if is_directory && self.table.path(stat.key, self.root.key) == Err(NfsError::NameTooLong) {
                return Err(NfsError::NameTooLong);
            }
        }
        Ok(Found { handle: self.handle(&stat), attributes: stat.attributes })
    }

    /// Locks a file or directory and changes it with the caller's identity, unless the export is read-only.
    /// After a successful change, calls `sync` without the lock, so that other calls do not wait for a disk.
    fn change<T, U>(
        &self,
        caller: &NfsCaller,
        located: Result<Located, NfsError>,
        change: impl FnOnce(&Located, &ThreadIdentity<'_>) -> Result<T, NfsError>,
        sync: impl FnOnce(&Located, T) -> Result<U, NfsError>,
    ) -> Outcome<U> {
        let mut located = match located {
            Ok(located) => located,
            Err(error) => return Outcome::failed(error),
        };
        if self.read_only {
            return Outcome {
                result: Err(NfsError::RoFs),
                wcc: Wcc { before: None, after: Some(located.stat.attributes) },
            };
        }
        let held = self.locks.one(located.stat.key);
        // The attributes may have changed before this call got the lock.
        match Stat::of(&located.file) {
            Ok(stat) => located.stat = stat,
            Err(error) => return Outcome::failed(error),
        }
        let before = Some(Before::from(&located.stat.attributes));
        let result = self.identities.impersonate(caller).and_then(|acting| change(&located, &acting));
        let wcc = Wcc { before, after: after(&located) };
        drop(held);
        Outcome { result: result.and_then(|changed| sync(&located, changed)), wcc }
    }
}

fn after(located: &Located) -> Option<super::Attributes> {
    Stat::of(&located.file).ok().map(|stat| stat.attributes)
}

/// Opens a single-component name in a directory. Opens a link itself, not its target.
fn at_name(dir: impl AsFd, name: &[u8]) -> Result<Located, NfsError> {
    let file = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = Stat::of(&file)?;
    Ok(Located { file, stat })
}
