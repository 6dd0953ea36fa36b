use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;

use super::{CallContext, Reject, Service};
use crate::xdr::{Reader, Reducer};

/// A service whose calls no duplicate-request cache remembers: what they do, they do to the connection that they came by, so
/// a call that comes again on the next one has to run there. Such a call is dropped where it waits when its connection
/// goes away.
#[derive(Clone, Copy, Debug)]
pub struct Unremembered<S>(pub S);

impl<S: Service> Service for Unremembered<S> {
    fn program(&self) -> u32 {
        self.0.program()
    }

    fn version(&self) -> u32 {
        self.0.version()
    }

    fn accepts_flavor(&self, flavor: u32) -> bool {
        self.0.accepts_flavor(flavor)
    }

    fn remembers(&self, _: u32) -> bool {
        false
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
