//! Findings of the lexer and the parser: the code, the line and column in the document, and the text.

use rpcrdma_xdrgen::diag::{Diagnostic, Severity, plain, render};
use rpcrdma_xdrgen::source::{Source, SourceId, Sources};
use rpcrdma_xdrgen::{Options, check};

fn found(name: &str, text: &str) -> (Sources, Vec<Diagnostic>, usize) {
    let mut sources = Sources::default();
    sources.add(Source::new(name, text));
    let parsed = rpcrdma_xdrgen::parse(&sources);
    let definitions = parsed.documents[0].1.definitions.len();
    (sources, parsed.diagnostics, definitions)
}

fn places(name: &str, text: &str) -> Vec<(&'static str, u32, u32)> {
    let (sources, found, _) = found(name, text);
    let source = sources.get(SourceId(0)).expect("the one document");
    let place = |found: &Diagnostic| {
        let at = source.line_column(found.span.start);
        (found.code(), at.line, at.column)
    };
    found.iter().map(place).collect()
}

/// Appends a definition to a text. Asserts that the only finding has this code and position, and that at
/// least one definition parses.
#[track_caller]
fn one(text: &str, code: &'static str, line: u32, column: u32) -> Diagnostic {
    let text = format!("{text}\nconst LAST = 1;\n");
    assert_eq!(places("test.x", &text), [(code, line, column)], "{text}");
    let (_, mut found, definitions) = found("test.x", &text);
    assert!(definitions >= 1, "the definition after the error is lost: {text}");
    found.remove(0)
}

#[test]
fn a_document_without_definitions() {
    let (_, found, _) = found("prose.txt", "1. Title\n\n   Nothing but prose.\n");
    assert_eq!((found.len(), found[0].code(), found[0].severity), (1, "X001", Severity::Warning));
    assert_eq!(places("empty.x", ""), [("X001", 1, 1)]);
    assert_eq!(places("broken.x", "?"), [("X110", 1, 1)]);
}

#[test]
fn expected_something_else() {
    let found = one("struct a {\n  int [3];\n};", "X100", 2, 7);
    assert_eq!(found.text().message, "expected a name, found `[`");
    one("const A 5;", "X100", 1, 9);
    one("union u switch (int a) {\ncase 1\n  void;\n};", "X100", 2, 7);
    one("program P { version V { void NULL(void) = 0; } 1; } = 2;", "X100", 1, 48);
    one("typedef int a[3;", "X100", 1, 16);
    one("int x;", "X100", 1, 1);
}

#[test]
fn excerpts_quote_the_document_verbatim() {
    let found = one("struct a {\n  int \"\";\n};", "X100", 2, 7);
    assert_eq!(found.text().message, "expected a name, found `\"\"`");
}

#[test]
fn line_terminators_are_not_shown() {
    let text = "struct a {\n  int b\n  int c;\n};\nstruct b {\n  int ?;\n};\n";
    let shown = |text: &str| {
        let (sources, found, _) = found("test.x", text);
        render(&found, &sources, false)
    };
    assert_eq!(shown(&text.replace('\n', "\r\n")), shown(text));
    assert!(shown(text).contains("expected `;` here"), "{}", shown(text));
}

#[test]
fn a_comment_without_an_end() {
    let found = one("const A = 1;\n  /* open\nstruct b { int c; };", "X101", 2, 3);
    assert_eq!(found.text().message, "a comment is never closed");
    // Only the first comment is reported: without a `*/`, no later comment is closed either.
    one("/* one\nconst A = 1; /* two", "X101", 1, 1);
}

#[test]
fn numbers() {
    one("const A = 08;", "X102", 1, 11);
    one("const A = 0x;", "X102", 1, 11);
    one("const A = 12ab;", "X102", 1, 11);
    one("const A = 0x10000000000000000;", "X103", 1, 11);
    one("const A = -9223372036854775809;", "X103", 1, 11);
    one("const A = 99999999999999999999999999999999999999999999999;", "X103", 1, 11);
}

#[test]
fn a_comment_inside_a_comment_is_a_warning() {
    let found = one("/* outer\n   /* inner */\nconst A = 1;", "X104", 2, 4);
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.text().related.len(), 1);
}

