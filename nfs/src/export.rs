//! The trait of file systems that NFS version 3 (RFC 1813) can serve.
//!
//! An [`Export`] has files, names and attributes, and is independent of XDR and of the transport. There are
//! two: [`memory`] keeps everything in memory, and `directory` serves a directory of this machine.

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

/// The handle of a file, at most 64 bytes. Only the export that made it can interpret it (RFC 1813 section
/// 2.3.3).
pub type FileHandle = SmallOpaque<64>;

/// A position in a directory listing. Zero is the start; the export chooses all others.
pub type Cookie = u64;

/// Eight bytes that one side makes and compares, and the other side returns unchanged.
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
    /// Returns the current time, clamped to the range from 1970 to 2106.
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
    /// The kind of file.
    pub kind: FileKind,
    /// Permissions: the low twelve bits of a Unix mode.
    pub mode: u32,
    /// Number of names of the file.
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

/// Attributes before and after a change, for weak cache consistency (RFC 1813 section 2.6, `wcc_data`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Before the change; absent if they could not be read atomically with it.
    pub before: Option<Before>,
    /// After the change, whether it succeeded or failed.
    pub after: Option<Attributes>,
}

/// The result of changing one file or directory, and the attributes around it, also on failure.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The result.
    pub result: Result<T, Error>,
    /// The attributes of the changed file, or of the directory whose entry was changed.
    pub wcc: Wcc,
}

impl<T> Outcome<T> {
    /// Returns a failure without attributes.
    #[must_use]
    pub fn failed(error: Error) -> Self {
        Outcome { result: Err(error), wcc: Wcc::default() }
    }
}

/// The result of a rename, which changes two directories.
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
    /// Returns a failure without attributes.
    #[must_use]
    pub fn failed(error: Error) -> Self {
        Renamed { result: Err(error), from: Wcc::default(), to: Wcc::default() }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time of the server.
    Now,
    /// The given time.
    To(Time),
}

/// Attributes to set; absent ones stay unchanged (RFC 1813 section 2.3.5, `sattr3`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions; bits above the low twelve are ignored.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length in bytes: truncates the file or extends it with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the content.
    pub mtime: Option<SetTime>,
}

/// A file that was found or created.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The result of a read.
#[derive(Clone, Debug)]
pub struct ReadData {
    /// The bytes; they may share the export's memory.
    pub data: Bytes,
    /// True if the data reaches the end of the file.
    pub eof: bool,
}

/// How stable written data is (RFC 1813 section 3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// The data may be lost when the server stops, until it is committed.
    Unstable,
    /// The data, and the metadata needed to find it, is on stable storage.
    DataSync,
    /// The data and all attributes are on stable storage.
    FileSync,
}

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Number of bytes written, from the start of the data.
    pub count: u32,
    /// The stability of the data: at least the requested one.
    pub committed: Stability,
}

/// How to create a regular file (RFC 1813 section 3.3.8, `createhow3`).
#[derive(Clone, Debug)]
pub enum CreateHow {
    /// Use an existing file and set only its size, or create a new one.
    Unchecked(SetAttributes),
    /// Fail if the name exists.
    Guarded(SetAttributes),
    /// Fail if the name exists, unless the file was created with the same verifier: the call is a
    /// retransmission.
    Exclusive(Verifier),
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's number.
    pub fileid: u64,
    /// The name, in an unknown character set.
    pub name: Bytes,
    /// The position after this entry, where a later listing continues.
    pub cookie: Cookie,
    /// The file, if it was requested and is available.
    pub found: Option<Found>,
}

/// The end of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The verifier that accompanies the cookies.
    pub verifier: Verifier,
    /// True if all entries were listed and accepted.
    pub eof: bool,
}

/// The capacity of a file system (RFC 1813 section 3.3.18). The caller's share is the space available to an
/// ordinary user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Bytes: total, free, and free to the caller.
    pub bytes: [u64; 3],
    /// Files: total, free, and free to the caller.
    pub files: [u64; 3],
}

/// The limits of a file system (RFC 1813 section 3.3.19 and 3.3.20).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest READ and WRITE, in bytes.
    pub transfer: u32,
    /// The largest listing, in bytes of XDR.
    pub listing: u32,
    /// The largest file, in bytes.
    pub file_size: u64,
    /// The resolution of stored times.
    pub time_step: Time,
    /// The maximum number of names of one file.
    pub links: u32,
    /// The longest name, in bytes.
    pub name: u32,
}

/// The largest READ and WRITE of the exports in this crate, in bytes.
pub const TRANSFER_MAX: u32 = 4 << 20;

/// Calls of an [`Export`] that succeed without blocking. A call returns `None` if it would wait for the
/// storage or would fail. The server then makes the call of the export itself. An export that never blocks
/// ([`Export::BLOCKS`]), or always does, keeps the defaults.
pub trait TryExport {
    /// [`Export::attributes`].
    fn try_attributes(&self, _file: &FileHandle) -> Option<Attributes> {
        None
    }

    /// [`Export::lookup`], with the directory's attributes.
    fn try_lookup(&self, _caller: &Caller, _dir: &FileHandle, _name: &[u8]) -> Option<(Found, Attributes)> {
        None
    }

