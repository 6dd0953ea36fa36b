//! The program `rpcrdma-xdrgen`: its output streams and exit status.

#[path = "support/program.rs"]
mod program;

use std::fs::File;
use std::process::Command;

use program::{compiler, text};

#[test]
fn extract_prints_only_the_xdr() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.txt"), "Prose.\n   /// const A = 1;\n").unwrap();
    std::fs::write(folder.path().join("more.x"), "const B = 2;\n").unwrap();
    let output = compiler(folder.path(), &["extract", "spec.txt", "more.x"]);
    assert_eq!(text(&output.stdout), "const A = 1;\nconst B = 2;\n");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn check_is_silent_about_a_valid_document() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.x"), "struct a { int b; };\n").unwrap();
    let output = compiler(folder.path(), &["check", "good.x"]);
    assert_eq!((text(&output.stdout), text(&output.stderr), output.status.code()), ("", "", Some(0)));
}

#[test]
fn check_prints_all_findings_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.x"), "struct a { int b };\nconst C = 08;\n").unwrap();
    let output = compiler(folder.path(), &["check", "bad.x"]);
    assert_eq!(text(&output.stdout), "");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    assert!(shown.contains("error[X111]") && shown.contains("bad.x:1:17"), "{shown}");
    assert!(shown.contains("error[X102]") && shown.contains("bad.x:2:11"), "{shown}");
}

