//! The emitted Rust code for each construct of the XDR language.

use rpcrdma_xdrgen::ir::Data;
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Dialect, Names, Options, Output, diag};

fn emit_files(files: &[(&str, &str)], options: &Options) -> Vec<(String, String)> {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(Source::new(*name, *text));
    }
    let generated = rpcrdma_xdrgen::generate(&sources, options);
    assert!(!generated.has_errors(), "{}", diag::render(&generated.diagnostics, &sources, false));
    generated.files.into_iter().map(|(path, text)| (path.display().to_string(), text)).collect()
}

/// Returns the code emitted for a document, without comments, `#[doc]` attributes or line endings.
fn code(text: &str) -> String {
    code_with(text, &Options::module("a"))
}

fn code_with(text: &str, options: &Options) -> String {
    let files = emit_files(&[("a.x", text)], options);
    let lines = files[0].1.lines().map(str::trim);
    lines.filter(|line| !line.starts_with("//") && !line.starts_with("#[doc")).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn emits(text: &str, expected: &[&str]) {
    let code = code(text);
    for expected in expected {
        assert!(code.contains(expected), "no `{expected}` in\n{code}");
    }
}

#[test]
fn definitions_name_their_section_or_appendix() {
    let program = "program P { version V { void F(void) = 1; } = 1; } = 99;";
    let text =
        format!("1.  One\n\n   /// const A = 1;\n\nAppendix A.  Last\n\n/// const B = 2;\n/// {program}\n");
    let code = &emit_files(&[("a.txt", &text)], &Options::module("a"))[0].1;
    let headings = ["/// `A`, section 1. One", "/// `B`, Appendix A. Last", "program 99: Appendix A. Last"];
    for heading in headings {
        assert!(code.contains(heading), "no `{heading}` in\n{code}");
    }
}

#[test]
fn constants_have_the_first_type_that_holds_them() {
    emits(
        "const A = 0xff;\nconst B = -5;\nconst c_d = 0xffffffffffffffff;\nconst E = -4294967296;\n",
        &[
            "pub const A: u32 = 255;",
            "pub const B: i32 = -5;",
            "pub const C_D: u64 = 18446744073709551615;",
            "pub const E: i64 = -4294967296;",
        ],
    );
}

/// Rust rejects cyclic aliases, such as `type E = Option<Box<E>>`.
#[test]
fn optional_data_in_a_cycle_of_aliases_becomes_an_enum() {
    emits(
        "union e switch (bool b) { case TRUE: e n; case FALSE: void; };\n\
         union one switch (bool b) { case TRUE: other n; case FALSE: void; };\ntypedef one other<>;\n\
         union last switch (bool b) { case TRUE: int n; case FALSE: void; };\ntypedef last same;\n",
        &[
            "pub enum E {",
            "True(Box<E>)",
            "pub enum One {",
            "pub type Other = Vec<One>;",
            "pub type Last = Option<i32>;",
        ],
    );
}

#[test]
fn typedefs_become_aliases_if_possible() {
    emits(
        "const N = 8;\ntypedef unsigned hyper size;\ntypedef opaque small<N>;\ntypedef opaque large<200>;\n\
         typedef opaque any<>;\ntypedef string name<N>;\ntypedef opaque key[N];\ntypedef int four[4];\n\
         typedef int many<>;\ntypedef int few<N>;\ntypedef int *maybe;\n",
        &[
            "pub type Size = u64;",
            "pub type Small = SmallOpaque<{ N as usize }>;",
            "pub type Large = Opaque<200>;",
            "pub type Any = Opaque;",
            "pub type Name = XdrString<N>;",
            "pub type Key = [u8; N as usize];",
            "pub type Four = [i32; 4];",
            "pub type Many = Vec<i32>;",
            "pub struct Few(#[xdr(max = N)] pub Vec<i32>);",
            "impl ::core::convert::From<Vec<i32>> for Few",
            "pub type Maybe = Option<i32>;",
        ],
    );
}

#[test]
fn a_bound_with_the_name_of_a_type_is_a_value() {
    emits(
        "const N = 2;\ntypedef int n;\nstruct s { string a<N>; opaque b[N]; };\n",
        &["pub a: XdrString<{ N }>,", "pub b: [u8; N as usize],"],
    );
    // In a published document, a constant and a type may have the same name.
    let text = "Request for Comments: 1\n\n   /// const M = 5000;\n   /// struct M { opaque x<M>; };\n";
    let verbatim = Options { names: Names::Verbatim, ..Options::module("a") };
    let files = emit_files(&[("a.txt", text)], &verbatim);
    for part in ["pub const M: u32 = 5000;", "pub struct M {", "pub x: Opaque<{ M }>,"] {
        assert!(files[0].1.contains(part), "no `{part}` in\n{}", files[0].1);
    }
}

#[test]
fn enum_members_lose_their_common_prefix() {
    emits(
        "enum e { E_ONE = 1, E_NONE = 0, E_OTHER = -2 };\n",
        &[
            "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)] #[repr(i32)] pub enum E { One = 1, #[default] None = 0, Other = -2, }",
        ],
    );
    emits("enum e { A = 1, B = 1 };\n", &["pub enum E { A = 1, }", "impl E { pub const B: E = E::A; }"]);
}

#[test]
fn structs_derive_the_traits_of_their_fields() {
    emits(
        "struct plain { int type; bool b; };\nstruct held { opaque x<>; };\nstruct real { double d; };\n\
         struct none { };\nstruct big { opaque x[200]; };\n",
        &[
            "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)] pub struct Plain { pub r#type: i32, pub b: bool, }",
            "#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Xdr)] pub struct Held { pub x: Opaque, }",
            "#[derive(Clone, Copy, Debug, Default, PartialEq, Xdr)] pub struct Real { pub d: f64, }",
            "pub struct None_ {}",
            "#[derive(Clone, Debug, PartialEq, Eq, Hash, Xdr)] pub struct Big { pub x: [u8; 200], }",
        ],
    );
}

#[test]
fn an_arm_with_several_discriminants_stores_its_discriminant() {
    emits(
        "enum e { E_A = 1, E_B = 2, E_C = 3, E_D = 4 };\n\
         union u switch (e x) { case E_A: void; case E_B: case E_C: int both; default: string rest<>; };\n",
        &[
            "#[xdr(union = \"E\")] pub enum U { #[xdr(case = \"E::A\")] A, #[xdr(case = \"E::B\", case = \"E::C\")] Both(E, i32), #[xdr(default)] Default(E, XdrString), }",
        ],
    );
    emits(
        "const K = 7;\nunion u switch (int x) { case -1: int a; case K: void; case 3: int few<9>; };\n",
        &[
            "#[xdr(union = \"i32\")]",
            "#[xdr(case = -1)] CaseMinus1(i32)",
            "#[xdr(case = 7)] K",
            "#[xdr(case = 3)] Case3(#[xdr(max = 9)] Vec<i32>)",
        ],
    );
    emits(
        "union u switch (bool x) { case TRUE: void; case FALSE: int a; };\n",
        &[
            "#[xdr(case = true)] True",
            "#[xdr(case = false)] False(i32)",
            "impl ::core::default::Default for U { fn default() -> Self { U::False(::core::default::Default::default())",
        ],
    );
}

#[test]
fn optional_data_by_a_bool_is_an_option() {
    let text = "struct attr { int x; };\nunion post switch (bool follows) { case TRUE: attr a; case FALSE: void; };\n";
    emits(text, &["pub type Post = Option<Attr>;"]);
}

#[test]
fn a_type_is_independent_of_its_users() {
    let alone = "struct node { int x; node *next; };";
    let nodes = [
        "pub struct Node { pub x: i32, #[xdr(list)] pub next: Vec<NodeElement>, }",
        "pub struct NodeElement { pub x: i32, }",
    ];
    emits(alone, &nodes);
    let list = format!("{alone} struct dir {{ node *first; }}; typedef node *nodes;");
    let of_list = [
        "pub struct Dir { #[xdr(list)] pub first: Vec<NodeElement>, }",
        "pub struct Nodes(#[xdr(list)] pub Vec<NodeElement>);",
    ];
    emits(&list, &nodes);
    emits(&list, &of_list);
    let held = format!("{list} struct user {{ node node; node more<>; }};");
    emits(&held, &nodes);
    emits(&held, &of_list);
    emits(&held, &["pub struct User { pub node: Node, pub more: Vec<Node>, }"]);
    // If the type of the link to the next node is a typedef, the field keeps this type.
    emits(
        "typedef struct body *bodies; struct body { int x; bodies next; };",
        &[
            "pub struct Bodies(#[xdr(list)] pub Vec<BodyElement>);",
            "pub struct Body { pub x: i32, pub next: Bodies, }",
            "pub struct BodyElement { pub x: i32, }",
        ],
    );
}

#[test]
fn other_recursion_is_boxed() {
    emits(
        "struct tree { tree *left; tree *right; tree few<3>; tree many<>; };\n",
        &[
            "pub left: Option<Box<Tree>>",
            "#[xdr(max = 3)] #[xdr(recursive)] pub few: Vec<Tree>",
            "#[xdr(recursive)] pub many: Vec<Tree>",
        ],
    );
    emits(
        "union expr switch (int op) { case 0: int value; default: expr not; };\n",
        &["Default(i32, Box<Expr>)"],
    );
}

#[test]
fn bodies_in_place_are_named_after_their_path() {
    emits(
        "struct outer { struct { int a; } part; union switch (bool b) { case TRUE: int c; case FALSE: int d; } choice; };\n",
        &[
            "pub struct OuterPart { pub a: i32, }",
            "pub enum OuterChoice {",
            "pub part: OuterPart, pub choice: OuterChoice",
        ],
    );
}

#[test]
fn verbatim_names_are_those_of_the_document() {
    let text = "const maxData = 8;\nenum nfs_stat { NFS_OK = 0, NFS_ERR = 1, nfs_other = 1 };\n\
                struct READ3args { opaque fileHandle<maxData>; nfs_stat type; };\ntypedef unsigned int u32;\n\
                union READ3res switch (nfs_stat s) { case NFS_OK: u32 count; default: void; };\n\
                program NFS { version NFS_V3 { READ3res NFS_READ(READ3args) = 6; } = 3; } = 100003;\n";
    let code = code_with(text, &Options { names: rpcrdma_xdrgen::Names::Verbatim, ..Options::module("a") });
    for expected in [
        "#[allow(non_upper_case_globals)] pub const maxData: u32 = 8;",
        "pub enum nfs_stat { #[default] NFS_OK = 0, NFS_ERR = 1, }",
        "#[allow(non_upper_case_globals)] pub const nfs_other: nfs_stat = nfs_stat::NFS_ERR;",
        "pub struct READ3args { pub fileHandle: SmallOpaque<{ maxData as usize }>, pub r#type: nfs_stat, }",
        // A name with a special meaning in Rust must not be shadowed.
        "pub type u32_ = u32;",
        "#[xdr(case = \"nfs_stat::NFS_OK\")] NFS_OK(u32_)",
        "#[xdr(default)] default(nfs_stat)",
        "#[allow(non_camel_case_types, non_snake_case, clippy::upper_case_acronyms)] pub mod nfs_v3 {",
        "pub struct NFS_V3;",
        "pub fn NFS_READ<'a>( &'a self, args: &'a super::READ3args, ) -> program::CallFuture<",
    ] {
        assert!(code.contains(expected), "no `{expected}` in\n{code}");
    }
    assert!(!code.contains("doc(alias"), "verbatim names need no alias");
}

#[test]
fn the_order_is_that_of_the_document() {
    let code = code("struct b { a x; };\nconst C = 1;\nstruct a { int y; };\n");
    let at = |text: &str| code.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("struct B") < at("const C") && at("const C") < at("struct A"));
}

