//! `xdrgen::Build`, as the build script of a user's crate calls it.

mod scratch;

use scratch::{Scratch, workspace};

const DOCUMENT: &str = "\
A small protocol

   /// typedef opaque content<>;
   ///
   /// struct put_args {
   ///    unsigned int id;      /* which */
   ///    content      data;
   /// };
   ///
   /// program STORE {
   ///    version STORE_V1 {
   ///       void    STORE_NULL(void)        = 0;
   ///       bool    STORE_PUT(put_args)     = 1;
   ///       content STORE_GET(unsigned int) = 2;
   ///    } = 1;
   /// } = 0x20000099;
";

const BINDING: &str = "\
[[binding]]
program = \"STORE\"
version = \"STORE_V1\"
port = 20099
eligible = [\"put_args.data\"]

[binding.reply.\"STORE_GET\"]
whole = 65536
";

const LIB: &str = r#"
//! A user's crate.

/// What the build script wrote.
pub mod store {
    include!(concat!(env!("OUT_DIR"), "/store.rs"));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use rpcrdma_runtime::proto::program::{
        Binding, CallContext, Caller, Credential, Procedure, Program, Reject, Service,
    };
    use rpcrdma_runtime::xdr::{self, Reader, Reducer};

    use crate::store::store_v1::{Client, Handler, Server, StoreV1, proc};
    use crate::store::{Content, PutArgs};

    struct Shelf;

    impl Handler for Shelf {
        async fn put(&self, context: &CallContext, args: PutArgs) -> Result<bool, Reject> {
            Ok(context.xid == 7 && args.id == 3 && args.data.len() == 5)
        }

        async fn get(&self, _context: &CallContext, id: u32) -> Result<Content, Reject> {
            if id == 0 { Err(Reject::SystemError) } else { Ok(vec![9; id as usize].into()) }
        }
    }

    /// Carries calls to a server in this process.
    struct Here(Server<Shelf>);

    impl Caller<StoreV1> for Here {
        type Error = Infallible;

        async fn call<Q: Procedure<Program = StoreV1>>(&self, args: &Q::Args) -> Result<Q::Res, Infallible> {
            let reply = serve(&self.0, Q::NUMBER, &xdr::to_bytes(args).unwrap()).unwrap();
            Ok(xdr::from_bytes(&reply).unwrap())
        }
    }

    fn serve(server: &Server<Shelf>, procedure: u32, args: &xdr::Bytes) -> Result<xdr::Bytes, Reject> {
        let context = CallContext {
            xid: 7,
            program: StoreV1::NUMBER,
            version: StoreV1::VERSION,
            procedure,
            credential: Credential::None,
            peer: None,
        };
        let mut reply = Reducer::new(1);
        now(server.dispatch(&context, Reader::from_bytes(args), &mut reply))?;
        Ok(reply.into_message().flatten())
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn a_client_calls_a_server() {
        let client = Client(Here(Server(Shelf)));
        now(client.null()).unwrap();
        assert!(now(client.put(&PutArgs { id: 3, data: vec![1; 5].into() })).unwrap());
        assert_eq!(now(client.get(&4)).unwrap(), Content::from(vec![9; 4]));
    }

    #[test]
    fn a_server_refuses_what_it_cannot_run() {
        let server = Server(Shelf);
        let word = xdr::to_bytes(&1u32).unwrap();
        assert_eq!(serve(&server, 3, &word), Err(Reject::ProcedureUnavailable));
        assert_eq!(serve(&server, 1, &word), Err(Reject::GarbageArguments));
        assert_eq!(serve(&server, 0, &word), Err(Reject::GarbageArguments));
        assert_eq!(serve(&server, 2, &xdr::to_bytes(&0u32).unwrap()), Err(Reject::SystemError));
    }

    #[test]
    fn the_binding_is_in_the_types() {
        assert_eq!(StoreV1::PORT, Some(20099));
        assert_eq!(StoreV1::PROCEDURES, [(0, "STORE_NULL"), (1, "STORE_PUT"), (2, "STORE_GET")]);
        assert_eq!(proc::Get::reply_bounds(&1).whole.bound(), Some(65536));
        let mut reducer = Reducer::new(1);
        xdr::Encode::encode(&PutArgs { id: 3, data: vec![1; 5].into() }, &mut reducer).unwrap();
        let message = reducer.into_message();
        assert_eq!((message.stream.len(), message.items.len()), (8, 1));
        assert_eq!(message.items[0].position, 8);
    }
}
"#;

fn user_crate(name: &str, document: &str, lib: &str) -> Scratch {
    let root = workspace();
    let manifest = format!(
        "[dependencies]\nrpcrdma-runtime = {{ path = {:?}, default-features = false }}\n\n\
         [build-dependencies]\nrpcrdma-xdrgen = {{ path = {:?} }}\n\n\
         [lints.rust]\nmissing_docs = \"deny\"\nwarnings = \"deny\"\n",
        root.join("rpcrdma-runtime"),
        root.join("xdrgen"),
    );
    let scratch = Scratch::new(name, &manifest);
    scratch.write("specs/store.txt", document);
    scratch.write("specs/store.ddp.toml", BINDING);
    scratch.write(
        "build.rs",
        "//! Compiles the protocol.\n\nfn main() -> Result<(), xdrgen::BuildError> {\n    \
         xdrgen::Build::new().document(\"specs/store.txt\").binding(\"specs/store.ddp.toml\").compile()?;\n    Ok(())\n}\n",
    );
    scratch.write("src/lib.rs", lib);
    scratch
}

#[test]
fn a_build_script_compiles_documents() {
    let scratch = user_crate("stored", DOCUMENT, LIB.trim_start());
    let (success, output) = scratch.cargo(&["test", "--quiet"]);
    assert!(success && output.contains("3 passed"), "{output}");

    // A mistake in the document fails the build, and says where it is.
    scratch.write("specs/store.txt", &DOCUMENT.replace("content      data", "contents     data"));
    let (success, output) = scratch.cargo(&["check", "--quiet"]);
    assert!(
        !success
            && output.contains("Error: xdrgen found 1 error\n")
            && output.contains("specs/store.txt:7:11\n")
            && output.contains("7 |    ///    contents     data;\n")
            && output.contains("`content` is defined"),
        "{output}"
    );
}

/// Requirement: R230
#[test]
fn a_version_without_a_binding_is_not_bound() {
    let lib = "//! A user's crate.\n\n/// What the build script wrote.\npub mod store {\n    \
               include!(concat!(env!(\"OUT_DIR\"), \"/store.rs\"));\n}\n\n\
               /// Asks for a binding.\npub fn over_rdma<P: rpcrdma_runtime::proto::program::Binding>() {}\n\n\
               /// Has none.\npub fn call() {\n    over_rdma::<store::store_v1::StoreV1>();\n}\n";
    let scratch = user_crate("unbound", DOCUMENT, lib);
    let (success, output) = scratch.cargo(&["check", "--quiet"]);
    assert!(success, "{output}");
    scratch.write(
        "build.rs",
        "//! Compiles the protocol.\n\nfn main() -> Result<(), xdrgen::BuildError> {\n    \
         xdrgen::Build::new().document(\"specs/store.txt\").compile()?;\n    Ok(())\n}\n",
    );
    let (success, output) = scratch.cargo(&["check", "--quiet"]);
    assert!(!success && output.contains("`StoreV1` has no Upper-Layer Binding"), "{output}");
}
