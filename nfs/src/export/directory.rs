//! A directory of this machine.
//!
//! No call reaches a file outside it: the way from the top to a directory is walked in a sandbox (cap-std),
//! names in a directory are single components, links are never followed, and what was opened is compared with
//! the file that the handle stands for before it is used.
//!
//! What it does not do:
//! - Only root can be its callers: then files are reached with the caller's rights, by user, group and further groups, and
//!   what callers make is theirs. A server of another user has that user's rights and no others, whoever calls, and what
//!   callers make belongs to that user ([`DirectoryExport::tells_callers_apart`]).
//! - A file that is renamed by somebody else is stale until it is looked up again. On file systems that do not tell when
//!   a file was made, a handle can stand for a later file of the same number. A handle of a server that ran before is
//!   found by a walk over the whole directory, once, which ends after a million files.
//! - Attributes from before and after a change belong to it as far as this server's own callers go; processes
//!   of this machine can come between.
//! - If the server is not root, the owner's right to read and write a file whatever its mode is made by widening the mode
//!   for a moment: a server that is killed in it leaves the file's owner with both.
//! - It needs `/proc`: by its names of open files, one that was checked is opened for reading.
//! - Files that were read or written stay open for two seconds after their last use, so a program that was written meanwhile
//!   cannot be run yet (ETXTBSY). At most 512 descriptors stay open, and an eighth of those that the process may have.
//! - A WRITE past RLIMIT_FSIZE ends the process by SIGXFSZ unless it handles or ignores that signal, as `nfs3d`
//!   does; the WRITE fails with [`Error::FBig`] then.
//! - Each file that was looked up takes about a hundred bytes of memory until it is removed. Of files that
//!   others removed up to 65,536 are kept, or as many as there are others.

mod at_hand;
mod change;
mod errno;
mod identity;
mod key;
mod locks;
mod open_files;
mod operations;
mod rediscovery;
mod stat;
mod sweep;
mod syncs;
mod table;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Once};

use cap_std::fs::Dir;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, chmod, openat};
use rustix::process::geteuid;

pub use self::key::HandleKey;

use self::at_hand::Storage;
use self::identity::{Acting, Identities};
use self::locks::Locks;
use self::open_files::{OpenFiles, Purpose};
use self::stat::{Key, Stat};
use self::sweep::at_place;
use self::syncs::Syncs;
use self::table::Table;
use super::permissions::access_bits;
use super::{Caller, Error, FileHandle, FileKind, Found, Outcome, Verifier, Wcc, names};
use crate::export::Before;

/// Octets of a handle: four numbers, and a sum over them.
const HANDLE: usize = 4 * 8 + 16;

/// A directory that is served.
#[derive(Debug)]
pub struct DirectoryExport {
    top: Dir,
    root: Stat,
    table: Arc<Table>,
    locks: Locks,
    syncs: Syncs,
    open_files: OpenFiles,
    /// Whether all that is there was walked through, for handles of a server before this one.
    walked: Once,
    write_verifier: Verifier,
    key: HandleKey,
    /// Who the server can be.
    identities: Identities,
    storage: Storage,
    cross_mounts: bool,
    read_only: bool,
}

/// An open file, good for everything that is not its content, and what it is. It was checked to be the one
/// that was asked for.
#[derive(Debug)]
struct Located {
    file: OwnedFd,
    stat: Stat,
}