const PROGRAM: &str = "\
typedef opaque blob<64>;
struct args { unsigned int count; unsigned hyper wide; };
struct res { blob data; };
program P { version P_V1 { void P_NULL(void) = 0; res P_GET(args) = 1; int P_ADD(int, int) = 2; } = 1; } = 100;
";

#[test]
fn a_version_is_a_module() {
    emits(
        PROGRAM,
        &[
            "pub mod p_v1 {",
            "pub struct PV1;",
            "const NUMBER: u32 = 100; const VERSION: u32 = 1;",
            "impl program::Procedure for Get { type Program = super::PV1; type Args = super::super::Args; type Res = super::super::Res;",
            "pub fn null(&self) -> program::CallFuture<'_, (), C::Error>",
            "pub fn get<'a>( &'a self, args: &'a super::Args, ) -> program::CallFuture<'a, super::Res, C::Error>",
            "pub struct PAddArgs(pub i32, pub i32);",
            "1 => answer(args, reply, |args| self.0.get(context, args)).await,",
        ],
    );
    assert!(!code(PROGRAM).contains("program::Binding"), "a version has no binding by default");
    assert!(code(PROGRAM).contains("pub type Blob = SmallOpaque<64>;"));
}

#[test]
fn a_method_is_distinct_from_the_methods_of_all_types() {
    let text = "program P { version V { int INTO(void) = 1; void try_into(int) = 2; } = 1; } = 100;\n";
    emits(
        text,
        &["pub fn into_(&self)", "|()| self.0.into_(context)", "|args| self.0.try_into_(context, args)"],
    );
}

