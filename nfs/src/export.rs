//! The trait for file systems that a server can export over NFS version 3 (RFC 1813).
//!
//! An [`Export`] works with files, names and attributes, independently of XDR and the transport. This crate
//! has two exports: [`memory`] stores files in memory, and `directory` serves a directory on a Linux machine.

#[cfg(all(target_os = "linux", feature = "directory"))]
pub mod directory;
mod error;
pub mod memory;
mod names;
mod permissions;

use bytes::Bytes;
use rpcrdma_runtime::xdr::SmallOpaque;

pub use error::NfsError;
pub use names::NAME_MAX;
pub use permissions::{NfsCaller, access_bits};

/// The handle of a file, at most 64 bytes. Only the export that created the handle can interpret it (RFC 1813
/// section 2.6).
pub type FileHandle = SmallOpaque<64>;

/// A position in a directory listing. Zero is the start; the export chooses all other values.
pub type Cookie = u64;

/// Eight opaque bytes that are compared for equality (RFC 1813: `cookieverf3`, `createverf3`, `writeverf3`).
pub type NfsVerifier = [u8; 8];

/// The kinds of files (RFC 1813 section 2.6, `ftype3`).
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

/// Time since the beginning of 1970, UTC (RFC 1813 section 2.6, `nfstime3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Seconds. The range ends in the year 2106.
    pub seconds: u32,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl FileTime {
    /// Returns the current time, clamped to the range from 1970 to 2106.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        FileTime {
            seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// A file's attributes (RFC 1813 section 2.6, `fattr3`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind of file.
    pub kind: FileKind,
    /// Permissions: the low twelve bits of a Unix mode.
    pub mode: u32,
    /// The number of hard links to the file.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// The allocated storage, in bytes.
    pub used: u64,
    /// Major and minor number of a device; zeros for other files.
    pub rdev: (u32, u32),
    /// The file system's number.
    pub fsid: u64,
    /// The file's number in its file system.
    pub fileid: u64,
    /// Time of the last read.
    pub atime: FileTime,
    /// Time of the last change of the content.
    pub mtime: FileTime,
    /// Time of the last change of the content or of an attribute.
    pub ctime: FileTime,
}

/// The attributes before a change (RFC 1813 section 2.6, `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the content.
    pub mtime: FileTime,
    /// Time of the last change of the content or of an attribute.
    pub ctime: FileTime,
}

impl From<&Attributes> for Before {
    fn from(of: &Attributes) -> Self {
        Before { size: of.size, mtime: of.mtime, ctime: of.ctime }
    }
}

/// Attributes before and after a change, for weak cache consistency (RFC 1813 section 2.6, `wcc_data`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// The attributes before the change, if they were read atomically with the change.
    pub before: Option<Before>,
    /// The attributes after the change or the failed attempt, if available.
    pub after: Option<Attributes>,
}

/// The result of changing one file or directory, and the attributes before and after the change.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The result.
    pub result: Result<T, NfsError>,
    /// The attributes of the changed file, or of the directory whose entry was changed.
    pub wcc: Wcc,
}

impl<T> Outcome<T> {
    /// Returns a failure without attributes.
    #[must_use]
    pub fn failed(error: NfsError) -> Self {
        Outcome { result: Err(error), wcc: Wcc::default() }
    }
}

/// The result of a rename, which can change two directories.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// The result.
    pub result: Result<(), NfsError>,
    /// The attributes of the old name's directory.
    pub from: Wcc,
    /// The attributes of the new name's directory.
    pub to: Wcc,
}

impl Renamed {
    /// Returns a failure without attributes.
    #[must_use]
    pub fn failed(error: NfsError) -> Self {
        Renamed { result: Err(error), from: Wcc::default(), to: Wcc::default() }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time of the server.
    Now,
    /// The given time.
    To(FileTime),
}

/// Attributes to set; absent attributes stay unchanged (RFC 1813 section 2.6, `sattr3`).
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
    /// Time of the last read.
    pub atime: Option<SetTime>,
    /// Time of the last change of the content.
    pub mtime: Option<SetTime>,
}

/// A file that was found or created.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file's handle.
    pub handle: FileHandle,
    /// The file's attributes.
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
    /// Until the data is committed, it may be lost if the server stops.
    Unstable,
    /// The data and the metadata needed to find the data are on stable storage.
    DataSync,
    /// The data and all attributes are on stable storage.
    FileSync,
}

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub struct WriteResult {
    /// Number of bytes written, from the start of the data.
    pub count: u32,
    /// The stability of the data: at least the requested stability.
    pub committed: Stability,
}

