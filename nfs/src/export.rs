//! File systems that can be served: what NFS version 3 (RFC 1813) asks of one, as a trait.
//!
//! An [`Export`] knows files, names and attributes, and nothing of XDR or of who carries the calls. There are
//! two: [`memory`], which keeps everything in memory, and `directory`, which serves a directory of this
//! machine.

#[cfg(all(target_os = "linux", feature = "directory"))]
pub mod directory;
mod error;
pub mod memory;
mod names;
mod permissions;

use bytes::Bytes;
use rpcrdma_runtime::xdr::SmallOpaque;

pub use error::Error;
pub use names::NAME_MAX;
pub use permissions::{Caller, access_bits};

/// What stands for a file, at most 64 bytes; only the export that made it understands it (RFC 1813 section
/// 2.3.3).
pub type FileHandle = SmallOpaque<64>;

/// A place in a directory's list. Zero is the beginning; all others come from the export.
pub type Cookie = u64;

/// Eight bytes that one end makes and compares, and the other only returns.
pub type Verifier = [u8; 8];

/// The kinds of files (RFC 1813 section 2.3.5, `ftype3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A block device.
    Block,
    /// A character device.
    Character,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// Time since the beginning of 1970, UTC (RFC 1813 section 2.3.5, `nfstime3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds; ends in the year 2106.
    pub seconds: u32,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    /// The present. Before 1970 and after 2106 it is the nearest time that can be told.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time {
            seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// A file's attributes (RFC 1813 section 2.3.5, `fattr3`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: FileKind,
    /// Permissions: the low twelve bits of a Unix mode.
    pub mode: u32,
    /// Names that the file has.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Storage taken, in bytes.
    pub used: u64,
    /// Major and minor number of a device, zeros for others.
    pub rdev: (u32, u32),
    /// The file system's number.
    pub fsid: u64,
    /// The file's number in its file system.
    pub fileid: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the content or of an attribute.
    pub ctime: Time,
}

/// The attributes from before a change (RFC 1813 section 2.6, `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the content or of an attribute.
    pub ctime: Time,
}

impl From<&Attributes> for Before {
    fn from(of: &Attributes) -> Self {
        Before { size: of.size, mtime: of.mtime, ctime: of.ctime }
    }
}

/// Attributes from before and after a change, for weak cache consistency (RFC 1813 section 2.6, `wcc_data`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Before; absent when they could not be taken together with the change.
    pub before: Option<Before>,
    /// After, be the change made or refused.
    pub after: Option<Attributes>,
}

/// How a change of one file or directory went, and the attributes around it. A failure has them too.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The result.
    pub result: Result<T, Error>,
    /// The changed file's attributes, or the directory's whose entry was changed.
    pub wcc: Wcc,
}

impl<T> Outcome<T> {
    /// A failure of which nothing more is known.
    #[must_use]
    pub fn failed(error: Error) -> Self {
        Outcome { result: Err(error), wcc: Wcc::default() }
    }
}

/// How a rename went: two directories have changed.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// The result.
    pub result: Result<(), Error>,
    /// The directory of the old name.
    pub from: Wcc,
    /// The directory of the new name.
    pub to: Wcc,
}

impl Renamed {
    /// A failure of which nothing more is known.
    #[must_use]
    pub fn failed(error: Error) -> Self {
        Renamed { result: Err(error), from: Wcc::default(), to: Wcc::default() }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's present.
    Now,
    /// The one given.
    To(Time),
}

/// Attributes to set; what is absent stays (RFC 1813 section 2.3.5, `sattr3`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions; bits above the low twelve are ignored.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length in bytes: cuts off, or fills up with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the content.
    pub mtime: Option<SetTime>,
}

/// A file that was found or made.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct ReadData {
    /// The bytes; they may share the export's memory.
    pub data: Bytes,
    /// Whether the file ends with them.
    pub eof: bool,
}

/// How firmly data is kept (RFC 1813 section 3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// It may be lost when the server ends, until it is committed.
    Unstable,
    /// The data, and what is needed to find it, is on stable storage.
    DataSync,
    /// The data and all attributes are on stable storage.
    FileSync,
}

/// What was written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Bytes taken, from the first on.
    pub count: u32,
    /// How firmly they are kept: at least as was asked.
    pub committed: Stability,
}

