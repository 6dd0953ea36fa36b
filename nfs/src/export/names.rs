use super::Error;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// Whether a name can be one component of a path. `.` and `..` pass.
///
/// # Errors
/// [`Error::Inval`] if it is empty, [`Error::NameTooLong`], [`Error::Acces`] if it has a slash or a zero
/// byte.
pub(super) fn check(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Inval);
    }
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Error::Acces);
    }
    Ok(())
}

/// Whether something new can have the name: `.` and `..` are taken already.
///
/// # Errors
/// As [`check`], and [`Error::Exist`].
pub(super) fn check_new(name: &[u8]) -> Result<(), Error> {
    check(name)?;
    if is_dot(name) { Err(Error::Exist) } else { Ok(()) }
}

/// Whether a name can be taken from its directory.
///
/// # Errors
/// As [`check`]; [`Error::Inval`] for `.`, and [`Error::Exist`] for `..`, which has entries.
pub(super) fn check_old(name: &[u8]) -> Result<(), Error> {
    check(name)?;
    match name {
        b"." => Err(Error::Inval),
        b".." => Err(Error::Exist),
        _ => Ok(()),
    }
}

/// The names that every directory has.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