#[test]
fn warnings_do_not_fail() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("odd.x"), "enum a { B = 1, };\n").unwrap();
    let output = compiler(folder.path(), &["check", "odd.x"]);
    assert!(text(&output.stderr).contains("warning[X131]"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn condition_names_come_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "#ifdef BROKEN\nstruct {\n#endif\nconst A = 1;\n").unwrap();
    assert_eq!(compiler(folder.path(), &["check", "a.x"]).status.code(), Some(0));
    assert_eq!(compiler(folder.path(), &["check", "-D", "BROKEN", "a.x"]).status.code(), Some(1));
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = compiler(folder.path(), &["check", "missing.x"]);
    assert!(text(&output.stderr).starts_with("rpcrdma-xdrgen: missing.x: "), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
    let output = compiler(folder.path(), &["check", "missing.x", "--message-format", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an object");
    assert_eq!((&shown["kind"], &shown["file"]), (&"failure".into(), &"missing.x".into()));
    std::fs::write(folder.path().join("a.x"), "const A = 1;\n").unwrap();
    let unwritable = compiler(folder.path(), &["generate", "a.x", "-o", "a.x/out.rs"]);
    assert!(text(&unwritable.stderr).starts_with("rpcrdma-xdrgen: a.x"), "{}", text(&unwritable.stderr));
    assert_eq!(unwritable.status.code(), Some(2));
}

#[test]
fn invalid_arguments_have_a_separate_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["check"][..], &[], &["compile", "a.x"], &["check", "--nothing", "a.x"]] {
        assert_eq!(compiler(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn invalid_utf8_is_reported_like_other_characters() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("latin.x"), b"const A = 1; /* caf\xe9 */\nconst \xe9 = 2;\n").unwrap();
    let output = compiler(folder.path(), &["check", "latin.x"]);
    assert!(text(&output.stderr).contains("latin.x:2:7"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn generate_prints_rust_or_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my-spec.x"), "struct pair { int left; int right; };\n").unwrap();
    let printed = compiler(folder.path(), &["generate", "my-spec.x"]);
    assert_eq!((text(&printed.stderr), printed.status.code()), ("", Some(0)));
    assert!(text(&printed.stdout).contains("pub struct Pair"), "{}", text(&printed.stdout));

    let silent = |arguments: &[&str]| {
        let output = compiler(folder.path(), arguments);
        assert_eq!((text(&output.stdout), text(&output.stderr), output.status.code()), ("", "", Some(0)));
    };
    silent(&["generate", "my-spec.x", "-o", "deep/out.rs"]);
    silent(&["generate", "my-spec.x", "-o", "folder"]);
    silent(&["generate", "my-spec.x", "-o", "crate", "--crate", "my-spec"]);
    for file in ["deep/out.rs", "folder/my_spec.rs", "crate/src/lib.rs"] {
        let written = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(written.contains("pub struct Pair"), "{file}: {written}");
    }
    assert!(folder.path().join("crate/Cargo.toml").exists());
}

#[test]
fn options_select_names_derives_and_modules() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.x"), "struct One_a { int fieldB; };\n").unwrap();
    std::fs::write(folder.path().join("two.x"), "struct two { One_a ones<3>; };\n").unwrap();
    let run = |more: &[&str]| {
        let output = compiler(folder.path(), &[&["generate", "one.x", "two.x"], more].concat());
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
        text(&output.stdout).to_owned()
    };
    let printed = run(&["--names", "verbatim", "--derive", "serde", "--derive", "::some::Derive"]);
    for expected in
        ["pub mod one {", "pub struct One_a {", "pub fieldB: i32,", "::serde::Serialize", "::some::Derive"]
    {
        assert!(printed.contains(expected), "no {expected} in {printed}");
    }
    run(&["-o", "modules", "--no-std"]);
    run(&["-o", "member", "--crate", "both", "--workspace-crate", "--derive", "arbitrary"]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("modules/mod.rs").contains("pub mod two;"));
    assert!(read("modules/two.rs").contains("use super::one::OneA;"));
    assert!(read("member/src/two.rs").contains("pub struct Two {"));
    let manifest = read("member/Cargo.toml");
    assert!(
        manifest.contains("rpcrdma-runtime.workspace = true") && manifest.contains("[features]"),
        "{manifest}"
    );
    let wrong = compiler(folder.path(), &["generate", "one.x", "--names", "pascal"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn generate_writes_no_files_after_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.x"), "struct a { nowhere b; };\n").unwrap();
    let output = compiler(folder.path(), &["generate", "bad.x", "-o", "out.rs"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("bad.x:1:12"), "{}", text(&output.stderr));
    assert!(!folder.path().join("out.rs").exists());
}

#[test]
fn documents_are_compiled_together_and_types_may_exist_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "struct a { b inner; other more; };\n").unwrap();
    std::fs::write(folder.path().join("b.x"), "struct b { int c; };\n").unwrap();
    let together = ["check", "a.x", "b.x", "--extern", "other=::else_where::Other"];
    assert_eq!(compiler(folder.path(), &together).status.code(), Some(0));
    assert_eq!(compiler(folder.path(), &["check", "a.x"]).status.code(), Some(1));
    assert_eq!(compiler(folder.path(), &["check", "a.x", "--extern", "other"]).status.code(), Some(2));
}

#[test]
fn a_binding_may_have_any_file_name() {
    let folder = tempfile::tempdir().unwrap();
    let document = "program P { version V { void N(void) = 0; } = 1; } = 7;\n";
    std::fs::write(folder.path().join("a.x"), document).unwrap();
    let binding = "[[binding]]\nprogram = \"P\"\nversion = \"V\"\nport = 7\neligible = []\n";
    std::fs::write(folder.path().join("a.binding"), binding).unwrap();
    let output = compiler(folder.path(), &["generate", "a.x", "--binding", "a.binding"]);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
    assert!(text(&output.stdout).contains("Binding for V"), "{}", text(&output.stdout));
}

#[test]
fn a_title_that_would_break_the_manifest_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "const A = 1;\n").unwrap();
    let run = |title: &str| {
        compiler(folder.path(), &["generate", "a.x", "-o", "out", "--crate", "a", "--title", title])
    };
    for title in ["say \"a\"", "two\nlines", "back\\slash"] {
        assert_eq!(run(title).status.code(), Some(1), "{title}");
        assert!(!folder.path().join("out").exists());
    }
    assert_eq!(run("A title.").status.code(), Some(0));
    let manifest = std::fs::read_to_string(folder.path().join("out/Cargo.toml")).unwrap();
    assert!(manifest.ends_with("default-features = false }\n"), "{manifest}");
}

#[test]
fn the_last_line_has_counts_and_an_explain_command() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "enum a { B, };\nstruct c { int d };\nconst E = 08;\n")
        .unwrap();
    let output = compiler(folder.path(), &["check", "a.x"]);
    let last = text(&output.stderr).lines().last().unwrap();
    assert_eq!(last, "rpcrdma-xdrgen: 2 errors, 1 warning; see `rpcrdma-xdrgen explain X111`");
    std::fs::write(folder.path().join("many.x"), "struct a { int b };\n".repeat(250)).unwrap();
    let output = compiler(folder.path(), &["check", "many.x"]);
    let last = text(&output.stderr).lines().last().unwrap();
    assert_eq!(last, "rpcrdma-xdrgen: 250 errors; 50 of them not shown; see `rpcrdma-xdrgen explain X111`");
    assert_eq!(text(&output.stderr).matches("error[X111]").count(), 200);
}

#[test]
fn many_warnings_do_not_hide_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let odd: String = (0..300).map(|number| format!("enum e{number} {{ A{number} = 1, }};\n")).collect();
    std::fs::write(folder.path().join("odd.x"), format!("{odd}struct z {{ int q }};\n")).unwrap();
    for form in ["human", "short", "json"] {
        let output = compiler(folder.path(), &["check", "--message-format", form, "odd.x"]);
        assert_eq!(output.status.code(), Some(1));
        let shown = text(&output.stderr);
        assert!(shown.contains("X111"), "{form}: {shown}");
    }
}

