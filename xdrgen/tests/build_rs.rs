//! `rpcrdma_xdrgen::Build`, as the build script of a user's crate calls it.

#[path = "support/scratch.rs"]
mod scratch;

use std::fs;
use std::path::Path;
use std::process::Command;

use rpcrdma_xdrgen::{Build, BuildError};
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
unreduced = 65536
";

/// The first document of a protocol for tests of verbatim names and of derives. [`MORE`] is the second
/// document. The type `u64` has the name of a Rust type.
const BASE: &str = "\
const maxName = 8;
enum kind { KIND_FILE = 1, KIND_DIR = 2, KIND_LINK = 3, KIND_OTHER = 4 };
typedef opaque digest[40];
typedef string label<maxName>;
typedef unsigned hyper u64;
";

const MORE: &str = "\
struct ENTRY {
   label name; digest sum; digest *oldSum; digest sums<2>; kind type; label tags<maxName>; char c; quadruple q;
   opaque fh<16>; opaque any<>; u64 size; string text<300>;
};
struct LINK { int number; LINK *next; };
union RESULT switch (kind what) {
case KIND_FILE: ENTRY entries<3>;
case KIND_DIR: case KIND_LINK: int n;
default: LINK *list;
};
union CODE switch (int code) { case 0: case 7: RESULT result; default: void; };
struct TREE { TREE *left; TREE *right; int key; };
program MORE {
   version MORE_V1 { CODE MORE_FIND(label, ENTRY) = 1; void MORE_NULL(void) = 0; } = 1;
   version MORE_V2 { CODE MORE_FIND(string, kind, TREE *) = 1; string MORE_NAME(maxNames) = 2; } = 2;
} = 0x20000098;
struct maxNames { label names<maxName>; };
";

/// A document whose names have a special meaning in Rust, in emitted code or in the output of derives.
const ODD: &str = "\
const value = 3; const u = 4; const args = 5; const max = 6; const context = 7; const v = 1; const None = 9;
const Some = 8; const Ok = 3; const Err = 2;
typedef int i32; typedef opaque u8<4>; typedef int std; typedef int core; typedef string str<7>; typedef int alloc<3>;
typedef int list<value>; typedef int lst<>; typedef opaque arr[args];
enum option { some = 0, none = 1, self = 2, Self = 3, type = 4, crate = 5 };
enum Option { Some1 = 1 };
enum result { Ok1 = 0, Err1 = 1 };
struct Vec { i32 a<max>; option vec; u8 value; str args; alloc context; struct { int x; } inner; };
struct String { String *next; int x; };
union Box switch (option o) {
case some: case none: int value;
case self: Vec v<u>;
default: struct { int y; list l<2>; } deep;
};
union Xdr switch (int args) { case 0: void; case -1: Box u<v>; };
union flag switch (bool b) { case TRUE: String *s; case FALSE: int x; };
const Q = 4; typedef int q; struct quoted { string a<Q>; opaque b<Q>; q c<Q>; q d[Q]; };
struct Default { Xdr fn<2>; flag match[40]; option async[33]; };
program proc {
   version program {
      void args(void) = 0; Vec value(Box, Xdr) = 1; i32 context(u8) = 2; void u32(string) = 3; void reply(String *) = 4;
      void answer(flag) = 5; void Program(void) = 6; void program_(void) = 7; Default Procedure(Default) = 8;
      i32 INTO(void) = 9; void try_into(i32) = 10;
   } = 1;
   version core { void std(void) = 1; } = 2;
   version args { void alloc(void) = 1; } = 3;
   version Client { void Handler(void) = 1; } = 4;
   version Self { void self(void) = 1; } = 5;
} = 200;
program serde { version arbitrary { void Option(void) = 1; void Vec(int) = 2; } = 1; } = 201;
";

const LIB: &str = r#"
//! A user's crate.

/// The build script's output for `odd.x`, with verbatim names.
pub mod odd {
    include!(concat!(env!("OUT_DIR"), "/odd.rs"));
}

/// The build script's output for `odd.x`, with names in Rust style.
pub mod tame {
    include!(concat!(env!("OUT_DIR"), "/tame.rs"));
}