/// How a regular file is made (RFC 1813 section 3.3.8, `createhow3`).
#[derive(Clone, Debug)]
pub enum CreateHow {
    /// Taking one that is there: of the attributes only the size is then set.
    Unchecked(SetAttributes),
    /// Failing if the name is taken.
    Guarded(SetAttributes),
    /// Failing if the name is taken, unless by a file that was made with the same verifier: a call sent
    /// twice.
    Exclusive(Verifier),
}

/// One name in a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's number.
    pub fileid: u64,
    /// The name, without a known character set.
    pub name: Bytes,
    /// The place behind this entry, from where a later call goes on.
    pub cookie: Cookie,
    /// The file, if it was asked for and could be had.
    pub found: Option<Found>,
}

/// What a listing ended with.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// To be returned with the cookies.
    pub verifier: Verifier,
    /// Whether all entries were given out and taken.
    pub eof: bool,
}

/// How full a file system is (RFC 1813 section 3.3.18). The caller's part is what an ordinary user can get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Bytes in all, free, and free to the caller.
    pub bytes: [u64; 3],
    /// Files in all, still possible, and possible to the caller.
    pub files: [u64; 3],
}

/// What a file system can do (RFC 1813 section 3.3.19 and 3.3.20).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest READ and WRITE, in bytes.
    pub transfer: u32,
    /// The largest listing, in bytes of XDR.
    pub listing: u32,
    /// The largest file, in bytes.
    pub file_size: u64,
    /// The smallest step of a time that is kept.
    pub time_step: Time,
    /// The most names that one file can have.
    pub links: u32,
    /// The longest name, in bytes.
    pub name: u32,
}

/// The largest READ and WRITE that the exports here take, in bytes.
pub const TRANSFER_MAX: u32 = 4 << 20;

/// Calls of an [`Export`] whose answer is at hand. `None` where the storage might have to be waited for, and where there is an
/// error to tell: then the call of the export itself is made. One that never has anything at hand, or never waits
/// ([`Export::BLOCKS`]), leaves them as they are.
pub trait AtHand {
    /// [`Export::attributes`].
    fn attributes_at_hand(&self, _file: &FileHandle) -> Option<Attributes> {
        None
    }

    /// [`Export::lookup`], and the directory's attributes.
    fn lookup_at_hand(
        &self,
        _caller: &Caller,
        _dir: &FileHandle,
        _name: &[u8],
    ) -> Option<(Found, Attributes)> {
        None
    }

    /// [`Export::access`].
    fn access_at_hand(
        &self,
        _caller: &Caller,
        _file: &FileHandle,
        _wanted: u32,
    ) -> Option<(u32, Attributes)> {
        None
    }

    /// [`Export::read`], and the attributes after it.
    fn read_at_hand(
        &self,
        _caller: &Caller,
        _file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Option<(ReadData, Attributes)> {
        None
    }

    /// [`Export::write`].
    fn write_at_hand(
        &self,
        _caller: &Caller,
        _file: &FileHandle,
        _offset: u64,
        _data: &Bytes,
        _stable: Stability,
    ) -> Option<(Written, Wcc)> {
        None
    }
}

/// A file system that can be served.
///
/// Calls block until they are done; with [`Export::BLOCKS`] they may wait for a device, and are made from
/// where waiting does no harm; [`AtHand`] has those that need not be. All of them may be made at once. What comes in as handle, name, size or cookie
/// is a peer's and may be anything.
pub trait Export: AtHand + Send + Sync + 'static {
    /// Whether calls may wait for a device.
    const BLOCKS: bool;

    /// The handle of the top directory.
    fn root(&self) -> FileHandle;

    /// Differs from the last one when unstable data may have been lost (RFC 1813 section 3.3.7).
    fn write_verifier(&self) -> Verifier;

    /// What can be asked of it.
    fn limits(&self) -> Limits;

    /// A file's attributes.
    ///
    /// # Errors
    /// [`Error::BadHandle`], [`Error::Stale`], and what the storage says; so do all that follow.
    fn attributes(&self, file: &FileHandle) -> Result<Attributes, Error>;

    /// Sets attributes; with a guard, only if the file's ctime is that.
    ///
    /// # Errors
    /// [`Error::NotSync`] if the guard differs, [`Error::Perm`] and [`Error::Acces`] if the caller may not.
    fn set_attributes(
        &self,
        caller: &Caller,
        file: &FileHandle,
        new: &SetAttributes,
        guard: Option<Time>,
    ) -> Outcome<()>;

