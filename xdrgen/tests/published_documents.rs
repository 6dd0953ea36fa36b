//! Published RFCs cannot be corrected: definitions with errors are omitted with a warning, and additions to
//! other documents are applied. An undefined name that another document may define, and a program that loses
//! a procedure, remain errors. In any other document, mistakes are errors, and additions are only comments.
//! With `keep_going`, the valid definitions of any document are emitted.

use rpcrdma_xdrgen::diag::{has_errors, render};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, generate, ir};

/// The line that marks a document as published. It is at the end, so that positions are easy to count.
const NUMBER: &str = "\n\nRequest for Comments: 9999\n";

/// Returns XDR in the form of an RFC, with `///` marks and an RFC number.
fn published(xdr: &str) -> String {
    let marked: String = xdr.lines().map(|line| format!("   /// {line}\n")).collect();
    format!("1.  Protocol\n\n{marked}{NUMBER}")
}

fn sources(documents: &[String]) -> Sources {
    let mut sources = Sources::default();
    for (index, text) in documents.iter().enumerate() {
        sources.add(Source::new(format!("rfc{index}.txt"), text.as_str()));
    }
    sources
}

fn places(sources: &Sources, found: &[rpcrdma_xdrgen::diag::Diagnostic]) -> (Vec<String>, String) {
    let place = |found: &rpcrdma_xdrgen::diag::Diagnostic| {
        let at = sources.get(found.span.source).expect("a document of the run").line_column(found.span.start);
        format!("{} {}:{}", found.code(), at.line, at.column)
    };
    (found.iter().map(place).collect(), render(found, sources, false))
}

fn types(module: &ir::Module) -> Vec<&str> {
    module.types.iter().map(|one| one.name.as_str()).collect()
}

/// Asserts that the findings are only the expected warnings, and that only the types in `left` remain.
#[track_caller]
fn leaves(xdr: &str, expected: &[&str], left: &[&str]) {
    let sources = sources(&[published(xdr)]);
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    let (places, text) = places(&sources, &found);
    assert_eq!(places, expected, "{text}");
    assert!(!has_errors(&found), "{text}");
    assert_eq!(types(&module), left, "{text}");
    assert!(!generate(&sources, &Options::module("out")).files.is_empty());
}

#[test]
fn unparsable_definitions_are_omitted_with_their_dependents() {
    let text = "struct a { int x };\nstruct b { int y; };\nstruct c { a x<>; b y; };\ntypedef c *d;\nstruct e { b z; };\n";
    leaves(text, &["X111 3:24", "X200 5:19", "X200 6:16"], &["b", "e"]);
}

