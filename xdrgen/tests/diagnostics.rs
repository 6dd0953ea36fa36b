//! Every fixture in `tests/diagnostics/` has one finding, at the expected position and with the expected
//! text. Every code of the compiler has a page in `DIAGNOSTICS.md`, a row in `docs/diagnostics.md` and a
//! fixture.
//!
//! A fixture is named after its code. Its first line contains `expect:`, and its first three lines may
//! contain the other keys:
//!
//! - `expect: X212 4:8`: the code of the only finding, its line and its column; `expect: X401 nowhere` if
//!   the finding has no position in a document.
//! - `with: base.x other.x`: documents that are compiled together with the fixture. A `.toml` fixture is
//!   a binding file for these documents.
//! - `args: generate --crate 9p`: the arguments to use instead of `check`.
//!
//! `XDRGEN_BLESS=1 cargo test -p rpcrdma-xdrgen --test diagnostics` updates the `.stderr` files and
//! the table in `docs/diagnostics.md`, and sorts the pages in `DIAGNOSTICS.md`.

#[path = "support/pieces.rs"]
mod pieces;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pieces::PIECES;
use rpcrdma_xdrgen::Options;
use rpcrdma_xdrgen::compat::{Rules, compat_by};
use rpcrdma_xdrgen::diag::{self, Diagnostic};
use rpcrdma_xdrgen::source::{Source, Sources};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

fn compiler(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma-xdrgen"))
        .current_dir(folder())
        .args(arguments)
        .output()
        .expect("the program runs")
}

struct Fixture {
    file: String,
    /// The code and position, such as `X212 4:8`.
    expected: String,
    with: Vec<String>,
    arguments: Vec<String>,
}

impl Fixture {
    fn read(file: String) -> Option<Self> {
        let text = std::fs::read_to_string(folder().join(&file)).expect("a fixture is text");
        let expectation = |key: &str| {
            let line = text.lines().take(3).find_map(|line| line.split_once(key))?.1;
            Some(line.trim().trim_end_matches("*/").trim().to_owned())
        };
        let words = |text: Option<String>| {
            text.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let (with, arguments) = (words(expectation("with: ")), words(expectation("args: ")));
        let first = text.lines().next().unwrap_or("");
        let expected = expectation("expect: ").filter(|_| first.contains("expect: "))?;
        Some(Fixture { file, expected, with, arguments })
    }

    fn run(&self, form: &str) -> Output {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        if arguments.is_empty() {
            arguments.push("check");
        }
        arguments.extend(self.with.iter().map(String::as_str));
        if self.file.ends_with(".toml") {
            arguments.push("--binding");
        }
        arguments.extend([self.file.as_str(), "--message-format", form]);
        compiler(&arguments)
    }

    fn failure(&self, bless: bool) -> Option<String> {
        let json = self.run("json");
        let found = String::from_utf8(json.stderr).expect("JSON is UTF-8");
        let lines: Result<Vec<Value>, _> = found.lines().map(serde_json::from_str).collect();
        let Ok(lines) = lines else { return Some(format!("not JSON: {found}")) };
        let findings: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "finding").collect();
        let places: Vec<String> = findings.iter().map(|found| place(found)).collect();
        if places != [self.expected.as_str()] {
            let shown: String = findings.iter().filter_map(|found| found["rendered"].as_str()).collect();
            return Some(format!("expected {}, found {places:?}\n{shown}", self.expected));
        }
        let status = if findings[0]["severity"] == "error" { 1 } else { 0 };
        if json.status.code() != Some(status) {
            return Some(format!("the exit status is {:?}", json.status.code()));
        }
        let human = String::from_utf8(self.run("human").stderr).expect("text is UTF-8");
        let snapshot = folder().join(format!("{}.stderr", self.file));
        let kept = std::fs::read_to_string(&snapshot).unwrap_or_default();
        // Other tests read the snapshots concurrently, so unchanged snapshots are not rewritten.
        if bless && kept != human {
            std::fs::write(&snapshot, &human).expect("the snapshot can be written");
            return None;
        }
        (kept != human).then(|| format!("the snapshot has\n{kept}\nbut the output is\n{human}"))
    }
}

fn place(found: &Value) -> String {
    let code = found["code"].as_str().unwrap_or("?");
    match found["spans"].get(0) {
        Some(span) => format!("{code} {}:{}", span["line_start"], span["column_start"]),
        None => format!("{code} nowhere"),
    }
}

fn files() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("there are fixtures");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn fixtures() -> Vec<Fixture> {
    files().into_iter().filter(|file| !file.ends_with(".stderr")).filter_map(Fixture::read).collect()
}

