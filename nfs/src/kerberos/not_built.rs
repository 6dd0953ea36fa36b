//! Replaces Kerberos without the feature `krb5`.

use rpcrdma_runtime::proto::rpc::gss::{GssError, GssExchange, GssMechanism, GssServer};

use crate::nfs::Principals;

/// The mechanism that does not exist.
enum Never {}

impl GssMechanism for Never {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        match *self {}
    }
}

fn not_built() -> GssError {
    GssError { text: Some("this was built without the feature `krb5`".into()), ..GssError::FAILURE }
}

/// # Errors
/// Always: Kerberos is not part of the program.
pub fn client(_: &str) -> Result<impl GssMechanism + 'static, GssError> {
    Err::<Never, _>(not_built())
}

/// # Errors
/// Always: Kerberos is not part of the program.
pub fn server() -> Result<GssServer, GssError> {
    Err(not_built())
}

/// No principal has a user.
#[must_use]
pub fn principals() -> Principals {
    Principals::default()
}