/// How to create a regular file (RFC 1813 section 3.3.8, `createhow3`).
#[derive(Clone, Debug)]
pub enum CreateHow {
    /// Use an existing file and set only its size, or create a new file.
    Unchecked(SetAttributes),
    /// Fail if the name exists.
    Guarded(SetAttributes),
    /// Fail if the name exists, unless the file was created with the same verifier: then the call is a
    /// retransmission.
    Exclusive(NfsVerifier),
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

/// The result of a listing, apart from its entries.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The verifier that accompanies the cookies.
    pub verifier: NfsVerifier,
    /// True if the listing reached the end of the directory.
    pub eof: bool,
}

/// The capacity of a file system (RFC 1813 section 3.3.18). "Free to the caller" means available to an
/// unprivileged user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Bytes: total, free, and free to the caller.
    pub bytes: [u64; 3],
    /// Files: total, free, and free to the caller.
    pub files: [u64; 3],
}

/// The limits of a file system (RFC 1813 sections 3.3.19 and 3.3.20).
#[derive(Clone, Copy, Debug)]
pub struct ExportLimits {
    /// The largest READ and WRITE, in bytes.
    pub transfer: u32,
    /// The largest READDIR or READDIRPLUS result, in bytes of XDR.
    pub listing: u32,
    /// The largest file, in bytes.
    pub file_size: u64,
    /// The resolution of stored times.
    pub time_step: FileTime,
    /// The maximum number of names of one file.
    pub links: u32,
    /// The longest name, in bytes.
    pub name: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for ExportLimits {
    fn default() -> Self {
        ExportLimits {
            transfer: TRANSFER_MAX,
            listing: TRANSFER_MAX,
            file_size: i64::MAX.cast_unsigned(),
            time_step: FileTime { seconds: 0, nanoseconds: 1 },
            links: 32_000,
            name: u32::try_from(NAME_MAX).unwrap_or(u32::MAX),
            non_exhaustive: (),
        }
    }
}

/// The largest READ and WRITE of the exports in this crate, in bytes.
pub const TRANSFER_MAX: u32 = 4 << 20;

/// Non-blocking variants of some methods of [`Export`]. A variant may return `None` for any reason, for
/// example if it would wait for the storage. Then the server makes the blocking call. An export that never
/// blocks ([`Export::BLOCKS`]), or always blocks, can keep the default implementations.
pub trait TryExport {
    /// Tries [`Export::attributes`] without blocking.
    fn try_attributes(&self, _file: &FileHandle) -> Option<Attributes> {
        None
    }

    /// Tries [`Export::lookup`] without blocking. Also returns the directory's attributes.
    fn try_lookup(
        &self,
        _caller: &NfsCaller,
        _dir: &FileHandle,
        _name: &[u8],
    ) -> Option<(Found, Attributes)> {
        None
    }

    /// Tries [`Export::access`] without blocking.
    fn try_access(&self, _caller: &NfsCaller, _file: &FileHandle, _wanted: u32) -> Option<(u32, Attributes)> {
        None
    }

    /// Tries [`Export::read`] without blocking. Also returns the file's attributes after the read.
    fn try_read(
        &self,
        _caller: &NfsCaller,
        _file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Option<(ReadData, Attributes)> {
        None
    }

    /// Tries [`Export::write`] without blocking.
    fn try_write(
        &self,
        _caller: &NfsCaller,
        _file: &FileHandle,
        _offset: u64,
        _data: &Bytes,
        _stable: Stability,
    ) -> Option<(WriteResult, Wcc)> {
        None
    }
}

/// A file system that can be served.
///
/// All methods are synchronous. If [`Export::BLOCKS`] is true, calls may wait for a device, so the server
/// runs them on the blocking pool. [`TryExport`] has non-blocking variants. All calls may run concurrently.
/// Handles, names, sizes and cookies come from the peer and may have any value.
pub trait Export: TryExport + Send + Sync + 'static {
    /// True if calls may wait for a device.
    const BLOCKS: bool;

    /// Returns the handle of the root directory.
    fn root(&self) -> FileHandle;

    /// Returns true if this export created the handle. The default implementation returns true, which suits a
    /// server with one export.
    fn owns(&self, _file: &FileHandle) -> bool {
        true
    }

    /// Returns the write verifier. The verifier changes if unstable data may have been lost (RFC 1813 section
    /// 3.3.7). A server calls this method before each WRITE and after each COMMIT.
    fn write_verifier(&self) -> NfsVerifier;

    /// Returns the limits of the file system.
    fn limits(&self) -> ExportLimits;

    /// Returns the attributes of a file.
    ///
    /// # Errors
    /// [`NfsError::BadHandle`], [`NfsError::Stale`], and storage errors. All methods below can also return
    /// these errors.
    fn attributes(&self, file: &FileHandle) -> Result<Attributes, NfsError>;