#[test]
fn conditions() {
    one("#if VERSION =< 3\nconst A = 1;\n#endif", "X105", 1, 1);
    one("const A = 1;\n#endif", "X105", 2, 1);
    one("const A = 1;\n#else", "X105", 2, 1);
    assert_eq!(places("test.x", "const A = 1;\n#ifdef B\nconst C = 1;\n"), [("X106", 2, 1)]);
}

#[test]
fn characters_without_a_meaning() {
    let found = one("const A-B = 1;", "X110", 1, 8);
    assert!(found.text().help.is_some());
    one("struct a { int b$c; };", "X110", 1, 17);
    one("\u{e9}\u{e9};", "X110", 1, 1);
}

#[test]
fn a_missing_semicolon_is_reported_after_the_preceding_token() {
    one("struct a {\n  int b\n  int c;\n};", "X111", 2, 8);
    one("struct a {\n  int b;   /* comment */\n  int c\n};", "X111", 3, 8);
    one("typedef int a", "X111", 1, 14);
    one("const A = 1", "X111", 1, 12);
    one("struct a { int b; }", "X111", 1, 20);
}

#[test]
fn a_missing_last_semicolon_loses_no_definition() {
    let (_, found, definitions) = found("test.x", "struct a { int b; }\nstruct c { int d; }\nenum e { F }");
    assert_eq!((found.len(), definitions), (3, 3));
}

#[test]
fn a_missing_brace_points_to_the_open_one() {
    let found = one("struct a {\n  int b;\n\nstruct c {\n  int d;\n};", "X112", 2, 9);
    assert_eq!(found.text().related.len(), 1);
    assert_eq!(found.text().related[0].span.start, 9);
    one("enum a {\n  B = 1,\n  C = 2\nunion d switch (int e) { case 1: void; };", "X112", 3, 8);
    assert_eq!(
        places("test.x", "program P {\n  version V {\n    void N(void) = 0;\n  } = 1;\n"),
        [("X112", 4, 9)]
    );
}

#[test]
fn misspelt_keywords() {
    let help = |found: Diagnostic| found.text().help.unwrap();
    assert_eq!(help(one("strcut a { int b; };", "X113", 1, 1)), "a similar keyword exists: `struct`");
    assert_eq!(help(one("Enum a { B };", "X113", 1, 1)), "a similar keyword exists: `enum`");
    assert_eq!(
        help(one("struct a { unsinged int b; };", "X113", 1, 12)),
        "a similar keyword exists: `unsigned`"
    );
    assert_eq!(
        help(one("union a swich (int b) { case 1: void; };", "X113", 1, 9)),
        "a similar keyword exists: `switch`"
    );
    assert_eq!(
        help(one("union a switch (int b) {\ncse 1:\n  void;\n};", "X113", 2, 1)),
        "a similar keyword exists: `case`"
    );
}

#[test]
fn a_name_similar_to_a_keyword_is_not_a_keyword() {
    one("struct a { strings b[2; };", "X100", 1, 23);
    one("struct a {\n  floats b\n  int c;\n};", "X111", 2, 11);
    assert_eq!(places("test.x", "struct a { strings b; voids c; hypers *d; };"), []);
}

#[test]
fn keywords_as_names() {
    one("struct a { int case; };", "X114", 1, 16);
    one("enum bool { FALSE, TRUE };", "X114", 1, 6);
}

#[test]
fn bodies_nest_at_most_64_deep() {
    let nested = |depth: usize| {
        format!("struct a {{{}int x;{}", "struct {".repeat(depth), "} y;".repeat(depth) + "};")
    };
    assert_eq!(places("test.x", &nested(63)), []);
    let found = one(&nested(64), "X115", 1, 522);
    assert_eq!(found.text().message, "more than 64 nested bodies");
    // Deep nesting does not overflow the stack.
    assert_eq!(places("test.x", &nested(100_000)).len(), 1);
}

