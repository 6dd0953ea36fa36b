//! Invalid definitions: each mistake has one finding, with its code and its position.

use rpcrdma_xdrgen::diag::{Diagnostic, render};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Generated, Options};

fn run(files: &[(&str, &str)]) -> (Sources, Generated) {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(Source::new(*name, *text));
    }
    let generated = rpcrdma_xdrgen::check(&sources, &Options::module("out"));
    (sources, generated)
}

/// Returns a finding as `CODE line:column`.
fn place(sources: &Sources, found: &Diagnostic) -> String {
    let at = sources.get(found.span.source).map(|source| source.line_column(found.span.start));
    at.map_or_else(|| found.code().to_owned(), |at| format!("{} {}:{}", found.code(), at.line, at.column))
}

#[track_caller]
fn finds(text: &str, places: &[&str], words: &[&str]) {
    found_in(&[("a.x", text)], places, words);
}

#[track_caller]
fn found_in(files: &[(&str, &str)], places: &[&str], words: &[&str]) {
    let (sources, generated) = run(files);
    let found: Vec<String> = generated.diagnostics.iter().map(|found| place(&sources, found)).collect();
    let text = render(&generated.diagnostics, &sources, false);
    assert_eq!(found, places, "\n{text}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in\n{text}");
    }
}

#[test]
fn a_clean_document_has_no_findings() {
    finds("const A = 1;\nstruct s { int x<A>; };\n", &[], &[]);
}

#[test]
fn all_mistakes_are_found_in_one_run() {
    finds(
        "struct a { foo x; };\nenum b { X = 1, X = 2 };\nstruct c { int y<-1>; };\n",
        &["X200 1:12", "X206 2:17", "X220 3:18"],
        &[],
    );
}

#[test]
fn a_syntax_error_hides_only_names_it_may_define() {
    finds(
        "struct a { nope1 x; };\nconst b = 1\nstruct c { nope2 y; int z[NOPE]; };\n",
        &["X200 1:12", "X111 2:12", "X200 3:12", "X202 3:27"],
        &[],
    );
    // The broken definition may define `gone` and `left`, so only `nope` is reported as undefined.
    let broken = "struct gone { int x y; } left;\nstruct a { gone x; left y; nope z; };\n";
    finds(broken, &["X100 1:21", "X200 2:28"], &[]);
    finds("/* open\nconst N = 1;\nstruct a { int x[N]; int y[O]; };\n", &["X101 1:1", "X202 3:28"], &[]);
    let open = "struct a { part x; nope y; };\n#ifdef A\nstruct part { int x; };\n";
    finds(open, &["X200 1:20", "X106 2:1"], &[]);
    let binding = "[[binding]]\nprogram = \"PROG\"\nversion = \"VERS\"\neligible = []\n";
    let program = |number| {
        format!("const A = 1\nprogram PROG {{ version VERS {{ void P(void) = 0; }} = 1; }} = {number};\n")
    };
    found_in(&[("a.x", &program("*")), ("a.ddp.toml", binding)], &["X111 1:12", "X100 2:60"], &[]);
    found_in(
        &[("a.x", &program("7")), ("a.ddp.toml", &binding.replace("VERS", "VER"))],
        &["X111 1:12", "X302 3:11"],
        &[],
    );
}

// ---- names

#[test]
fn an_undefined_type_is_reported_once_with_the_nearest_name() {
    finds(
        "struct fattr3 { int x; };\nstruct a { fatr3 x; fatr3 y; };\n",
        &["X200 2:12"],
        &["no type named `fatr3`", "a similar name is defined: `fattr3`"],
    );
    finds("struct a { something x; };\n", &["X200 1:12"], &["--extern something="]);
}

#[test]
fn a_value_is_not_a_type() {
    finds("const N = 1;\nstruct a { N x; };\n", &["X200 2:12"], &["this is a value, not a type"]);
}

#[test]
fn the_usual_typedefs_are_known_unless_defined() {
    finds("struct a { uint32_t b; quad_t c; u_long d; };\n", &[], &[]);
    finds("typedef opaque uint32_t<4>;\nstruct a { uint32_t b; };\n", &[], &[]);
}

