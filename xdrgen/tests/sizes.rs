//! `rpcrdma-xdrgen sizes`: what the compiler says of every type of the language is what the derive computes for the emitted
//! type, and what a procedure needs at a threshold.

mod program;
mod scratch;

use program::{compiler, text};
use rpcrdma_xdrgen::sizes::{Assumed, sizes};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, generate};
use scratch::{Scratch, workspace};

/// Types that hold themselves, in every way, with items that RDMA may place.
const CIRCLES: &str = "\
struct node { opaque data<100>; node *next; };
struct tree { opaque leaf<>; tree branches<2>; };
struct first { second *other; opaque data<10>; };
struct second { first others<3>; };
typedef tree forest<>;
struct wood { forest inside; forest *more; };
union chain switch (bool more) { case TRUE: link rest; case FALSE: opaque end<7>; };
struct link { chain on; };
typedef opaque bulk<1001>;
typedef bulk load;
struct cargo { load piece; opaque rest<>; string label<9>; };
union choice switch (unsigned int n) { case 1: cargo many<3>; case 2: cargo one; default: void; };
struct all { choice some[2]; cargo any<>; node list; tree *tree; };
struct five_a { five_b *next; };
struct five_b { five_c *next; };
struct five_c { five_d *next; };
struct five_d { opaque data<5>; five_e *next; };
struct five_e { five_a *next; };
struct plain_a { plain_b *next; };
struct plain_b { plain_c *next; };
struct plain_c { plain_d *next; };
struct plain_d { plain_e *next; };
struct plain_e { plain_a *next; };
struct beside { opaque data<6>; plain_a *next; };
struct parcel { beside *content; };
struct p01 { p02 *next; };
struct p02 { p03 *next; };
struct p03 { p04 *next; };
struct p04 { p05 *next; };
struct p05 { p06 *next; };
struct p06 { p07 *next; };
struct p07 { p08 *next; };
struct p08 { p09 *next; };
struct p09 { p10 *next; };
struct p10 { p11 *next; };
struct p11 { p12 *next; };
struct p12 { p01 *next; };
program P { version V { all MOVE(all) = 1; } = 1; } = 536870920;
";

