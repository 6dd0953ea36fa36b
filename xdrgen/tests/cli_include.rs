//! `#include "x"`: the files that the program reads, their order, and the findings about included files.

#[path = "support/program.rs"]
mod program;

use std::path::Path;
use std::process::{Command, Output};

use program::{compiler, text};

fn including(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be created");
        std::fs::write(path, content).expect("the file can be written");
    }
    folder
}

#[test]
fn included_files_are_relative_to_the_file_that_includes_them_and_are_read_once() {
    let folder = including(&[
        (
            "specs/a.x",
            "#include \"sub/b.x\"\n#include \"c.x\"\n#include <d.x>\n#include \"e.h\"\nstruct a { b one; c two; };\n",
        ),
        ("specs/sub/b.x", "# include \"../c.x\"\n#include \"../a.x\"\nstruct b { c two; };\n"),
        ("specs/c.x", "#ifdef MORE\n#include \"nowhere.x\"\n#endif\ntypedef int c;\n"),
    ]);
    let output = compiler(folder.path(), &["check", "specs/a.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
    let output = compiler(folder.path(), &["check", "-D", "MORE", "specs/a.x"]);
    assert!(text(&output.stderr).contains("warning[X004]"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no such file: `specs/nowhere.x`"), "{}", text(&output.stderr));
    let output = compiler(folder.path(), &["generate", "specs/a.x"]);
    let code = text(&output.stdout);
    for module in ["pub mod a {", "pub mod b {", "pub mod c {"] {
        assert_eq!(code.matches(module).count(), 1, "{module}\n{code}");
    }
}

#[test]
fn a_version_of_a_protocol_has_the_files_that_it_includes() {
    let folder = including(&[
        ("old/a.x", "#include \"b.x\"\nstruct a { b one; };\n"),
        ("old/b.x", "typedef int b;\n"),
        ("new/a.x", "#include \"b.x\"\nstruct a { b one; };\n"),
        ("new/b.x", "typedef hyper b;\n"),
    ]);
    let output = compiler(folder.path(), &["diff", "old/a.x", "new/a.x"]);
    assert!(text(&output.stdout).contains("typedef int b; -> typedef hyper b;"), "{}", text(&output.stdout));
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(1)));
}

#[test]
fn a_listed_document_replaces_an_included_file_elsewhere() {
    let folder =
        including(&[("a.x", "#include \"b.x\"\nstruct a { b one; };\n"), ("sub/b.x", "typedef int b;\n")]);
    let output = compiler(folder.path(), &["check", "a.x", "sub/b.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
    let output = compiler(folder.path(), &["check", "a.x"]);
    assert!(text(&output.stderr).contains("error[X004]"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

#[cfg(unix)]
fn limited(folder: &Path) -> Output {
    let script = "ulimit -v 1000000; exec timeout 10 \"$0\" check a.x";
    let arguments = ["-c", script, env!("CARGO_BIN_EXE_rpcrdma-xdrgen")];
    Command::new("sh").current_dir(folder).args(arguments).output().expect("a shell")
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    let folder = including(&[("sub/b.x", "typedef int b;\n")]);
    let made = Command::new("mkfifo").arg(folder.path().join("fifo")).status().expect("mkfifo");
    assert!(made.success());
    for name in ["fifo", "/dev/zero", "/dev/stdin", ".", "sub"] {
        std::fs::write(folder.path().join("a.x"), format!("#include \"{name}\"\nconst A = 1;\n")).unwrap();
        let output = limited(folder.path());
        let shown = text(&output.stderr);
        assert!(shown.contains(&format!("error[X004]: cannot read the included file `{name}`")), "{shown}");
        assert!(shown.contains("is not a regular file"), "{shown}");
        assert_eq!(output.status.code(), Some(1), "{shown}");
    }
    for (name, expected) in
        [("-", "`-`\n"), ("none/b.x", "`none/b.x`\n"), ("", "an included file has no name\n")]
    {
        std::fs::write(folder.path().join("a.x"), format!("#include \"{name}\"\nconst A = 1;\n")).unwrap();
        let output = limited(folder.path());
        assert!(text(&output.stderr).contains("[X004]: "), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_an_error_with_the_reason() {
    let folder = including(&[("a.x", "#include \"loop\"\nconst A = 1;\n")]);
    std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
    let output = compiler(folder.path(), &["check", "a.x"]);
    let shown = text(&output.stderr);
    assert!(shown.contains("error[X004]") && shown.contains("`loop`: "), "{shown}");
    assert_eq!(output.status.code(), Some(1), "{shown}");
}

#[test]
fn files_that_are_too_long_or_not_utf8_are_errors() {
    let folder = including(&[("a.x", "#include \"b.x\"\nconst A = 1;\n"), ("sub/b.x", "const B = 1;\n")]);
    let cases: [(&[u8], &str); 2] =
        [(&vec![b' '; (16 << 20) + 1], "longer than 16 MiB"), (b"/* \xE9 */ const B = 1;\n", "not UTF-8")];
    for (content, expected) in cases {
        std::fs::write(folder.path().join("b.x"), content).unwrap();
        let output = compiler(folder.path(), &["check", "a.x", "sub/b.x"]);
        assert!(text(&output.stderr).contains("error[X004]"), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn c_files_are_skipped() {
    let lines: String =
        ["b.h", "b.c", "b.cc", "b.cpp", "b.hpp", "B.H"].map(|name| format!("#include \"{name}\"\n")).concat();
    let text_of_a = format!("%#include \"b.x\"\n{lines}const A = 1;\n");
    let wrong = "struct b { nothing c; };\n";
    let names = ["b.x", "b.h", "b.c", "b.cc", "b.cpp", "b.hpp", "B.H"];
    let mut files = vec![("a.x", text_of_a.as_str())];
    files.extend(names.map(|name| (name, wrong)));
    let output = compiler(including(&files).path(), &["check", "a.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
    // A missing C file is not reported either.
    let output = compiler(including(&files[..1]).path(), &["check", "a.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
}

#[test]
fn an_included_document_precedes_its_extension() {
    let folder = including(&[
        ("base.x", "enum e { A = 0 };\nunion u switch (e k) { case A: int x; };\n"),
        (
            "ext.x",
            "#include \"base.x\"\nenum e { A = 0, B = 1 };\nunion u switch (e k) { case A: int x; case B: int y; };\n",
        ),
    ]);
    for files in [&["ext.x"][..], &["base.x", "ext.x"], &["ext.x", "base.x"]] {
        let output = compiler(folder.path(), &[&["check"], files].concat());
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{files:?}");
    }
    let added =
        "compatible; additions:\n  value of e: B = 1  (ext.x:2)\n  arm of u: case B: int y  (ext.x:3)\n";
    for arguments in [&["compat"][..], &["compat", "--extends"]] {
        let output = compiler(folder.path(), &[arguments, &["base.x", "ext.x"]].concat());
        assert_eq!((text(&output.stdout), text(&output.stderr)), (added, ""), "{arguments:?}");
        assert_eq!(output.status.code(), Some(0));
    }
    let output = compiler(folder.path(), &["diff", "base.x", "ext.x"]);
    assert!(text(&output.stdout).contains("+ member e.B: "), "{}", text(&output.stdout));
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(1)));
}

#[test]
fn a_file_beyond_the_limit_is_an_error() {
    let names: Vec<String> = (0..1001).map(|at| format!("f{at}.x")).collect();
    let all: String = names.iter().map(|name| format!("#include \"{name}\"\n")).collect();
    let mut files = vec![("a.x", all.as_str())];
    files.extend(names.iter().map(|name| (name.as_str(), "/* nothing */\n")));
    let output = compiler(including(&files).path(), &["check", "--message-format", "short", "a.x"]);
    let shown = text(&output.stderr);
    assert!(shown.contains("a.x:1001:11: error[X004]: cannot read the included file `f1000.x`"), "{shown}");
    let output = compiler(including(&files).path(), &["check", "a.x"]);
    let shown = text(&output.stderr);
    assert!(shown.contains("a run includes at most 1000 files"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn missing_names_are_shared_among_missing_files() {
    let document =
        "#include \"b.x\"\n#include \"c.x\"\nstruct a { t1 f1; t2 f2; t3 f3; t4 f4; t5 f5; t6 f6; };\n";
    let folder = including(&[("a.x", document)]);
    for arguments in [&["check", "a.x"][..], &["generate", "--keep-going", "a.x"]] {
        let output = compiler(folder.path(), arguments);
        let shown = text(&output.stderr);
        assert_eq!(shown.matches("error[X004]").count(), 2, "{shown}");
        assert_eq!(shown.matches("undefined without that file, and 2 more").count(), 2, "{shown}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[cfg(unix)]
#[test]
fn links_to_directories_are_followed() {
    let folder = including(&[
        ("other/sub/b.x", "typedef int b;\n"),
        ("other/c.x", "typedef int c;\n"),
        ("here/c.x", "typedef int wrong;\n"),
        ("here/a.x", "#include \"link/../c.x\"\n#include \"link/b.x\"\nstruct a { b one; c two; };\n"),
    ]);
    std::os::unix::fs::symlink("../other/sub", folder.path().join("here/link")).unwrap();
    let output = compiler(folder.path(), &["check", "here/a.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
    // `c.x` and `link/../c.x` are different files, and both are read.
    let both = "#include \"c.x\"\n#include \"link/../c.x\"\nstruct a { wrong one; c two; };\n";
    std::fs::write(folder.path().join("here/a.x"), both).unwrap();
    let output = compiler(folder.path(), &["check", "here/a.x"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
}

#[test]
fn documents_that_include_one_another_come_in_the_order_of_their_includes() {
    let folder = including(&[
        ("a.x", "#include \"b.x\"\n#include \"c.x\"\nstruct a { b one; c two; };\n"),
        ("b.x", "#include \"c.x\"\n#include \"a.x\"\ntypedef c b;\n"),
        ("c.x", "#include \"b.x\"\ntypedef int c;\n"),
        ("d.x", "typedef int d;\n"),
    ]);
    let output = compiler(folder.path(), &["generate", "d.x", "a.x"]);
    let code = text(&output.stdout);
    assert!(code.contains("`d.x`, `c.x`, `b.x` and `a.x`"), "{}", text(&output.stderr));
}

#[test]
fn conditions_on_names_of_included_files_are_reported() {
    let document = "#ifndef A_X\n#define A_X\n#include \"b.x\"\n#ifdef BIG\ntypedef hyper a;\n#else\ntypedef int a;\n#endif\n#endif\n";
    let folder = including(&[
        ("a.x", document),
        ("b.x", "#include \"c.x\"\ntypedef int b;\n"),
        ("c.x", "#ifndef C_X\n#define C_X\n#define BIG 1\ntypedef int c;\n#endif\n"),
    ]);
    let output = compiler(folder.path(), &["check", "--message-format", "short", "a.x"]);
    let shown = text(&output.stderr);
    assert!(
        shown.starts_with(
            "a.x:4:8: warning[X105]: a condition tests a name that only an included file defines"
        ),
        "{shown}"
    );
    assert!(shown.contains("`-D BIG`"), "{shown}");
    assert_eq!((shown.matches("X105]").count(), output.status.code()), (1, Some(0)), "{shown}");
    let output = compiler(folder.path(), &["check", "-D", "BIG", "a.x"]);
    assert!(!text(&output.stderr).contains("X105"), "{}", text(&output.stderr));
    // A macro of an included file is not expanded, so its use is an error.
    let folder =
        including(&[("a.x", "#include \"b.x\"\nstruct a { HDR };\n"), ("b.x", "#define HDR int h;\n")]);
    assert_eq!(compiler(folder.path(), &["check", "a.x"]).status.code(), Some(1));
}
