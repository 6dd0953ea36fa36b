use rpcrdma_runtime::Client;

/// A client in the form that rpcrdma-xdrgen generates.
mod files_v1 {
    use rpcrdma_runtime::program;

    pub enum FilesV1 {}

    impl program::Program for FilesV1 {
        const NUMBER: u32 = 0x2000_0001;
        const VERSION: u32 = 1;
        const NAME: &'static str = "FILES_V1";
        const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "GET")];
    }

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

// Without a binding for its program, a client can be constructed, but no call over RPC-over-RDMA compiles.
async fn call(client: files_v1::Client<Client>) {
    let _ = client.get(&3).await;
}

fn main() {}