#[test]
fn unions() {
    one("union a switch (int b) {\ncase 1:\n  int c;\n  int d;\n};", "X116", 4, 3);
    let found =
        one("union a switch (int b) {\ndefault: void;\ncase 1: void;\ndefault: void;\n};", "X118", 4, 1);
    assert_eq!(found.text().related.len(), 1);
}

#[test]
fn enums() {
    one("enum a { };", "X117", 1, 10);
    one("enum a {\n  B = 1,\n  C = 2\n  D = 3\n};", "X119", 3, 8);
    let found = one("enum a { B, };", "X131", 1, 11);
    assert_eq!(found.severity, Severity::Warning);
}

#[test]
fn sizes() {
    one("struct a { opaque b; };", "X120", 1, 20);
    one("struct a { string b[4]; };", "X121", 1, 20);
    one("typedef int a; program P { version V { opaque N(void) = 0; } = 1; } = 2;", "X123", 1, 40);
}

#[test]
fn a_definition_inside_another() {
    one("struct a { struct b { int c; } d; };", "X122", 1, 21);
}

#[test]
fn extensions_of_rpcgen_and_rfcs_are_warnings() {
    let found = one("union a switch (int b) { case 1: void; } c;", "X130", 1, 42);
    assert_eq!(found.severity, Severity::Warning);
    let found = one("const A = \"text\";", "X132", 1, 11);
    assert_eq!(found.severity, Severity::Warning);
}

#[test]
fn several_errors_are_found_in_one_run() {
    let text = "\
struct a { int b };
const A = 0xg;
struct good { int a; };
enum e { A = 1 B = 2 };
union u switch (int a) { case 1: opaque x; };
typedef string also_good<>;
";
    let expected = [("X111", 1, 17), ("X102", 2, 11), ("X119", 4, 15), ("X120", 5, 42)];
    assert_eq!(places("test.x", text), expected);
    // The enum is parsed as if the missing `,` were present.
    assert_eq!(found("test.x", text).2, 3);
}

#[test]
fn positions_are_in_the_document_not_in_the_extracted_text() {
    let text = "\
RFC 9999\n
1.  Introduction\n
   Some prose.\n
   /// struct a {
   ///    int b;
Author                 Standards Track                    [Page 3]
\u{c}
RFC 9999                    A Test                       June 2020

       ///    unsinged int c;
///    int d;
   /// };
   /// const A = 0xg;
";
    assert_eq!(places("rfc9999.txt", text), [("X113", 13, 15), ("X102", 16, 18)]);
}

#[test]
fn marked_lines_without_xdr_are_reported_and_the_rest_parses() {
    let text =
        "   /// const A = 1;\n   /// dn: cn=example,dc=org\n   /// objectClass: top\n   /// const B = 2;\n";
    let (_, diagnostics, definitions) = found("ldif.txt", text);
    assert_eq!(definitions, 2);
    assert_eq!(places("ldif.txt", text), [("X100", 2, 8)]);
    assert!(diagnostics[0].is_error());
}

#[test]
fn a_rendered_finding_quotes_the_document() {
    let text = "   prose\n   /// struct a {\n   ///    int b\n   ///    int c;\n   /// };\n";
    let (sources, found, _) = found("spec.txt", text);
    let shown = render(&found, &sources, false);
    let expected = "\
error[X111]: a `;` is missing
 --> spec.txt:3:16
  |
3 |    ///    int b
  |                ^ expected `;` here
  |
  = help: a `;` ends each declaration and each definition
";
    assert_eq!(shown, expected);
    assert!(render(&found, &sources, true).contains('\u{1b}'));
}

#[test]
fn a_rendered_finding_shows_related_positions() {
    let text = "const A = 1;\nstruct a {\n  int b;\nstruct c { int d; };\n";
    let (sources, found, _) = found("spec.x", text);
    let shown = render(&found, &sources, false);
    assert!(shown.contains("spec.x:3:9"), "{shown}");
    assert!(shown.contains("this `{` is never closed"), "{shown}");
}

