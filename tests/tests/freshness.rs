//! Checks that the generated files equal the output of the compiler. If a generated file was edited or is out
//! of date, the error names the command that restores the files.

use std::fs;
use std::path::Path;

use xtask::generate;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a workspace")
}

#[test]
fn generated_code_is_up_to_date() {
    if let Err(message) = generate::check(workspace()) {
        panic!("{message}");
    }
}

fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    let specs = fs::read_dir(workspace().join("specs")).expect("specs/");
    fs::create_dir(copy.path().join("specs")).expect("a directory");
    for entry in specs.map(|entry| entry.expect("an entry")) {
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.path().join("specs").join(entry.file_name())).expect("a copy");
        }
    }
    for (path, text) in generate::files(copy.path()).expect("specs/ compile") {
        let path = copy.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    copy
}

#[test]
fn a_missing_line_is_reported_with_the_command_that_restores_it() {
    let copy = copy();
    generate::check(copy.path()).expect("the generated files are up to date");
    let path = copy.path().join("generated/nfs3/src/lib.rs");
    let text = fs::read_to_string(&path).expect("the file");
    let removed = text.lines().position(|line| line.contains("pub object: NfsFh3")).expect("a field");
    let kept: Vec<&str> =
        text.lines().enumerate().filter(|(at, _)| *at != removed).map(|(_, line)| line).collect();
    fs::write(&path, kept.join("\n") + "\n").expect("the file");
    let message = generate::check(copy.path()).expect_err("a line is missing");
    assert!(message.contains("cargo xtask generate"), "{message}");
    assert!(message.contains(&format!("generated/nfs3/src/lib.rs:{}:", removed + 1)), "{message}");
    assert!(message.contains("pub object: NfsFh3"), "{message}");
}

#[test]
fn a_missing_file_is_reported() {
    let copy = copy();
    fs::remove_file(copy.path().join("generated/mount3/Cargo.toml")).expect("the file");
    let message = generate::check(copy.path()).expect_err("a file is missing");
    assert!(message.contains("generated/mount3/Cargo.toml"), "{message}");
}

#[test]
fn a_changed_document_is_compiled_again() {
    let copy = copy();
    let path = copy.path().join("specs/rdma-conf.txt");
    let text = fs::read_to_string(&path).expect("the document");
    fs::write(&path, text.replace("100417", "100418")).expect("the document");
    let message = generate::check(copy.path()).expect_err("the number differs");
    assert!(message.contains("generated/rdma-conf/src/lib.rs"), "{message}");
    assert!(message.contains("100418"), "{message}");
}

#[test]
fn an_error_in_a_document_has_a_location() {
    let copy = copy();
    let path = copy.path().join("specs/rdma-conf.txt");
    let text = fs::read_to_string(&path).expect("the document");
    fs::write(&path, text.replace("uint32 align;", "uint33 align;")).expect("the document");
    let message = generate::check(copy.path()).expect_err("an unknown type");
    assert!(message.contains("uint33") && message.contains("specs/rdma-conf.txt:"), "{message}");
}
