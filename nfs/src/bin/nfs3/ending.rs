//! The end of a run: the message for people and the exit status for scripts.

use std::process::ExitCode;

use rpcrdma_nfs::cli::nfs3::Sum;
use rpcrdma_nfs::client::ClientError;
use rpcrdma_nfs::output;

/// The data is not as expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Differs(pub(crate) String);

/// The user interrupted the run.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// # Errors
/// [`Differs`] if there is an expected digest and it differs.
pub(crate) fn must_be(expected: Option<Sum>, sum: impl Into<Sum>, name: &str) -> anyhow::Result<()> {
    let sum = sum.into();
    match expected {
        Some(expected) if expected != sum => {
            Err(Differs(format!("{name}: has the SHA-256 {sum}, and not {expected}")).into())
        }
        _ => Ok(()),
    }
}

/// Prints the error and returns its exit status.
pub(crate) fn code(done: anyhow::Result<()>) -> ExitCode {
    output::status("nfs3", done, |error| match () {
        () if error.is::<Differs>() => 4,
        () if error.is::<Interrupted>() => 130,
        () if error.downcast_ref().is_some_and(ClientError::is_unreached) => 3,
        () => 1,
    })
}
