//! `rpcrdma-xdrgen diff`: the changes between two versions of a protocol, and whether each change affects
//! messages.
//!
//! The comparison of RFC 5666 with RFC 8166 runs if `XDRGEN_CORPUS` names a directory that contains both
//! texts in `rfc/`.

#[path = "support/program.rs"]
mod program;

use program::{compiler, text};
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::Options;
use rpcrdma_xdrgen::diff::{Change, Sign, diff};
use rpcrdma_xdrgen::source::{Source, Sources};

/// Returns each change: its sign, kind and name, and `!` if messages change.
fn changes(old: &str, new: &str) -> Vec<String> {
    let mut sources = Sources::default();
    let (old, new) = (sources.add(Source::new("old.x", old)), sources.add(Source::new("new.x", new)));
    let found = diff(&sources, &[old], &[new], &Options::module("compared"));
    assert_eq!(found.diagnostics, []);
    found.changes.iter().map(shown).collect()
}

fn shown(change: &Change) -> String {
    let sign = match change.sign {
        Sign::Added => '+',
        Sign::Removed => '-',
        Sign::Changed => '~',
    };
    assert_eq!(change.old.is_some(), change.sign != Sign::Added, "{change:?}");
    assert_eq!(change.new.is_some(), change.sign != Sign::Removed, "{change:?}");
    format!("{sign}{} {} {}", if change.wire { "!" } else { "" }, change.what, change.name)
}

const OLD: &str = "\
const LIMIT = 64;
typedef unsigned int number;
enum kind { ASK = 0, TELL = 1 };
struct ask { number what; string words<LIMIT>; };
union body switch (kind which) {
   case ASK: ask question;
   case TELL: opaque answer<64>;
};
program P { version V { body TALK(body) = 1; } = 1; } = 300;
";

#[test]
fn equal_definitions_are_not_reported() {
    let commented = format!("/* Another comment. */\n{}", OLD.replace("; ", ";\n  /* and one more */ "));
    assert_eq!(changes(OLD, &commented), [] as [&str; 0]);
}

#[test]
fn a_bound_with_the_same_text_shows_its_value() {
    let mut sources = Sources::default();
    let new = OLD.replace("LIMIT = 64", "LIMIT = 65");
    let (old, new) = (sources.add(Source::new("old.x", OLD)), sources.add(Source::new("new.x", new)));
    let found = diff(&sources, &[old], &[new], &Options::module("compared"));
    let change = found.changes.iter().find(|change| change.name == "ask.words").expect("the bound changed");
    let texts = [&change.old, &change.new].map(|side| side.as_ref().map_or("", |side| side.text.as_str()));
    let [was, is] =
        ["64", "65"].map(|most| format!("string words<LIMIT> (a string of at most {most} bytes)"));
    assert_eq!(texts, [was.as_str(), is.as_str()]);
}

#[test]
fn each_change_is_one_line_with_its_kind() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("LIMIT = 64", "LIMIT = 65", &["~! constant LIMIT", "~! field ask.words"]),
        ("const LIMIT = 64;", "const LIMIT = 64; const MORE = 1;", &["+ constant MORE"]),
        ("<LIMIT>", "<64>", &["~ field ask.words"]),
        (
            "typedef unsigned int number;\n",
            "typedef int number;\n",
            &["~! typedef number", "~! field ask.what"],
        ),
        ("number what", "unsigned int what", &["~ field ask.what"]),
        ("number what", "number which", &["~ field ask.what"]),
        ("number what; ", "", &["-! field ask.what"]),
        ("number what; ", "number what; hyper when; ", &["+! field ask.when"]),
        ("number what; string words<LIMIT>;", "string words<LIMIT>; number what;", &["~! field ask.what"]),
        ("TELL = 1 }", "TELL = 1, SAY = 2 }", &["+! member kind.SAY"]),
        ("opaque answer<64>", "opaque answer<32>", &["~! arm body.case TELL"]),
        ("opaque answer<64>", "opaque reply<64>", &["~ arm body.case TELL"]),
        (
            "   case TELL: opaque answer<64>;\n",
            "   default: void;\n",
            &["-! arm body.case TELL", "+! arm body.default"],
        ),
        ("(kind which)", "(kind how)", &["~ discriminant body.which"]),
        ("body TALK(body) = 1", "body TALK(ask) = 1", &["~! procedure P.V.TALK"]),
        ("body TALK(body) = 1", "body TALK(body) = 2", &["~! procedure P.V.TALK"]),
        ("body TALK(body) = 1", "body SPEAK(body) = 1", &["~ procedure P.V.TALK"]),
        ("TALK(body) = 1;", "TALK(body) = 1; void BYE(void) = 2;", &["+! procedure P.V.BYE"]),
        ("version V", "version W", &["~ version P.V"]),
        ("} = 1; } = 300", "} = 2; } = 300", &["~! version P.V"]),
        ("program P", "program Q", &["~ program P"]),
        ("} = 300", "} = 301", &["~! program P"]),
    ];
    for (from, to, expected) in cases {
        assert!(OLD.contains(from), "{from}");
        assert_eq!(changes(OLD, &OLD.replacen(from, to, 1)), *expected, "{from} -> {to}");
    }
}

