use std::sync::Arc;

use rpcrdma_runtime::Client;

/// A client as rpcrdma-xdrgen emits it.
mod files_v1 {
    use rpcrdma_runtime::program;

    pub enum FilesV1 {}

    impl program::Program for FilesV1 {
        const NUMBER: u32 = 0x2000_0001;
        const VERSION: u32 = 1;
        const NAME: &'static str = "FILES_V1";
        const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "GET")];
    }

    impl program::Binding for FilesV1 {}

    pub mod proc {
        pub enum Get {}

        impl super::program::Procedure for Get {
            type Program = super::FilesV1;
            type Args = u32;
            type Res = u32;
            const NUMBER: u32 = 1;
            const NAME: &'static str = "GET";
        }
    }

    pub struct Client<C>(pub C);

    impl<C> Client<C> {
        pub fn get<'a>(&'a self, args: &'a u32) -> program::CallFuture<'a, u32, C::Error>
        where
            C: program::Caller<FilesV1>,
        {
            self.0.call::<proc::Get>(args)
        }
    }
}

// A `Client` is a transport, and its clones share a connection. An `Arc` of it is no transport.
async fn call(client: files_v1::Client<Arc<Client>>) {
    let _ = client.get(&3).await;
}

fn main() {}
