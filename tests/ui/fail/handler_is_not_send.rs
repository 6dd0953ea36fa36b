use std::pin::Pin;
use std::rc::Rc;

use rpcrdma_runtime::program::{CallContext, Reject, Service};
use rpcrdma_runtime::xdr::{Reader, Reducer};

struct Store;

async fn get(_: Rc<u32>) {}

impl Service for Store {
    fn program(&self) -> u32 {
        0x2000_0001
    }

    fn version(&self) -> u32 {
        1
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        _: Reader<'a>,
        _: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async {
            get(Rc::new(7)).await;
            Ok(())
        })
    }
}

fn main() {}