#[test]
fn a_type_with_another_name_and_the_same_layout_is_renamed() {
    let renamed = OLD.replace("ask ", "request ");
    assert_eq!(changes(OLD, &renamed), ["~ struct ask", "~ arm body.case ASK"]);
    let moved = OLD.replace("ask ", "request ").replace("number what;", "hyper what;");
    assert_eq!(changes(OLD, &moved), ["-! struct ask", "~! arm body.case ASK", "+! struct request"]);
    assert_eq!(changes("enum a { B = 1, C = 2 };\n", "enum a { D = 1, C = 2 };\n"), ["~ member a.B"]);
}

#[test]
fn programs_and_their_parts_are_matched_by_number_first() {
    let old = "program P { version V { void A(void) = 1; } = 3; } = 300;\n";
    let new =
        "program P { version V { void B(void) = 1; } = 1; version W { void A(void) = 1; } = 3; } = 300;\n";
    assert_eq!(changes(old, new), ["~ version P.V", "+! version P.V"]);
}

#[test]
fn an_excerpt_of_a_published_definition_is_not_compared() {
    let marked =
        |xdr: &str| format!("Request for Comments: 3530\n\n   /// {}\n", xdr.replace('\n', "\n   /// "));
    let full = "union u switch (int n) { case 1: int x; default: void; };";
    let excerpt = "union u switch (int n) { case 1: int x; };";
    let mut sources = Sources::default();
    let old = sources.add(Source::new("old.txt", marked(&format!("{excerpt}\n{full}"))));
    let new = sources.add(Source::new("new.x", full));
    let found = diff(&sources, &[old], &[new], &Options::module("compared"));
    assert_eq!((found.changes, found.not_compared), (vec![], vec![]));
}

#[test]
fn additions_and_removals_are_listed_with_their_locations() {
    let mut sources = Sources::default();
    let old = sources.add(Source::new("old.x", "struct a { // a comment\n  int x; /* another */ };\n"));
    let new = sources.add(Source::new("new.x", "\nunion u switch (int n) { case 1: int x; };\n"));
    let found = diff(&sources, &[old], &[new], &Options::module("compared"));
    let place = |side: &Option<rpcrdma_xdrgen::diff::Side>| {
        side.as_ref().map(|side| {
            let source = sources.get(side.span.source).expect("a document");
            (source.name().display().to_string(), source.line_column(side.span.start).line, side.text.clone())
        })
    };
    let [removed, added] = found.changes.as_slice() else { panic!("{:?}", found.changes) };
    assert_eq!(place(&removed.old), Some(("old.x".to_owned(), 1, "struct a { int x; };".to_owned())));
    let union = "union u switch (int n) { case 1: int x; };";
    assert_eq!(place(&added.new), Some(("new.x".to_owned(), 2, union.to_owned())));
}

#[test]
fn the_exit_status_reports_changes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.x", "typedef int t;\nstruct s { t x; };\n");
    write("b.x", "typedef int t;\nstruct s { int x; };\nconst A = 1;\n");
    write("bad.x", "struct s { u x; };\n");
    let same = compiler(folder.path(), &["diff", "a.x", "a.x"]);
    assert_eq!((text(&same.stdout), text(&same.stderr), same.status.code()), ("", "", Some(0)));
    let other = compiler(folder.path(), &["diff", "a.x", "b.x"]);
    assert_eq!((text(&other.stderr), other.status.code()), ("", Some(1)));
    let expected = "~ field s.x: t x -> int x (not sent)  [a.x:2, b.x:2]\n\
                    + constant A: 1 (not sent)  [b.x:3]\n2 changes, 0 on the wire\n";
    assert_eq!(text(&other.stdout), expected);
    for arguments in [["diff", "a.x", "bad.x"], ["diff", "a.x", "none.x"]] {
        let trouble = compiler(folder.path(), &arguments);
        assert_eq!((text(&trouble.stdout), trouble.status.code()), ("", Some(2)), "{arguments:?}");
    }
}

