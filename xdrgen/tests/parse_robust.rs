//! Any document is parsed to its end without a panic, and every finding has a position in the document.

#[path = "support/pieces.rs"]
mod pieces;

use proptest::prelude::*;
use rpcrdma_xdrgen::diag::render;
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Generated, Options};

use pieces::PIECES;

/// Parses and compiles `text` as a document called `name`. All spans must be in the document, and rendering
/// the first 20 findings must succeed.
fn survives(name: &str, text: &str) {
    let mut sources = Sources::default();
    sources.add(Source::new(name, text));
    let parsed = rpcrdma_xdrgen::parse(&sources);
    let length = u32::try_from(text.len()).expect("a short text");
    for found in &parsed.diagnostics {
        // The span of a missing token is one byte long and may start at the end of the document.
        assert!(found.span.start <= length && found.span.end <= length + 1, "{found:?}");
        assert!(found.span.start <= found.span.end, "{found:?}");
    }
    for definition in parsed.documents.iter().flat_map(|(_, specification)| &specification.definitions) {
        assert!(
            definition.span.start <= definition.span.end && definition.span.end <= length,
            "{definition:?}"
        );
    }
    let few: Vec<_> = parsed.diagnostics.into_iter().take(20).collect();
    assert_eq!(render(&few, &sources, false).is_empty(), few.is_empty());
    generated(&sources, length);
}

/// Compiles a document completely. All findings must have positions in the document. A valid document must
/// yield files, and short files must parse as Rust.
fn generated(sources: &Sources, length: u32) -> Generated {
    let generated = rpcrdma_xdrgen::generate(sources, &Options::module("out"));
    for found in &generated.diagnostics {
        let span = found.span;
        assert!(span.start <= span.end && span.end <= length + 1, "{found:?}");
    }
    let few: Vec<_> = generated.diagnostics.iter().take(20).cloned().collect();
    assert_eq!(render(&few, sources, false).is_empty(), few.is_empty());
    assert_eq!(generated.files.is_empty(), generated.has_errors());
    for (_, code) in generated.files.iter().filter(|(_, code)| code.len() < 100_000) {
        assert!(syn::parse_file(code).is_ok(), "{code}");
    }
    generated
}

fn compiled(text: &str) -> Generated {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    generated(&sources, u32::try_from(text.len()).expect("a short text"))
}

fn survives_in_all_forms(text: &str) {
    for name in ["a.x", "a.txt", "a"] {
        survives(name, text);
    }
}

const DOCUMENT: &str = "\
RFC 9999                  A Test                  June 2020

1.  First

   Prose before; NAME 16

   NAME 16

   /// /* About a. */
   /// struct a {
   ///    opaque b<NAME>;    /* b */
   ///    struct a *next;
Author                  Standards Track                  [Page 7]
\u{c}
RFC 9999                  A Test                  June 2020

   /// };
   /// %#include <x>
   /// #ifdef X
   /// #define Y 0x10
   /// #endif

      union u switch (unsigned c) {
      case 1: case -2:
         struct { int d[3]; enum { E, F = 2 } g; } h;
      default:
         void;
      };

   /// program P { version V { void N(void) = 0; string S(string, int) = 1; } = 1; } = 0x20000000;
   /// typedef string t<>; const Z = \"text\"; /* \u{e9} */