    /// [`Export::access`].
    fn try_access(&self, _caller: &Caller, _file: &FileHandle, _wanted: u32) -> Option<(u32, Attributes)> {
        None
    }

    /// [`Export::read`], with the attributes after it.
    fn try_read(
        &self,
        _caller: &Caller,
        _file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Option<(ReadData, Attributes)> {
        None
    }

    /// [`Export::write`].
    fn try_write(
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
/// Calls block until they are done. With [`Export::BLOCKS`] they may wait for a device and run on the
/// blocking pool; [`TryExport`] has the calls that need not. All calls may run concurrently. The peer chooses
/// handles, names, sizes and cookies, which may have any value.
pub trait Export: TryExport + Send + Sync + 'static {
    /// True if calls may wait for a device.
    const BLOCKS: bool;

    /// Returns the handle of the root directory.
    fn root(&self) -> FileHandle;

    /// Returns true if this export made the handle. A server of several exports asks each of them. The
    /// default suits the only export of a server.
    fn owns(&self, _file: &FileHandle) -> bool {
        true
    }

    /// Returns the write verifier. It differs from the last one if unstable data may have been lost (RFC
    /// 1813 section 3.3.7).
    fn write_verifier(&self) -> Verifier;

    /// Returns the limits of the file system.
    fn limits(&self) -> Limits;

    /// Returns the attributes of a file.
    ///
    /// # Errors
    /// [`Error::BadHandle`], [`Error::Stale`], and errors of the storage. The same holds for all methods
    /// below.
    fn attributes(&self, file: &FileHandle) -> Result<Attributes, Error>;

    /// Sets attributes. With a guard, only if the file's ctime equals the guard.
    ///
    /// # Errors
    /// [`Error::NotSync`] if the guard differs; [`Error::Perm`] and [`Error::Acces`] if the caller lacks
    /// permission.
    fn set_attributes(
        &self,
        caller: &Caller,
        file: &FileHandle,
        new: &SetAttributes,
        guard: Option<Time>,
    ) -> Outcome<()>;

    /// Looks up a name, including `.` and `..`. Links are not followed, and `..` of the root is the root.
    ///
    /// # Errors
    /// [`Error::NotDir`], [`Error::NoEnt`], [`Error::Acces`], [`Error::NameTooLong`].
    fn lookup(&self, caller: &Caller, dir: &FileHandle, name: &[u8]) -> Result<Found, Error>;

    /// Returns those of the wanted ACCESS3 bits (RFC 1813 section 3.3.4) that the caller has, and the
    /// attributes.
    ///
    /// # Errors
    /// As [`Export::attributes`].
    fn access(&self, caller: &Caller, file: &FileHandle, wanted: u32) -> Result<(u32, Attributes), Error>;

    /// Returns the content of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Inval`] if the file is not a symbolic link.
    fn readlink(&self, caller: &Caller, file: &FileHandle) -> Result<Bytes, Error>;

    /// Reads at most `count` bytes.
    ///
    /// # Errors
    /// [`Error::IsDir`] and [`Error::Inval`] if it is not a regular file; [`Error::Acces`].
    fn read(&self, caller: &Caller, file: &FileHandle, offset: u64, count: u32) -> Result<ReadData, Error>;

    /// Writes data.
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

    /// Creates a regular file.
    ///
    /// # Errors
    /// [`Error::Exist`], and as [`Export::lookup`]. The same holds for all methods that create a file or
    /// directory.
    fn create(&self, caller: &Caller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found>;

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Export::create`].
    fn mkdir(&self, caller: &Caller, dir: &FileHandle, name: &[u8], new: &SetAttributes) -> Outcome<Found>;

    /// Creates a symbolic link with any content.
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

    /// Creates a device, socket or pipe with the given kind, and with major and minor number for a device.
    /// The default supports none.
    ///
    /// # Errors
    /// [`Error::NotSupp`] for unsupported kinds, [`Error::Perm`] for kinds that this caller may not create,
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

    /// Removes a name of a file that is not a directory.
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

    /// Renames a file, replacing the target if it exists.
    ///
    /// # Errors
    /// [`Error::Exist`] if the target is of an incompatible kind; [`Error::NotEmpty`]; [`Error::Inval`] for
    /// a directory into itself and for `.` and `..`.
    fn rename(&self, caller: &Caller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed;

    /// Adds a name to a file.
    ///
    /// # Errors
    /// [`Error::IsDir`] for a directory, [`Error::Exist`], [`Error::MLink`].
    fn link(&self, caller: &Caller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Lists a directory from a cookie. Calls `take` with each entry, which returns true if it accepts the
    /// entry. The listing ends at the first entry that it rejects.
    ///
    /// An entry's cookie is valid as long as the server runs, whatever is created or removed meanwhile.
    /// With `plus`, entries include their file.
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

    /// Returns the capacity of the file system.
    ///
    /// # Errors
    /// As [`Export::attributes`].
    fn space(&self, file: &FileHandle) -> Result<Space, Error>;

    /// Writes unstable data to stable storage.
    ///
    /// # Errors
    /// [`Error::Io`] if that fails.
    fn commit(&self, caller: &Caller, file: &FileHandle, offset: u64, count: u32) -> Outcome<()>;
}