#[test]
fn a_server_answers_declared_and_undeclared_procedure_0() {
    let null = "0 => answer(args, reply, |()| ::core::future::ready(Ok(()))).await,";
    let text = "struct s { opaque x<>; };\nprogram P { version V1 { int GET(s) = 1; } = 1; } = 100;\n";
    let borrowed = Options { data: rpcrdma_xdrgen::Data::Borrowed, ..Options::module("a") };
    for options in [Options::module("a"), borrowed] {
        let code = code_with(text, &options);
        assert!(code.contains(null), "{code}");
    }
    assert!(!code(PROGRAM).contains(null), "the handler must answer a declared procedure 0");
}

#[test]
fn a_binding_sets_a_threshold_or_the_backward_direction() {
    let emitted = |more: &str| {
        let binding = format!("[[binding]]\nprogram = \"P\"\nversion = \"P_V1\"\n{more}\neligible = []\n");
        let files = emit_files(&[("a.x", PROGRAM), ("a.ddp.toml", &binding)], &Options::module("a"));
        files[0].1.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let recommended = emitted("inline_threshold = 65536");
    assert!(recommended.contains("const INLINE_THRESHOLD: Option<u32> = Some(65536); }"), "{recommended}");
    let backward = emitted("direction = \"backward\"");
    let direction = "impl program::Directed for PV1 { type Direction = program::Backward; } impl program::BackwardOnly for PV1 {}";
    assert!(backward.contains(direction), "{backward}");
    assert!(backward.contains("const BACKWARD_ONLY: bool = true;"), "{backward}");
    assert!(!backward.contains("program::Binding"), "{backward}");
}

/// Requirement: R050, R232
#[test]
fn a_binding_marks_items_and_bounds_replies() {
    let binding = "[[binding]]\nprogram = \"P\"\nversion = \"P_V1\"\neligible = [\"res.data\"]\nport = 20049\n\
                   [binding.reply.\"P_GET\"]\nitem = \"count + wide + 4\"\n";
    let files = emit_files(&[("a.x", PROGRAM), ("a.ddp.toml", binding)], &Options::module("a"));
    let code = files[0].1.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "impl program::Binding for PV1 { const PORT: Option<u16> = Some(20049); const NETIDS: &'static [&'static str] = &[]; }",
        "#[ddp_eligible] pub data: Blob,",
        // Eligible data shares the message's memory, so even short data is an `Opaque`.
        "pub type Blob = Opaque<64>;",
        "u64::from(args.count).saturating_add(args.wide).saturating_add(4)",
    ] {
        assert!(code.contains(expected), "no `{expected}` in\n{code}");
    }
}