#[test]
fn a_repetition_is_a_warning_and_a_difference_is_an_error() {
    let repeated = "struct a { int x; };\nstruct a {\n  int x; /* same */\n};\n";
    finds(repeated, &["X218 2:8"], &["warning[X218]", "first defined here"]);
    finds("const A = 1;\nconst A = 0x1;\n", &["X218 2:7"], &[]);
    // C allows these repetitions, and two documents may both contain a definition that they need.
    finds("#define A 1\n#define A 1\n", &[], &[]);
    finds("struct a { int x; };\ntypedef struct a a;\ntypedef struct a a;\n", &[], &[]);
    found_in(&[("a.x", "struct a { int x; };\n"), ("b.x", "struct a { int x; };\n")], &[], &[]);
    // Repetitions in a published document are not reported.
    let published =
        format!("Request for Comments: 1\n\n   /// {}", repeated.trim_end().replace('\n', "\n   /// "));
    found_in(&[("a.txt", &published)], &[], &[]);
    finds("struct a { int x; };\nstruct a { int y; };\n", &["X201 2:8"], &["1 |", "first defined here"]);
    finds("const A = 1;\nconst A = 2;\n", &["X201 2:7"], &[]);
}

#[test]
fn definitions_are_compared_by_meaning() {
    for (one, other) in [
        ("struct a { unsigned x; };", "struct a { unsigned int x; };"),
        ("struct a { opaque x<4>; };", "struct a { opaque x<0x4>; };"),
        ("enum a { X, Y };", "enum a { X = 0, Y = 1 };"),
        ("struct a { int x; };", "struct a {\n%#define B\n int x; };"),
        ("struct b { int x; };\nstruct a { struct b x; };", "struct a { b x; };"),
    ] {
        found_in(&[("a.x", one), ("b.x", other)], &[], &[]);
    }
    // A missing token is one mistake, not two.
    finds("struct a { int x; };\nstruct a { int x };\n", &["X111 2:17"], &[]);
    finds(
        "union a switch (int x) { case 1: int y; };\nunion a switch (int x) { case 2: int y; };\n",
        &["X201 2:7"],
        &[],
    );
}

#[test]
fn types_and_constants_share_one_name_space() {
    finds(
        "const N = 2;\ntypedef int N;\nstruct s { string a<N>; };\n",
        &["X201 2:13"],
        &["a constant and a type"],
    );
    finds("struct M { opaque x<M>; };\nconst M = 5000;\n", &["X201 2:7"], &["1 |", "first defined here"]);
    finds("#define N 2\nenum N { A = 1 };\n", &["X201 2:6"], &[]);
    found_in(&[("a.x", "const N = 2;\n"), ("b.x", "struct N { int a; };\n")], &["X201 1:8"], &["a.x:1:7"]);
    finds(
        "enum e { N = 1 };\nstruct N { int a; };\n",
        &["X208 2:8"],
        &["the name of an enum member and of a type"],
    );
    finds("struct N { int a; };\nenum e { N = 1 };\n", &["X208 2:10"], &[]);
    // A program can have the name of a type or a constant.
    finds(
        "struct P { int a; };\nprogram P { version V { void V(void) = 0; P P(P) = 1; } = 1; } = 7;\n",
        &[],
        &[],
    );
    finds(
        "program P { version V { int N(void) = 1; } = 1; } = 7;\nstruct N { int a; };\nconst P = 7;\n",
        &[],
        &[],
    );
}

#[test]
fn both_positions_are_shown_across_documents() {
    found_in(
        &[("a.x", "enum e { A = 1 };\n"), ("b.x", "\nenum e { B = 1 };\n")],
        &["X201 2:6"],
        &["a.x:1:6", "b.x:2:6"],
    );
}

#[test]
fn documents_use_one_anothers_names() {
    found_in(
        &[("a.x", "struct a { b x<N>; };\n"), ("b.x", "struct b { int y; };\nconst N = 3;\n")],
        &[],
        &[],
    );
}