#[test]
fn very_long_lines_are_truncated() {
    let text = format!(
        "{}struct c {{ int d }}; {}",
        "struct a { int b; }; ".repeat(5000),
        "typedef int e; ".repeat(5000)
    );
    let (sources, found, _) = found("long.x", &text);
    let shown = render(&found, &sources, false);
    assert!(
        shown.contains("--> long.x:1:105017\n") && shown.contains("struct c { int d }; typedef int e;"),
        "{shown}"
    );
    assert!(shown.len() < 2000, "{}", shown.len());
    let below = shown.lines().find(|line| line.contains('^')).expect("a caret").find('^').expect("a caret");
    let line = shown.lines().find(|line| line.contains("struct c")).expect("the line");
    assert_eq!(line.get(below - 1..below + 1), Some("d "), "{shown}");
}

#[test]
fn distant_spans_are_two_excerpts() {
    let text = format!(
        "union u switch (int a) {{\ndefault: void;\n{}default: void;\n}};\n",
        "case 1: void;\n".repeat(10_000)
    );
    let (sources, found, _) = found("far.x", &text);
    let shown = render(&found, &sources, false);
    assert!(shown.contains("--> far.x:10003:1\n") && shown.contains("::: far.x:2:1\n"), "{shown}");
    assert!(shown.len() < 1000, "{shown}");
}

fn plainly(name: &str, text: &str) -> String {
    let mut sources = Sources::default();
    sources.add(Source::new(name, text));
    let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
    plain(&found[..1], &sources)
}

#[test]
fn plain_text_has_line_label_and_help() {
    let text = "   prose\n   /// struct a {\n   ///    int b\n   ///    int c;\n   /// };\n";
    let expected = "\
spec.txt:3:16: error[X111]: a `;` is missing
  |
3 |    ///    int b
  |                ^ expected `;` here
  |
  = help: a `;` ends each declaration and each definition
";
    assert_eq!(plainly("spec.txt", text), expected);
}

#[test]
fn plain_text_has_related_positions() {
    let many = "const X = 1;\n".repeat(8);
    let text = format!("struct a {{\r\n\tint b;\r\n\tint b;\r\n}};\r\n{many}");
    let expected = "\
a.x:3:6: error[X210]: two fields are named `b`
  |
3 |     int b;
  |         ^ the second
 ::: a.x:2:6
  |
2 |     int b;
  |         - the first
";
    assert_eq!(plainly("a.x", &text), expected);
    let expected = "\
a.x:1:23: error[X210]: two fields are named `b`
  |
1 | struct a { int b; int b; };
  |                       ^ the second
  |                - the first
";
    assert_eq!(plainly("a.x", "struct a { int b; int b; };"), expected);
}

#[test]
fn plain_text_separates_findings_by_blank_lines() {
    let (sources, found, _) = found("a.x", "struct a { int b };\nstruct c { int d };\n");
    let shown = plain(&found, &sources);
    let [first, second] = shown.split("\n\n").collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert!(
        first.starts_with("a.x:1:17: error[X111]: ") && second.starts_with("a.x:2:17: error[X111]: "),
        "{shown}"
    );
}

#[test]
fn plain_text_without_a_position_begins_with_the_program() {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", "const A = 1;"));
    let options = Options { runtime: "a-b".to_owned(), ..Options::module("a") };
    let found = check(&sources, &options).diagnostics;
    let expected = "rpcrdma-xdrgen: error[X401]: `a-b` is not a valid Rust path\n = help: a path is written `name::of::Type`\n";
    assert_eq!(plain(&found, &sources), expected);
}

#[test]
fn plain_text_truncates_very_long_lines() {
    let text = format!(
        "{}struct c {{ int d }}; {}",
        "struct a { int b; }; ".repeat(500),
        "typedef int e; ".repeat(500)
    );
    let (sources, found, _) = found("long.x", &text);
    let shown = plain(&found, &sources);
    assert!(shown.starts_with("long.x:1:10517: error[X111]: ") && shown.len() < 2500, "{shown}");
    let below = shown.lines().find_map(|line| line.find('^')).expect("a caret");
    let line = shown.lines().find(|line| line.contains("struct c")).expect("the line");
    assert_eq!(line.get(below - 1..below + 1), Some("d "), "{shown}");
}