#[test]
fn a_result_with_more_items_than_write_chunks_is_marked() {
    let emitted = |items: u32, data: Data| {
        let text = format!(
            "struct item {{ opaque data<5000>; }}; struct list {{ item all<{items}>; }};\n\
             program P {{ version P_V1 {{ list P_GET(void) = 1; void P_PUT(list) = 2; }} = 1; }} = 9;\n"
        );
        let binding = "[[binding]]\nprogram = \"P\"\nversion = \"P_V1\"\neligible = [\"item.data\"]\n";
        let options = Options { data, ..Options::module("a") };
        emit_files(&[("a.x", &text), ("a.ddp.toml", binding)], &options).swap_remove(0).1
    };
    let mark = "const NAME: &'static str = \"P_GET\";\n            const EXCESS_ITEMS: bool = true;\n";
    let marked = emitted(17, Data::Bytes);
    assert!(marked.contains(mark) && marked.matches("EXCESS_ITEMS").count() == 1, "{marked}");
    // In borrowed output, no data is eligible.
    for other in [emitted(16, Data::Bytes), emitted(17, Data::Borrowed)] {
        assert!(!other.contains("EXCESS_ITEMS"), "{other}");
    }
}

#[test]
fn documentation_has_the_declaration_the_comments_and_the_section() {
    let text = "\
1.  First

   /// /* What a thing[] is. */
   /// struct a_thing {
   ///    int x;   /* how many */
   /// };
";
    let files = emit_files(&[("specs/a.txt", text)], &Options::module("a"));
    let expected = "\
/// `a_thing`, section 1. First
///
/// What a thing\\[\\] is.
///
/// ```text
/// struct a_thing {
///    int x;   /* how many */
/// };
/// ```
#[doc(alias = \"a_thing\")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]
pub struct AThing {
    /// how many
    ///
    /// `int x`
    pub x: i32,
}
";
    assert!(files[0].1.ends_with(expected), "{}", files[0].1);
    assert!(files[0].1.starts_with("// Generated by rpcrdma-xdrgen from `specs/a.txt`. Do not edit.\n"));
}