#[test]
fn members_of_enums_share_one_name_space() {
    finds("enum a { X = 1 };\nenum b { X = 2 };\n", &["X208 2:10"], &["first defined here"]);
}

// ---- constants

#[test]
fn constants_without_a_value() {
    finds("const A = B;\nconst C = B;\n", &["X202 1:11"], &["no constant named `B`"]);
    finds("const A = B;\nconst B = A;\n", &["X203 2:7"], &["depends on itself"]);
    finds(
        "const AMOUNT = 3;\nstruct s { int x<AMOUMT>; };\n",
        &["X202 2:18"],
        &["a similar name is defined: `AMOUNT`"],
    );
}

#[test]
fn constants_name_one_another_in_any_order_and_number() {
    let chain = |last: &str| {
        let constants = (0..20_000).map(|at| format!("const C_{at} = C_{};\n", at + 1));
        format!("{}const C_20000 = {last};\nstruct s {{ opaque x<C_0>; }};\n", constants.collect::<String>())
    };
    finds(&chain("7"), &[], &[]);
    finds(&chain("C_19999"), &["X203 20000:7"], &["depends on itself"]);
    finds(
        "enum a { X = Y, Z };\nenum b { W, Y = V, U };\nconst V = 4;\nconst A = Z;\nstruct s { int x[A]; };\n",
        &[],
        &[],
    );
}

#[test]
fn strings_and_opaque_data_of_procedures_are_not_optional() {
    for (procedure, place) in [
        ("int F(string *) = 1;", "X129 1:38"),
        ("int F(string *name) = 1;", "X129 1:38"),
        ("string *F(void) = 1;", "X129 1:32"),
        ("int F(opaque *<4>) = 1;", "X129 1:38"),
    ] {
        finds(&format!("program P {{ version V {{ {procedure} }} = 1; }} = 7;\n"), &[place], &[]);
    }
}

#[test]
fn an_undefined_macro_may_be_defined_again() {
    finds("#define N 3\n#undef N\n#define N 9\nstruct a { int x[N]; };\n", &[], &[]);
    finds("#define N 3\n#define N 9\n", &["X201 2:9"], &[]);
    // A name cannot be used after its `#undef`, unless it is defined again.
    finds("#define N 3\n#undef N /* why */\nstruct a { int x[N]; };\n", &["X202 3:18"], &[]);
    // Each use has the value of the macro at that position. Unlike in C, `M` keeps the value of `N` at the
    // definition of `M`.
    let text = "#define N 3\nstruct a { int x[N]; };\n#define M N\n#undef N\n#define N 9\n\
                struct b { int x[N]; int y[M]; };\n";
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    let files = rpcrdma_xdrgen::generate(&sources, &Options::module("out")).files;
    for part in
        ["pub x: [i32; 3]", "pub const N: u32 = 9", "pub x: [i32; N as usize]", "pub const M: u32 = 3"]
    {
        assert!(files[0].1.contains(part), "no `{part}` in\n{}", files[0].1);
    }
}

#[test]
fn a_macro_for_a_type_has_its_meaning_at_the_position_of_the_use() {
    finds("#define T int\nstruct a { T x; };\n#undef T\nstruct b { T x; };\n", &["X200 4:12"], &[]);
    let text = "#define T int\n#define U unsigned int\nstruct a { T x; U y; };\n#undef T\n#define T hyper\n\
                #define U float\nstruct b { T x; U y; };\n";
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    let files = rpcrdma_xdrgen::generate(&sources, &Options::module("out")).files;
    for part in ["pub x: i32", "pub y: u32", "pub x: i64", "pub y: f32"] {
        assert!(files[0].1.contains(part), "no `{part}` in\n{}", files[0].1);
    }
}

