use core::fmt;

/// Why an export refuses a request: the errors of NFS version 3 (RFC 1813 section 2.6, `nfsstat3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NfsError {
    /// The caller is neither the owner nor privileged.
    Perm = 1,
    /// The name does not exist.
    NoEnt = 2,
    /// The storage failed.
    Io = 5,
    /// The device does not exist.
    NxIo = 6,
    /// The permissions forbid the operation.
    Acces = 13,
    /// The name exists.
    Exist = 17,
    /// A link or a rename would cross file systems.
    XDev = 18,
    /// The device does not support the operation.
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
    /// The handle is outdated. For example, the file was removed, or the key of the handles changed.
    Stale = 70,
    /// The file is on a remote file system.
    Remote = 71,
    /// The handle is invalid.
    BadHandle = 10001,
    /// The guard of a change differs from the file's ctime.
    NotSync = 10002,
    /// The cookie is invalid or outdated.
    BadCookie = 10003,
    /// The server does not support the operation.
    NotSupp = 10004,
    /// The reply has no room for even one directory entry.
    TooSmall = 10005,
    /// The server failed.
    ServerFault = 10006,
    /// The kind of file is not supported.
    BadType = 10007,
    /// Temporarily unavailable; try again later.
    JukeBox = 10008,
}

impl NfsError {
    /// Returns the number of this error in `nfsstat3`.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

const ALL: [(NfsError, &str, &str); 28] = [
    (NfsError::Perm, "NFS3ERR_PERM", "not the owner"),
    (NfsError::NoEnt, "NFS3ERR_NOENT", "no such file or directory"),
    (NfsError::Io, "NFS3ERR_IO", "input/output error"),
    (NfsError::NxIo, "NFS3ERR_NXIO", "no such device"),
    (NfsError::Acces, "NFS3ERR_ACCES", "permission denied"),
    (NfsError::Exist, "NFS3ERR_EXIST", "file exists"),
    (NfsError::XDev, "NFS3ERR_XDEV", "link or rename across file systems"),
    (NfsError::NoDev, "NFS3ERR_NODEV", "operation not supported by device"),
    (NfsError::NotDir, "NFS3ERR_NOTDIR", "not a directory"),
    (NfsError::IsDir, "NFS3ERR_ISDIR", "is a directory"),
    (NfsError::Inval, "NFS3ERR_INVAL", "invalid argument"),
    (NfsError::FBig, "NFS3ERR_FBIG", "file too large"),
    (NfsError::NoSpc, "NFS3ERR_NOSPC", "no space left"),
    (NfsError::RoFs, "NFS3ERR_ROFS", "read-only file system"),
    (NfsError::MLink, "NFS3ERR_MLINK", "too many links"),
    (NfsError::NameTooLong, "NFS3ERR_NAMETOOLONG", "name too long"),
    (NfsError::NotEmpty, "NFS3ERR_NOTEMPTY", "directory not empty"),
    (NfsError::DQuot, "NFS3ERR_DQUOT", "quota exceeded"),
    (NfsError::Stale, "NFS3ERR_STALE", "stale file handle"),
    (NfsError::Remote, "NFS3ERR_REMOTE", "file is on a remote file system"),
    (NfsError::BadHandle, "NFS3ERR_BADHANDLE", "invalid file handle"),
    (NfsError::NotSync, "NFS3ERR_NOT_SYNC", "file changed concurrently"),
    (NfsError::BadCookie, "NFS3ERR_BAD_COOKIE", "outdated directory cookie"),
    (NfsError::NotSupp, "NFS3ERR_NOTSUPP", "not supported"),
    (NfsError::TooSmall, "NFS3ERR_TOOSMALL", "reply size too small"),
    (NfsError::ServerFault, "NFS3ERR_SERVERFAULT", "server fault"),
    (NfsError::BadType, "NFS3ERR_BADTYPE", "file type not supported"),
    (NfsError::JukeBox, "NFS3ERR_JUKEBOX", "try again later"),
];

impl NfsError {
    /// Returns the error with this number, or `None` if the protocol does not define the number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        ALL.iter().map(|(error, ..)| *error).find(|error| error.number() == number)
    }

    /// Returns the error's name in RFC 1813.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(error, ..)| *error == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for NfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALL.iter().find(|(error, ..)| error == self).map_or("", |(.., text)| text))
    }
}

impl std::error::Error for NfsError {}
