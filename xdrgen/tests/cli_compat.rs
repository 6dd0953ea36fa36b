//! `rpcrdma-xdrgen compat` as a program: its output streams and exit status.

#[path = "support/program.rs"]
mod program;

use program::{compiler, text};
use serde_json::json;

/// A published document in which `m` cannot be parsed, so that the kind of `m` is unknown.
const UNREAD: &str = "Request for Comments: 1\n\n/// struct m { int a, b; };\n/// struct k { int b; };\n";

#[test]
fn compat_distinguishes_extensions_breaches_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.x", "enum e { A = 1 };\nunion u switch (e n) { case A: int a; };\n");
    write("more.x", "enum e { A = 1, B = 2 };\nunion u switch (e n) { case A: int a; case B: b b; };\n");
    write("b.x", "struct b { int c; };\n");
    let fine = compiler(folder.path(), &["compat", "base.x", "more.x", "--new", "b.x"]);
    assert_eq!((text(&fine.stderr), fine.status.code()), ("", Some(0)));
    assert_eq!(
        text(&fine.stdout),
        "compatible; additions:\n  value of e: B = 2  (more.x:1)\n  arm of u: case B: b b  (more.x:2)\n  type: b  (b.x:1)\n"
    );
    let breach = compiler(folder.path(), &["compat", "more.x", "base.x", "--base", "b.x"]);
    assert_eq!((text(&breach.stdout), breach.status.code()), ("", Some(1)));
    let shown = text(&breach.stderr);
    assert!(
        shown.contains("error[X504]") && shown.contains("base.x:1:6") && shown.contains("more.x:1:17"),
        "{shown}"
    );
    let trouble = compiler(folder.path(), &["compat", "base.x", "more.x"]);
    assert!(text(&trouble.stderr).contains("error[X200]"), "{}", text(&trouble.stderr));
    assert_eq!(trouble.status.code(), Some(2));
    for arguments in [&["compat", "base.x", "none.x"][..], &["compat", "base.x"]] {
        assert_eq!(compiler(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn json_output_has_one_object_per_addition_and_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.x", "enum e { A = 1 };\nunion u switch (e n) { case A: int a; };\n");
    write("more.x", "enum e { A = 1, B = 2 };\nunion u switch (e n) { case A: int a; case B: void; };\n");
    write("unread.txt", UNREAD);
    write("read.x", "struct m { double a[7]; };\nstruct k { int b; };\n");
    let compat = |base: &str, new: &str| {
        let output = compiler(folder.path(), &["compat", base, new, "--message-format", "json"]);
        let lines = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("an object"));
        (lines.collect::<Vec<serde_json::Value>>(), output.status.code())
    };
    let addition = |(what, name, text, line, column): (&str, &str, &str, u32, u32)| {
        json!({
            "kind": "addition", "what": what, "name": name, "text": text,
            "file": "more.x", "line": line, "column": column,
        })
    };
    let summary = |verdict: &str, [additions, breaches, not_compared]: [u32; 3]| {
        json!({
            "kind": "summary", "verdict": verdict,
            "additions": additions, "breaches": breaches, "not_compared": not_compared,
        })
    };
    let [value, arm] = [("value", "e", "B = 2", 1, 17), ("arm", "u", "case B: void", 2, 44)].map(addition);
    assert_eq!(compat("base.x", "more.x"), (vec![value, arm, summary("extension", [2, 0, 0])], Some(0)));
    assert_eq!(compat("more.x", "base.x"), (vec![summary("breach", [0, 1, 0])], Some(1)));
    let unread = json!({
        "kind": "not_compared", "name": "m", "why": "a declaration has several names",
        "file": "unread.txt", "line": 3, "column": 21,
    });
    assert_eq!(compat("unread.txt", "read.x"), (vec![unread, summary("unknown", [0, 0, 1])], Some(2)));
}

#[test]
fn comparisons_of_documents_with_denied_warnings_have_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.txt", UNREAD);
    write("b.txt", &UNREAD.replace("int b", "hyper b"));
    for (command, changed) in [("compat", "error[X502]"), ("diff", "~ field k.b")] {
        for (arguments, status) in
            [(&["a.txt", "b.txt"][..], 1), (&["a.txt", "b.txt", "--deny", "warnings"], 2)]
        {
            let output = compiler(folder.path(), &[&[command], arguments].concat());
            let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert_eq!(
                (output.status.code(), shown.contains(changed)),
                (Some(status), status == 1),
                "{shown}"
            );
        }
    }
}

