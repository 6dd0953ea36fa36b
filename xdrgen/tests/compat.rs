//! `rpcrdma-xdrgen compat`: compatible and incompatible extensions of a protocol according to section 9.1 of
//! draft-ietf-nfsv4-rfc5666bis-04 or section 4.2 of RFC 8178, and definitions that a later document extends.

use rpcrdma_xdrgen::compat::{Compat, Kind, Rules, compat, compat_by};
use rpcrdma_xdrgen::diag::{Diagnostic, has_errors};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, check, generate};

const BASE: &str = "\
enum kind { ASK = 0, TELL = 1 };
struct ask { unsigned int what; };
union body switch (kind which) {
   case ASK: ask question;
   case TELL: opaque answer<64>;
};
struct message { unsigned int id; body rest; };
";

fn compare(base: &str, new: &str) -> (Sources, Compat) {
    let mut sources = Sources::default();
    let base = sources.add(Source::new("base.x", base));
    let new = sources.add(Source::new("new.x", new));
    let compared = compat(&sources, &[base], &[new], &Options::module("compared"));
    assert!(!has_errors(&compared.diagnostics), "{:?}", compared.diagnostics);
    (sources, compared)
}

/// Returns the breaches, such as `X502 new.x:1:29 base.x:1:21`.
fn breaches(base: &str, new: &str) -> Vec<String> {
    let (sources, compared) = compare(base, new);
    compared.breaches.iter().map(|breach| shown(&sources, breach)).collect()
}

fn shown(sources: &Sources, found: &Diagnostic) -> String {
    let text = found.text();
    let labels = std::iter::once(&text.primary).chain(&text.related);
    let places = labels.map(|label| {
        let source = sources.get(label.span.source).expect("a document");
        let at = source.line_column(label.span.start);
        format!("{}:{}:{}", source.name().display(), at.line, at.column)
    });
    format!("{} {}", found.code(), places.collect::<Vec<_>>().join(" "))
}

fn additions(base: &str, new: &str) -> Vec<(Kind, String)> {
    let (_, compared) = compare(base, new);
    assert_eq!(compared.breaches, [], "{base}\n{new}");
    compared.additions.into_iter().map(|addition| (addition.kind, addition.name)).collect()
}