#[test]
fn output_is_deterministic() {
    let folder = tempfile::tempdir().unwrap();
    let members: String = (0..40).map(|number| format!("  M{number} = {number},\n")).collect();
    let arms: String = (0..40).map(|number| format!("  case M{number}: int a{number};\n")).collect();
    let document = format!(
        "enum kind {{\n{members}  M40 = nothing\n}};\nunion u switch (kind k) {{\n{arms}}};\nstruct valid {{ int a; }};\n"
    );
    std::fs::write(folder.path().join("a.x"), document).unwrap();
    let first = compiler(folder.path(), &["generate", "--keep-going", "a.x"]);
    for _ in 0..8 {
        let again = compiler(folder.path(), &["generate", "--keep-going", "a.x"]);
        assert_eq!(text(&again.stderr), text(&first.stderr));
        assert_eq!(text(&again.stdout), text(&first.stdout));
    }
}

#[test]
fn bidirectional_controls_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "/* a \u{202e}b\u{2066} c */\nconst A = 1;\n").unwrap();
    let output = compiler(folder.path(), &["generate", "a.x"]);
    assert_eq!(output.status.code(), Some(0));
    let rust = text(&output.stdout);
    assert!(rust.contains(r"\u{202e}b") && rust.contains(r"\u{2066}"), "{rust}");
    assert!(!rust.contains(['\u{202e}', '\u{2066}']), "{rust}");
}

#[test]
fn warnings_may_be_denied() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("odd.x"), "enum a { B = 1, };\n").unwrap();
    let output = compiler(folder.path(), &["generate", "odd.x", "-o", "odd.rs", "--deny", "warnings"]);
    assert!(text(&output.stderr).contains("error[X131]"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("odd.rs").exists());
}

#[test]
fn short_output_has_one_line_per_finding() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "const A = 1;\nstruct b {\n  int A\n};\n").unwrap();
    let output = compiler(folder.path(), &["check", "--message-format", "short", "a.x"]);
    let expected = "a.x:3:8: error[X111]: a `;` is missing; a `;` ends each declaration and each definition\n\
                    rpcrdma-xdrgen: 1 error; see `rpcrdma-xdrgen explain X111`\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn json_output_has_one_object_per_finding() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("\u{e9}.x"),
        "struct a { int x; };\n/* \u{e9} */ struct a { int y; };\n",
    )
    .unwrap();
    let output = compiler(folder.path(), &["check", "--message-format=json", "\u{e9}.x"]);
    assert_eq!((text(&output.stdout), output.status.code()), ("", Some(1)));
    let lines: Vec<serde_json::Value> =
        text(&output.stderr).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let [found, summary] = lines.as_slice() else { panic!("{lines:?}") };
    let place = |start: u32, line: u32, column: u32, primary: bool, label: &str| {
        serde_json::json!({
            "file": "\u{e9}.x", "byte_start": start, "byte_end": start + 1,
            "line_start": line, "column_start": column, "line_end": line, "column_end": column + 1,
            "is_primary": primary, "label": label,
        })
    };
    let spans = [place(37, 2, 16, true, "defined again"), place(7, 1, 8, false, "first defined here")];
    assert_eq!(found["spans"], serde_json::Value::from(spans.to_vec()));
    for (key, value) in [
        ("kind", "finding"),
        ("code", "X201"),
        ("severity", "error"),
        ("message", "`a` has two different definitions"),
        ("file", "\u{e9}.x"),
    ] {
        assert_eq!(found[key], value);
    }
    assert!(found["help"].as_str().unwrap().contains("rename"));
    let human = compiler(folder.path(), &["check", "\u{e9}.x"]);
    assert!(text(&human.stderr).starts_with(found["rendered"].as_str().unwrap()), "{}", text(&human.stderr));
    assert_eq!(*summary, serde_json::json!({"kind": "summary", "errors": 1, "warnings": 0, "hidden": 0}));
}

