//! `xdrgen compat` as a program: what goes to which stream, and the exit status.

use std::path::Path;
use std::process::{Command, Output};

fn xdrgen(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xdrgen"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn compat_tells_an_extension_from_a_breach_and_both_from_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.x", "enum e { A = 1 };\nunion u switch (e n) { case A: int a; };\n");
    write("more.x", "enum e { A = 1, B = 2 };\nunion u switch (e n) { case A: int a; case B: b b; };\n");
    write("b.x", "struct b { int c; };\n");
    let fine = xdrgen(folder.path(), &["compat", "base.x", "more.x", "--new", "b.x"]);
    assert_eq!((text(&fine.stderr), fine.status.code()), ("", Some(0)));
    assert_eq!(
        text(&fine.stdout),
        "compatible; this is added:\n  value of e: B = 2  (more.x:1)\n  arm of u: case B: b b  (more.x:2)\n  type: b  (b.x:1)\n"
    );
    let breach = xdrgen(folder.path(), &["compat", "more.x", "base.x", "--base", "b.x"]);
    assert_eq!((text(&breach.stdout), breach.status.code()), ("", Some(1)));
    let shown = text(&breach.stderr);
    assert!(
        shown.contains("error[X504]") && shown.contains("base.x:1:6") && shown.contains("more.x:1:17"),
        "{shown}"
    );
    let trouble = xdrgen(folder.path(), &["compat", "base.x", "more.x"]);
    assert!(text(&trouble.stderr).contains("error[X200]"), "{}", text(&trouble.stderr));
    assert_eq!(trouble.status.code(), Some(2));
    for arguments in [&["compat", "base.x", "none.x"][..], &["compat", "base.x"]] {
        assert_eq!(xdrgen(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn compat_takes_a_document_of_additions_with_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.x", "enum e { A = 1 };\nstruct a { int b; };\nunion u switch (e n) { case A: a a; };\n");
    write("more.x", "enum e { A = 1, B = 2 };\nunion u switch (e n) { case A: a a; case B: a b; };\n");
    assert_eq!(xdrgen(folder.path(), &["compat", "base.x", "more.x"]).status.code(), Some(2));
    let output = xdrgen(folder.path(), &["compat", "--extends", "base.x", "more.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
}
