//! Converts operating system errors to NFS errors.

use std::io;

use crate::export::NfsError;

impl From<io::Error> for NfsError {
    /// An error without an NFS equivalent becomes [`NfsError::Io`].
    fn from(error: io::Error) -> Self {
        rustix::io::Errno::from_io_error(&error)
            .map_or_else(|| NfsError::from_kind(error.kind()), NfsError::from)
    }
}

impl NfsError {
    /// Converts an error that cap-std creates without a system call.
    fn from_kind(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => NfsError::NoEnt,
            io::ErrorKind::PermissionDenied => NfsError::Acces,
            io::ErrorKind::AlreadyExists => NfsError::Exist,
            io::ErrorKind::InvalidInput => NfsError::Inval,
            _ => NfsError::Io,
        }
    }
}

impl From<rustix::io::Errno> for NfsError {
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::PERM => NfsError::Perm,
            Errno::NOENT => NfsError::NoEnt,
            Errno::NXIO => NfsError::NxIo,
            Errno::ACCESS => NfsError::Acces,
            Errno::EXIST => NfsError::Exist,
            Errno::XDEV => NfsError::XDev,
            Errno::NODEV => NfsError::NoDev,
            Errno::NOTDIR => NfsError::NotDir,
            Errno::ISDIR => NfsError::IsDir,
            // LOOP: the file is a link, and links are not followed.
            Errno::INVAL | Errno::LOOP => NfsError::Inval,
            Errno::FBIG | Errno::OVERFLOW => NfsError::FBig,
            Errno::NOSPC => NfsError::NoSpc,
            Errno::ROFS => NfsError::RoFs,
            Errno::MLINK => NfsError::MLink,
            Errno::NAMETOOLONG => NfsError::NameTooLong,
            Errno::NOTEMPTY => NfsError::NotEmpty,
            Errno::DQUOT => NfsError::DQuot,
            Errno::STALE => NfsError::Stale,
            Errno::NOTSUP => NfsError::NotSupp,
            // Temporary conditions: no descriptors or memory, or a file in use. ETXTBSY is not included,
            // because a program can run for a long time.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::BUSY => NfsError::JukeBox,
            _ => NfsError::Io,
        }
    }
}