#[test]
fn colours_are_used_only_on_terminals_by_default() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "const A = 08;\n").unwrap();
    let coloured = |arguments: &[&str]| {
        let mut all = vec!["check", "a.x"];
        all.extend(arguments);
        text(&compiler(folder.path(), &all).stderr).contains('\u{1b}')
    };
    assert!(coloured(&["--color", "always"]));
    assert!(!coloured(&["--color", "never"]) && !coloured(&[]));
}

#[test]
fn headers_name_the_command_that_generates_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a b.x"), "struct a { int b; };\n").unwrap();
    std::fs::write(folder.path().join("c.x"), "struct c { a d; };\n").unwrap();
    let absolute = folder.path().join("c.x");
    let absolute = absolute.to_str().expect("a UTF-8 path");
    let head = |arguments: &[&str], file: &str| {
        let output = compiler(folder.path(), arguments);
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{arguments:?}");
        let made = std::fs::read_to_string(folder.path().join(file)).unwrap();
        let head: Vec<&str> =
            made.lines().map_while(|line| line.strip_prefix("// ").or(line.strip_prefix("# "))).collect();
        head.join(" ").split_once("Regenerate with ").expect("the command").1.to_owned()
    };
    let given = ["generate", "-o", "out.rs", "--data=borrowed", "a b.x", absolute, "-DN=3", "--no-prelude"];
    let expected =
        "`rpcrdma-xdrgen generate 'a b.x' c.x -D N=3 --output out.rs --data borrowed --no-prelude`.";
    assert_eq!(head(&given, "out.rs"), expected);
    let given =
        ["generate", "a b.x", "--crate", "a", "-o", "out", "--title", "One & two", "--names", "verbatim"];
    let expected =
        "`rpcrdma-xdrgen generate '../a b.x' --output . --names verbatim --crate a --title 'One & two'`.";
    assert_eq!(head(&given, "out/Cargo.toml"), expected);
    let given = ["generate", "a b.x", "c.x", "--output", "."];
    assert_eq!(head(&given, "c.rs"), "`rpcrdma-xdrgen generate 'a b.x' c.x --output .`.");
    let out = "a-crate-in-a-directory-with-a-long-name";
    let given = ["generate", absolute, "a b.x", "--crate", "a", "-o", out, "--title", "One title is enough."];
    let output = compiler(folder.path(), &given);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let command =
        "rpcrdma-xdrgen generate ../c.x '../a b.x' --output . --crate a --title 'One title is enough.'";
    for (file, line) in [
        ("Cargo.toml", format!("# Regenerate with `{command}`.")),
        ("src/lib.rs", format!("//! regenerate with `{command}`.")),
    ] {
        let made = std::fs::read_to_string(folder.path().join(out).join(file)).unwrap();
        assert!(made.lines().any(|made| made == line), "the command is not on one line: {made}");
    }
}

#[test]
fn a_crate_does_not_replace_a_handwritten_package() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "const A = 1;\n").unwrap();
    let manifest = folder.path().join("Cargo.toml");
    std::fs::write(&manifest, "[package]\nname = \"mine\"\n").unwrap();
    let generate = || compiler(folder.path(), &["generate", "a.x", "--crate", "a", "--output", "."]);
    let refused = generate();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("was not generated by rpcrdma-xdrgen"), "{refused:?}");
    assert!(!folder.path().join("src").exists());
    std::fs::remove_file(&manifest).unwrap();
    let source = folder.path().join("src/lib.rs");
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(&source, "").unwrap();
    assert_eq!(generate().status.code(), Some(2));
    std::fs::remove_file(&source).unwrap();
    assert_eq!(generate().status.code(), Some(0));
    assert_eq!(generate().status.code(), Some(0), "an emitted crate is replaced");
}

#[test]
fn the_command_for_standard_input_reads_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("document");
    std::fs::write(&document, "const A = 1;\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rpcrdma-xdrgen"))
        .args(["generate", "-", "--crate", "a", "-o", "out"])
        .current_dir(folder.path())
        .stdin(File::open(&document).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let manifest = std::fs::read_to_string(folder.path().join("out/Cargo.toml")).unwrap();
    assert!(manifest.contains("`rpcrdma-xdrgen generate - --output . --crate a "), "{manifest}");
    assert!(manifest.contains("from `<stdin>`"), "{manifest}");
}
