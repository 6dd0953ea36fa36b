//! The error message and exit status of a run.

use std::process::ExitCode;

use rpcrdma_nfs::client::{ClientError, Digest};
use rpcrdma_nfs::output;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DataMismatch(pub(crate) String);

/// An invalid combination of arguments.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) &'static str);

#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// # Errors
/// [`DataMismatch`] if the digest differs from `expected`.
pub(crate) fn check_digest(
    expected: Option<Digest>,
    sum: impl Into<Digest>,
    name: &str,
) -> anyhow::Result<()> {
    let sum = sum.into();
    match expected {
        Some(expected) if expected != sum => {
            Err(DataMismatch(format!("{name}: SHA-256 is {sum}, expected {expected}")).into())
        }
        _ => Ok(()),
    }
}

pub(crate) fn code(done: anyhow::Result<()>) -> ExitCode {
    output::status("nfs3", done, |error| match () {
        () if error.is::<Usage>() => 2,
        () if error.is::<DataMismatch>() => 4,
        () if error.is::<Interrupted>() => 130,
        () if error.downcast_ref().is_some_and(ClientError::is_unreached) => 3,
        () => 1,
    })
}
