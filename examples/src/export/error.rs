use core::fmt;
use std::io;

/// Why a file system refuses: the failures of NFS version 3 (RFC 1813 section 2.6, `nfsstat3`), one for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Error {
    /// Only the owner may do this.
    Perm = 1,
    /// There is no such name.
    NoEnt = 2,
    /// The storage failed.
    Io = 5,
    /// There is no such device.
    NxIo = 6,
    /// Permissions forbid it.
    Acces = 13,
    /// The name is taken.
    Exist = 17,
    /// A link would cross file systems.
    XDev = 18,
    /// The device cannot do this.
    NoDev = 19,
    /// A directory is wanted.
    NotDir = 20,
    /// No directory is wanted.
    IsDir = 21,
    /// An argument makes no sense.
    Inval = 22,
    /// Larger than files can be.
    FBig = 27,
    /// The file system is full.
    NoSpc = 28,
    /// It cannot be written to.
    RoFs = 30,
    /// A file has as many names as it can have.
    MLink = 31,
    /// Longer than names can be.
    NameTooLong = 63,
    /// The directory has entries.
    NotEmpty = 66,
    /// The user's quota is spent.
    DQuot = 69,
    /// The handle's file is gone.
    Stale = 70,
    /// The file is elsewhere.
    Remote = 71,
    /// This is no handle.
    BadHandle = 10001,
    /// The guard of a change differs.
    NotSync = 10002,
    /// The cookie is out of date.
    BadCookie = 10003,
    /// The server cannot do this.
    NotSupp = 10004,
    /// Not one entry fits.
    TooSmall = 10005,
    /// The server erred.
    ServerFault = 10006,
    /// There is no such kind of file here.
    BadType = 10007,
    /// Not now; call again later.
    JukeBox = 10008,
}

impl Error {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Perm => "not the owner",
            Error::NoEnt => "no such file or directory",
            Error::Io => "input/output error",
            Error::NxIo => "no such device",
            Error::Acces => "permission denied",
            Error::Exist => "file exists",
            Error::XDev => "link across file systems",
            Error::NoDev => "the device cannot do this",
            Error::NotDir => "not a directory",
            Error::IsDir => "is a directory",
            Error::Inval => "invalid argument",
            Error::FBig => "file too large",
            Error::NoSpc => "no space left",
            Error::RoFs => "read-only file system",
            Error::MLink => "too many links",
            Error::NameTooLong => "name too long",
            Error::NotEmpty => "directory not empty",
            Error::DQuot => "quota exceeded",
            Error::Stale => "stale file handle",
            Error::Remote => "the file is elsewhere",
            Error::BadHandle => "not a file handle",
            Error::NotSync => "changed by somebody else meanwhile",
            Error::BadCookie => "directory cookie out of date",
            Error::NotSupp => "not supported",
            Error::TooSmall => "reply size too small",
            Error::ServerFault => "server fault",
            Error::BadType => "file type not supported",
            Error::JukeBox => "try again later",
        })
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    /// What the operating system says. What has no number in NFS is [`Error::Io`].
    fn from(error: io::Error) -> Self {
        rustix::io::Errno::from_io_error(&error).map_or_else(|| Error::from_kind(error.kind()), Error::from)
    }
}

impl Error {
    /// For errors that do not come from a system call: the sandbox makes its own.
    fn from_kind(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => Error::NoEnt,
            io::ErrorKind::PermissionDenied => Error::Acces,
            io::ErrorKind::AlreadyExists => Error::Exist,
            io::ErrorKind::InvalidInput => Error::Inval,
            _ => Error::Io,
        }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::PERM => Error::Perm,
            Errno::NOENT => Error::NoEnt,
            Errno::NXIO => Error::NxIo,
            Errno::ACCESS => Error::Acces,
            Errno::EXIST => Error::Exist,
            Errno::XDEV => Error::XDev,
            Errno::NODEV => Error::NoDev,
            Errno::NOTDIR => Error::NotDir,
            Errno::ISDIR => Error::IsDir,
            // A link in the place of what was expected: nothing is followed here.
            Errno::INVAL | Errno::LOOP => Error::Inval,
            Errno::FBIG | Errno::OVERFLOW => Error::FBig,
            Errno::NOSPC => Error::NoSpc,
            Errno::ROFS => Error::RoFs,
            Errno::MLINK => Error::MLink,
            Errno::NAMETOOLONG => Error::NameTooLong,
            Errno::NOTEMPTY => Error::NotEmpty,
            Errno::DQUOT => Error::DQuot,
            Errno::STALE => Error::Stale,
            Errno::NOTSUP => Error::NotSupp,
            // Used up for the moment: descriptors, memory.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::BUSY | Errno::TXTBSY => {
                Error::JukeBox
            }
            _ => Error::Io,
        }
    }
}