const BINDING: &str = "\
[[binding]]
program = \"P\"
version = \"V\"
netids = [\"rdma\"]
eligible = [\"cargo.piece\", \"cargo.rest\", \"cargo.label\", \"node.data\", \"tree.leaf\", \"chain.end\", \"five_d.data\", \"beside.data\"]
";

/// A module, and a test in it that compares the sizes of every type.
fn module(sources: &Sources, name: &str) -> String {
    let options = Options::module(name);
    let code = generate(sources, &options);
    assert!(!code.has_errors(), "{:?}", code.diagnostics);
    let (ir, _) = rpcrdma_xdrgen::generate::lower(sources, &options);
    let sizes = sizes(sources, &options, &Assumed::default());
    assert_eq!(ir.types.len(), sizes.types.len());
    let mut lines = String::new();
    for (ty, (name, of)) in ir.types.iter().zip(&sizes.types) {
        assert_eq!(ty.name, *name);
        let known = (of.min, of.max.0, of.max_reduced.0, of.item.0, of.items.0);
        lines.push_str(&format!("        assert_eq!(of::<super::{0}>(), {known:?}, \"{0}\");\n", ty.ident));
    }
    let (_, text) = code.files.first().expect("one file");
    format!("{text}\n{}", TEST.replace("@LINES@", &lines))
}

/// The test: types of the document may have any name.
const TEST: &str = r#"
#[cfg(test)]
mod sizes {
    type Sizes = (u64, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

    fn of<T: ::rpcrdma_runtime::xdr::Layout>() -> Sizes {
        (T::MIN, T::MAX.bound(), T::MAX_REDUCED.bound(), T::ITEM.bound(), T::ITEMS.bound())
    }

    #[test]
    fn are_those_of_the_compiler() {
@LINES@    }
}
"#;

#[test]
fn every_type_of_the_language_has_the_sizes_that_the_compiler_says() {
    let root = workspace();
    let manifest = format!(
        "[dependencies]\nrpcrdma-runtime = {{ path = {:?}, default-features = false }}\n",
        root.join("rpcrdma-runtime")
    );
    let scratch = Scratch::new("measured", &manifest);
    let mut language = Sources::default();
    let text = std::fs::read_to_string(root.join("xdrgen/tests/language.x")).expect("the document");
    language.add(Source::new("language.x", text));
    let mut circles = Sources::default();
    circles.add(Source::new("circles.x", CIRCLES));
    circles.add(Source::new("circles.ddp.toml", BINDING));
    scratch.write("src/language.rs", &module(&language, "language"));
    scratch.write("src/circles.rs", &module(&circles, "circles"));
    scratch.write("src/lib.rs", "pub mod circles;\npub mod language;\n");
    let (passed, output) = scratch.cargo(&["test", "--quiet", "--lib"]);
    assert!(passed, "{output}");
    assert!(output.contains("2 passed"), "{output}");
}

#[test]
fn nfs_needs_chunks_where_it_is_known_to() {
    let specs = workspace().join("specs");
    let table = |arguments: &[&str]| {
        let output =
            compiler(&specs, &[&["sizes", "nfs3.txt", "--binding", "nfs3.ddp.toml"], arguments].concat());
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
        text(&output.stdout).to_owned()
    };
    let row = |table: &str, procedure: &str| {
        let line =
            table.lines().find(|line| line.split_whitespace().next() == Some(procedure)).expect("a line");
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let small = table(&[]);
    assert!(small.starts_with("NFS_PROGRAM NFS_V3; inline threshold 1024, "), "{small}");
    assert_eq!(row(&small, "NFSPROC3_NULL")[1..], ["0", "0", "inline", "0", "0", "inline"]);
    let write = ["unbounded", "88", "Read chunk", "136", "136", "inline"];
    assert_eq!(row(&small, "NFSPROC3_WRITE")[1..], write);
    let read = ["80", "80", "inline", "count + padding + 104", "104", "Write chunk"];
    assert_eq!(row(&small, "NFSPROC3_READ")[1..], read);
    assert_eq!(row(&small, "NFSPROC3_READDIR").last().map(String::as_str), Some("Reply chunk"));
    // A path of 4,096 bytes fits where the threshold is larger.
    assert_eq!(row(&small, "NFSPROC3_READLINK").last().map(String::as_str), Some("Write chunk"));
    assert_eq!(
        row(&table(&["--inline", "8192"]), "NFSPROC3_READLINK").last().map(String::as_str),
        Some("inline")
    );
    // At the border: 28 of transport header, 24 of RPC header, and what is left for the result.
    for (verifier, returned) in [("340", "inline"), ("341", "Reply chunk")] {
        let table = table(&["--inline", "600", "--verifier", verifier]);
        assert_eq!(row(&table, "NFSPROC3_LINK").last().map(String::as_str), Some(returned), "{table}");
    }
}

#[test]
fn sizes_are_objects_if_json_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let document = "struct a { opaque b<>; };\nprogram P { version V { a GET(int) = 1; } = 1; } = 7;\n";
    std::fs::write(folder.path().join("a.x"), document).unwrap();
    let output = compiler(folder.path(), &["sizes", "a.x", "--message-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(text(&output.stdout)).expect("one object");
    let small = serde_json::json!({
        "whole": 4, "reduced": 4, "inline": true, "chunks": 0, "long": false, "unbounded": false,
    });
    let large = serde_json::json!({
        "whole": null, "reduced": null, "inline": false, "chunks": 0, "long": true, "unbounded": true,
    });
    let expected = serde_json::json!({
        "kind": "procedure", "program": "P", "version": "V", "procedure": "GET", "number": 1, "call": small, "reply": large,
    });
    assert_eq!(line, expected);
    let human = compiler(folder.path(), &["sizes", "a.x"]);
    assert!(text(&human.stdout).starts_with("P V, without a binding; "), "{}", text(&human.stdout));
    assert!(text(&human.stdout).contains("not over RDMA: unbounded"), "{}", text(&human.stdout));
    std::fs::write(folder.path().join("bad.x"), "struct a { nowhere b; };\n").unwrap();
    assert_eq!(compiler(folder.path(), &["sizes", "bad.x"]).status.code(), Some(1));
}
