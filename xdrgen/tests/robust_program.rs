//! Runs `rpcrdma-xdrgen` on about a megabyte of random or invalid input. The program must terminate within
//! the limits on time and memory, and count the findings that it does not show.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIZE: usize = 1 << 20;

/// The limit on the address space of the process, including code and stack: 200 MiB.
const LIMIT: usize = 200 << 20;

/// Pseudorandom numbers (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).expect("64 bits")).expect("below a size")
    }
}

/// Returns the documents with this extension: those of the project, and any available published documents.
fn documents(extension: &str) -> Vec<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = vec![here.join("../specs"), here.join("tests")];
    match std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from) {
        Some(corpus) => folders.extend([corpus.join("rfc"), corpus.join("x")]),
        None => not_run::not_run("XDRGEN_CORPUS is not set: no published documents"),
    }
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder of documents"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|of| of == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| std::fs::read(file).expect("a readable document")).collect()
}

fn random(numbers: &mut Numbers) -> Vec<u8> {
    (0..SIZE / 8).flat_map(|_| numbers.next().to_le_bytes()).collect()
}

fn cut_up(numbers: &mut Numbers) -> Vec<u8> {
    let documents = documents("txt");
    let mut text = Vec::new();
    while text.len() < SIZE {
        let document = &documents[numbers.below(documents.len())];
        let from = numbers.below(document.len());
        let to = (from + 1 + numbers.below(4000)).min(document.len());
        text.extend_from_slice(&document[from..to]);
    }
    text
}

fn mutated(numbers: &mut Numbers) -> Vec<u8> {
    let documents = documents("x");
    let mut text = Vec::new();
    while text.len() < SIZE {
        text.extend_from_slice(&documents[numbers.below(documents.len())]);
    }
    let bytes = b"{};=<>/*%#\" \n0aZ[]\0\xff";
    for _ in 0..3000 {
        let at = numbers.below(text.len());
        text[at] = bytes[numbers.below(bytes.len())];
    }
    text
}

/// Returns tens of thousands of errors on one line.
fn one_line(_: &mut Numbers) -> Vec<u8> {
    let mut text = String::from("enum e { A = 1 }; union u switch (e x) { ");
    for number in 0..SIZE / 24 {
        write!(text, "case B{number}: int a; ").expect("writing to a string never fails");
    }
    (text + "};").into_bytes()
}

fn one_member(_: &mut Numbers) -> Vec<u8> {
    format!("enum e{{{}abc}};", "abc,".repeat(SIZE / 4 - 1)).into_bytes()
}

/// Like [`one_member`], but with the shortest possible name of a member.
fn one_letter(_: &mut Numbers) -> Vec<u8> {
    format!("enum e{{{}a}};", "a,".repeat(SIZE / 2 - 1)).into_bytes()
}

/// Returns comments inside comments, for findings of the lexer.
fn comments(_: &mut Numbers) -> Vec<u8> {
    "/* /* */".repeat(SIZE / 8).into_bytes()
}

/// Returns `#elif` lines without an `#if`, for findings of the preprocessor.
fn branches(_: &mut Numbers) -> Vec<u8> {
    "#elif\n".repeat(SIZE / 6).into_bytes()
}

/// Returns definitions with one mistake each, for findings of the parser.
fn commas(_: &mut Numbers) -> Vec<u8> {
    "enum a{b,};".repeat(SIZE / 11).into_bytes()
}

fn one_field(_: &mut Numbers) -> Vec<u8> {
    format!("struct a{{{}}};", "int a;".repeat(SIZE / 6)).into_bytes()
}

#[test]
fn hidden_findings_are_counted() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    // Duplicate names are errors, and comments inside comments are warnings.
    let kinds = [
        (one_member as Make, SIZE / 4 - 1, "error"),
        (one_letter, SIZE / 2 - 1, "error"),
        (one_field, SIZE / 6 - 1, "error"),
        (comments, SIZE / 8, "warning"),
    ];
    for (make, count, what) in kinds {
        std::fs::write(folder.path().join("a.x"), make(&mut Numbers(1))).expect("a scratch file");
        let output = run(folder.path(), &["check", "--message-format", "short"], "a.x");
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(what == "error")), "{shown}");
        let last = shown.lines().last().unwrap_or("");
        assert!(last.starts_with(&format!("rpcrdma-xdrgen: {count} {what}")), "{last}");
        assert!(last.contains(&format!("; {} of them not shown", count - 200)), "{last}");
    }
}

type Make = fn(&mut Numbers) -> Vec<u8>;

/// Runs the program with a limit on its memory. A run that hangs is terminated after 300 seconds, with status
/// 124.
fn run(folder: &Path, task: &[&str], file: &str) -> Output {
    let kilobytes = LIMIT / 1024;
    let script = format!("ulimit -v {kilobytes} && exec timeout 300 \"$0\" \"$@\"");
    Command::new("sh")
        .current_dir(folder)
        .args(["-c", &script, env!("CARGO_BIN_EXE_rpcrdma-xdrgen")])
        .args(task)
        .arg(file)
        .output()
        .expect("a shell")
}

#[cfg(target_os = "linux")]
#[test]
fn a_megabyte_of_any_input_needs_little_memory_and_terminates() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let kinds: [(&str, Make); 9] = [
        ("random", random),
        ("cut", cut_up),
        ("mutated", mutated),
        ("line", one_line),
        ("member", one_member),
        ("field", one_field),
        ("letter", one_letter),
        ("branch", branches),
        ("comma", commas),
    ];
    let path = folder.path();
    std::thread::scope(|scope| {
        for (name, make) in kinds {
            scope.spawn(move || run_on(path, name, &make(&mut Numbers(0x5eed))));
        }
    });
}

#[cfg(target_os = "linux")]
fn run_on(folder: &Path, name: &str, bytes: &[u8]) {
    let emitted = format!("{name}.rs");
    for extension in ["x", "txt", "md"] {
        let file = format!("{name}.{extension}");
        std::fs::write(folder.join(&file), bytes).expect("a scratch file");
        for task in [&["check"][..], &["extract"], &["generate", "--keep-going", "-o", &emitted]] {
            let output = run(folder, task, &file);
            let shown = String::from_utf8_lossy(&output.stderr);
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 1)), "{task:?} {file}: {status:?}\n{shown}");
            assert!(shown.len() < SIZE, "{task:?} {file} prints {} bytes", shown.len());
            // The exit status is 1 if and only if errors are reported.
            assert_eq!(status == Some(1), shown.contains("error["), "{task:?} {file}: {shown}");
        }
    }
}