#[test]
fn omitted_definitions_are_neither_changed_nor_equal() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("unread.txt", "Request for Comments: 1\n\n/// struct m { int a, b; };\n/// struct k { int b; };\n");
    write("read.x", "struct m { double a[7]; };\nstruct k { int b; };\n");
    let not_compared = "not compared: m (a declaration has several names, unread.txt:3)\n";
    for [old, new] in [["unread.txt", "read.x"], ["read.x", "unread.txt"]] {
        let output = compiler(folder.path(), &["diff", old, new]);
        assert_eq!((text(&output.stdout), output.status.code()), (not_compared, Some(2)), "{old} {new}");
    }
    write("other.x", "struct m { double a[7]; };\nstruct k { hyper b; };\n");
    let output = compiler(folder.path(), &["diff", "unread.txt", "other.x"]);
    let changed = "~ field k.b: int b -> hyper b  [unread.txt:4, other.x:2]\n1 change, 1 on the wire\n";
    assert_eq!((text(&output.stdout), output.status.code()), (&*format!("{not_compared}{changed}"), Some(1)));
    let output = compiler(folder.path(), &["diff", "unread.txt", "read.x", "--message-format", "json"]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let unread = serde_json::json!({
        "kind": "not_compared", "name": "m", "why": "a declaration has several names",
        "file": "unread.txt", "line": 3, "column": 21,
    });
    let summary = serde_json::json!({"kind": "summary", "changes": 0, "wire": 0, "not_compared": 1});
    assert_eq!(lines, [unread, summary]);
}

#[test]
fn json_output_has_one_object_per_change() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "enum e { A = 1 };\n").unwrap();
    std::fs::write(folder.path().join("b.x"), "enum e { A = 1,\n B = 2 };\n").unwrap();
    let output = compiler(folder.path(), &["diff", "a.x", "b.x", "--message-format", "json"]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let place = serde_json::json!({"text": "B = 2", "file": "b.x", "line": 2, "column": 2});
    let change = serde_json::json!({
        "kind": "change", "sign": "added", "what": "member", "name": "e.B", "wire": true, "old": null, "new": place,
    });
    let summary = serde_json::json!({"kind": "summary", "changes": 1, "wire": 1, "not_compared": 0});
    assert_eq!(lines, [change, summary]);
}

#[test]
fn rfc_8166_differs_from_rfc_5666_as_its_appendix_lists() {
    let Some(corpus) = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published documents");
    };
    let output =
        compiler(&corpus.join("rfc"), &["diff", "rfc5666.txt", "rfc8166.txt", "--message-format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("an object");
    let lines: Vec<serde_json::Value> = text(&output.stdout).lines().map(line).collect();
    let changes: Vec<(&str, &str, bool)> = lines
        .iter()
        .filter(|line| line["kind"] == "change")
        .map(|line| {
            let word = |key: &str| line[key].as_str().expect("text");
            (word("sign"), word("name"), line["wire"] == true)
        })
        .collect();
    // RFC 8166 removes the configuration protocol, the typedef `uint32` and the arm for unknown error codes.
    // The range of versions in an error moves to a separate struct. All other definitions are equal.
    let expected = [
        ("changed", "rpc_rdma_error.err_vers", false),
        ("changed", "rpc_rdma_error.case ERR_VERS", false),
        ("removed", "rpc_rdma_error.default", true),
        ("removed", "uint32", false),
        ("removed", "config_rdma_req", true),
        ("removed", "config_rdma_reply", true),
        ("removed", "CONFIG_RDMA_PROG", true),
    ];
    assert_eq!(changes, expected);
    // Every definition of the two documents is compared.
    assert_eq!(lines.len(), expected.len() + 1);
    let compat =
        compiler(&corpus.join("rfc"), &["compat", "rfc5666.txt", "rfc8166.txt", "--message-format", "short"]);
    assert_eq!((text(&compat.stdout), compat.status.code()), ("", Some(1)));
    let shown = text(&compat.stderr).lines().filter(|line| line.contains("error[")).collect::<Vec<_>>();
    let breaches = [
        "rfc5666.txt:1498:15: error[X513]: the program `CONFIG_RDMA_PROG` was removed",
        "rfc8166.txt:1503:14: error[X510]: the default arm of `rpc_rdma_error` was removed",
    ];
    assert!(
        shown.len() == 2 && shown.iter().zip(breaches).all(|(line, breach)| line.starts_with(breach)),
        "{shown:#?}"
    );
    // This project's document contains the definitions of RFC 8166, and adds constants and the struct
    // `rpcrdma_private_data`.
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs/rpcrdma1.txt");
    let ours = ours.to_str().expect("a UTF-8 path");
    let compat = compiler(&corpus.join("rfc"), &["compat", "rfc8166.txt", ours]);
    assert_eq!(compat.status.code(), Some(0), "{}", text(&compat.stderr));
}
