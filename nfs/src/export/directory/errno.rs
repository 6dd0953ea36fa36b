//! The NFS error for each error of the operating system.

use std::io;

use crate::export::Error;

impl From<io::Error> for Error {
    /// Converts an error of the operating system. An error without a number in NFS becomes [`Error::Io`].
    fn from(error: io::Error) -> Self {
        rustix::io::Errno::from_io_error(&error).map_or_else(|| Error::from_kind(error.kind()), Error::from)
    }
}

impl Error {
    /// For errors that the sandbox creates without a system call.
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
            // A link was found instead of the expected file: links are not followed.
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
            // Temporarily exhausted resources: descriptors, memory.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::BUSY | Errno::TXTBSY => {
                Error::JukeBox
            }
            _ => Error::Io,
        }
    }
}