    /// Finds a name, `.` and `..` included. Links are not followed, and nothing is above the top.
    ///
    /// # Errors
    /// [`Error::NotDir`], [`Error::NoEnt`], [`Error::Acces`], [`Error::NameTooLong`].
    fn lookup(&self, caller: &Caller, dir: &FileHandle, name: &[u8]) -> Result<Found, Error>;

    /// Those of the wanted ACCESS3 bits (RFC 1813 section 3.3.4) that the caller has, and the attributes.
    ///
    /// # Errors
    /// As [`Export::attributes`].
    fn access(&self, caller: &Caller, file: &FileHandle, wanted: u32) -> Result<(u32, Attributes), Error>;

    /// What is in a symbolic link.
    ///
    /// # Errors
    /// [`Error::Inval`] if it is none.
    fn readlink(&self, caller: &Caller, file: &FileHandle) -> Result<Bytes, Error>;

    /// Reads at most `count` bytes.
    ///
    /// # Errors
    /// [`Error::IsDir`] and [`Error::Inval`] if it is no regular file, [`Error::Acces`].
    fn read(&self, caller: &Caller, file: &FileHandle, offset: u64, count: u32) -> Result<ReadData, Error>;

    /// Writes.
    ///
    /// # Errors
    /// As [`Export::read`], and [`Error::NoSpc`], [`Error::FBig`].
    fn write(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Outcome<Written>;

    /// Makes a regular file.
    ///
    /// # Errors
    /// [`Error::Exist`], and as [`Export::lookup`]; so do all that make something.
    fn create(&self, caller: &Caller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found>;

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Export::create`].
    fn mkdir(&self, caller: &Caller, dir: &FileHandle, name: &[u8], new: &SetAttributes) -> Outcome<Found>;

    /// Makes a symbolic link with any content.
    ///
    /// # Errors
    /// As [`Export::create`].
    fn symlink(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        name: &[u8],
        target: &Bytes,
        new: &SetAttributes,
    ) -> Outcome<Found>;

    /// Makes a device, socket or pipe: its kind, and a device's major and minor number. Exports that do not do so leave
    /// the method as it is.
    ///
    /// # Errors
    /// [`Error::NotSupp`] for kinds that it does not make, [`Error::Perm`] for those that it does not make for this caller,
    /// and as [`Export::create`].
    fn mknod(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        name: &[u8],
        kind: (FileKind, (u32, u32)),
        new: &SetAttributes,
    ) -> Outcome<Found> {
        let _ = (caller, name, kind, new);
        let after = self.attributes(dir).ok();
        Outcome { result: Err(Error::NotSupp), wcc: Wcc { before: None, after } }
    }

    /// Removes a name of something that is no directory.
    ///
    /// # Errors
    /// [`Error::IsDir`], [`Error::NoEnt`].
    fn remove(&self, caller: &Caller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotDir`], [`Error::NotEmpty`], [`Error::NoEnt`]; [`Error::Inval`] for `.` and
    /// [`Error::Exist`] for `..`.
    fn rmdir(&self, caller: &Caller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Gives a file another name, in place of what had it.
    ///
    /// # Errors
    /// [`Error::Exist`] if what has the name is of another sort, [`Error::NotEmpty`], [`Error::Inval`] for a
    /// directory into itself and for `.` and `..`.
    fn rename(&self, caller: &Caller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed;

    /// Gives a file one more name.
    ///
    /// # Errors
    /// [`Error::IsDir`] for a directory, [`Error::Exist`], [`Error::MLink`].
    fn link(&self, caller: &Caller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Lists a directory from a cookie on. `take` is given one entry after the other, and says whether it
    /// took it; one that it did not take is the last that it is given.
    ///
    /// An entry's cookie holds as long as the server runs, whatever is made or removed meanwhile. With
    /// `plus`, entries have their file.
    ///
    /// # Errors
    /// [`Error::NotDir`], [`Error::BadCookie`].
    fn list(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        after: (Cookie, Verifier),
        plus: bool,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Listed, Error>;

    /// How full the file system is.
    ///
    /// # Errors
    /// As [`Export::attributes`].
    fn space(&self, file: &FileHandle) -> Result<Space, Error>;

    /// Puts on stable storage what was written unstably.
    ///
    /// # Errors
    /// [`Error::Io`] if that is not possible.
    fn commit(&self, caller: &Caller, file: &FileHandle, offset: u64, count: u32) -> Outcome<()>;
}