/// The build script's output for `base.x` and `more.x`.
pub mod both {
    include!(concat!(env!("OUT_DIR"), "/both.rs"));
}

/// The build script's output for `store.txt`.
pub mod store {
    include!(concat!(env!("OUT_DIR"), "/store.rs"));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use rpcrdma_runtime::program::{
        Binding, CallContext, CallFuture, CallTransport, Caller, Credential, Extensions, Procedure, Program,
        Reject, Service,
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

    /// A transport to a server in the same process.
    struct Here(Server<Shelf>);

    impl CallTransport for Here {
        type Error = Infallible;
    }

    impl Caller<StoreV1> for Here {
        fn call<'a, Q: Procedure<Program = StoreV1>>(
            &'a self,
            args: &'a Q::Args,
        ) -> CallFuture<'a, Q::Res, Infallible> {
            let reply = serve(&self.0, Q::NUMBER, &xdr::to_bytes(args).unwrap()).unwrap();
            Box::pin(ready(Ok(xdr::from_bytes(&reply).unwrap())))
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
            extensions: Extensions::default(),
        };
        let mut reply = Reducer::new(1);
        now(server.dispatch(&context, Reader::from_bytes(args), &mut reply))?;
        Ok(reply.into_message().flatten())
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the future is not ready"),
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
    fn a_server_rejects_invalid_calls() {
        let server = Server(Shelf);
        let word = xdr::to_bytes(&1u32).unwrap();
        assert_eq!(serve(&server, 3, &word), Err(Reject::ProcedureUnavailable));
        assert_eq!(serve(&server, 1, &word), Err(Reject::GarbageArguments));
        assert_eq!(serve(&server, 0, &word), Err(Reject::GarbageArguments));
        assert_eq!(serve(&server, 2, &xdr::to_bytes(&0u32).unwrap()), Err(Reject::SystemError));
    }