fn edited(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(BASE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

fn with(name: &str) -> String {
    edited(&[("TELL = 1", &format!("TELL = 1, {name} = 2"))])
}

#[test]
fn a_new_header_type_with_its_body_is_an_extension() {
    let new = with("PING").replace("<64>;", "<64>;\n   case PING: ping ping;") + "struct ping { int n; };\n";
    let expected =
        [(Kind::Value, "kind".to_owned()), (Kind::Arm, "body".to_owned()), (Kind::Type, "ping".to_owned())];
    assert_eq!(additions(BASE, &new), expected);
    // The reverse change is incompatible: some valid messages of the extension become invalid.
    assert_eq!(breaches(&new, BASE), ["X504 new.x:1:6 base.x:1:32"]);
}

#[test]
fn a_protocol_is_compatible_with_itself() {
    assert_eq!(additions(BASE, BASE), []);
}

#[test]
fn unused_flag_bits_are_an_extension_and_used_ones_are_not() {
    let base = "const HELLO_FLAG_FAST = 1;\nstruct hello { unsigned int flags; };\n";
    let fine = format!("{base}const HELLO_FLAG_SAFE = 2;\n");
    assert_eq!(additions(base, &fine), [(Kind::Flag, String::new())]);
    let taken = format!("{base}const HELLO_FLAG_SAFE = 1;\n");
    assert_eq!(breaches(base, &taken), ["X512 new.x:3:7 base.x:1:7"]);
    // A new flag with several bits is a breach if an existing flag uses any of these bits.
    let both = "const MASK_FLAG_A = 1;\nconst MASK_FLAG_B = 2;\n";
    for (value, breach) in [(3, "1:7"), (6, "2:7"), (0xffff_ffff_u32, "1:7")] {
        let taken = format!("{both}const MASK_FLAG_C = {value};\n");
        assert_eq!(breaches(both, &taken), [format!("X512 new.x:3:7 base.x:{breach}")]);
    }
    let free = format!("{both}const MASK_FLAG_C = 12;\nconst MASK_FLAG_NONE = 0;\nconst MASK = 3;\n");
    let none = String::new;
    let expected = [(Kind::Flag, none()), (Kind::Constant, none()), (Kind::Constant, none())];
    assert_eq!(additions(both, &free), expected);
    // A member whose value has several bits, such as 3, is a flag only if its name contains `FLAG`.
    let counted = "enum sorts { ONE = 1, TWO = 2 };\n";
    let more = "enum sorts { ONE = 1, TWO = 2, THREE = 3 };\n";
    assert_eq!(additions(counted, more), [(Kind::Constant, "sorts".to_owned())]);
    let named = "enum sorts { ONE = 1, TWO = 2, ALL_FLAGS = 3 };\n";
    assert_eq!(breaches(counted, named), ["X512 new.x:1:32 base.x:1:14"]);
    let words = "enum bits { FAST = 1 };\n";
    assert_eq!(additions(words, "enum bits { FAST = 1, SAFE = 2 };\n"), [(Kind::Flag, "bits".to_owned())]);
}

#[test]
fn a_flag_may_change_its_name() {
    assert_eq!(additions("enum bits { FAST = 1 };\n", "enum bits { QUICK = 1 };\n"), []);
    let renamed = additions("const A_FLAG_FAST = 1;\n", "const A_FLAG_QUICK = 1;\n");
    assert_eq!(renamed, [(Kind::Flag, String::new())]);
    // A bit stays in use while one of its names remains.
    let base = "const A_FLAG_FAST = 1;\nconst A_FLAG_QUICK = 1;\n";
    let new = "const A_FLAG_QUICK = 1;\nconst A_FLAG_SAFE = 1;\n";
    assert_eq!(breaches(base, new), ["X512 new.x:2:7 base.x:2:7"]);
    // One of two names of a bit may be removed.
    let removed = by_rfc_8178("enum bits { FAST = 1, QUICK = 1 };\n", "enum bits { QUICK = 1 };\n");
    assert_eq!(removed, (vec![], vec![]));
}

#[test]
fn a_fixed_array_is_the_encoding_of_its_elements() {
    let base = "struct a { hyper c; int e[2]; int f; };\n";
    for same in ["int e1; int e2; int f;", "int e1; int f[2];", "int e[3];", "int e1; int e2[1]; int f;"] {
        let new = format!("struct a {{ hyper c; {same} }};\n");
        assert_eq!(breaches(base, &new), [] as [&str; 0], "{same}");
        assert_eq!(breaches(&new, base), [] as [&str; 0], "{same}");
    }
    assert_eq!(
        breaches(base, "struct a { hyper c; int e1; hyper e2; int f; };\n"),
        ["X502 new.x:1:29 base.x:1:21"]
    );
    assert_eq!(breaches(base, "struct a { hyper c; int e; int f; };\n"), ["X502 new.x:1:21 base.x:1:21"]);
}

#[test]
fn common_fields_after_a_breach_are_compared() {
    let base = "struct a { int b; int c; opaque d<8>; };\n";
    let new = "struct a { int b; int more; hyper c; opaque d<9>; };\n";
    let expected =
        ["X501 new.x:1:19 base.x:1:8", "X502 new.x:1:29 base.x:1:19", "X503 new.x:1:38 base.x:1:26"];
    assert_eq!(breaches(base, new), expected);
}

#[test]
fn names_and_typedefs_and_the_grouping_of_fields_are_not_sent() {
    let new = "\
typedef unsigned int number;
enum sort { QUESTION = 0, ANSWER = 1 };
union rest switch (sort s) {
   case QUESTION: number what;
   case ANSWER: opaque bytes<64>;
};
struct head { number id; };
struct message { head start; rest tail; };
";
    let (_, compared) = compare(BASE, new);
    assert_eq!(compared.breaches, []);
    // The type of the message itself may also be renamed.
    assert_eq!(breaches(BASE, &new.replace("struct message", "struct letter")), [] as [&str; 0]);
}

#[test]
fn equal_layouts_are_equal_in_any_spelling() {
    let star = "struct a { int *x; };\n";
    let union = "union opt switch (bool is) { case TRUE: int x; case FALSE: void; };\nstruct a { opt x; };\n";
    let array = "struct a { int x<1>; };\n";
    for (one, other) in [(star, union), (union, array), (array, star)] {
        assert_eq!(breaches(one, other), [] as [&str; 0], "{one}\n{other}");
    }
    let recursive = "struct n { int v; n *next; };\n";
    assert_eq!(breaches(recursive, recursive), [] as [&str; 0]);
    let longer = "struct n { int v; m *next; };\nstruct m { int v; n *next; };\n";
    assert_eq!(breaches(recursive, longer), [] as [&str; 0]);
}

#[test]
fn every_other_change_has_both_positions() {
    // The changes of a case, and the beginning of each expected breach: its code, and positions in the new
    // protocol and in the base.
    type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: &[Case] = &[
        (&[("struct message", "struct note"), ("id;", "id; int more;")], &["X500 base.x:7:8"]),
        (&[("what;", "what; int more;")], &["X501 new.x:2:33 base.x:2:8"]),
        (&[("unsigned int id;", "")], &["X501 new.x:7:8 base.x:7:18"]),
        (&[("unsigned int id", "int id")], &["X502 new.x:7:18 base.x:7:18"]),
        (&[("ask question", "unsigned hyper question")], &["X502"]),
        (&[("<64>", "<65>")], &["X503 new.x:5:15 base.x:5:15"]),
        (&[("TELL = 1", "TELL = 3")], &["X504 new.x:1:22 base.x:1:22"]),
        (&[("TELL = 1", "TELL = 1, PING = 2")], &["X506 new.x:1:32 new.x:3:7 base.x:3:7"]),
        (&[("   case TELL: opaque answer<64>;\n", "")], &["X508 new.x:3:7 base.x:5:9"]),
        (&[("<64>;", "<64>; default: void;")], &["X510 new.x:5:43 base.x:3:7"]),
    ];
    for (changes, expected) in cases {
        let found = breaches(BASE, &edited(changes));
        assert_eq!(found.len(), expected.len(), "{changes:?}: {found:?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{changes:?}: {found}");
        }
    }
}

#[test]
fn a_value_without_a_union_arm_breaks_old_peers() {
    let base = "enum status { FINE = 0, BAD = 1 };\nstruct reply { status is; };\n";
    let new = base.replace("BAD = 1", "BAD = 1, WORSE = 2");
    assert_eq!(breaches(base, &new), ["X505 new.x:1:34 base.x:2:16"]);
}

#[test]
fn values_of_a_default_arm_stay_with_it() {
    let base = "union u switch (unsigned int n) { case 1: int a; default: void; };\n";
    let new = base.replace("int a;", "int a; case 2: int b;");
    assert_eq!(breaches(base, &new), ["X507 new.x:1:55 base.x:1:59"]);
    let of_enum = "enum e { A = 1 };\nunion u switch (e n) { case A: int a; default: void; };\n";
    let more = of_enum.replace("A = 1", "A = 1, B = 2");
    assert_eq!(breaches(of_enum, &more), ["X507 new.x:1:17 base.x:2:48"]);
    // Without a default arm, an arm for a further number is an addition.
    let open = "union u switch (unsigned int n) { case 1: int a; };\n";
    let wider = open.replace("int a;", "int a; case 2: int b;");
    assert_eq!(additions(open, &wider), [(Kind::Arm, "u".to_owned())]);
}

#[test]
fn a_new_value_in_many_unions_has_one_finding() {
    let unions: String = (0..40)
        .map(|n| format!("union u{n} switch (status s) {{ case FINE: int value; default: void; }};\n"))
        .collect();
    let base = format!("enum status {{ FINE = 0, BAD = 1 }};\n{unions}");
    let (_, compared) = compare(&base, &base.replace("BAD = 1", "BAD = 1, WORSE = 2, WORST = 3"));
    let messages: Vec<String> = compared.breaches.iter().map(|breach| breach.text().message).collect();
    let expected = ["WORSE", "WORST"]
        .map(|name| format!("`{name}` is a new value for the default arm in `u0`, and in 39 more places"));
    assert_eq!(messages, expected);
}

#[test]
fn a_new_arm_for_an_existing_value_is_a_breach() {
    let base = BASE.replace("   case TELL: opaque answer<64>;\n", "");
    assert_eq!(breaches(&base, BASE), ["X509 new.x:5:9 base.x:3:7"]);
}

#[test]
fn constants_keep_their_values() {
    let base = "const VERSION = 1;\nconst ROOM = 0x10;\n";
    assert_eq!(breaches(base, "const VERSION = 2;\nconst ROOM = 16;\n"), ["X511 new.x:1:7 base.x:1:7"]);
}

#[test]
fn an_unused_name_may_be_removed_but_not_changed() {
    let unused = format!("typedef opaque spare<7>;\n{BASE}");
    assert_eq!(breaches(&unused, BASE), [] as [&str; 0]);
    let renamed = BASE.replace("union body", "union content").replace("body rest", "content rest");
    assert_eq!(additions(BASE, &renamed), []);
    // A type that no message contains may also be renamed.
    let alone = "union u switch (int n) { case 1: int a; case 2: hyper b; };\n";
    assert_eq!(additions(alone, &alone.replace("union u", "union w")), []);
}

#[test]
fn rfc_8178_has_separate_rules() {
    let base = "enum status { FINE = 0, BAD = 1 };\nstruct reply { status is; };\n\
                union result switch (status s) { case FINE: int value; default: void; };\n";
    let new = base.replace("BAD = 1", "BAD = 1, WORSE = 2");
    let codes: Vec<&str> = compare(base, &new).1.breaches.iter().map(|one| one.code()).collect();
    assert_eq!(codes, ["X505", "X507"]);
    assert_eq!(by_rfc_8178(base, &new), (vec![], vec!["WORSE = 2".to_owned()]));
    // RFC 8178 also prohibits a new arm in a union with a default arm.
    let new = new.replace("int value;", "int value; case WORSE: int how;");
    assert_eq!(by_rfc_8178(base, &new).0, ["X507"]);
}

/// The codes of the breaches, and for each addition its text, or its name if the text is empty.
type Judged = (Vec<&'static str>, Vec<String>);

fn by_rfc_8178(base: &str, new: &str) -> Judged {
    let mut sources = Sources::default();
    let (base, new) = (sources.add(Source::new("base.x", base)), sources.add(Source::new("new.x", new)));
    let compared = compat_by(Rules::Rfc8178, &sources, &[base], &[new], &Options::module("compared"));
    assert!(!has_errors(&compared.diagnostics), "{:?}", compared.diagnostics);
    let additions = compared.additions.into_iter();
    let added = additions.map(|one| if one.text.is_empty() { one.name } else { one.text }).collect();
    (compared.breaches.iter().map(|breach| breach.code()).collect(), added)
}

#[test]
fn rfc_8178_section_4_2_lists_what_is_allowed() {
    let base = "enum op { GET = 1, PUT = 2 };\nconst OPEN_FLAG_FAST = 1;\nenum spare { ONE = 1, TWO = 2 };\n\
                union request switch (op what) { case GET: int from; };\n\
                program P { version V { request DO(request) = 1; } = 1; } = 300;\n";
    let added = |text: &str| (vec![], vec![text.to_owned()]);
    let breach = |code| (vec![code], vec![]);
    let cases: &[(&str, &str, Judged)] = &[
        // New values of an enum are allowed, regardless of whether a union has an arm for them.
        ("PUT = 2", "PUT = 2, TELL = 3", added("TELL = 3")),
        // A new arm for an existing value is allowed, but a new default arm is not.
        ("int from;", "int from; case PUT: int to;", added("case PUT: int to")),
        ("int from;", "int from; default: void;", breach("X510")),
        // New flag bits are allowed. A flag may be removed only if another flag has its bit.
        ("FAST = 1;", "FAST = 1; const OPEN_FLAG_SAFE = 2;", added("OPEN_FLAG_SAFE = 2")),
        ("const OPEN_FLAG_FAST = 1;", "", breach("X504")),
        // Neither an enum value nor an arm may be removed.
        (", TWO = 2", "", breach("X504")),
        (", PUT = 2", "", breach("X504")),
        ("case GET: int from;", "case PUT: int from;", (vec!["X508"], vec!["case PUT: int from".to_owned()])),
        // New programs are allowed, but new procedures and versions of an existing program are not.
        ("DO(request) = 1;", "DO(request) = 1; void MORE(void) = 2;", breach("X514")),
        ("} = 1; } = 300", "} = 1; version W { void NONE(void) = 0; } = 2; } = 300", breach("X514")),
        ("program P", "program Q { version V { void A(void) = 1; } = 1; } = 301; program P", added("301")),
    ];
    for (from, to, expected) in cases {
        assert!(base.contains(from), "{from}");
        assert_eq!(by_rfc_8178(base, &base.replacen(from, to, 1)), *expected, "{from} -> {to}");
    }
}

#[test]
fn a_common_name_keeps_its_value() {
    let base = "enum e { A = 1, B = 2 };\nstruct s { e x; };\n";
    let expected = ["X504 new.x:1:10 base.x:1:10", "X504 new.x:1:17 base.x:1:17"];
    assert_eq!(breaches(base, "enum e { A = 2, B = 1 };\nstruct s { e x; };\n"), expected);
}

#[test]
fn a_bool_discriminant_has_no_new_values() {
    let base = "union u switch (bool is) { case TRUE: hyper a; };\nstruct s { u x; };\n";
    let new = base.replace("hyper a;", "hyper a; case FALSE: int b;");
    assert_eq!(breaches(base, &new), ["X509 new.x:1:53 base.x:1:7"]);
}

#[test]
fn a_breach_in_the_use_of_a_macro_shows_the_expansion() {
    let base = "#define FIELD(t, n) t n;\nstruct s { FIELD(int, b) };\n";
    let (_, compared) = compare(base, &base.replace("int, b", "hyper, b"));
    let [breach] = compared.breaches.as_slice() else { panic!("{:?}", compared.breaches) };
    let text = breach.text();
    assert_eq!(text.help.as_deref(), Some("`FIELD` expands to `hyper b ;`"));
    assert!(text.related.iter().any(|label| label.text == "the macro is defined here"), "{breach:?}");
    // An error in one of the documents also shows the macro's expansion.
    let mut sources = Sources::default();
    let one = sources.add(Source::new("a.x", base.replace("int, b", "none, b")));
    let compared = compat(&sources, &[one], &[one], &Options::module("compared"));
    let helps: Vec<_> = compared.diagnostics.iter().filter_map(|found| found.text().help).collect();
    assert!(helps.iter().all(|help| help.ends_with("`FIELD` expands to `none b ;`")), "{helps:?}");
    assert!(!helps.is_empty());
}

#[test]
fn programs_are_compared_by_their_numbers() {
    let base = "program P { version V { int GET(int) = 1; void PUT(int) = 2; } = 1; } = 300;\n";
    let renamed = "program Q { version W { int READ(int) = 1; void PUT(int) = 2; hyper ASK(void) = 3; } = 1;\n version X { void NULLX(void) = 0; } = 2; } = 300;\n";
    let expected = [(Kind::Procedure, "W".to_owned()), (Kind::Version, "Q".to_owned())];
    assert_eq!(additions(base, renamed), expected);
    let broken = base.replace("int GET(int)", "int GET(hyper)").replace(" void PUT(int) = 2;", "");
    assert_eq!(breaches(base, &broken), ["X513 new.x:1:21 base.x:1:48", "X502 new.x:1:29 base.x:1:29"]);
    assert_eq!(breaches(base, "const A = 1;\n"), ["X513 base.x:1:9"]);
}

#[test]
fn equal_cycles_terminate() {
    // Cycles of 96 and of 95 types: a parallel traversal compares every type of one cycle with every type of
    // the other cycle.
    let cycle = |len: usize| {
        let node = |n: usize| format!("struct n{n} {{ int v; n{} *next; }};\n", (n + 1) % len);
        (0..len)
            .map(node)
            .collect::<String>()
            .replace("struct n0 ", "struct start ")
            .replace("n0 *", "start *")
    };
    let found = breaches(&cycle(96), &cycle(95).replace("struct n", "struct m").replace(" n", " m"));
    assert!(found.iter().all(|found| found.starts_with("X502")), "{found:?}");
}

const EXTENSION: &str = "\
enum kind { ASK = 0, TELL = 1, PING = 2 };
struct ping { int n; };
union body switch (kind which) {
   case ASK: ask question;
   case TELL: opaque answer<64>;
   case PING: ping ping;
};
";

fn together(documents: &[(&str, &str)]) -> Sources {
    let mut sources = Sources::default();
    for (name, text) in documents {
        sources.add(Source::new(*name, *text));
    }
    sources
}

#[test]
fn a_later_document_extends_an_enum_and_a_union() {
    let sources = together(&[("base.x", BASE), ("more.x", EXTENSION)]);
    let generated = generate(&sources, &Options::module("both"));
    assert!(generated.diagnostics.is_empty(), "{:?}", generated.diagnostics);
    let (_, code) = generated.files.first().expect("a file");
    assert_eq!(code.matches("pub enum Kind ").count(), 1, "{code}");
    assert_eq!(code.matches("pub enum Body ").count(), 1, "{code}");
    assert!(code.contains("Ping(Ping)"), "{code}");
    assert!(code.contains("Extends and replaces the definition of an earlier document"), "{code}");
    assert!(code.contains("pub struct Message"), "{code}");
}

#[test]
fn extensions_of_extensions_add_up() {
    let more = EXTENSION
        .replace("PING = 2", "PING = 2, PONG = 3")
        .replace("ping ping;\n", "ping ping;\n case PONG: void;\n");
    let sources = together(&[("base.x", BASE), ("one.x", EXTENSION), ("two.x", more.as_str())]);
    assert!(check(&sources, &Options::module("all")).diagnostics.is_empty());
    // The second extension omits an addition of the first extension.
    let other = EXTENSION.replace("PING = 2", "PONG = 3").replace("case PING: ping ping", "case PONG: void");
    let sources = together(&[("base.x", BASE), ("one.x", EXTENSION), ("two.x", other.as_str())]);
    let found = check(&sources, &Options::module("all")).diagnostics;
    let found: Vec<String> = found.iter().map(|found| shown(&sources, found)).collect();
    assert_eq!(found, ["X201 two.x:1:6 one.x:1:32"]);
}

#[test]
fn an_incompatible_redefinition_is_an_error_with_its_breach() {
    let sources = together(&[("base.x", BASE), ("more.x", &EXTENSION.replace("<64>", "<32>"))]);
    let found = check(&sources, &Options::module("both")).diagnostics;
    assert_eq!(
        found.iter().map(|found| shown(&sources, found)).collect::<Vec<_>>(),
        ["X201 more.x:5:15 base.x:5:15"]
    );
    let message = found.first().expect("an error").text().message;
    assert_eq!(
        message,
        "the second definition is not an extension of the first: the bound of `body.answer` changed from 64 to 32"
    );
}

#[test]
fn one_document_does_not_extend_itself() {
    let sources = together(&[("base.x", &format!("{BASE}{EXTENSION}"))]);
    let found = check(&sources, &Options::module("both")).diagnostics;
    let codes: Vec<_> = found.iter().filter(|found| found.is_error()).map(|found| found.code()).collect();
    assert_eq!(codes, ["X201", "X201"]);
}

#[test]
fn another_namespace_does_not_rename_types() {
    let base = "namespace a { struct foo { int x; }; }\nprogram P { version V { a::foo DO(a::foo) = 1; } = 1; } = 7;\n";
    let new = format!("{base}namespace b {{ struct foo {{ int y; }}; }}\n");
    let (_, compared) = compare(base, &new);
    assert!(compared.breaches.is_empty(), "{:?}", compared.breaches);
    assert!(compared.not_compared.is_empty(), "{:?}", compared.not_compared);
}