#[test]
fn a_macro_may_replace_a_keyword() {
    let text = "#define long hyper\n#define int foo\n#define unsigned unsigned hyper\ntypedef float foo;\n\
                struct a { long x; int y; unsigned z; };\n#undef long\nstruct b { long w; };\n";
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    let files = rpcrdma_xdrgen::generate(&sources, &Options::module("out")).files;
    for part in ["pub x: i64", "pub y: Foo", "pub z: u64", "pub w: i32"] {
        assert!(files[0].1.contains(part), "no `{part}` in\n{}", files[0].1);
    }
}

#[test]
fn a_macro_is_not_expanded_within_its_expansion() {
    let pair = "struct pair { int v; };\n#define pair pair both\nstruct s { pair; };\n";
    finds(pair, &[], &[]);
    let each_other = "struct a { int v; };\n#define a b;\n#define b a x\nstruct s { a };\n";
    finds(each_other, &[], &[]);
}

#[test]
fn names_of_procedures_are_constants() {
    finds(
        "const LAST = P_TWO;\nprogram P { version V { void P_NULL(void) = 0; void P_TWO(void) = 2; } = 1; } = 3;\n",
        &[],
        &[],
    );
}

#[test]
fn bounds_have_32_bits_without_a_sign() {
    finds("struct a { int x<-1>; };\n", &["X220 1:18"], &["is negative"]);
    finds("const BIG = 4294967296;\nstruct a { opaque x[BIG]; };\n", &["X220 2:21"], &["above 4294967295"]);
}

// ---- enums

#[test]
fn values_of_enums() {
    finds("enum a { X = 4294967296 };\n", &["X205 1:14"], &["does not fit in 32 bits"]);
    finds("enum a { X = 0xffffffff };\n", &["X209 1:14"], &["sent as -1"]);
    // An implicit value after a reported value may still be an error.
    finds("enum a { X = 0xffffffff, Y };\n", &["X209 1:14", "X205 1:26"], &[]);
    finds("enum a { X = 0x80000000, Y, Z };\n", &["X209 1:14"], &[]);
    finds("enum a { W, X = 4294967296, Y, Z, V = 4294967299 };\n", &["X205 1:17", "X205 1:39"], &[]);
    finds("enum a { X = 1, Y = 1 };\n", &["X207 1:21"], &["`X` and `Y` are both 1"]);
}

// ---- structs and unions

#[test]
fn fields_have_different_names() {
    finds("struct a { int x; int x; };\n", &["X210 1:23"], &["the first"]);
}

#[test]
fn labels_of_a_union() {
    let head = "enum e { AAA = 1, BBB = 2 };\n";
    finds(
        &format!("{head}union u switch (e x) {{ case AAA: void; case AAA: int y; case BBB: void; }};\n"),
        &["X212 2:45"],
        &[],
    );
    finds(
        &format!("{head}union u switch (e x) {{ case AAA: void; case BBC: int y; default: void; }};\n"),
        &["X213 2:45"],
        &["`e` has no member", "a similar name exists: `BBB`"],
    );
    finds(&format!("{head}union u switch (e x) {{ case 3: void; default: void; }};\n"), &["X213 2:29"], &[]);
    finds(
        &format!("{head}union u switch (e x) {{ case AAA: void; }};\n"),
        &["X214 2:7"],
        &["no arm for BBB"],
    );
    finds(&format!("{head}union u switch (e x) {{ case 1: void; case BBB: void; }};\n"), &[], &[]);
    finds(
        "union u switch (bool x) { case TRUE: void; case 2: int y; default: void; };\n",
        &["X216 1:49"],
        &[],
    );
    finds(
        "union u switch (int x) { case -1: void; case 0xffffffff: int y; };\n",
        &["X212 1:46"],
        &["the first"],
    );
    finds("union u switch (int x) { case 4294967296: void; };\n", &["X216 1:31"], &["4294967296"]);
    let minus = "enum e { A = 0xffffffff, B = 1 };\n";
    for label in ["A", "-1", "0xffffffff", "ALL"] {
        let text = format!(
            "{minus}const ALL = 0xffffffff;\nunion u switch (e x) {{ case {label}: void; case B: void; }};\n"
        );
        finds(&text, &["X209 1:14"], &[]);
    }
    finds(
        &format!("{minus}union u switch (e x) {{ case A: void; case -1: int y; case B: void; }};\n"),
        &["X209 1:14", "X212 2:43"],
        &[],
    );
    finds("union u switch (unsigned x) { case -1: void; };\n", &["X216 1:36"], &[]);
}

