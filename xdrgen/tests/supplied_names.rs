//! Names that documents use without an XDR definition: common typedefs, RPC names such as `opaque_auth`,
//! macros, and names from `-D` and `--extern`.

use rpcrdma_xdrgen::diag::render;
use rpcrdma_xdrgen::ir::{Body, Module, Scalar, Type};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Generated, Options, generate};

fn sources(documents: &[&str]) -> Sources {
    let mut sources = Sources::default();
    for (index, text) in documents.iter().enumerate() {
        sources.add(Source::new(format!("{index}.x"), *text));
    }
    sources
}

fn options() -> Options {
    Options::module("out")
}

#[track_caller]
fn module(documents: &[&str], options: &Options) -> Module {
    let sources = sources(documents);
    let (module, found) = rpcrdma_xdrgen::generate::lower(&sources, options);
    assert!(found.is_empty(), "{}", render(&found, &sources, false));
    module
}

fn findings(text: &str, options: &Options) -> (Vec<&'static str>, String) {
    let sources = sources(&[text]);
    let Generated { diagnostics, .. } = generate(&sources, options);
    (diagnostics.iter().map(|found| found.code()).collect(), render(&diagnostics, &sources, false))
}

fn constants(module: &Module) -> Vec<(&str, i128)> {
    module.consts.iter().map(|one| (one.name.as_str(), one.value)).collect()
}