#[test]
fn output_is_independent_of_the_directory() {
    let options = Options::member("rpcrdma-a", "A");
    let here = emit_files(&[("/home/one/a.x", PROGRAM)], &options);
    assert_eq!(here, emit_files(&[("/srv/two/a.x", PROGRAM)], &options));
    let names: Vec<&str> = here.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["Cargo.toml", "src/lib.rs"]);
    assert!(here[1].1.contains("#![no_std]"));
}

#[test]
fn types_that_exist_in_rust_are_named_and_not_emitted() {
    let mut options = Options::module("a");
    options.externs.insert("time".to_owned(), "crate::clock::Time".to_owned());
    let text = "struct time { int s; };\nstruct stamp { time at; other_time *then; };\n";
    options.externs.insert("other_time".to_owned(), " ::clock :: Time<8,[u8;4] >".to_owned());
    let files = emit_files(&[("a.x", text)], &options);
    assert!(files[0].1.contains("pub at: crate::clock::Time"), "{}", files[0].1);
    assert!(files[0].1.contains("pub then: Option<::clock::Time<8, [u8; 4]>>"));
    assert!(!files[0].1.contains("pub struct Time"));
}

#[test]
fn the_runtime_itself_names_its_own_crate() {
    let mut options = Options::no_std_module("wire");
    options.runtime = "crate".to_owned();
    assert_eq!(options.output, Output::Module { name: "wire".to_owned(), std: false });
    let files = emit_files(&[("a.x", "struct a { int x<>; };\n")], &options);
    for expected in ["use alloc::vec::Vec;\nuse crate::xdr::Xdr;\n", "#[xdr(crate = \"crate\")]"] {
        assert!(files[0].1.contains(expected), "{}", files[0].1);
    }
}