#[test]
fn discriminants_are_integers() {
    finds("union u switch (float x) { case 1: void; };\n", &["X215 1:17"], &["RFC 4506 section 4.15"]);
    finds("struct s { int a; };\nunion u switch (s x) { case 1: void; };\n", &["X215 2:17"], &[]);
}

#[test]
fn infinitely_large_types_are_errors() {
    finds("struct a { int x; a y; };\n", &["X222 1:19"], &["is infinitely large", "optional"]);
    finds("struct a { b x; };\nstruct b { a y[2]; };\n", &["X222 1:12"], &["through `b`"]);
    finds("struct a { a x[0]; int y; };\n", &["X222 1:12"], &["is infinitely large"]);
    finds("struct a { b x[0]; };\nstruct b { a y; };\n", &["X222 1:12"], &["through `b`"]);
    finds("typedef a b;\ntypedef b a;\n", &["X223 1:11"], &["type alias cycle"]);
    finds("typedef b *a;\ntypedef a *b;\n", &["X223 1:12"], &["typedefs alone"]);
    finds("struct a { int x; a *y; };\nstruct b { b z<>; };\n", &[], &[]);
    finds("union u switch (bool more) { case TRUE: u next; case FALSE: void; };\n", &[], &[]);
}

// ---- programs

#[test]
fn numbers_and_names_of_programs() {
    finds(
        "program P { version V { void A(void) = 1; void B(void) = 1; } = 1; } = 1;\n",
        &["X230 1:58"],
        &["two procedures have the same number 1"],
    );
    finds("program P { version V { void A(void) = 1; int A(void) = 2; } = 1; } = 1;\n", &["X231 1:47"], &[]);
    finds(
        "program P { version V { void A(void) = 1; } = 1; version W { void A(void) = 1; } = 1; } = 1;\n",
        &["X230 1:84"],
        &["two versions"],
    );
    finds("program P { version V { void A(void) = -1; } = 1; } = 1;\n", &["X234 1:40"], &[]);
}

#[test]
fn the_number_of_a_version_is_a_constant_if_it_is_unique() {
    let programs = |second: u8| {
        format!(
            "program P {{ version V {{ void A(void) = 1; }} = 1; }} = 1;\n\
             program Q {{ version V {{ void A(void) = 1; }} = {second}; }} = 2;\n"
        )
    };
    finds(&programs(3), &[], &[]);
    let used = "const LATEST = V;\nconst AGAIN = V;\n";
    finds(&(programs(3) + used), &["X201 3:16"], &["`V` has two different numbers", "the second"]);
    finds(&(programs(1) + used), &[], &[]);
}

// ---- names in Rust

#[test]
fn conflicting_rust_names_get_underscores() {
    finds("struct foo_bar { int x; };\nstruct FooBar { int y; };\n", &["X400 2:8"], &["`FooBar_`"]);
    finds("struct a { int foo; int Foo; };\n", &["X400 1:25"], &["`foo_`"]);
}

// ---- published and unpublished documents

const PROSE: &str = "   The types are as follows.\n\n      struct good {\n         int x;\n      };\n\n   \
    Another one is this.\n\n      struct bad {\n         missing x;\n      };\n\n   \
    And one that needs it.\n\n      struct worse {\n         bad x;\n      };\n\n   \
    One with a misspelled name.\n\n      struct near {\n         goood x;\n      };\n\n   It ends here.\n";

const RFC_MARKS: [&str; 2] =
    ["Request for Comments: 9999\n", "\n\nAuthor             Standards Track             [Page 1]\n"];

