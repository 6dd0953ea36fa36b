use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;

use super::{CallContext, Reject, Service};
use crate::xdr::{Reader, Reducer};

/// A service whose calls bypass the duplicate-request cache. Intended for procedures that change the state of
/// the connection: if the client retransmits such a call on a new connection, the call must run again. A
/// running call is dropped when its connection closes.
#[derive(Clone, Copy, Debug)]
pub struct Uncached<S>(pub S);

impl<S: Service> Service for Uncached<S> {
    fn program(&self) -> u32 {
        self.0.program()
    }

    fn version(&self) -> u32 {
        self.0.version()
    }

    fn accepts_flavor(&self, flavor: u32) -> bool {
        self.0.accepts_flavor(flavor)
    }

    fn is_cached(&self, _: u32) -> bool {
        false
    }

    fn max_args(&self) -> u64 {
        self.0.max_args()
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        self.0.dispatch(context, args, reply)
    }
}
