//! `rpcrdma-xdrgen sizes`: the compiler's sizes of every type equal the sizes that the derive computes for
//! the emitted type. Also tests which procedures need chunks at an inline threshold.

#[path = "support/program.rs"]
mod program;
#[path = "support/scratch.rs"]
mod scratch;

use program::{compiler, text};
use rpcrdma_xdrgen::sizes::{Assumed, Size, sizes};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, generate};
use scratch::{Scratch, workspace};

/// Types with and without eligible items. Most of the types contain themselves, directly or through other
/// types.
const CYCLES: &str = "\
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
program P { version V { void MOVE(all) = 1; } = 1; } = 536870920;
";

/// Types that the test also defines by hand in Rust.
const BY_HAND: &str = "\
struct tree { opaque leaf<300>; tree branches<2>; };
struct folder { unsigned int number; file *first; };
struct file { opaque data<3000>; folder *next; };
struct left { right rights<3>; hyper mark; };
struct right { right *more; left inner; };
union chain switch (bool more) { case TRUE: link rest; case FALSE: opaque end<7>; };
struct link { chain on; };
union fork switch (unsigned int ways) { case 0: void; case 1: opaque end<8>; case 2: case 3: fork more<2>; };
struct cargo { opaque rest<>; cargo spare<>; string label<9>; };
struct all { tree trees[2]; chain any<>; cargo few<5>; file *one; opaque small[5]; };
program P { version V { void MOVE(all) = 1; } = 1; } = 536870920;
";