#[test]
fn each_mistake_has_one_finding_at_its_place() {
    let bless = std::env::var_os("XDRGEN_BLESS").is_some();
    let fixtures = fixtures();
    let failures: Vec<String> = fixtures
        .iter()
        .filter_map(|fixture| Some(format!("{}: {}", fixture.file, fixture.failure(bless)?)))
        .collect();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn there_are_many_fixtures_of_syntax_and_semantic_errors() {
    let count = |first: &str| fixtures().iter().filter(|fixture| fixture.expected.starts_with(first)).count();
    assert!(count("X1") >= 10 && count("X2") >= 20, "{} and {}", count("X1"), count("X2"));
}

#[test]
fn fixtures_are_named_after_codes_and_snapshots_after_fixtures() {
    let fixtures = fixtures();
    for fixture in &fixtures {
        let code = fixture.expected.split(' ').next().expect("a code");
        assert!(fixture.file.starts_with(&format!("{code}-")), "{}: {}", fixture.file, fixture.expected);
    }
    for file in files() {
        let Some(of) = file.strip_suffix(".stderr") else { continue };
        assert!(fixtures.iter().any(|fixture| fixture.file == of), "{file} has no fixture");
    }
}

#[test]
fn each_code_has_a_page_and_a_fixture() {
    let codes: BTreeSet<&str> = diag::codes().collect();
    assert!(codes.len() > 60 && diag::codes().is_sorted(), "{codes:?}");
    let fixtures = fixtures();
    let tried: BTreeSet<&str> =
        fixtures.iter().filter_map(|fixture| fixture.expected.split(' ').next()).collect();
    assert_eq!(codes, tried, "each code must have a fixture (left: codes, right: codes of fixtures)");
    for code in codes {
        let page = diag::page(code).expect("a page");
        let (title, text) = page.split_once("\n\n").expect("a title");
        let text = format!("\n{text}");
        let prose = text.split("\n```").step_by(2).any(|prose| prose.trim().contains(' '));
        assert!(title.starts_with(&format!("## {code}: ")) && prose, "{code}: wrong title or no prose");
    }
}

/// Returns `kept`, the text of `DIAGNOSTICS.md`, with sorted pages. If any pages are for unused codes, fails
/// with their titles.
fn sorted_pages(kept: &str) -> Result<String, Vec<&str>> {
    let (introduction, _) = kept.split_once("\n# X0: ").expect("the first chapter");
    let new = format!("{introduction}\n{}", diag::chapters());
    let titles: BTreeSet<&str> = new.lines().filter(|line| line.starts_with("## ")).collect();
    let lost = kept.lines().filter(|line| line.starts_with("## ") && !titles.contains(line));
    let lost: Vec<&str> = lost.collect();
    if lost.is_empty() { Ok(new) } else { Err(lost) }
}

#[test]
fn the_documentation_has_a_page_for_each_code_in_order() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("DIAGNOSTICS.md");
    let kept = std::fs::read_to_string(&file).expect("the documentation");
    let new = sorted_pages(&kept).expect("DIAGNOSTICS.md has no pages of unused codes");
    if std::env::var_os("XDRGEN_BLESS").is_some() {
        return std::fs::write(&file, &new).expect("the documentation can be written");
    }
    assert!(kept == new, "DIAGNOSTICS.md has pages out of order: run this test with XDRGEN_BLESS=1");
}

#[test]
fn an_update_deletes_no_page_of_an_unused_code() {
    let kept =
        include_str!("../DIAGNOSTICS.md").replace("\n# X5: ", "\n## X499: a new page\n\nProse.\n\n# X5: ");
    assert_eq!(sorted_pages(&kept), Err(vec!["## X499: a new page"]));
}

const BEGIN: &str = "<!-- generated: diagnostics -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_guide_lists_each_code_with_its_title_and_severity() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/diagnostics.md");
    let kept = std::fs::read_to_string(&file).expect("the guide");
    let (head, rest) = kept.split_once(BEGIN).expect("the beginning of the table");
    let (_, tail) = rest.split_once(END).expect("the end of the table");
    let mut table = "| code | title | severity |\n|---|---|---|\n".to_owned();
    for code in diag::codes() {
        let page = diag::page(code).expect("a page");
        let (title, _) = page.split_once('\n').expect("a title");
        let title = title.trim_start_matches(&format!("## {code}: ")).replace('|', "\\|");
        table += &format!("| {code} | {title} | {} |\n", severities(code).join(" or "));
    }
    let new = [head, BEGIN, &table, END, tail].concat();
    if std::env::var_os("XDRGEN_BLESS").is_some() {
        return std::fs::write(&file, &new).expect("the guide can be written");
    }
    assert!(kept == new, "docs/diagnostics.md is outdated: run this test with XDRGEN_BLESS=1");
}

