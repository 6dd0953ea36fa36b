use core::fmt;

/// Why an export refuses a request: the errors of NFS version 3 (RFC 1813 section 2.6, `nfsstat3`), one for
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Error {
    /// Only the owner may do this.
    Perm = 1,
    /// The name does not exist.
    NoEnt = 2,
    /// The storage failed.
    Io = 5,
    /// The device does not exist.
    NxIo = 6,
    /// Permissions forbid it.
    Acces = 13,
    /// The name exists.
    Exist = 17,
    /// A link would cross file systems.
    XDev = 18,
    /// The device cannot do this.
    NoDev = 19,
    /// The file is not a directory.
    NotDir = 20,
    /// The file is a directory.
    IsDir = 21,
    /// An argument is invalid.
    Inval = 22,
    /// The file would be too large.
    FBig = 27,
    /// The file system is full.
    NoSpc = 28,
    /// The file system is read-only.
    RoFs = 30,
    /// The file has the maximum number of names.
    MLink = 31,
    /// The name is too long.
    NameTooLong = 63,
    /// The directory has entries.
    NotEmpty = 66,
    /// The user's quota is exhausted.
    DQuot = 69,
    /// The file of the handle was removed.
    Stale = 70,
    /// The file is on a remote file system.
    Remote = 71,
    /// The handle is invalid.
    BadHandle = 10001,
    /// The guard of a change differs.
    NotSync = 10002,
    /// The cookie is outdated.
    BadCookie = 10003,
    /// The server does not support this.
    NotSupp = 10004,
    /// The reply has no room for a single entry.
    TooSmall = 10005,
    /// The server failed.
    ServerFault = 10006,
    /// The kind of file is not supported.
    BadType = 10007,
    /// Temporarily unavailable; try again later.
    JukeBox = 10008,
}

impl Error {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// All errors with their names in RFC 1813 and their messages.
const ALL: [(Error, &str, &str); 28] = [
    (Error::Perm, "NFS3ERR_PERM", "not the owner"),
    (Error::NoEnt, "NFS3ERR_NOENT", "no such file or directory"),
    (Error::Io, "NFS3ERR_IO", "input/output error"),
    (Error::NxIo, "NFS3ERR_NXIO", "no such device"),
    (Error::Acces, "NFS3ERR_ACCES", "permission denied"),
    (Error::Exist, "NFS3ERR_EXIST", "file exists"),
    (Error::XDev, "NFS3ERR_XDEV", "link across file systems"),
    (Error::NoDev, "NFS3ERR_NODEV", "the device cannot do this"),
    (Error::NotDir, "NFS3ERR_NOTDIR", "not a directory"),
    (Error::IsDir, "NFS3ERR_ISDIR", "is a directory"),
    (Error::Inval, "NFS3ERR_INVAL", "invalid argument"),
    (Error::FBig, "NFS3ERR_FBIG", "file too large"),
    (Error::NoSpc, "NFS3ERR_NOSPC", "no space left"),
    (Error::RoFs, "NFS3ERR_ROFS", "read-only file system"),
    (Error::MLink, "NFS3ERR_MLINK", "too many links"),
    (Error::NameTooLong, "NFS3ERR_NAMETOOLONG", "name too long"),
    (Error::NotEmpty, "NFS3ERR_NOTEMPTY", "directory not empty"),
    (Error::DQuot, "NFS3ERR_DQUOT", "quota exceeded"),
    (Error::Stale, "NFS3ERR_STALE", "stale file handle"),
    (Error::Remote, "NFS3ERR_REMOTE", "the file is elsewhere"),
    (Error::BadHandle, "NFS3ERR_BADHANDLE", "not a file handle"),
    (Error::NotSync, "NFS3ERR_NOT_SYNC", "changed by somebody else meanwhile"),
    (Error::BadCookie, "NFS3ERR_BAD_COOKIE", "directory cookie out of date"),
    (Error::NotSupp, "NFS3ERR_NOTSUPP", "not supported"),
    (Error::TooSmall, "NFS3ERR_TOOSMALL", "reply size too small"),
    (Error::ServerFault, "NFS3ERR_SERVERFAULT", "server fault"),
    (Error::BadType, "NFS3ERR_BADTYPE", "file type not supported"),
    (Error::JukeBox, "NFS3ERR_JUKEBOX", "try again later"),
];

impl Error {
    /// Returns the error with this number, or `None` if the protocol has none.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        ALL.iter().map(|(error, ..)| *error).find(|error| error.number() == number)
    }

    /// Returns the name in RFC 1813.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(error, ..)| *error == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALL.iter().find(|(error, ..)| error == self).map_or("", |(.., text)| text))
    }
}

impl std::error::Error for Error {}