#[test]
fn invalid_code_in_a_published_document_is_omitted() {
    for (text, line) in [(format!("{}{PROSE}", RFC_MARKS[0]), 1), (format!("{PROSE}{}", RFC_MARKS[1]), 0)] {
        let (sources, generated) = run(&[("rfc.txt", &text)]);
        let found: Vec<String> = generated.diagnostics.iter().map(|found| place(&sources, found)).collect();
        let expected = [10, 16, 22].map(|at| format!("X200 {}:10", at + line));
        assert_eq!(found, expected);
        let shown = render(&generated.diagnostics, &sources, false);
        assert!(!generated.has_errors() && shown.contains("interpreted as `good`"), "{shown}");
        assert_eq!(generated.summary.types, 2);
    }
}

#[test]
fn unpublished_documents_get_no_corrections() {
    for name in ["protocol.txt", "protocol.md"] {
        let (sources, generated) = run(&[(name, PROSE)]);
        let found: Vec<String> = generated.diagnostics.iter().map(|found| place(&sources, found)).collect();
        assert_eq!(found, ["X200 10:10", "X200 22:10"]);
        assert!(generated.diagnostics.iter().all(Diagnostic::is_error));
        let shown = render(&generated.diagnostics, &sources, false);
        assert!(shown.contains("a similar name is defined: `good`"), "{shown}");
    }
    let broken = "   A type:\n\n      struct good {\n         int x\n      };\n";
    let own = run(&[("protocol.txt", broken)]).1;
    assert!(own.has_errors(), "{:?}", own.diagnostics);
    let published = run(&[("protocol.txt", &format!("{broken}{}", RFC_MARKS[1]))]).1;
    assert!(!published.has_errors() && !published.diagnostics.is_empty(), "{:?}", published.diagnostics);
}

// ---- bindings

const XDR: &str = "\
typedef opaque data<65536>;
struct args { unsigned int count; hyper big; opaque blob<65536>; int n; opaque key<1600>; };
union res switch (int status) { case 0: data bytes; default: void; };
struct unused { opaque x<>; };
program P { version V { res P_GET(args) = 1; args P_PUT(res) = 2; } = 1; } = 7;
";

#[track_caller]
fn binding(text: &str, places: &[&str], words: &[&str]) {
    found_in(&[("a.x", XDR), ("a.ddp.toml", text)], places, words);
}

fn eligible(item: &str) -> String {
    format!("[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [\"{item}\"]\n")
}

#[test]
fn a_good_binding_has_no_findings() {
    binding(
        "[[binding]]\nprogram = \"P\"\nversion = \"V\"\nport = 1\nnetids = [\"rdma\", \"rdma6\"]\neligible = [\"res.bytes\", \"args.blob\", \"args.key\"]\n\
         [binding.reply.\"P_GET\"]\nitem = \"count + 4\"\nunreduced = 65544\n",
        &[],
        &[],
    );
    let optional = XDR.replace("res P_GET", "res *P_GET");
    let text = format!("{}[binding.reply.\"P_GET\"]\nitem = 65536\n", eligible("res.bytes"));
    found_in(&[("a.x", &optional), ("a.ddp.toml", &text)], &[], &[]);
}

#[test]
fn a_binding_names_only_items_of_the_document() {
    binding(
        "[[binding]]\nprogram = \"Q\"\nversion = \"V\"\neligible = []\n",
        &["X301 2:11"],
        &["no program"],
    );
    binding("[[binding]]\nprogram = \"P\"\nversion = \"W\"\neligible = []\n", &["X302 3:11"], &[]);
    binding(&eligible("arg.blob"), &["X303 4:13"], &["a similar name exists: `args`"]);
    binding(&eligible("args.blub"), &["X304 4:13"], &["a similar name exists: `blob`"]);
    binding(&eligible("blob"), &["X304 4:13"], &["Type.field"]);
}

#[test]
fn only_items_are_eligible() {
    binding(&eligible("args.n"), &["X305 4:13"], &["int n"]);
    binding(&eligible("res.status"), &["X310 4:13"], &["discriminant"]);
    binding(&eligible("unused.x"), &["X313 4:13"], &["no message"]);
    binding(
        "[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [\"args.blob\", \"args.blob\"]\n",
        &["X306 4:26"],
        &[],
    );
}

