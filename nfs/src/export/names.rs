use super::Error;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// Checks that a name is one component of a path. Accepts `.` and `..`.
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

/// Checks that a new file can have the name. `.` and `..` exist already.
///
/// # Errors
/// As [`check`], and [`Error::Exist`].
pub(super) fn check_new(name: &[u8]) -> Result<(), Error> {
    check(name)?;
    if is_dot(name) { Err(Error::Exist) } else { Ok(()) }
}

/// Checks that a name can be removed from its directory.
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

/// Returns true for the names that every directory has.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