#[test]
fn omitted_definitions_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("unread.txt", UNREAD);
    write("read.x", "struct m { double a[7]; };\nstruct k { int b; };\n");
    let shown = "not compared: m (a declaration has several names, unread.txt:3)\n\
                no verdict: some definitions could not be compared; all others are compatible\n";
    for [base, new] in [["unread.txt", "read.x"], ["read.x", "unread.txt"]] {
        let output = compiler(folder.path(), &["compat", base, new]);
        assert_eq!((text(&output.stdout), output.status.code()), (shown, Some(2)), "{base} {new}");
        assert!(text(&output.stderr).contains("warning[X125]"), "{}", text(&output.stderr));
    }
    // A definition that is missing from the new protocol may be one of its omitted definitions, renamed.
    write("more.x", "struct m { double a[7]; };\nstruct k { int b; };\nstruct l { hyper c; };\n");
    let output = compiler(folder.path(), &["compat", "more.x", "unread.txt"]);
    let omitted =
        "not compared: l (no valid definition of the new protocol has this name or layout, more.x:3)";
    assert!(text(&output.stdout).contains(omitted), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(2));
    // A breach in a parsed definition is reported regardless of omitted definitions.
    write("breach.x", "struct m { int a; };\nstruct k { hyper b; };\n");
    let output = compiler(folder.path(), &["compat", "unread.txt", "breach.x"]);
    assert!(text(&output.stderr).contains("error[X502]"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), shown.lines().take(1).collect::<Vec<_>>());
    // A document without definitions cannot be compared.
    write("empty.x", "/* nothing */\n");
    for [base, new] in [["empty.x", "read.x"], ["read.x", "empty.x"]] {
        assert_eq!(compiler(folder.path(), &["compat", base, new]).status.code(), Some(2), "{base} {new}");
    }
}

#[test]
fn an_omitted_procedure_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let program = "program P { version V { void A(void) = 1; broken B(int) = 2; } = 1; } = 300;\n";
    write("base.x", &format!("struct broken {{ int a; }};\n{program}"));
    // In the published document, the definition of `broken` cannot be parsed.
    write(
        "new.txt",
        &format!("Request for Comments: 1\n\n/// struct broken {{ int a, b; }};\n/// {program}"),
    );
    let output = compiler(folder.path(), &["compat", "base.x", "new.txt"]);
    assert!(!text(&output.stderr).contains("X513"), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("not compared: B (no valid procedure of the new protocol"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn compat_accepts_a_document_of_additions_with_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.x", "enum e { A = 1 };\nstruct a { int b; };\nunion u switch (e n) { case A: a a; };\n");
    write("more.x", "enum e { A = 1, B = 2 };\nunion u switch (e n) { case A: a a; case B: a b; };\n");
    assert_eq!(compiler(folder.path(), &["compat", "base.x", "more.x"]).status.code(), Some(2));
    let output = compiler(folder.path(), &["compat", "--extends", "base.x", "more.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
}

#[test]
fn rfc_8276_extends_rfc_7863_by_its_declared_rules() {
    let Some(corpus) = std::env::var_os("XDRGEN_CORPUS").map(std::path::PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published documents");
    };
    let documents = ["compat", "--extends", "rfc7863.txt", "rfc8276.txt", "--rules", "8178"];
    let output = compiler(&corpus.join("rfc"), &documents);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("value of nfs_opnum4: OP_GETXATTR = 72"),
        "{}",
        text(&output.stdout)
    );
}