    /// Sets attributes. If there is a guard, the file's ctime must equal the guard.
    ///
    /// # Errors
    /// [`NfsError::NotSync`] if the guard differs; [`NfsError::Perm`] and [`NfsError::Acces`] if the caller
    /// lacks permission.
    fn set_attributes(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        new: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Outcome<()>;

    /// Looks up a name, including `.` and `..`. Links are not followed, and `..` of the root is the root.
    ///
    /// # Errors
    /// [`NfsError::NotDir`], [`NfsError::NoEnt`], [`NfsError::Acces`], [`NfsError::NameTooLong`].
    fn lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Result<Found, NfsError>;

    /// Returns the granted subset of the wanted ACCESS3 bits (RFC 1813 section 3.3.4), and the attributes.
    ///
    /// # Errors
    /// The errors of [`Export::attributes`].
    fn access(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        wanted: u32,
    ) -> Result<(u32, Attributes), NfsError>;

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// [`NfsError::Inval`] if the file is not a symbolic link.
    fn readlink(&self, caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError>;

    /// Reads at most `count` bytes.
    ///
    /// # Errors
    /// [`NfsError::IsDir`] for a directory, [`NfsError::Inval`] for any other file that is not a regular
    /// file; [`NfsError::Acces`].
    fn read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, NfsError>;

    /// Writes data.
    ///
    /// # Errors
    /// The errors of [`Export::read`], and [`NfsError::NoSpc`], [`NfsError::FBig`].
    fn write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        stable: Stability,
    ) -> Outcome<WriteResult>;

    /// Creates a regular file.
    ///
    /// # Errors
    /// The errors of [`Export::lookup`], and [`NfsError::Exist`]. All methods that create a file or directory
    /// can return these errors.
    fn create(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found>;

    /// Creates a directory.
    ///
    /// # Errors
    /// The errors of [`Export::create`].
    fn mkdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], new: &SetAttributes)
    -> Outcome<Found>;

    /// Creates a symbolic link. The target need not exist.
    ///
    /// # Errors
    /// The errors of [`Export::create`].
    fn symlink(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        target: &Bytes,
        new: &SetAttributes,
    ) -> Outcome<Found>;

    /// Creates a device, socket or pipe. The pair in `kind` is the major and minor number of a device. The
    /// default implementation fails with [`NfsError::NotSupp`] for every kind.
    ///
    /// # Errors
    /// The errors of [`Export::create`], [`NfsError::NotSupp`] for unsupported devices, sockets and pipes,
    /// [`NfsError::BadType`] for other kinds, and [`NfsError::Perm`] for kinds that this caller may not
    /// create.
    fn mknod(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        kind: (FileKind, (u32, u32)),
        new: &SetAttributes,
    ) -> Outcome<Found> {
        let _ = (caller, name, kind, new);
        let after = self.attributes(dir).ok();
        Outcome { result: Err(NfsError::NotSupp), wcc: Wcc { before: None, after } }
    }

    /// Removes a name of a file that is not a directory.
    ///
    /// # Errors
    /// [`NfsError::IsDir`], [`NfsError::NoEnt`]; [`NfsError::Inval`] for `.` and [`NfsError::Exist`] for
    /// `..`.
    fn remove(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`NfsError::NotDir`], [`NfsError::NotEmpty`], [`NfsError::NoEnt`]; [`NfsError::Inval`] for `.` and
    /// [`NfsError::Exist`] for `..`.
    fn rmdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Renames a file, replacing the target if it exists.
    ///
    /// # Errors
    /// [`NfsError::Exist`] if the target is of an incompatible kind or a directory that is not empty, or if
    /// the old name is `..`; [`NfsError::Inval`] if a directory would move into itself, if the old name is
    /// `.`, or if the new name is `.` or `..`.
    fn rename(&self, caller: &NfsCaller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed;

    /// Creates a hard link: a further name of a file.
    ///
    /// # Errors
    /// [`NfsError::IsDir`] for a directory, [`NfsError::Exist`], [`NfsError::MLink`].
    fn link(&self, caller: &NfsCaller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()>;

    /// Lists the entries of a directory after the given cookie. Calls `take` with each entry. If `take`
    /// returns false, the entry is not listed, and the listing stops.
    ///
    /// An entry's cookie is valid as long as the server runs, even if entries are created or removed. If
    /// `plus` is true, each entry contains the handle and the attributes of its file, if available.
    ///
    /// # Errors
    /// [`NfsError::NotDir`], [`NfsError::BadCookie`].
    fn list(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        after: (Cookie, NfsVerifier),
        plus: bool,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Listed, NfsError>;

    /// Returns the capacity of the file system.
    ///
    /// # Errors
    /// The errors of [`Export::attributes`].
    fn space(&self, file: &FileHandle) -> Result<Space, NfsError>;

    /// Writes a file's unstable data in the given range to stable storage (RFC 1813 section 3.3.21).
    ///
    /// # Errors
    /// [`NfsError::Io`] if the storage fails.
    fn commit(&self, caller: &NfsCaller, file: &FileHandle, offset: u64, count: u32) -> Outcome<()>;
}