/// Replaces, inserts or removes words of a document. The compiler must report errors or emit valid Rust.
#[test]
fn a_mutated_document_yields_findings_or_rust() {
    let text = include_str!("language.x");
    let words: Vec<&str> = text.split_inclusive([' ', '\n', ';', '{', '}', '<', '>']).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut dice = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("below a usize")
    };
    for _ in 0..400 {
        let mut changed = words.clone();
        for _ in 0..=dice(3) {
            let (at, other) = (dice(changed.len()), words[dice(words.len())]);
            match dice(3) {
                0 => changed[at] = other,
                1 => changed.insert(at, other),
                _ => drop(changed.remove(at)),
            }
        }
        let text = changed.concat();
        let mut sources = Sources::default();
        sources.add(Source::new("a.x", text.as_str()));
        let generated = rpcrdma_xdrgen::generate(&sources, &Options::module("a"));
        for (_, code) in &generated.files {
            assert!(syn::parse_file(code).is_ok(), "{text}\n{code}");
        }
        assert_eq!(generated.files.is_empty(), generated.has_errors(), "{text}");
    }
}

#[test]
fn names_of_arguments_are_those_of_parameters_and_fields() {
    let text = "program P { version V {\n int F(int id) = 1;\n int G(int a, bool) = 2;\n int H(string context<4>) = 3;\n\
                int I(int, int) = 4;\n int J(int arg1, bool, hyper) = 5;\n } = 1; } = 0x20000001;\n";
    emits(
        text,
        &[
            "pub struct GArgs { pub a: i32, pub arg1: bool, }",
            "pub struct JArgs { pub arg1: i32, pub arg2: bool, pub arg3: i64, }",
            "pub struct IArgs(pub i32, pub i32);",
            "pub fn f<'a>(&'a self, id: &'a i32) -> program::CallFuture<'a, i32, C::Error> where C: program::Caller<V>, { self.0.call::<proc::F>(id) }",
            "pub fn g<'a>( &'a self, args: &'a super::GArgs, )",
            "pub fn h<'a>( &'a self, context_: &'a ::rpcrdma_runtime::xdr::XdrString<4>, )",
            "fn f( &self, context: &program::CallContext, id: i32, )",
        ],
    );
}

#[test]
fn counted_arrays_of_procedures_get_a_type() {
    emits(
        "program P { version V { int<4> F(int a<>) = 1; opaque<8> G(opaque[3]) = 2; } = 1; } = 0x20000001;\n",
        &[
            "pub struct FArgs(pub Vec<i32>);",
            "pub struct FRes(#[xdr(max = 4)] pub Vec<i32>);",
            "type Args = [u8; 3]; type Res = ::rpcrdma_runtime::xdr::Opaque<8>;",
        ],
    );
}

#[test]
fn long_long_is_a_hyper() {
    emits(
        "struct s { long long a; unsigned long long int b; long c; };\n",
        &["pub a: i64,", "pub b: u64,", "pub c: i32,"],
    );
}

#[test]
fn a_short_discriminant_is_sent_as_an_int_and_a_hyper_in_eight_bytes() {
    emits(
        "union u switch (short x) { case 'a': void; default: int y; };\n\
         typedef hyper wide;\nunion w switch (wide x) { case -5000000000: int a; };\n",
        &[
            "#[xdr(union = \"i32\")]",
            "#[xdr(case = 97)]",
            "#[xdr(union = \"i64\")]",
            "#[xdr(case = -5000000000)]",
        ],
    );
}