#[test]
fn several_declarations_of_an_arm_are_a_struct() {
    let text = "enum e { A, B };\nunion u switch (e n) {\ncase A:\n   int x; /* one */\n   opaque y[2];\n   \
                u *z;\ncase B: void;\ndefault: int w;\n};\n";
    leaves(text, &["X116 7:11"], &["e", "u", "u.a"]);
    let sources = sources(&[published(text)]);
    let (module, _) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    let body = &module.types[2].body;
    let ir::Body::Struct(fields) = body else { panic!("{body:?}") };
    let fields: Vec<_> =
        fields.iter().map(|field| (field.name.as_str(), field.docs.comments.len())).collect();
    assert_eq!(fields, [("x", 1), ("y", 0), ("z", 0)]);
    // The result is the same without `///` marks.
    let indented: String = text.lines().map(|line| format!("   {line}\n")).collect();
    let mut sources = Sources::default();
    sources.add(Source::new("rfc.txt", format!("1.  Protocol\n\n{indented}{NUMBER}")));
    let (other, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    assert_eq!((types(&other), found.len()), (vec!["e", "u", "u.a"], 1), "{found:?}");
    // A union with an invalid declaration in an arm is omitted.
    leaves("union u switch (int n) { case 1: int x; int; };\nstruct a { int b; };\n", &["X100 3:48"], &["a"]);
    leaves(
        "union u switch (int n) { case 1: void; int x; };\nstruct a { int b; };\n",
        &["X116 3:47"],
        &["a"],
    );
}

#[test]
fn enum_members_are_omitted_with_their_enum() {
    let text = "enum e { A = 1, B == 2 };\nunion u switch (int d) { case A: int x; default: void; };\nstruct s { int y; };\n";
    leaves(text, &["X100 3:27", "X202 4:38"], &["s"]);
}

#[test]
fn a_missing_comma_loses_no_definition() {
    leaves("enum e {\n A = 1\n B = 2\n};\n", &["X119 4:14"], &["e"]);
}

#[test]
fn invalid_definitions_are_omitted_once() {
    let users: String =
        (0..100).map(|n| format!("struct u{n} {{ wrong a; u{} *b; }};\n", (n + 1) % 100)).collect();
    let text = format!("struct wrong {{ int x; int x; }};\n{users}struct right {{ int a; }};\n");
    let sources = sources(&[published(&text)]);
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    assert!(!has_errors(&found));
    assert_eq!(types(&module), ["right"]);
}

#[test]
fn a_name_that_extends_another_is_distinct() {
    leaves("enum rdma_proc { A = 0 };\nstruct m { rpcrdma_proc p; };\n", &["X200 4:19"], &["rdma_proc", "m"]);
}

#[test]
fn a_name_of_another_document_is_an_error() {
    let sources = sources(&[published("struct m { stateid4 s; };\nstruct ff_stateid4 { int a; };\n")]);
    let generated = generate(&sources, &Options::module("out"));
    assert!(generated.has_errors() && generated.files.is_empty());
    assert_eq!(places(&sources, &generated.diagnostics).0, ["X200 3:19"]);
}

const BASE: &str = "/* Colours. */\nenum colour { RED = 1, GREEN = 2 };\nstruct shade { int depth; };\n\
                    union paint switch (colour c) {\n case RED: shade red;\n default: void;\n};\n";

/// Like [`BASE`], but typedefs define the enum and the union.
const TYPEDEFS: &str = "typedef enum { RED = 1, GREEN = 2 } colour;\nstruct shade { int depth; };\n\
                        typedef union switch (colour c) {\n case RED: shade red;\n default: void;\n} paint;\n";

const EXTENSION: &str = "/* Following lines are to be added to enum colour */\n/*\n\
                         BLUE = 3, /* of the sky */\nBLACK = 4,\n*/\n\
                         /* Following lines are to be added to paint */\n/*\ncase BLUE: hyper blue;\n\
                         case BLACK: void;\n*/\n\nconst DEPTH = 8;\n";

#[test]
fn an_extension_adds_to_its_base() {
    // The order of the documents does not matter.
    for documents in [[BASE, EXTENSION], [EXTENSION, BASE], [TYPEDEFS, EXTENSION]] {
        let documents = documents.map(published);
        let sources = sources(&documents);
        let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
        let (places, text) = places(&sources, &found);
        // The addition contains a comment. For other compilers, the first `*/` ends both comments.
        assert_eq!(places, ["X104 5:18"], "{text}");
        let body =
            |name: &str| &module.types.iter().find(|one| one.name == name).expect("a type of the base").body;
        let ir::Body::Enum(members) = body("colour") else { panic!("{module:?}") };
        let members: Vec<(&str, i32)> =
            members.iter().map(|member| (member.name.as_str(), member.value)).collect();
        assert_eq!(members, [("RED", 1), ("GREEN", 2), ("BLUE", 3), ("BLACK", 4)]);
        let ir::Body::Union(union) = body("paint") else { panic!("{module:?}") };
        assert_eq!(union.arms.len(), 4);
        assert_eq!(module.consts[0].name, "DEPTH");
        let docs =
            &module.types.iter().find(|one| one.name == "paint").expect("a type of the base").docs.comments;
        assert!(
            docs.last().is_some_and(|last| last.ends_with("(1. Protocol) adds BLUE, BLACK.")),
            "{docs:?}"
        );
    }
}

#[test]
fn existing_members_are_not_additions() {
    let again = "/* to be added to enum colour */\n/*\n GREEN = 2,\n*/\n/* to be added to paint */\n/*\ncase RED: shade red;\n*/\n";
    let sources = sources(&[published(BASE), published(again)]);
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    assert!(found.is_empty(), "{}", render(&found, &sources, false));
    assert_eq!(types(&module), ["colour", "shade", "paint"]);
}

#[test]
fn an_added_arm_may_add_labels_to_an_existing_arm() {
    let more = "/* to be added to enum colour */\n/*\n BLUE = 3\n*/\n/* to be added to paint */\n/*\ncase RED:\n\
                case BLUE: shade red;\n*/\n";
    let sources = sources(&[published(BASE), published(more)]);
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    assert!(found.is_empty(), "{}", render(&found, &sources, false));
    let ir::Body::Union(union) = &module.types[2].body else { panic!("{module:?}") };
    assert_eq!(union.arms.iter().map(|arm| arm.labels.len()).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn additions_in_unpublished_documents_are_ignored() {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", format!("{BASE}{}", EXTENSION.replace("/* of the sky */", ""))));
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
    let ir::Body::Enum(members) = &module.types[0].body else { panic!("{module:?}") };
    // In an unpublished document, the additions are only a comment. The union needs no arm for GREEN, since
    // it has a default arm.
    assert_eq!((members.len(), found.len()), (2, 0));
}

const WRONG: &str = "struct a { int x };\nstruct b { a x; b2 y; };\nstruct b2 { int z; };\nstruct c { missing m; };\n\
                     struct d { missing m; };\nstruct e { b2 z; };\nprogram P { version V { void N(void) = 0; \
                     e GOOD(b2) = 1; d BAD(c) = 2; } = 1; } = 0x20000001;\n";

#[test]
fn keep_going_omits_invalid_definitions() {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", WRONG));
    let plain = generate(&sources, &Options::module("out"));
    assert!(plain.has_errors() && plain.files.is_empty());
    let options = Options { keep_going: true, ..Options::module("out") };
    let generated = generate(&sources, &options);
    let (diagnostics, summary) = (&generated.diagnostics, generated.summary);
    let (places, text) = places(&sources, diagnostics);
    let errors: Vec<_> = diagnostics
        .iter()
        .zip(&places)
        .filter(|(found, _)| found.is_error())
        .map(|(_, place)| place)
        .collect();
    assert_eq!(errors, ["X111 1:17", "X200 4:12"], "{text}");
    // Each dependent of an omitted definition is omitted with a warning.
    for place in ["X200 2:12", "X200 5:12"] {
        assert!(places.iter().any(|one| one == place), "no {place} in {text}");
    }
    assert_eq!((summary.types, summary.procedures), (2, 2), "{text}");
    let code = &generated.files[0].1;
    assert!(code.contains("pub struct B2") && code.contains("pub struct E") && code.contains("fn good"));
    assert!(!code.contains("pub struct B ") && !code.contains("fn bad"));
}

const AGAIN: &str = "enum op { GET = 3, RECALL = 4, ILLEGAL = 10044 };\nstruct got { int x; };\n\
                     union res switch (unsigned resop) { case GET: got a; case RECALL: int b; };\n\
                     union kind switch (op what) { case GET: got link; case RECALL: void; };\n\
                     union res switch (unsigned resop) { case GET: got a; case RECALL: int b; case ILLEGAL: int c; };\n\
                     union kind switch (op what) { case GET: got link; case RECALL: void; default: void; };\n";

/// RFC 3530 defines `nfs_cb_resop4` and `createtype4` in this way: an excerpt, and the full definition at the
/// end.
#[test]
fn the_complete_definition_is_used_not_an_excerpt() {
    let arms = |text: &str| {
        let sources = sources(&[published(text)]);
        let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, &Options::module("out"));
        let (places, shown) = places(&sources, &found);
        let of = |name: &str| match &module.types.iter().find(|one| one.name == name).expect(name).body {
            ir::Body::Union(union) => union.arms.len(),
            other => panic!("{other:?}"),
        };
        ((of("res"), of("kind")), places, shown)
    };
    let (complete, places, shown) = arms(AGAIN);
    assert_eq!((complete, places), ((3, 3), vec!["X201 5:14".to_owned(), "X201 6:14".to_owned()]), "{shown}");
    // The order of the definitions does not matter.
    let lines: Vec<&str> = AGAIN.lines().collect();
    let turned = [lines[0], lines[1], lines[4], lines[5], lines[2], lines[3]].join("\n");
    assert_eq!(arms(&turned).0, (3, 3));
}

/// As in RFC 3010, which defines `PUTFH4args` twice, one of the two definitions uses an undefined name.
#[test]
fn the_valid_one_of_two_definitions_is_used() {
    let text = "typedef opaque nfs_fh4<128>;\nstruct putfh { nfs4_fh object; };\nstruct putfh { nfs_fh4 object; };\n\
                program P { version V { void COMPOUND(putfh) = 1; } = 4; } = 7;\n";
    let sound_last: Vec<&str> = text.lines().collect();
    let sound_first = [sound_last[0], sound_last[2], sound_last[1], sound_last[3]].join("\n");
    for text in [text, &sound_first] {
        let sources = sources(&[published(text)]);
        let generated = generate(&sources, &Options::module("out"));
        let shown = render(&generated.diagnostics, &sources, false);
        assert!(!generated.has_errors() && generated.summary.procedures == 1, "{shown}");
        assert!(generated.files[0].1.contains("pub object: NfsFh4"), "{shown}");
    }
}

#[test]
fn a_program_that_loses_a_procedure_is_an_error() {
    let text =
        "struct a { int x };\nprogram P { version V { void GET(a) = 1; void PUT(int) = 2; } = 4; } = 7;\n";
    let sources = sources(&[published(text)]);
    let generated = generate(&sources, &Options::module("out"));
    let (places, shown) = places(&sources, &generated.diagnostics);
    assert_eq!(places, ["X111 3:24", "X200 4:41"], "{shown}");
    assert!(generated.has_errors() && generated.files.is_empty(), "{shown}");
    assert!(shown.contains("--keep-going"), "{shown}");
    let options = Options { keep_going: true, ..Options::module("out") };
    let generated = generate(&sources, &options);
    assert!(generated.has_errors() && generated.summary.procedures == 1);
    assert!(!generated.files.is_empty());
}

#[test]
fn keep_going_keeps_valid_definitions_of_a_macro() {
    let emits = |body: &str| {
        let mut sources = Sources::default();
        sources.add(Source::new("a.x", format!("#define ALL {body}\nALL\n")));
        let options = Options { keep_going: true, ..Options::module("out") };
        let files = rpcrdma_xdrgen::generate(&sources, &options).files;
        ["Good", "Bad", "User"].map(|name| files[0].1.contains(&format!(" {name} {{")))
    };
    for bad in ["struct bad { missing a; };", "struct bad { int a<-1>; };", "enum bad { A = 1, A = 2 };"] {
        let user = "struct user { good g; };";
        assert_eq!(emits(&format!("struct good {{ int a; }}; {user} {bad}")), [true, false, true], "{bad}");
        assert_eq!(emits(&format!("{bad} struct good {{ int a; }}; {user}")), [true, false, true], "{bad}");
        let user = "struct user { bad b; };";
        assert_eq!(emits(&format!("{user} struct good {{ int a; }}; {bad}")), [true, false, false], "{bad}");
    }
}