fn severities(code: &str) -> Vec<&'static str> {
    let snapshots = files().into_iter().filter(|file| file.starts_with(code) && file.ends_with(".stderr"));
    let snapshots: String =
        snapshots.map(|file| std::fs::read_to_string(folder().join(file)).expect("a snapshot")).collect();
    let is_used =
        |severity: &&str| snapshots.lines().any(|line| line.starts_with(&format!("{severity}[{code}]")));
    let severities: Vec<_> = ["error", "warning"].into_iter().filter(is_used).collect();
    assert!(!severities.is_empty(), "{code} has no snapshot: run this test again");
    severities
}

fn examples(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("\n```");
    parts.next();
    let blocks = parts.step_by(2).map(|block| block.split_once('\n').expect("a block has lines"));
    blocks.collect()
}

fn findings(documents: &[(&str, &str)]) -> Vec<Diagnostic> {
    let mut sources = Sources::default();
    for (name, text) in documents {
        sources.add(Source::new(*name, *text));
    }
    rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics
}

/// Compares the two protocols in `text`, and returns the breaches. Lines of the base begin with `-`, lines of
/// the new protocol with `+`, and common lines with a space.
fn breaches(text: &str, rules: Rules) -> Vec<Diagnostic> {
    let side = |other: char| {
        let lines = text.lines().filter(|line| !line.starts_with(other));
        lines.map(|line| format!("{}\n", line.get(1..).unwrap_or(""))).collect::<String>()
    };
    let mut sources = Sources::default();
    let (base, new) = (side('+'), side('-'));
    let (base, new) = (sources.add(Source::new("base.x", base)), sources.add(Source::new("new.x", new)));
    let compared = compat_by(rules, &sources, &[base], &[new], &Options::module("out"));
    assert!(!diag::has_errors(&compared.diagnostics), "{:#?}", compared.diagnostics);
    compared.breaches
}

#[test]
fn the_first_example_of_a_page_has_its_finding_and_the_others_are_correct() {
    let all = include_str!("../DIAGNOSTICS.md");
    let (_, shared) = all.split_once("```xdr document\n").expect("the document of the bindings");
    let (shared, _) = shared.split_once("```").expect("the end of the document");
    for code in diag::codes() {
        let page = diag::page(code).expect("a page");
        let examples = examples(&page);
        for (index, (language, text)) in examples.iter().enumerate() {
            let found = match *language {
                "xdr" => findings(&[("a.x", text)]),
                "text" => findings(&[("a.txt", text)]),
                "diff" => breaches(text, Rules::Rfc5666bis),
                "diff 8178" => breaches(text, Rules::Rfc8178),
                "toml" => findings(&[("a.x", shared), ("a.ddp.toml", text)]),
                _ => continue,
            };
            let codes: Vec<&str> = found.iter().map(|found| found.code()).collect();
            let expected: &[&str] = if index == 0 { &[code] } else { &[] };
            assert_eq!(codes, expected, "example {} of {code}: {found:#?}", index + 1);
        }
        assert!(examples.len() >= 2, "{code} lacks an example or its correction");
    }
}

#[test]
fn explain_prints_a_page() {
    for code in ["X212", "x212", "212"] {
        let output = compiler(&["explain", code]);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.starts_with("## X212: ") && text.contains("```xdr"), "{text}");
        assert!(!text.contains("## X213") && output.status.success(), "{text}");
    }
    let last = compiler(&["explain", diag::codes().last().expect("a code")]);
    assert!(last.status.success() && !last.stdout.is_empty());
    let unknown = compiler(&["explain", "X999"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("`X999`"));
}

/// A document without mistakes, with a page break inside a struct.
const VALID: &str = "\
3.  The Store

   Its types are these.

   /// const LONGEST = 255;
   /// enum status {
   ///    STORED = 0,
   ///    FULL   = 1,
   ///    LOST   = -1
   /// };
   /// typedef opaque content<>;
   /// typedef unsigned hyper counts[4];
   ///
   /// struct item {
   ///    unsigned int id;