#[test]
fn xdrzcc_keywords_become_items_and_arms_with_lengths() {
    let text = "enum kind { A = 1, B = 2, C = 3 };\nstruct point { int x; };\n\
                struct put { int at; zcopaque data<>; zcopaque rest; opaque tail; };\n\
                opaque_union part switch (kind k) {\n\
                case A: point at;\ncase B: zcopaque raw<16>;\ncase C: void;\ndefault: int code;\n};\n";
    let options = Options { dialect: Dialect::Xdrzcc, ..Options::module("out") };
    let code = code_with(text, &options);
    for part in [
        "#[ddp_eligible] pub data: Opaque,",
        "#[ddp_eligible] pub rest: Opaque,",
        "pub tail: Opaque,",
        "A(Opaque)",
        "B(#[ddp_eligible] Opaque<16>)",
        "C(Opaque)",
    ] {
        assert!(code.contains(part), "no `{part}` in\n{code}");
    }
    assert_eq!(code.matches("ddp_eligible").count(), 3, "{code}");
    // Without xdrzcc's dialect, `zcopaque` is an ordinary name.
    let named = "typedef opaque zcopaque<8>;\ntypedef zcopaque same;\nstruct put { same data; };\n";
    assert!(!code_with(named, &Options::module("out")).contains("ddp_eligible"));
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", "typedef zcopaque data<>;\n"));
    assert!(rpcrdma_xdrgen::check(&sources, &options).has_errors());
}

#[test]
fn an_eligible_item_includes_all_arms_with_its_name() {
    let text = "union u switch (int a) { case 1: opaque data<8>; case 2: opaque data<9000>; case 3: int data; };\n\
                program P { version V { void F(u) = 1; } = 1; } = 99;\n";
    let binding = "[[binding]]\nprogram = \"P\"\nversion = \"V\"\neligible = [\"u.data\"]\n";
    let code = &emit_files(&[("a.x", text), ("a.toml", binding)], &Options::module("a"))[0].1;
    assert_eq!(code.matches("#[ddp_eligible]").count(), 2, "{code}");
}

#[test]
fn a_server_states_the_length_of_calls_above_the_default_limit() {
    let scan = |bound: u32| {
        code(&format!(
            "struct image {{ opaque pixels<{bound}>; }};\nstruct any {{ opaque bytes<>; }};\n\
             program SCAN {{ version ONE {{ void PUT(image) = 1; void ANY(any) = 2; }} = 1; }} = 99;\n"
        ))
    };
    assert!(scan(16 << 20).contains("fn max_args(&self) -> u64 { 16777220 }"));
    assert!(!scan(7 << 20).contains("max_args"));
}

#[test]
fn each_client_method_bounds_its_transport() {
    let text = "program P { version V { int ADD(int) = 1; } = 1; } = 99;\n";
    let client = "impl<C> Client<C> { \
                  pub fn add<'a>(&'a self, args: &'a i32) -> program::CallFuture<'a, i32, C::Error> \
                  where C: program::Caller<V>, {";
    emits(text, &[client]);
}

/// `%` precedes code for C. Comments become doc comments.
#[test]
fn neither_percent_lines_nor_comments_become_code() {
    let text = "%pub fn of_line() {}\n%#define LIMIT of_macro()\n/* First\n   pub fn of_comment() {} */\n\
                const A = 1;\nenum e {\n%pub fn of_inner_line() {}\n  B = 1 /* */ /* ]\n pub fn of_part() {} */\n};\n";
    let files = emit_files(&[("a.x", text)], &Options::module("a"));
    let (docs, code): (Vec<&str>, Vec<&str>) =
        files[0].1.lines().map(str::trim).partition(|line| line.starts_with("//"));
    assert!(docs.iter().any(|line| line.contains("fn of_comment()")), "{docs:?}");
    assert!(
        code.contains(&"pub const A: u32 = 1;") && !code.iter().any(|line| line.contains("of_")),
        "{code:?}"
    );
}