const BY_HAND_BINDING: &str = "\
[[binding]]
program = \"P\"
version = \"V\"
eligible = [\"tree.leaf\", \"file.data\", \"chain.end\", \"fork.end\", \"cargo.rest\", \"cargo.label\"]
";

const BY_HAND_RUST: &str = r#"
use rpcrdma_runtime::xdr::{Opaque, Xdr, XdrString};

#[derive(Xdr)]
pub struct Tree { #[ddp_eligible] leaf: Opaque<300>, #[xdr(max = 2)] branches: Vec<Tree> }
#[derive(Xdr)]
#[xdr(items = unbounded, largest = 3000)]
pub struct Folder { number: u32, first: Option<Box<File>> }
#[derive(Xdr)]
pub struct File { #[ddp_eligible] data: Opaque<3000>, next: Option<Box<Folder>> }
#[derive(Xdr)]
pub struct Left { #[xdr(max = 3, recursive)] rights: Vec<Right>, mark: i64 }
#[derive(Xdr)]
pub struct Right { more: Option<Box<Self>>, inner: Left }
#[derive(Xdr)]
#[xdr(union = "bool")]
pub enum Chain {
    #[xdr(case = true)] Rest(#[xdr(recursive)] Box<Link>),
    #[xdr(case = false)] #[ddp_eligible] End(Opaque<7>),
}
#[derive(Xdr)]
pub struct Link { on: Chain }
#[derive(Xdr)]
#[xdr(union = "u32")]
pub enum Fork {
    #[xdr(case = 0)] Nothing,
    #[xdr(case = 1)] #[ddp_eligible] End(Opaque<8>),
    #[xdr(case = 2, case = 3)] More(u32, #[xdr(max = 2)] Vec<Fork>),
}
#[derive(Xdr)]
pub struct Cargo { #[ddp_eligible] rest: Opaque, spare: Vec<Cargo>, #[ddp_eligible] label: XdrString<9> }
#[derive(Xdr)]
pub struct All {
    trees: [Tree; 2],
    any: Vec<Chain>,
    #[xdr(max = 5)] few: Vec<Cargo>,
    one: Option<Box<File>>,
    small: [u8; 5],
}
"#;

/// Returns a cycle of twenty types with an item in the first type. A search with a small fixed depth would
/// miss the item.
fn twenty() -> String {
    let name = |index: usize| format!("t{:02}", index % 20);
    let ty = |index: usize| {
        let item = if index == 0 { "opaque data<70>; " } else { "" };
        format!("struct {} {{ {item}{} *next; }};\n", name(index), name(index + 1))
    };
    let types: String = (0..20).map(ty).collect();
    types + "program P { version V { void A(t00) = 1; void B(t01) = 2; } = 1; } = 536870921;\n"
}

const TWENTY_BINDING: &str = "[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [\"t00.data\"]\n";

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Returns a random declaration in type number `owner` of `count` types, and whether the declared data
    /// can be eligible. Only optional data and counted arrays contain `owner` or later types, so that no type
    /// is infinitely large.
    fn declaration(&mut self, owner: u64, count: u64, name: &str) -> (String, bool) {
        let (bound, any) = (self.below(5), self.below(count));
        let declaration = match self.below(if owner == 0 { 9 } else { 11 }) {
            0 => format!("hyper {name}"),
            1 => return (format!("opaque {name}<{}>", self.below(5000)), true),
            2 => return (format!("opaque {name}<>"), true),
            3 => return (format!("string {name}<{bound}>"), true),
            4 => format!("opaque {name}[{}]", bound + 1),
            5 => format!("bool {name}<{bound}>"),
            6 => format!("type{any} *{name}"),
            7 => format!("type{any} {name}<{bound}>"),
            8 => format!("type{any} {name}<>"),
            9 => format!("type{} {name}", self.below(owner)),
            _ => format!("type{} {name}[{}]", self.below(owner), bound + 1),
        };
        (declaration, false)
    }

    fn document(&mut self, count: u64) -> (String, String) {
        let (mut text, mut eligible) = (String::new(), Vec::new());
        for owner in 0..count {
            let is_union = self.below(3) == 0;
            let mut parts = String::new();
            for part in 0..self.below(4) + 1 {
                let name = format!("part{part}");
                let (declaration, may_be_eligible) = self.declaration(owner, count, &name);
                if may_be_eligible && self.below(2) == 0 {
                    eligible.push(format!("\"type{owner}.{name}\""));
                }
                let label = if is_union { format!("case {part}: ") } else { String::new() };
                parts += &format!("   {label}{declaration};\n");
            }
            let head = if is_union { "union" } else { "struct" };
            let switch = if is_union { " switch (unsigned int which)" } else { "" };
            text += &format!("{head} type{owner}{switch} {{\n{parts}}};\n");
        }
        let procedure = |ty| format!("void CALL{ty}(type{ty}) = {};", ty + 1);
        let procedures: String = (0..count).map(procedure).collect();
        text += &format!("program P {{ version V {{ {procedures} }} = 1; }} = 536870922;\n");
        let eligible = eligible.join(", ");
        (text, format!("[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [{eligible}]\n"))
    }
}

const BINDING: &str = "\
[[binding]]
program = \"P\"
version = \"V\"
netids = [\"rdma\"]
eligible = [\"cargo.piece\", \"cargo.rest\", \"cargo.label\", \"node.data\", \"tree.leaf\", \"chain.end\", \"five_d.data\", \"beside.data\"]
";

fn documents(name: &str, document: &str, binding: &str) -> Sources {
    let mut sources = Sources::default();
    sources.add(Source::new(format!("{name}.x"), document));
    if !binding.is_empty() {
        sources.add(Source::new(format!("{name}.ddp.toml"), binding));
    }
    sources
}

fn module(sources: &Sources, name: &str) -> String {
    let code = generate(sources, &Options::module(name));
    assert!(!code.has_errors(), "{:?}", code.diagnostics);
    let (_, text) = code.files.first().expect("one file");
    with_test(text, sources, name)
}

/// Returns `text` with an added test, which compares the sizes of each type with those that the compiler
/// computes.
fn with_test(text: &str, sources: &Sources, name: &str) -> String {
    let options = Options::module(name);
    let (ir, _) = rpcrdma_xdrgen::generate::lower(sources, &options);
    let sizes = sizes(sources, &options, &Assumed::default());
    assert_eq!(ir.types.len(), sizes.types.len());
    let mut lines = String::new();
    for (ty, (name, of)) in ir.types.iter().zip(&sizes.types) {
        assert_eq!(ty.name, *name);
        let known = (
            of.lengths.min,
            of.lengths.max.bound(),
            of.lengths.max_reduced.bound(),
            of.items.largest.bound(),
            of.items.count.bound(),
        );
        lines.push_str(&format!("        assert_eq!(of::<super::{0}>(), {known:?}, \"{0}\");\n", ty.ident));
    }
    format!("{text}\n{}", TEST.replace("@LINES@", &lines))
}

/// The test that [`with_test`] adds, with `@LINES@` in place of the assertions. The test uses full paths,
/// since the types of a document may have any name.
const TEST: &str = r#"
#[cfg(test)]
mod sizes {
    type Sizes = (u64, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

    fn of<T: ::rpcrdma_runtime::xdr::Layout>() -> Sizes {
        (T::LENGTHS.min, T::LENGTHS.max.bound(), T::LENGTHS.max_reduced.bound(), T::HELD.largest.bound(), T::HELD.count.bound())
    }

    #[test]
    fn are_those_of_the_compiler() {
@LINES@    }
}
"#;

#[test]
fn every_type_has_the_sizes_that_the_compiler_computes() {
    let root = workspace();
    let manifest = format!(
        "[dependencies]\nrpcrdma-runtime = {{ path = {:?}, default-features = false }}\n",
        root.join("rpcrdma-runtime")
    );
    let scratch = Scratch::new("measured", &manifest);
    let text = std::fs::read_to_string(root.join("xdrgen/tests/language.x")).expect("the document");
    let hand = documents("hand", BY_HAND, BY_HAND_BINDING);
    let mut modules = vec![
        ("language".to_owned(), module(&documents("language", &text, ""), "language")),
        ("cycles".to_owned(), module(&documents("cycles", CYCLES, BINDING), "cycles")),
        ("twenty".to_owned(), module(&documents("twenty", &twenty(), TWENTY_BINDING), "twenty")),
        ("hand".to_owned(), module(&hand, "hand")),
        ("by_hand".to_owned(), with_test(BY_HAND_RUST, &hand, "hand")),
    ];
    let mut random = Random(20);
    for number in 0..10 {
        let name = format!("random{number}");
        let (document, binding) = random.document(12);
        modules.push((name.clone(), module(&documents(&name, &document, &binding), &name)));
    }
    let names: String = modules.iter().map(|(name, _)| format!("pub mod {name};\n")).collect();
    scratch.write("src/lib.rs", &names);
    modules.iter().for_each(|(name, text)| scratch.write(&format!("src/{name}.rs"), text));
    let (passed, output) = scratch.cargo(&["test", "--quiet", "--lib"]);
    assert!(passed, "{output}");
    assert!(output.contains(&format!("{} passed", modules.len())), "{output}");
}

#[test]
fn items_of_a_long_cycle_are_counted() {
    let sources = documents("twenty", &twenty(), TWENTY_BINDING);
    let sizes = sizes(&sources, &Options::module("twenty"), &Assumed::default());
    assert_eq!(sizes.types.len(), 20);
    for (name, layout) in sizes.types {
        assert_eq!(
            (layout.items.count, layout.items.largest),
            (Size::Unbounded, Size::Bounded(70)),
            "{name}"
        );
    }
}

#[test]
fn options_override_the_threshold_of_the_binding() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("a.x"),
        "struct a { opaque b<2000>; };\nprogram P { version V { void PUT(a) = 1; } = 1; } = 7;\n",
    )
    .unwrap();
    let binding = "[[binding]]\nprogram = \"P\"\nversion = \"V\"\ninline_threshold = 4096\neligible = []\n";
    std::fs::write(folder.path().join("a.ddp.toml"), binding).unwrap();
    let first_and_last = |arguments: &[&str]| {
        let all = [&["sizes", "a.x"], arguments].concat();
        let output = compiler(folder.path(), &all);
        let text = text(&output.stdout).to_owned();
        let put = text.lines().find(|line| line.starts_with("PUT")).expect("a line").to_owned();
        (text.lines().next().unwrap_or_default().to_owned(), put.contains("Position-Zero"))
    };
    let with = ["--binding", "a.ddp.toml"];
    let (head, is_long) = first_and_last(&with);
    assert!(head.contains("inline threshold 4096,") && !is_long, "{head}");
    let (head, is_long) = first_and_last(&[&with[..], &["--inline", "1024"]].concat());
    assert!(head.contains("inline threshold 1024,") && is_long, "{head}");
    let (head, is_long) = first_and_last(&[]);
    assert!(head.contains("inline threshold 1024,") && is_long, "{head}");
}

#[test]
fn nfs_needs_chunks_for_known_procedures() {
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
    assert!(table(&[]).starts_with("NFS_PROGRAM NFS_V3; inline threshold 4096, "), "{}", table(&[]));
    let small = table(&["--inline", "1024"]);
    assert!(small.starts_with("NFS_PROGRAM NFS_V3; inline threshold 1024, "), "{small}");
    assert_eq!(row(&small, "NFSPROC3_NULL")[1..], ["0", "0", "inline", "0", "0", "inline"]);
    let write = ["unbounded", "88", "Read chunk", "136", "136", "inline"];
    assert_eq!(row(&small, "NFSPROC3_WRITE")[1..], write);
    let read = ["80", "80", "inline", "count + padding + 104", "104", "Write chunk"];
    assert_eq!(row(&small, "NFSPROC3_READ")[1..], read);
    assert_eq!(row(&small, "NFSPROC3_READDIR").last().map(String::as_str), Some("Reply chunk"));
    // The path in the result has at most 4096 bytes, which fit at a threshold of 8192 bytes.
    assert_eq!(row(&small, "NFSPROC3_READLINK").last().map(String::as_str), Some("Write chunk"));
    assert_eq!(
        row(&table(&["--inline", "8192"]), "NFSPROC3_READLINK").last().map(String::as_str),
        Some("inline")
    );
    // Exactly 600 bytes: 28 bytes of transport header, 24 bytes of RPC header, 340 bytes of verifier and 208
    // bytes of result.
    for (verifier, returned) in [("340", "inline"), ("341", "Reply chunk")] {
        let table = table(&["--inline", "600", "--verifier", verifier]);
        assert_eq!(row(&table, "NFSPROC3_LINK").last().map(String::as_str), Some(returned), "{table}");
    }
}

#[test]
fn json_output_has_one_object_per_size() {
    let folder = tempfile::tempdir().unwrap();
    let document = "struct a { opaque b<>; };\nprogram P { version V { a GET(int) = 1; } = 1; } = 7;\n";
    std::fs::write(folder.path().join("a.x"), document).unwrap();
    let output = compiler(folder.path(), &["sizes", "a.x", "--message-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(text(&output.stdout)).expect("one object");
    let small = serde_json::json!({
        "unreduced": 4, "reduced": 4, "inline": true, "chunks": 0, "long": false, "unbounded": false,
    });
    let large = serde_json::json!({
        "unreduced": null, "reduced": null, "inline": false, "chunks": 0, "long": true, "unbounded": true,
    });
    let expected = serde_json::json!({
        "kind": "procedure", "program": "P", "version": "V", "procedure": "GET", "number": 1, "call": small, "reply": large,
    });
    assert_eq!(line, expected);
    let human = compiler(folder.path(), &["sizes", "a.x"]);
    assert!(text(&human.stdout).starts_with("P V, without a binding; "), "{}", text(&human.stdout));
    assert!(text(&human.stdout).contains("not over RDMA: unbounded"), "{}", text(&human.stdout));
    let binding = "[[binding]]\nprogram = \"P\"\nversion = \"V\"\ndirection = \"backward\"\neligible = []\n";
    std::fs::write(folder.path().join("a.toml"), binding).unwrap();
    let called_by_server = compiler(folder.path(), &["sizes", "a.x", "a.toml"]);
    let shown = text(&called_by_server.stdout);
    assert!(shown.starts_with("P V, called by the server; "), "{shown}{}", text(&called_by_server.stderr));
    std::fs::write(folder.path().join("bad.x"), "struct a { nowhere b; };\n").unwrap();
    assert_eq!(compiler(folder.path(), &["sizes", "bad.x"]).status.code(), Some(1));
}