#[test]
fn bounds_of_replies_are_checked() {
    let reply = |text: &str| format!("{}[binding.reply.\"P_GET\"]\n{text}\n", eligible("res.bytes"));
    binding(&reply("item = \"cuont\""), &["X309 6:8"], &["a similar name exists: `count`"]);
    binding(&reply("item = \"big\""), &["X309 6:8"], &["is not an unsigned int or unsigned hyper"]);
    binding(&reply("item = \"count - 1\""), &["X308 6:8"], &[]);
    binding(&reply("unreduced = 1.5"), &["X308 6:13"], &[]);
    let other = format!("{}[binding.reply.\"P_GOT\"]\nunreduced = 1\n", eligible("res.bytes"));
    binding(&other, &["X307 5:16"], &["a similar name exists: `P_GET`"]);
    let none =
        "[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = []\n[binding.reply.\"P_GET\"]\nitem = 1\n";
    binding(none, &["X311 6:8"], &["no eligible item"]);
}

#[test]
fn a_constant_bound_is_at_least_that_of_the_type() {
    let reply = |text: &str| format!("{}[binding.reply.\"P_GET\"]\n{text}\n", eligible("res.bytes"));
    // The result contains a status, the length of the data, and the data.
    binding(&reply("unreduced = 65544"), &[], &[]);
    binding(&reply("unreduced = 65543"), &["X326 6:13"], &["can have 65544 bytes", "its bound of 65543"]);
    binding(&reply("item = 65536"), &[], &[]);
    binding(&reply("item = 65535"), &["X326 6:8"], &["an item of `P_GET` can have 65536 bytes"]);
    binding(&reply("item = 100\nunreduced = 104"), &["X326 6:8"], &[]);
    binding(&reply("item = \"count\"\nunreduced = \"count + 8\""), &[], &[]);
}

#[test]
fn a_binding_bounds_only_the_unbounded_parts_of_a_result() {
    let xdr = |bound: &str| {
        format!(
            "struct res {{ opaque data<{bound}>; string name<100>; }};\n\
             struct many {{ res few<70000>; }};\n\
             program P {{ version V {{ res P_GET(int) = 1; many P_LIST(int) = 2; }} = 1; }} = 7;\n"
        )
    };
    let checked = |xdr: &str, get: u64, list: u64, places: &[&str]| {
        let text = format!(
            "[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [\"res.data\"]\n\
             [binding.reply.\"P_GET\"]\nunreduced = {get}\n[binding.reply.\"P_LIST\"]\nunreduced = {list}\n"
        );
        found_in(&[("a.x", xdr), ("a.ddp.toml", &text)], places, &[]);
    };
    // `rest` is the encoded size of a `res` without its data: the length word of the data, and the name with
    // its length word. `list` is the size of a `many` with 70,000 such elements and their count.
    let (rest, list) = (108, 4 + 70_000 * 108);
    checked(&xdr(""), rest, list, &["X327 3:11"]);
    checked(&xdr(""), rest - 1, list - 1, &["X327 3:11", "X326 6:13", "X326 8:13"]);
    // The longest list exceeds the maximum length of a chunk, but the list without its items does not.
    checked(&xdr("65536"), 65_536 + rest, list, &["X327 3:11"]);
    checked(&xdr("65536"), 65_536 + rest, list - 1, &["X327 3:11", "X326 8:13"]);
}

#[test]
fn a_call_offers_a_write_chunk_for_each_item_of_its_result() {
    let checked = |result: &str, places: &[&str], words: &[&str]| {
        let xdr = format!(
            "struct item {{ opaque data<5000>; }};\nstruct list {{ item one; list *next; }};\n\
             struct res {{ {result} }};\nstruct args {{ item all<17>; }};\n\
             program P {{ version V {{ res P_GET(args) = 1; }} = 1; }} = 7;\n"
        );
        let text = format!("{}[binding.reply.\"P_GET\"]\nunreduced = 1000000\n", eligible("item.data"));
        found_in(&[("a.x", &xdr), ("a.ddp.toml", &text)], places, words);
    };
    checked("item all<16>;", &[], &[]);
    checked("item all[9]; item more<7>;", &[], &[]);
    checked("item all<17>;", &["X327 3:11"], &["can contain 17 eligible items", "the 16 Write chunks"]);
    checked("list *all;", &["X327 3:11"], &["any number of eligible items"]);
}

