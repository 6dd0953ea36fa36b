//! Stubs for builds without the feature `krb5`.

use rpcrdma_runtime::{GssError, GssExchange, GssMechanism, GssServer};

use crate::nfs::Principals;

/// An unavailable mechanism.
enum Never {}

impl GssMechanism for Never {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        match *self {}
    }
}

fn not_built() -> GssError {
    GssError { text: Some("built without the feature `krb5`".into()), ..GssError::FAILURE }
}

/// Returns an error, since the feature `krb5` is disabled.
///
/// # Errors
/// Always fails.
pub fn client(_: &str) -> Result<impl GssMechanism + 'static, GssError> {
    Err::<Never, _>(not_built())
}

/// Returns an error, since the feature `krb5` is disabled.
///
/// # Errors
/// Always fails.
pub fn server() -> Result<GssServer, GssError> {
    Err(not_built())
}

/// Returns a mapping without users.
#[must_use]
pub fn principals() -> Principals {
    Principals::default()
}
