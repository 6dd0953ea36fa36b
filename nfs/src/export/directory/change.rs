use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod, chownat, ftruncate,
    utimensat,
};

use super::identity::ThreadIdentity;
use super::{Located, Purpose};
use crate::export::{FileKind, FileTime, NfsError, NfsVerifier, SetAttributes, SetTime};

/// Sets attributes one by one. A failure does not undo earlier changes. The times are set last, since a
/// change of the size modifies the mtime.
///
/// The calling function must hold the file's lock, unless it has just created the file.
///
/// # Errors
/// The errors of [`check`], [`check_mode`], [`Located::must_be_regular`] and the system.
pub(super) fn set_attributes(
    located: &Located,
    new: &SetAttributes,
    acting: &ThreadIdentity<'_>,
) -> Result<(), NfsError> {
    if let Some(mode) = new.mode {
        check_mode(mode & !located.stat.attributes.mode, acting)?;
    }
    let times = Timestamps { last_access: timespec(new.atime)?, last_modification: timespec(new.mtime)? };
    let (uid, gid) = (id(new.uid)?, id(new.gid)?);
    if let Some(size) = new.size {
        located.must_be_regular()?;
        check_size(size)?;
        ftruncate(located.open_content(Purpose::Write, acting)?, size)?;
    }
    if uid.is_some() || gid.is_some() {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        chownat(&located.file, c"", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = new.mode
        && !located.stat.is(FileKind::Symlink)
    {
        chmod(located.path(), Mode::from_raw_mode(mode & 0o7777))?;
    }
    if new.atime.is_some() || new.mtime.is_some() {
        utimensat(&located.file, c"", &times, AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// S_ISUID and S_ISGID: a program runs with the rights of its file's owner or group.
const SET_IDS: u32 = 0o6000;

/// Checks that bits may be added to a mode. A server that runs all calls as one user adds no setuid or setgid
/// bits: the file would run as that user.
///
/// # Errors
/// [`NfsError::Perm`].
pub(super) fn check_mode(added: u32, acting: &ThreadIdentity<'_>) -> Result<(), NfsError> {
    if added & SET_IDS != 0 && !acting.is_caller() { Err(NfsError::Perm) } else { Ok(()) }
}

/// Checks the times, owner, group and size before a file with these attributes is created.
///
/// # Errors
/// [`NfsError::Inval`] for an invalid time, owner or group; [`NfsError::FBig`] for a size above `i64::MAX`.
pub(super) fn check(new: &SetAttributes) -> Result<(), NfsError> {
    timespec(new.atime)?;
    timespec(new.mtime)?;
    id(new.uid)?;
    id(new.gid)?;
    new.size.map_or(Ok(()), check_size)
}

fn check_size(size: u64) -> Result<(), NfsError> {
    if i64::try_from(size).is_ok() { Ok(()) } else { Err(NfsError::FBig) }
}

/// Rejects `u32::MAX`, which system calls interpret as "unchanged".
fn id(id: Option<u32>) -> Result<Option<u32>, NfsError> {
    if id == Some(u32::MAX) { Err(NfsError::Inval) } else { Ok(id) }
}

fn timespec(set: Option<SetTime>) -> Result<Timespec, NfsError> {
    match set {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(SetTime::Now) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        Some(SetTime::To(FileTime { seconds, nanoseconds })) if nanoseconds <= 999_999_999 => {
            Ok(Timespec { tv_sec: i64::from(seconds), tv_nsec: i64::from(nanoseconds) })
        }
        Some(SetTime::To(_)) => Err(NfsError::Inval),
    }
}

/// Encodes the verifier of an exclusive CREATE as file times, which the client replaces later. The times are
/// stored with the file, so even a restarted server detects a retransmission. The top bit of each half is
/// dropped, because some file systems cannot store times after 2038.
pub(super) fn verifier_times(verifier: NfsVerifier) -> [FileTime; 2] {
    let [a, b, c, d, e, f, g, h] = verifier;
    [[a, b, c, d], [e, f, g, h]]
        .map(|half| FileTime { seconds: u32::from_be_bytes(half) & 0x7fff_ffff, nanoseconds: 0 })
}
