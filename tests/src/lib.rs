//! Shared parts of the tests, and the examples of the guides as documentation tests.

pub mod captured;
pub mod framed;
pub mod gss;

/// Compiles the examples of each document, and runs them unless they are `no_run`.
macro_rules! examples {
    ($($name:ident: $path:literal),* $(,)?) => { $(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../", $path))]
        pub struct $name;
    )* };
}

examples! {
    Readme: "README.md",
    Bindings: "docs/bindings.md",
    Callbacks: "docs/callbacks.md",
    ClientServer: "docs/client-server.md",
    Compile: "docs/compile.md",
    Derive: "rpcrdma-derive/README.md",
    Extensions: "docs/extensions.md",
    GettingStarted: "docs/getting-started.md",
    RdmaDevices: "docs/rdma-devices.md",
    Reconnection: "docs/reconnection.md",
    Security: "docs/security.md",
    Types: "docs/types.md",
}