impl Located {
    /// Opens the same file again for its content.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        Ok(openat(CWD, self.path(), flags, Mode::empty())?)
    }

    /// The same for a regular file, also where its mode forbids what it must not: an owner reads and writes, and who may
    /// run a file reads it. NFS has no open, and so a program that made a file read-only and goes on writing must be let
    /// (RFC 1813 section 4.4). The system knows no such exceptions.
    ///
    /// A server that is no caller widens the mode of its own file for a moment, and the file's lock must be held meanwhile,
    /// with what `stat` says taken under it.
    fn open_content(&self, purpose: Purpose, acting: &Acting<'_>) -> Result<OwnedFd, Error> {
        let open = || self.open(purpose.flags());
        let opened = open();
        if !matches!(opened, Err(Error::Acces)) || !self.is_excepted(purpose, acting) {
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

    /// Whether the file is opened although its mode forbids it.
    fn is_excepted(&self, purpose: Purpose, acting: &Acting<'_>) -> bool {
        if !acting.is_caller() {
            return self.is_ours();
        }
        let runs = || purpose == Purpose::Read && self.allows(Access::EXEC_OK);
        self.stat.is(FileKind::Regular) && (acting.is(self.stat.attributes.uid) || runs())
    }

    /// Whether [`Located::open_content`] would find that this is permitted.
    fn may_open(&self, purpose: Purpose, acting: &Acting<'_>) -> bool {
        self.allows(purpose.right()) || self.is_excepted(purpose, acting)
    }

    /// Whether the system grants this to whoever this thread is.
    fn allows(&self, how: Access) -> bool {
        accessat(CWD, self.path(), how, AtFlags::EACCESS).is_ok()
    }

    /// What whoever this thread is may do with it, in ACCESS3 bits.
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

    /// Whether this is a regular file of the server's user.
    fn is_ours(&self) -> bool {
        self.stat.is(FileKind::Regular) && self.stat.attributes.uid == geteuid().as_raw()
    }

    /// A path that leads to this file and no other, whatever its names are now.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// # Errors
    /// [`Error::IsDir`], and [`Error::Inval`] for all else that is no regular file.
    fn must_be_regular(&self) -> Result<(), Error> {
        match self.stat.attributes.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Error::IsDir),
            _ => Err(Error::Inval),
        }
    }
}

