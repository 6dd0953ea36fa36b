use super::NfsError;

/// Maximum length of a name, in bytes.
pub const NAME_MAX: usize = 255;

/// Checks that a name is one component of a path. Accepts `.` and `..`.
///
/// # Errors
/// [`NfsError::NameTooLong`]; [`NfsError::Acces`] if the name is empty (RFC 1813 section 3.2), or contains a
/// slash or a zero byte.
pub(super) fn check(name: &[u8]) -> Result<(), NfsError> {
    if name.len() > NAME_MAX {
        return Err(NfsError::NameTooLong);
    }
    if name.is_empty() || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(NfsError::Acces);
    }
    Ok(())
}

/// Checks that a new file can have the name. `.` and `..` already exist.
///
/// # Errors
/// The errors of [`check`], and [`NfsError::Exist`].
pub(super) fn check_new(name: &[u8]) -> Result<(), NfsError> {
    check(name)?;
    if is_dot(name) { Err(NfsError::Exist) } else { Ok(()) }
}

/// Checks that a name can be removed from its directory.
///
/// # Errors
/// The errors of [`check`]; [`NfsError::Inval`] for `.`, and [`NfsError::Exist`] for `..`, which is never
/// empty.
pub(super) fn check_old(name: &[u8]) -> Result<(), NfsError> {
    check(name)?;
    match name {
        b"." => Err(NfsError::Inval),
        b".." => Err(NfsError::Exist),
        _ => Ok(()),
    }
}

pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