#[test]
fn a_version_has_one_binding() {
    let twice = format!("{}{}", eligible("res.bytes"), eligible("res.bytes"));
    binding(&twice, &["X312 7:11"], &["the first"]);
}

#[test]
fn an_invalid_binding_file_has_a_position() {
    binding("[[binding]]\nprogramme = \"P\"\n", &["X300 2:1"], &[]);
    binding("[[binding]\n", &["X300 1:11"], &[]);
}

#[test]
fn a_union_has_one_finding_for_all_values_without_an_arm() {
    let members: Vec<String> = (0..700).map(|at| format!("M{at} = {at}")).collect();
    let text = format!("enum e {{ {} }};\nunion u switch (e x) {{ case M0: void; }};\n", members.join(", "));
    finds(&text, &["X214 2:7"], &["no arm for M1, M2, M3, M4, M5 and 694 more"]);
}

#[test]
fn only_a_run_without_any_definition_fails() {
    let severity = |texts: &[&str]| {
        let mut sources = Sources::default();
        for (at, text) in texts.iter().enumerate() {
            sources.add(Source::new(format!("{at}.x"), *text));
        }
        let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
        found.iter().map(|found| (found.code(), found.is_error())).collect::<Vec<_>>()
    };
    assert_eq!(severity(&[""]), [("X001", true)]);
    assert_eq!(severity(&["", "/* none */\n"]), [("X001", true), ("X001", true)]);
    assert_eq!(severity(&["const A = 1;\n", ""]), [("X001", false)]);
}

// ---- namespaces

#[test]
fn a_name_of_another_namespace_is_not_defined() {
    finds(
        "namespace a { struct foo { int x; }; }\nnamespace b { struct bar { foo f; a::foo g; a::fob h; }; }\n",
        &["X200 2:28", "X200 2:45"],
        &["no type named `foo`", "a similar name is defined: `a::foo`"],
    );
    finds("namespace a { const N = 2; }\nstruct bar { int f[N]; int g[a::N]; };\n", &["X202 2:20"], &[]);
}

#[test]
fn namespaces_separate_names() {
    finds(
        "namespace a { struct foo { int x; }; }\nnamespace b { struct foo { int y; }; }\nstruct a_foo { int z; };\n",
        &[],
        &[],
    );
    finds(
        "namespace a { struct foo { int x; }; }\nnamespace b { struct Foo { int y; };\nstruct foo { int z; }; }\n",
        &["X400 3:8"],
        &["`b::foo` and `b::Foo`"],
    );
    finds(
        "namespace a { struct foo { int x; };\nstruct foo { int y; }; }\n",
        &["X201 2:8"],
        &["`a::foo` has two different definitions"],
    );
    finds(
        "struct foo { int x; };\nnamespace a { typedef struct foo foo; struct bar { foo f; }; }\n",
        &[],
        &[],
    );
}

#[test]
fn a_namespace_ends_after_a_broken_definition() {
    let text = "namespace a {\nstruct s { int 4x; };\n}\nstruct t { a::s f; };\nstruct u { t x; a::t y; };\n";
    finds(text, &["X100 2:16", "X200 5:17"], &["no type named `a::t`"]);
}

#[test]
fn modules_of_namespaces_have_different_names() {
    let text = "namespace a::b { struct s { int x; }; }\nnamespace a_b { struct t { int x; }; }\n";
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    let generated = rpcrdma_xdrgen::generate(&sources, &Options::module("out"));
    let found: Vec<String> = generated.diagnostics.iter().map(|found| place(&sources, found)).collect();
    assert_eq!(found, ["X400 2:11"], "{}", render(&generated.diagnostics, &sources, false));
}