impl DirectoryExport {
    /// Serves a directory, with handles that are good as long as this value lives; [`DirectoryExport::keyed`] has them good again.
    ///
    /// # Errors
    /// If the path cannot be opened or is not a directory, if the process is root without CAP_SETUID or CAP_SETGID, or if the system
    /// provides no random bytes or no thread.
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
            write_verifier: RandomState::new().build_hasher().finish().to_be_bytes(),
            key: HandleKey::random()?,
            identities: Identities::of_this_process()?,
            storage,
            cross_mounts: false,
            read_only: false,
        })
    }

    /// The same with this key: handles of a server that had it are good, and no others.
    #[must_use]
    pub fn keyed(self, key: HandleKey) -> Self {
        DirectoryExport { key, ..self }
    }

    /// Also serves what is mounted below the directory, or refuses it, as without this call:
    /// [`Error::Acces`], and listings leave it out.
    #[must_use]
    pub fn cross_mounts(self, cross_mounts: bool) -> Self {
        DirectoryExport { cross_mounts, ..self }
    }

    /// Changes nothing in the directory, or takes changes. Where the server is not root, an owner can then
    /// not read a file whose mode forbids it.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        DirectoryExport { read_only, ..self }
    }

    /// Whether what a caller may do depends on who it is. Otherwise, as the server is not root, everybody has the rights of
    /// the server's user.
    #[must_use]
    pub fn tells_callers_apart(&self) -> bool {
        self.identities.tells_callers_apart()
    }

    fn handle(&self, stat: &Stat) -> FileHandle {
        let words = [self.root.key.ino, stat.key.dev, stat.key.ino, stat.generation];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(self.key.sum(&bytes).to_be_bytes());
        FileHandle::new(&bytes).unwrap_or_default()
    }

    /// # Errors
    /// [`Error::BadHandle`] for what no such server ever made, [`Error::Stale`] for a handle of another
    /// directory or with another key.
    fn identity(&self, handle: &FileHandle) -> Result<(Key, u64), Error> {
        let bytes: &[u8; HANDLE] = handle.as_slice().try_into().map_err(|_| Error::BadHandle)?;
        let (bytes, sum) = bytes.split_last_chunk().ok_or(Error::BadHandle)?;
        // As numbers: bytes would be compared up to the first that differs, and the time it took would tell which.
        if self.key.sum(bytes) != u128::from_be_bytes(*sum) {
            return Err(Error::Stale);
        }
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_be_bytes).map_err(|_| Error::BadHandle)?;
        }
        let [root, dev, ino, generation] = words;
        if root != self.root.key.ino {
            return Err(Error::Stale);
        }
        Ok((Key { dev, ino }, generation))
    }

    /// Opens the file that a handle stands for.
    fn locate(&self, handle: &FileHandle) -> Result<Located, Error> {
        let (key, generation) = self.identity(handle)?;
        self.sweep_if_due();
        match self.locate_known(key, generation) {
            Err(Error::Stale) if key != self.root.key => {
                self.walked.call_once(|| self.learn_all());
                self.locate_known(key, generation)
            }
            located => located,
        }
    }

    /// Opens the file by the names that are known of it.
    fn locate_known(&self, key: Key, generation: u64) -> Result<Located, Error> {
        let is_it = |Located { stat, .. }: &Located| {
            stat.key == key && stat.generation == generation && self.must_be_served(stat).is_ok()
        };
        if key == self.root.key {
            return Some(at_name(&self.top, b".")?).filter(is_it).ok_or(Error::Stale);
        }
        let mut refused = Error::Stale;
        for (path, place) in self.table.candidates(key, self.root.key) {
            let Some(path) = path else { continue };
            match at_place(&self.top, &path, &place.name) {
                Ok(located) if is_it(&located) => return Ok(located),
                // Something else is there now: the name is gone.
                Ok(_) | Err(Error::NoEnt | Error::NotDir | Error::Inval) => {}
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// # Errors
    /// [`Error::NotDir`].
    fn locate_directory(&self, handle: &FileHandle) -> Result<Located, Error> {
        let located = self.locate(handle)?;
        if located.stat.is(FileKind::Directory) { Ok(located) } else { Err(Error::NotDir) }
    }

    /// The content of a regular file, by a descriptor that an earlier call left open if there is one. Who may have it is
    /// checked for each call.
    fn content(
        &self,
        located: &Located,
        purpose: Purpose,
        acting: &Acting<'_>,
        open: impl FnOnce() -> Result<OwnedFd, Error>,
    ) -> Result<Arc<OwnedFd>, Error> {
        match self.open_files.get(&located.stat, purpose, acting.caller()) {
            Some(file) if located.may_open(purpose, acting) => Ok(file),
            _ => Ok(self.open_files.keep(&located.stat, purpose, acting.caller(), open()?)),
        }
    }

    /// The content, for a call that holds the file's lock.
    fn locked_content(
        &self,
        located: &Located,
        purpose: Purpose,
        acting: &Acting<'_>,
    ) -> Result<Arc<OwnedFd>, Error> {
        self.content(located, purpose, acting, || located.open_content(purpose, acting))
    }

    /// Opens a regular file for reading.
    fn open_to_read(&self, located: &Located, acting: &Acting<'_>) -> Result<OwnedFd, Error> {
        if acting.is_caller() {
            return located.open_content(Purpose::Read, acting);
        }
        let opened = located.open(OFlags::RDONLY);
        if self.read_only || !matches!(opened, Err(Error::Acces)) || !located.is_ours() {
            return opened;
        }
        let _held = self.locks.one(located.stat.key);
        let again = Located { file: located.file.try_clone()?, stat: Stat::of(&located.file)? };
        again.open_content(Purpose::Read, acting)
    }

    /// # Errors
    /// [`Error::Acces`] for a file of another mount.
    fn must_be_served(&self, stat: &Stat) -> Result<(), Error> {
        let is_served = self.cross_mounts || stat.mount == self.root.mount;
        if is_served { Ok(()) } else { Err(Error::Acces) }
    }

    /// A file that was seen under a name, from now on known by its handle.
    fn learn(&self, dir: &Stat, name: &[u8], stat: Stat) -> Found {
        if stat.key != self.root.key {
            self.table.learn(stat.key, stat.is(FileKind::Directory), dir.key, name);
        }
        Found { handle: self.handle(&stat), attributes: stat.attributes }
    }

    /// Changes a file or directory as the caller and while no other caller does, with the attributes around the change.
    fn change<T>(
        &self,
        caller: &Caller,
        located: Result<Located, Error>,
        change: impl FnOnce(&Located, &Acting<'_>) -> Result<T, Error>,
    ) -> Outcome<T> {
        let mut located = match located {
            Ok(located) => located,
            Err(error) => return Outcome::failed(error),
        };
        if self.read_only {
            return Outcome {
                result: Err(Error::RoFs),
                wcc: Wcc { before: None, after: Some(located.stat.attributes) },
            };
        }
        let _held = self.locks.one(located.stat.key);
        // Again, now that nobody else changes it.
        match Stat::of(&located.file) {
            Ok(stat) => located.stat = stat,
            Err(error) => return Outcome::failed(error),
        }
        let before = Some(Before::from(&located.stat.attributes));
        let result = self.identities.become_caller(caller).and_then(|acting| change(&located, &acting));
        Outcome { result, wcc: Wcc { before, after: after(&located) } }
    }
}

fn after(located: &Located) -> Option<super::Attributes> {
    Stat::of(&located.file).ok().map(|stat| stat.attributes)
}

/// Opens what a name of one component stands for, a link itself and not what it leads to.
fn at_name(dir: impl AsFd, name: &[u8]) -> Result<Located, Error> {
    let file = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = Stat::of(&file)?;
    Ok(Located { file, stat })
}