\u{c}
Internet-Draft              The Store                   June 2020

   ///    string       name<LONGEST>;   /* as people see it */
   ///    opaque       digest[20];
   ///    item         *next;
   /// };
   ///
   /// union answer switch (status code) {
   /// case STORED:
   ///    item first;
   /// case FULL:
   /// case LOST:
   ///    void;
   /// };
   ///
   /// program STORE {
   ///    version STORE_V1 {
   ///       void   STORE_NULL(void)             = 0;
   ///       answer STORE_PUT(content, counts)   = 1;
   ///       item   STORE_FIND(unsigned hyper)   = 2;
   ///    } = 1;
   /// } = 0x20000099;
";

/// Asserts that a document with one changed line has one finding, on that line or an adjacent line.
#[track_caller]
fn finds_one_at(text: &str, line: usize, what: &str) {
    let mut sources = Sources::default();
    let id = sources.add(Source::new("store.txt", text));
    let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
    let source = sources.get(id).expect("the document");
    let lines: Vec<usize> =
        found.iter().map(|found| source.line_column(found.span.start).line as usize).collect();
    // Lines 16 to 19 are a page break after line 15, so all of them count as adjacent to line 15.
    let near = |at: usize| at.abs_diff(line) <= 1 || (15..=19).contains(&at) && (15..=19).contains(&line);
    let shown = diag::render(&found, &sources, false);
    assert!(lines.len() == 1 && near(lines[0]), "{what} in line {line}:\n{shown}");
}

/// Returns the number, offset and text of each line of XDR in `VALID`.
fn marked_lines() -> impl Iterator<Item = (usize, usize, &'static str)> {
    let mut offset = 0;
    VALID.split_inclusive('\n').zip(1..).filter_map(move |(line, number)| {
        let start = offset;
        offset += line.len();
        let skip = line.find("/// ")? + 4;
        let text = &line[skip..];
        Some((number, start + skip, text.split("/*").next().unwrap_or(text)))
    })
}

#[test]
fn a_missing_token_is_one_finding_at_its_position() {
    assert_eq!(findings(&[("store.txt", VALID)]), []);
    let mut tried = 0;
    for (number, offset, line) in marked_lines() {
        for (at, mark) in line.match_indices(|c| ";{}()[]<>=:,".contains(c)) {
            let text = format!("{}{}", &VALID[..offset + at], &VALID[offset + at + 1..]);
            finds_one_at(&text, number, &format!("without `{mark}`"));
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn a_keyword_with_swapped_letters_is_one_finding() {
    let keywords = [
        "const", "enum", "typedef", "opaque", "unsigned", "hyper", "struct", "string", "union", "switch",
        "case", "void", "program", "version", "int",
    ];
    let mut tried = 0;
    for (number, offset, line) in marked_lines() {
        let Some(keyword) = keywords.iter().find(|keyword| line.trim_start().starts_with(**keyword)) else {
            continue;
        };
        let start = offset + line.find(keyword).expect("the line starts with the keyword");
        let letters = &VALID[start + 1..start + 3];
        let swapped: String = letters.chars().rev().collect();
        let text = format!("{}{swapped}{}", &VALID[..start + 1], &VALID[start + 3..]);
        finds_one_at(&text, number, &format!("`{keyword}` misspelt"));
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn control_characters_in_a_macro_reach_no_terminal() {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", "#define a(b) int b##b\nstruct s { a(\u{1b}) };\n"));
    let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
    let shown = diag::render(&found, &sources, false) + &diag::plain(&found, &sources);
    assert!(shown.contains("expands to") && !shown.contains('\u{1b}'), "{shown}");
}

proptest::proptest! {
    #[test]
    fn findings_of_any_text_can_be_shown(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..80),
        marked: bool,
    ) {
        let mut sources = Sources::default();
        sources.add(Source::new(if marked { "a.txt" } else { "a.x" }, pieces.join(" ")));
        let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
        let json = diag::json(&found, &sources);
        for line in json.lines() {
            let value: Value = serde_json::from_str(line).expect("an object");
            let code = value["code"].as_str().expect("a code");
            assert!(diag::page(code).is_some(), "{code} has no page");
            assert!(value["rendered"].as_str().is_some_and(|text| text.contains(code)));
        }
        assert_eq!((json.lines().count(), diag::short(&found, &sources).lines().count()), (found.len(), found.len()));
        let human = diag::render(&found, &sources, false);
        let plain = diag::plain(&found, &sources);
        let heads = plain.lines().filter(|line| line.starts_with("a.")).count();
        assert_eq!(heads, found.len(), "{plain}");
        for shown in [human, plain] {
            assert!(!shown.contains('\u{1b}'), "a document's control characters must not reach the terminal");
        }
    }
}