fn types(module: &Module) -> Vec<&str> {
    module.types.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn a_macro_for_a_nonstandard_type_is_a_typedef() {
    let module = module(&["#define big long long\nstruct s { big a; };\n"], &options());
    assert_eq!(types(&module), ["s", "big"]);
}

#[test]
fn integers_have_their_usual_names() {
    let text = "struct s { uint8_t a; int16_t b; u_int c; longlong_t d; u_quad_t e; bool_t f; unsigned g; u_long h; };";
    let module = module(&[text], &options());
    let Body::Struct(fields) = &module.types[0].body else { panic!("{module:?}") };
    let found: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let expected = [
        Scalar::UnsignedChar,
        Scalar::Short,
        Scalar::UnsignedInt,
        Scalar::Hyper,
        Scalar::UnsignedHyper,
        Scalar::Bool,
        Scalar::UnsignedInt,
        Scalar::UnsignedInt,
    ]
    .map(Type::Scalar);
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
}

#[test]
fn rpc_names_are_supplied_with_their_dependencies_only() {
    let text = "union cb switch (unsigned f) { case AUTH_NONE: void; case AUTH_SYS: authsys_parms p; \
                case RPCSEC_GSS: rpc_gss_service_t s; };";
    let module = module(&[text], &options());
    assert_eq!(constants(&module), [("AUTH_NONE", 0), ("AUTH_SYS", 1), ("RPCSEC_GSS", 6)]);
    assert_eq!(types(&module), ["cb", "authsys_parms", "rpc_gss_service_t", "rpc_gss_svc_t"]);
    let parms = &module.types[1];
    assert!(parms.docs.comments[0].contains("RFC 5531 appendix A"), "{:?}", parms.docs);
}

#[test]
fn a_definition_of_the_run_wins() {
    let one = "struct s { authsys_parms a; int x<AUTH_SYS>; uint32_t c; };";
    let other = "typedef hyper authsys_parms; const AUTH_SYS = 77; typedef float uint32_t;";
    let module = module(&[one, other], &options());
    assert_eq!(constants(&module), [("AUTH_SYS", 77)]);
    assert_eq!(types(&module), ["s", "authsys_parms", "uint32_t"]);
    // The document defines a member of `auth_flavor` as a constant, so the prelude supplies a typedef of
    // `int` instead of the enum.
    let text = "const AUTH_SYS = 1; union u switch (auth_flavor f) { case AUTH_SYS: int a; default: void; };";
    let module = self::module(&[text], &options());
    assert_eq!((constants(&module), types(&module)), (vec![("AUTH_SYS", 1)], vec!["u", "auth_flavor"]));
    assert!(matches!(module.types[1].body, Body::Alias(Type::Scalar(Scalar::Int))));
}

#[test]
fn the_prelude_can_be_turned_off() {
    let bare = Options { prelude: false, ..options() };
    let (codes, text) = findings("struct s { uint32_t a; opaque_auth b; int c<AUTH_SYS>; };", &bare);
    assert_eq!(codes, ["X200", "X200", "X202"], "{text}");
}

#[test]
fn a_macro_for_c_is_used_if_there_is_no_other_definition() {
    let text = "%#define MAXSTR 1024\n%#define MAXNAME MAXSTR+1\n%#define UNUSED 5\n%#define netname_t nid\n\
                typedef int nid;\nstruct s { string a<MAXNAME>; netname_t b; };\n";
    let module = module(&[text], &options());
    assert_eq!(constants(&module), [("MAXNAME", 1025)]);
    assert_eq!(types(&module), ["nid", "s", "netname_t"]);
}

#[test]
fn a_macro_without_a_number_is_shown_where_its_value_is_needed() {
    let (codes, _) = findings("#define NAME \"x\"\n#define A B\n#define F(x) x\nconst C = 1;\n", &options());
    assert_eq!(codes, [] as [&str; 0]);
    let (codes, text) = findings("#define NAME \"x\"\nstruct s { int a<NAME>; };\n", &options());
    assert_eq!(codes, ["X202"]);
    for words in ["this macro has a meaning only in C", "1 | #define NAME", "const NAME = value;"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    // The C preprocessor would select one of the two definitions, so xdrgen uses neither.
    let two = "%#ifdef BIG\n%#define N 8\n%#else\n%#define N 4\n%#endif\nstruct s { int a<N>; };\n";
    assert_eq!(findings(two, &options()).0, ["X202"]);
}

#[test]
fn a_macro_of_the_header_is_used() {
    let text = "#ifdef RPC_HDR\n%#define MAXSTR 1024\n#endif\n#ifdef OTHER\n%#define LIMIT 5\n#endif\n\
                struct s { string a<MAXSTR>; };\n";
    assert_eq!(constants(&module(&[text], &options())), [("MAXSTR", 1024)]);
    let (codes, _) = findings(&text.replace("<MAXSTR>", "<LIMIT>"), &options());
    assert_eq!(codes, ["X202"]);
}

#[test]
fn a_macro_may_stand_for_a_type() {
    let text = "#define id_t unsigned hyper\n#define size int\nstruct s { id_t a; size b; };\n";
    let module = module(&[text], &options());
    assert_eq!(types(&module), ["s", "id_t", "size"]);
}

#[test]
fn missing_names_point_to_the_included_file() {
    let text = "#include \"base.x\"\n%#include <rpc/rpc.h>\nstruct s { gadget a; int b<LIMIT>; };\n";
    let (codes, text) = findings(text, &options());
    assert_eq!(codes, ["X200", "X202"]);
    assert_eq!(text.matches("includes `base.x`, `rpc/rpc.h`, which may define it").count(), 2, "{text}");
}

#[test]
fn a_definition_on_the_command_line_is_a_constant() {
    let defined = Options { defined: ["LIMIT=4*2".to_owned(), "WIDE".to_owned()].into(), ..options() };
    let text = "#if LIMIT > 7 && defined(WIDE)\nstruct s { int a<LIMIT>; };\n#else\nconst NO = 1;\n#endif\n";
    let module = module(&[text], &defined);
    assert_eq!((constants(&module), types(&module)), (vec![("LIMIT", 8)], vec!["s"]));
}

#[test]
fn an_imported_rust_constant_needs_a_value() {
    let externs = Options { externs: [("LIMIT".to_owned(), "a::LIMIT".to_owned())].into(), ..options() };
    let text = "struct s { int a<LIMIT>; int b<LIMIT>; };\n";
    let (codes, shown) = findings(text, &externs);
    assert_eq!(codes, ["X211"]);
    assert!(shown.contains("`-D LIMIT=NUMBER`"), "{shown}");
    let both = Options { defined: ["LIMIT=9".to_owned()].into(), ..externs };
    assert_eq!(findings(text, &both).0, [] as [&str; 0]);
}

#[test]
fn cyclic_macros_terminate() {
    let (codes, _) = findings("%#define A B\n%#define B A\nstruct s { int a<A>; };\n", &options());
    assert_eq!(codes, ["X203"]);
    let chain: String = (0..2000).map(|n| format!("%#define A{n} (A{} + A{})\n", n + 1, n + 1)).collect();
    let (codes, _) = findings(&format!("{chain}struct s {{ int a<A0>; }};\n"), &options());
    assert_eq!(codes, ["X202"]);
}