    /// Returns pseudorandom bytes that differ for each seed.
    fn chance(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        };
        (0..2048).map(|_| next()).collect()
    }

    /// Tests that arbitrary values have an encoding, and round-trip through XDR and JSON. Returns the number
    /// of distinct lengths of the encodings.
    fn round_trips<T>() -> usize
    where
        T: for<'a> arbitrary::Arbitrary<'a> + xdr::Xdr + serde::Serialize + serde::de::DeserializeOwned,
        T: PartialEq + std::fmt::Debug,
    {
        let mut sizes = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let bytes = chance(seed);
            let value = T::arbitrary(&mut arbitrary::Unstructured::new(&bytes)).unwrap();
            let encoded = xdr::to_bytes(&value).unwrap();
            assert_eq!(xdr::from_bytes::<T>(&encoded).unwrap(), value);
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value, "{json}");
            sizes.insert(encoded.len());
        }
        sizes.len()
    }

    #[test]
    fn arbitrary_values_encode_and_survive_json() {
        use crate::both::more::{CODE, ENTRY, RESULT};
        assert!(round_trips::<RESULT>() > 20);
        assert!(round_trips::<ENTRY>() > 20);
        assert!(round_trips::<CODE>() > 20);
    }

    #[test]
    fn features_enable_the_derives_of_a_crate() {
        assert!(round_trips::<emitted::more::Result_>() > 20);
        assert_eq!(emitted::more::more_v2::proc::Name::NUMBER, 2);
        let tree = emitted::more::Tree { left: None, right: None, key: 1 };
        assert!(xdr::to_bytes(&tree).is_ok());
    }

    #[test]
    fn json_is_readable_and_bounds_hold() {
        use crate::both::base::kind;
        use crate::both::more::ENTRY;
        let entry = ENTRY {
            name: "a name".into(),
            sum: [7; 40],
            oldSum: None,
            sums: vec![[1; 40]],
            r#type: kind::KIND_DIR,
            tags: vec!["x".into(), vec![0xff, 0xfe].into()],
            c: xdr::Char(-1),
            q: xdr::Quadruple([2; 16]),
            fh: b"handle"[..].try_into().unwrap(),
            any: vec![1, 2, 3].into(),
            size: 5,
            text: "longer".into(),
        };
        let json = serde_json::to_string(&entry).unwrap();
        for part in ["\"name\":\"a name\"", "\"type\":\"KIND_DIR\"", "[\"x\",[255,254]]", "\"any\":[1,2,3]"] {
            assert!(json.contains(part), "no {part} in {json}");
        }
        assert_eq!(serde_json::from_str::<ENTRY>(&json).unwrap(), entry);
        let tags = format!("\"tags\":{:?}", vec!["x"; 9]).replace(' ', "");
        for (was, is) in [
            ("\"a name\"", "\"a name too long\""),
            ("\"tags\":[\"x\",[255,254]]", tags.as_str()),
            ("\"c\":-1", "\"c\":200"),
            ("\"sum\":[7,", "\"sum\":["),
            ("\"sum\":[7,", "\"sum\":[7,7,"),
            ("KIND_DIR", "KIND_DIRS"),
            ("[104,97,", "[104,97,1,2,3,4,5,6,7,8,9,10,11,12,"),
        ] {
            let broken = json.replacen(was, is, 1);
            assert_ne!(broken, json, "{was}");
            assert!(serde_json::from_str::<ENTRY>(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_discriminant_of_another_arm_is_rejected() {
        use crate::both::more::RESULT;
        // Two of three arms store the discriminant: the arm of KIND_DIR (2) and KIND_LINK (3), and the
        // default arm.
        for (wire, kept, good, bad) in [
            (&[0, 0, 0, 2, 0, 0, 0, 7][..], "KIND_DIR", "KIND_LINK", ["KIND_FILE", "KIND_OTHER"]),
            (&[0, 0, 0, 4, 0, 0, 0, 0], "KIND_OTHER", "KIND_OTHER", ["KIND_FILE", "KIND_DIR"]),
        ] {
            let json = serde_json::to_string(&xdr::from_slice::<RESULT>(wire).unwrap()).unwrap();
            assert!(json.contains(kept), "{json}");
            let other = serde_json::from_str::<RESULT>(&json.replace(kept, good)).unwrap();
            assert!(xdr::to_bytes(&other).is_ok());
            for bad in bad {
                assert!(serde_json::from_str::<RESULT>(&json.replace(kept, bad)).is_err(), "{bad} in {json}");
            }
        }
    }

    #[test]
    fn verbatim_names_are_those_of_the_documents() {
        use crate::both::base::{kind, maxName};
        use crate::both::more::{MORE_V2_MORE_FIND_args, TREE, more_v1, more_v2};
        assert_eq!((maxName, more_v1::MORE_V1::NUMBER, more_v2::MORE_V2::VERSION), (8, 0x2000_0098, 2));
        assert_eq!(more_v2::proc::MORE_NAME::NUMBER, 2);
        let leaf = TREE { left: None, right: None, key: 2 };
        let tree = TREE { left: Some(Box::new(leaf.clone())), right: None, key: 1 };
        assert_eq!(serde_json::from_str::<TREE>(&serde_json::to_string(&tree).unwrap()).unwrap(), tree);
        let args = MORE_V2_MORE_FIND_args("name".into(), kind::KIND_LINK, Some(tree));
        assert_eq!(xdr::from_bytes::<MORE_V2_MORE_FIND_args>(&xdr::to_bytes(&args).unwrap()).unwrap(), args);
    }

    #[test]
    fn the_binding_is_in_the_types() {
        assert_eq!(StoreV1::PORT, Some(20099));
        assert_eq!(StoreV1::PROCEDURES, [(0, "STORE_NULL"), (1, "STORE_PUT"), (2, "STORE_GET")]);
        assert_eq!(proc::Get::reply_bounds(&1).unreduced.bound(), Some(65536));
        let mut reducer = Reducer::new(1);
        xdr::Encode::encode(&PutArgs { id: 3, data: vec![1; 5].into() }, &mut reducer).unwrap();
        let message = reducer.into_message();
        assert_eq!((message.stream.len(), message.items.len()), (8, 1));
        assert_eq!(message.items[0].position, 8);
    }
}
"#;

const BUILD: &str = "\
//! Compiles the protocols.

fn main() -> Result<(), rpcrdma_xdrgen::BuildError> {
    let both = rpcrdma_xdrgen::Build::new().document(\"specs/base.x\").document(\"specs/more.x\").name(\"both\");
    both.names(rpcrdma_xdrgen::Names::Verbatim).derive(\"serde\").derive(\"arbitrary\").compile()?;
    let odd = || rpcrdma_xdrgen::Build::new().document(\"specs/odd.x\").derive(\"serde\").derive(\"arbitrary\");
    odd().name(\"odd\").names(rpcrdma_xdrgen::Names::Verbatim).compile()?;
    odd().name(\"tame\").compile()?;
    rpcrdma_xdrgen::Build::new().document(\"specs/store.txt\").binding(\"specs/store.ddp.toml\").compile()?;
    Ok(())
}
";

/// Code that compiles only if the version has a binding.
const BOUND: &str = "

/// Requires a binding.
pub fn over_rdma<P: rpcrdma_runtime::program::Binding>() {}

/// Compiles only if the version has a binding.
pub fn call() {
    over_rdma::<store::store_v1::StoreV1>();
}
";

fn user_crate() -> Scratch {
    let root = workspace();
    let (runtime, compiler) = (root.join("rpcrdma-runtime"), root.join("xdrgen"));
    let manifest = format!(
        "[dependencies]\nemitted = {{ path = \"emitted\", features = [\"serde\", \"arbitrary\"] }}\narbitrary = {{ version = \"1\", features = [\"derive\"] }}\n\
         rpcrdma-runtime = {{ path = {runtime:?}, default-features = false, features = [\"serde\", \"arbitrary\"] }}\n\
         serde = {{ version = \"1\", default-features = false, features = [\"derive\"] }}\n\n\
         [dev-dependencies]\nserde_json = \"1\"\n\n\
         [build-dependencies]\nrpcrdma-xdrgen = {{ path = {compiler:?} }}\n\n\
         [lints.rust]\nmissing_docs = \"deny\"\nwarnings = \"deny\"\n",
    );
    let scratch = Scratch::new("stored", &manifest);
    scratch.write("specs/store.txt", DOCUMENT);
    scratch.write("specs/store.ddp.toml", BINDING);
    scratch.write("specs/base.x", BASE);
    scratch.write("specs/more.x", MORE);
    scratch.write("specs/odd.x", ODD);
    scratch.write("build.rs", BUILD);
    emit_crate(&scratch);
    scratch.write("src/lib.rs", LIB.trim_start());
    scratch
}

/// Generates a separate crate from `base.x` and `more.x`, with a relative path to the runtime. Then runs the
/// command from the crate's manifest. The command must generate the same files.
fn emit_crate(scratch: &Scratch) {
    let up = scratch.path("").components().skip(1).map(|_| "../").collect::<String>();
    let runtime = workspace().join("rpcrdma-runtime");
    let runtime = format!("{up}{}", runtime.strip_prefix("/").expect("an absolute path").display());
    let arguments = "generate specs/base.x specs/more.x --crate emitted --derive serde --derive arbitrary";
    let given = ["--title", "Where things are.", "--output", "emitted", "--runtime-path", &runtime];
    let words: Vec<&str> = arguments.split(' ').chain(given).collect();
    let emitted = scratch.path("emitted");
    let files = || ["Cargo.toml", "src/lib.rs", "src/base.rs", "src/more.rs"].map(|name| emitted.join(name));
    let generate = |directory: &Path, program: &mut Command| {
        let output = program.current_dir(directory).output().expect("the compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        files().map(|file| fs::read_to_string(file).expect("a file of the crate"))
    };
    let compiler = env!("CARGO_BIN_EXE_rpcrdma-xdrgen");
    let first = generate(&scratch.path(""), Command::new(compiler).args(words));
    let head = first[0].lines().map_while(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ");
    let (_, command) = head.split_once("Regenerate with `rpcrdma-xdrgen ").expect("the command");
    let command = format!("exec \"$0\" {}", command.split_once('`').expect("the end of the command").0);
    assert!(command.contains(" ../specs/base.x ../specs/more.x --output . "), "{command}");
    fs::write(&files()[1], "").expect("a file of the crate");
    let again = generate(&emitted, Command::new("sh").args(["-c", &command, compiler]));
    assert_eq!(again, first);
}

/// The README shows this error, which a build script prints.
#[test]
fn errors_are_data_and_their_text_quotes_the_line() {
    let readme = include_str!("../README.md");
    let (_, error) = readme.split_once("```text\nError: ").expect("an example");
    let (error, _) = error.split_once("```").expect("the end of the example");
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("kv.x");
    fs::write(&path, include_str!("diagnostics/X213-near.x")).expect("a document");
    let built = Build::new().document(&path).out_dir(folder.path()).compile();
    let Err(found @ BuildError::Findings { .. }) = built else { panic!("{built:?}") };
    assert_eq!(format!("{found:?}"), found.to_string());
    let shown = found.to_string().replace(&path.display().to_string(), "kv.x");
    assert_eq!(shown, error);
    let BuildError::Findings { errors, sources } = found else { panic!("{shown}") };
    assert_eq!((errors.len(), errors[0].code(), sources.iter().count()), (1, "X213", 1));
    assert!(!folder.path().join("kv.rs").exists());
}

fn assert_no_command_line_crates(scratch: &Scratch) {
    let (success, tree) = scratch.cargo(&["tree", "--edges", "normal,build", "--prefix", "none"]);
    assert!(success && tree.lines().any(|line| line.starts_with("rpcrdma-xdrgen v")), "{tree}");
    for name in ["clap", "annotate-snippets", "serde_json"] {
        assert!(!tree.lines().any(|line| line.starts_with(&format!("{name} v"))), "{name} in {tree}");
    }
}

/// One crate covers all cases, since a second crate would double the compile time.
///
/// Requirement: R230
#[test]
fn a_build_script_compiles_documents() {
    let scratch = user_crate();
    assert_no_command_line_crates(&scratch);
    let (success, output) = scratch.cargo(&["test", "--quiet"]);
    assert!(
        success && output.contains("8 passed") && !output.contains("`emitted` (lib) generated"),
        "{output}"
    );

    // An error in the document fails the build, and the output shows the error's position.
    scratch.write("specs/store.txt", &DOCUMENT.replace("content      data", "contents     data"));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(
        !success
            && output.contains("Error: rpcrdma-xdrgen found 1 error\n")
            && output.contains("specs/store.txt:7:11: error[")
            && output.contains("7 |    ///    contents     data;\n    |           ^^^^^^^^")
            && output.contains("a similar name is defined: `content`"),
        "{output}"
    );

    // A change to any of several documents is detected.
    scratch.write("specs/store.txt", DOCUMENT);
    scratch.write("specs/more.x", &MORE.replace("TREE *left", "TREES *left"));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(!success && output.contains("specs/more.x:") && output.contains("`TREES`"), "{output}");
    scratch.write("specs/more.x", MORE);

    // A change to an included file is also detected.
    scratch.write("specs/tree.x", "typedef int leaf;\n");
    scratch.write("specs/more.x", &format!("#include \"tree.x\"\nstruct of_leaf {{ leaf one; }};\n{MORE}"));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(success, "{output}");
    scratch.write("specs/tree.x", "typedef int leave;\n");
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(!success && output.contains("specs/more.x:2:18") && output.contains("`leaf`"), "{output}");
    scratch.write("specs/more.x", MORE);

    // A new file with the name of a missing included file is also detected.
    scratch.write("specs/more.x", &format!("#include \"bush.x\"\n{MORE}"));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(success, "{output}");
    scratch.write("specs/bush.x", "struct bush { leaf one; };\n");
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(!success && output.contains("specs/bush.x:1:15") && output.contains("`leaf`"), "{output}");
    scratch.write("specs/more.x", MORE);

    // The type of a version implements `Binding` only if the version has a binding. Otherwise, the call to
    // `over_rdma` does not compile.
    scratch.write("src/lib.rs", &format!("{}{BOUND}", LIB.trim_start()));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(success, "{output}");
    scratch.write("build.rs", &BUILD.replace(".binding(\"specs/store.ddp.toml\")", ""));
    let (success, output) = scratch.cargo(&["build", "--quiet"]);
    assert!(!success && output.contains("`StoreV1` has no Upper-Layer Binding"), "{output}");
}