";

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "(?s).{0,300}") {
        survives_in_all_forms(&text);
    }

    #[test]
    fn texts_of_the_languages_pieces(pieces in prop::collection::vec(piece(), 0..120), blanks in any::<bool>()) {
        survives_in_all_forms(&pieces.join(if blanks { " " } else { "" }));
    }

    #[test]
    fn a_shuffled_document_never_panics(cuts in prop::collection::vec(0..DOCUMENT.len(), 1..8)) {
        let mut pieces: Vec<&str> = Vec::new();
        let mut from = 0;
        for cut in cuts {
            let (from, to) = (from.min(cut), std::mem::replace(&mut from, cut).max(cut));
            pieces.extend(DOCUMENT.get(from..to));
        }
        survives_in_all_forms(&pieces.concat());
    }

    #[test]
    fn a_document_with_bytes_changed(changes in prop::collection::vec((0..DOCUMENT.len(), any::<u8>()), 1..6)) {
        let mut bytes = DOCUMENT.as_bytes().to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        survives_in_all_forms(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_document_truncated_at_every_byte() {
    for end in 0..DOCUMENT.len() {
        if let Some(text) = DOCUMENT.get(..end) {
            survives_in_all_forms(text);
        }
    }
}

/// Texts on which a naive parser would take quadratic time or overflow the stack.
#[test]
fn long_texts_of_one_pattern() {
    let patterns = [
        "struct a {\n",
        "struct a { ",
        "union u switch (int a) { case 1: ",
        "/*",
        "/* struct a {\n",
        "{",
        "}",
        "case 1: ",
        "<",
        "typedef int a\n",
        "enum e { A = ",
        "#if 1\n",
        "#else\n",
        "%/*\n",
        "a ",
        "1",
        "\"",
        "- ",
        "/// struct a {\n",
        "*",
        "=;",
        "program P { version V { void N(void) = 0; ",
        "const A = 1;\n/* c */\n",
        "[Page 1]\n",
        "\u{c}\n",
        "1. A\n",
        "   struct a {\n   int b;\n",
        "typedef struct { int a;\n",
        "[Page 1]\n\n\n",
        "#define A(x) x A(\n",
        "#define A(x) x\nA(A",
        "#define A int b;\nstruct a { A",
        "\n#define A(x) A##x A(A(",
        "namespace a { ",
        "namespace a { struct b { a::b *c; }; } ",
        "namespace a::b { const c = a::b::c::",
    ];
    for pattern in patterns {
        survives_in_all_forms(&pattern.repeat(200_000 / pattern.len()));
    }
    let mut steps = String::new();
    for depth in 0..600 {
        steps.push_str(&format!("{}struct a{depth} {{\n", " ".repeat(depth)));
    }
    survives_in_all_forms(&steps);
}

/// Macros with expansions that would exhaust memory or overflow the stack.
#[test]
fn macros_that_grow() {
    let mut doubled = "#define A0(x) x x\n".to_owned();
    let mut chain = "#define C0 int a;\n".to_owned();
    for at in 1..200 {
        doubled.push_str(&format!("#define A{at}(x) A{}(A{}(x))\n", at - 1, at - 1));
        chain.push_str(&format!("#define C{at} C{} C{}\n", at - 1, at - 1));
    }
    for at in [10, 60, 70, 199] {
        survives("a.x", &format!("{doubled}struct s {{ A{at}(int a;) }};\n"));
        survives("a.x", &format!("{chain}struct s {{ C{at} }};\n"));
    }
    let uses = "A(int a;) ".repeat(20_000);
    survives("a.x", &format!("#define A(x) x x x x x x x x x x\nstruct s {{ {uses} }};\n"));
    let parameters: Vec<String> = (0..10_000).map(|at| format!("p{at}")).collect();
    let (list, body) = (parameters.join(","), parameters.join(" "));
    let uses = format!("A({}) ", ",".repeat(9_999)).repeat(20);
    survives("a.x", &format!("#define A({list}) {body}\nstruct s {{ {uses} }};\n"));
    let hidden = "struct a {\n".repeat(10_000);
    survives("a.x", &format!("#ifdef {}\n{hidden}#endif\n", "A".repeat(100_000)));
    let nested = "A(".repeat(50_000);
    survives("a.x", &format!("#define A(x) x\nstruct s {{ {nested}int a;{} }};\n", ")".repeat(50_000)));
    survives("a.x", &format!("#define A(x) x##x\nstruct s {{ {} }};\n", "int A(b);".repeat(20_000)));
    // Each level doubles the length of the token.
    let levels: String = (1..40).map(|level| format!("#define D{level}(a) D{}(a##a)\n", level - 1)).collect();
    survives("a.x", &format!("#define D0(a) a\n{levels}struct D39(x) {{ int x; }};\n"));
}

/// Texts on which naive checks would take quadratic time or overflow the stack.
#[test]
fn long_chains_of_definitions() {
    const LINKS: usize = 20_000;
    let repeat = |one: &dyn Fn(usize, usize) -> String| -> String {
        (0..LINKS).map(|link| one(link, link + 1)).collect()
    };
    let codes = |text: &str| -> Vec<&'static str> {
        let mut codes: Vec<_> = compiled(text).diagnostics.iter().map(|found| found.code()).collect();
        codes.dedup();
        codes
    };
    let end = format!("typedef int t{LINKS};\n");
    let too_deep: [&dyn Fn(usize, usize) -> String; 5] = [
        &|link, next| format!("typedef t{next} t{link};\n"),
        &|link, next| format!("struct t{link} {{ t{next} a; t{next} b; }};\n"),
        &|link, next| format!("struct t{link} {{ t{next} *a; t{next} b<>; }};\n"),
        &|link, next| format!("struct t{link} {{ t{next} a[2]; }};\n"),
        &|link, next| format!("union t{link} switch (int a) {{ case 1: t{next} b; default: void; }};\n"),
    ];
    for chain in too_deep {
        assert_eq!(codes(&format!("{}{end}", repeat(chain))), ["X225"]);
        // In reverse order, definitions precede their uses.
        let mut lines: Vec<String> = repeat(chain).lines().map(|line| format!("{line}\n")).collect();
        lines.reverse();
        assert_eq!(codes(&format!("{end}{}", lines.concat())), ["X225"]);
    }
    let around = format!("typedef t0 t{LINKS};\n");
    assert_eq!(codes(&format!("{}{around}", repeat(too_deep[0]))), ["X223"]);
    assert_eq!(codes(&format!("{}{around}", repeat(too_deep[1]))), ["X222"]);
    assert_eq!(codes(&repeat(&|link, next| format!("const A{link} = A{next};\n"))), ["X202"]);
    assert_eq!(codes(&repeat(&|link, _| format!("struct t{link} {{ missing_{link} a; }};\n"))), ["X200"]);
}

#[test]
fn many_definitions_are_not_a_chain() {
    let all: String = (0..20_000).map(|one| format!("struct t{one} {{ int a; t{one} *next; }};\n")).collect();
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", all));
    let checked = rpcrdma_xdrgen::check(&sources, &Options::module("out"));
    assert_eq!((checked.diagnostics.as_slice(), checked.summary.types), (&[][..], 20_000));
}

/// Conflicting Rust names, many labels, and implicit enum values: no lookup may take linear time.
#[test]
fn many_names_in_one_scope() {
    const MANY: usize = 20_000;
    let list = |one: &dyn Fn(usize) -> String| (0..MANY).map(one).collect::<String>();
    // Returns a name in which the case of each letter encodes a bit of `number`. Many of these names convert
    // to the same Rust name.
    let shouted = |number: usize| -> String {
        let upper = |(bit, c): (usize, char)| if number >> bit & 1 == 1 { c.to_ascii_uppercase() } else { c };
        "abcdefghijklmno".chars().enumerate().map(upper).collect()
    };
    let types = compiled(&list(&|number| format!("typedef int t_{};\n", shouted(number))));
    assert_eq!(types.summary.types, MANY);
    let mut names: Vec<&str> =
        types.files[0].1.lines().filter_map(|line| line.strip_prefix("pub type ")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), MANY);
    let members = list(&|number| format!("A{number},"));
    let arms = list(&|number| format!("case A{number}: int a;\n"));
    let text = format!("enum e {{ {members} Z }};\nunion u switch (e x) {{ {arms} case Z: void; }};\n");
    assert!(compiled(&text).diagnostics.is_empty());
    let found = compiled(&text.replace("switch (e x)", "switch (int x)")).diagnostics;
    assert!(found.is_empty(), "{:?}", found.first());
    // Findings above a limit are counted but not stored.
    let generated = compiled(&text.replace("case A", "case B"));
    let kept = generated.diagnostics.iter().filter(|found| found.code() == "X213").count();
    assert_eq!(kept + generated.more.errors, MANY);
    assert!((1000..MANY).contains(&kept), "{kept}");
}

#[test]
fn long_chains_of_omitted_definitions() {
    const LINKS: usize = 10_000;
    let chain: String =
        (0..LINKS).map(|link| format!("struct t{link} {{ t{} *a; missing b; }};\n", link + 1)).collect();
    let mut sources = Sources::default();
    sources
        .add(Source::new("a.x", format!("struct t{LINKS} {{ int a }};\n{chain}struct good {{ int a; }};\n")));
    let options = Options { keep_going: true, ..Options::module("out") };
    let generated = rpcrdma_xdrgen::generate(&sources, &options);
    assert_eq!((generated.summary.types, generated.files.len()), (1, 1));
    assert!(generated.diagnostics.len() > LINKS);
}
