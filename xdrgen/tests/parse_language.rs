//! The language: each production of RFC 4506 section 6.3 and RFC 5531 section 12.2, and extensions that real
//! inputs use.

use rpcrdma_xdrgen::ast::*;
use rpcrdma_xdrgen::parse::{ParseOptions, parse_with};
use rpcrdma_xdrgen::source::{Source, Sources};

fn parse_defining(text: &str, defined: &[&str]) -> Vec<Definition> {
    let (definitions, found) = parse_warning(text, defined);
    assert_eq!(found, [""; 0], "{text}");
    definitions
}

fn parse_warning(text: &str, defined: &[&str]) -> (Vec<Definition>, Vec<&'static str>) {
    let mut sources = Sources::default();
    sources.add(Source::new("test.x", text));
    let defined = defined.iter().map(|name| (*name).to_owned()).collect();
    let options = ParseOptions { defined, ..ParseOptions::default() };
    let mut parsed = parse_with(&sources, &options);
    assert!(parsed.diagnostics.iter().all(|found| !found.is_error()), "{text}: {:?}", parsed.diagnostics);
    let codes = parsed.diagnostics.iter().map(|found| found.code()).collect();
    (parsed.documents.remove(0).1.definitions, codes)
}

/// Because of a hidden field, a user's struct expression needs a base such as `..Default::default()`, so
/// later versions may add fields.
#[test]
fn options_may_have_more_fields_later() {
    let () = ParseOptions::default().non_exhaustive;
    let () = rpcrdma_xdrgen::sizes::Assumed::default().non_exhaustive;
    let () = rpcrdma_xdrgen::Options::module("out").non_exhaustive;
}

fn parse(text: &str) -> Vec<Definition> {
    parse_defining(text, &[])
}

fn one(text: &str) -> DefinitionKind {
    let mut definitions = parse(text);
    assert_eq!(definitions.len(), 1, "{text}");
    definitions.remove(0).kind
}

fn names(definitions: &[Definition]) -> Vec<String> {
    let name = |definition: &Definition| match &definition.kind {
        DefinitionKind::Const(constant) => constant.name.name.clone(),
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            name.name.clone()
        }
        DefinitionKind::Program(program) => program.name.name.clone(),
        DefinitionKind::PassThrough(text) => format!("%{text}"),
        DefinitionKind::Typedef(declaration) => declared(declaration).to_owned(),
    };
    definitions.iter().map(name).collect()
}

fn declared(declaration: &Declaration) -> &str {
    declaration.name.as_ref().map_or("void", |name| &name.name)
}

fn fields(text: &str) -> Vec<Declaration> {
    match one(&format!("struct s {{ {text} }};")) {
        DefinitionKind::Struct(_, body) => body.fields,
        other => panic!("{other:?}"),
    }
}

fn specifier(text: &str) -> TypeSpecifierKind {
    let field = fields(&format!("{text} x;")).remove(0);
    assert_eq!(field.multiplicity, Multiplicity::One, "{text}");
    field.specifier.kind
}

fn number(value: &Value) -> i128 {
    match value {
        Value::Literal { value, .. } => *value,
        Value::Name(name) => panic!("{name:?}"),
    }
}

fn constant(text: &str) -> i128 {
    match one(&format!("const A = {text};")) {
        DefinitionKind::Const(constant) => number(&constant.value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn constants_are_decimal_hexadecimal_octal_or_negative_and_64_bits_wide() {
    assert_eq!(constant("0"), 0);
    assert_eq!(constant("12"), 12);
    assert_eq!(constant("-1"), -1);
    assert_eq!(constant("0x1F"), 31);
    assert_eq!(constant("-0x10"), -16);
    assert_eq!(constant("0777"), 511);
    assert_eq!(constant("0xffffffffffffffff"), i128::from(u64::MAX));
    assert_eq!(constant("18446744073709551615"), i128::from(u64::MAX));
    assert_eq!(constant("-9223372036854775808"), i128::from(i64::MIN));
}

#[test]
fn a_constant_may_refer_to_another() {
    let DefinitionKind::Const(constant) = one("const A = B;") else { panic!() };
    assert!(matches!(constant.value, Value::Name(name) if name.name == "B"));
}

#[test]
fn type_specifiers() {
    use Scalar::*;
    use TypeSpecifierKind::Named;
    let table = [
        ("int", Int),
        ("unsigned int", UnsignedInt),
        ("unsigned", UnsignedInt),
        ("hyper", Hyper),
        ("unsigned hyper", UnsignedHyper),
        ("float", Float),
        ("double", Double),
        ("quadruple", Quadruple),
        ("bool", Bool),
        ("char", Char),
        ("unsigned char", UnsignedChar),
        ("short", Short),
        ("short int", Short),
        ("unsigned short", UnsignedShort),
        ("unsigned short int", UnsignedShort),
        ("long", Int),
        ("long int", Int),
        ("unsigned long", UnsignedInt),
        ("unsigned long int", UnsignedInt),
    ];
    for (text, kind) in table {
        assert_eq!(specifier(text), TypeSpecifierKind::Scalar(kind), "{text}");
    }
    for text in ["other", "struct other", "union other", "enum other"] {
        assert!(matches!(specifier(text), Named(name) if name.name == "other"), "{text}");
    }
}

#[test]
fn declarations() {
    use Multiplicity::*;
    use TypeSpecifierKind::{Named, Opaque, Scalar, String, Void};
    let text = "int a; int b[3]; int c[N]; int d<>; int e<3>; int f<N>; int *g; opaque h[3]; opaque i<>; opaque j<N>; \
                string k<>; string l<3>; struct s *next; void;";
    let fields = fields(text);
    let part = |index: usize| (&fields[index].specifier.kind, &fields[index].multiplicity);
    assert!(matches!(part(0), (Scalar(_), One)));
    assert!(matches!(part(1), (Scalar(_), Fixed(size)) if number(size) == 3));
    assert!(matches!(part(2), (Scalar(_), Fixed(Value::Name(_)))));
    assert!(matches!(part(3), (Scalar(_), Variable(None))));
    assert!(matches!(part(4), (Scalar(_), Variable(Some(max))) if number(max) == 3));
    assert!(matches!(part(5), (Scalar(_), Variable(Some(Value::Name(_))))));
    assert!(matches!(part(6), (Scalar(_), Optional)));
    assert!(matches!(part(7), (Opaque, Fixed(size)) if number(size) == 3));
    assert!(matches!(part(8), (Opaque, Variable(None))));
    assert!(matches!(part(9), (Opaque, Variable(Some(Value::Name(_))))));
    assert!(matches!(part(10), (String, Variable(None))));
    assert!(matches!(part(11), (String, Variable(Some(max))) if number(max) == 3));
    assert!(matches!(part(12), (Named(_), Optional)));
    assert!(matches!(part(13), (Void, One)));
    let (mut definitions, odd) = parse_warning("typedef string m;", &[]);
    let DefinitionKind::Typedef(m) = definitions.remove(0).kind else { panic!() };
    assert!(matches!((&m.specifier.kind, &m.multiplicity), (String, Variable(None))) && odd == ["X134"]);
}

#[test]
fn bodies_in_place() {
    let text =
        "struct { int a; } s; union switch (int b) { case 1: void; } u; enum { C = 1 } e; struct {} none;";
    let fields = fields(text);
    let kinds: Vec<&TypeSpecifierKind> = fields.iter().map(|field| &field.specifier.kind).collect();
    assert!(fields.iter().all(|field| field.multiplicity == Multiplicity::One));
    assert!(matches!(kinds[0], TypeSpecifierKind::Struct(body) if body.fields.len() == 1));
    assert!(matches!(kinds[1], TypeSpecifierKind::Union(body) if body.arms.len() == 1));
    assert!(matches!(kinds[2], TypeSpecifierKind::Enum(body) if body.members.len() == 1));
    assert!(matches!(kinds[3], TypeSpecifierKind::Struct(body) if body.fields.is_empty()));
}

#[test]
fn typedefs() {
    let text = "typedef int a; typedef opaque b<N>; typedef struct c *d; typedef enum { E } f; typedef string g<>; \
                typedef b h[4]; typedef struct { int i; } *j;";
    assert_eq!(names(&parse(text)), ["a", "b", "d", "f", "g", "h", "j"]);
}

#[test]
fn the_older_way_to_write_a_list() {
    let DefinitionKind::Typedef(declaration) = one("struct *list { int a; list next; };") else { panic!() };
    assert_eq!((declared(&declaration), &declaration.multiplicity), ("list", &Multiplicity::Optional));
    assert!(matches!(&declaration.specifier.kind, TypeSpecifierKind::Struct(body) if body.fields.len() == 2));
}

#[test]
fn enum_values_are_numbers_names_or_implicit() {
    let DefinitionKind::Enum(name, body) = one("enum e { A, B = 2, C = 0x10, D = -1, E = OTHER, F = 017 };")
    else {
        panic!()
    };
    assert_eq!((name.name.as_str(), body.members.len()), ("e", 6));
    assert_eq!(body.members[0].value, None);
    assert_eq!(body.members[2].value.as_ref().map(number), Some(16));
    assert_eq!(body.members[3].value.as_ref().map(number), Some(-1));
    assert!(matches!(&body.members[4].value, Some(Value::Name(name)) if name.name == "OTHER"));
    assert_eq!(body.members[5].value.as_ref().map(number), Some(15));
}

#[test]
fn unions_have_several_labels_and_a_default_anywhere() {
    let text = "union u switch (unsigned what) { case A: case -1: case 0x10: int a; default: opaque b<>; case TRUE: void; };";
    let (mut definitions, odd) = parse_warning(text, &[]);
    assert_eq!(odd, ["X136"]);
    let DefinitionKind::Union(_, body) = definitions.remove(0).kind else { panic!() };
    assert_eq!(declared(&body.discriminant), "what");
    assert_eq!(body.arms.iter().map(|arm| arm.labels.len()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(declared(body.default.as_ref().unwrap()), "b");
}

#[test]
fn programs_have_versions_and_procedures() {
    let text = "program P { version V1 { void NULL(void) = 0; string NAME(string, struct a *, unsigned int) = 1; } = 1; \
                version V2 { b *GET() = GETPROC; } = TWO; } = 0x20000001;";
    let DefinitionKind::Program(program) = one(text) else { panic!() };
    assert_eq!(number(&program.number), 0x2000_0001);
    assert_eq!(program.versions.len(), 2);
    let [null, name] = &program.versions[0].procedures[..] else { panic!() };
    assert_eq!((null.result.as_ref(), null.arguments.len()), (None, 0));
    assert_eq!(name.result.as_ref().unwrap().specifier.kind, TypeSpecifierKind::String);
    assert_eq!(
        name.arguments
            .iter()
            .map(|argument| argument.multiplicity == Multiplicity::Optional)
            .collect::<Vec<_>>(),
        [false, true, false]
    );
    let get = &program.versions[1].procedures[0];
    assert_eq!(get.result.as_ref().unwrap().multiplicity, Multiplicity::Optional);
    assert!(matches!(&get.number, Value::Name(name) if name.name == "GETPROC"));
}

#[test]
fn arguments_may_have_names() {
    let text = "program P { version V { int F(int id) = 1; int G(int a, string b<4>, struct s *c, unsigned) = 2; } = 1; } = 1;";
    let DefinitionKind::Program(program) = one(text) else { panic!() };
    let names = |procedure: &ProcedureDef| -> Vec<Option<String>> {
        procedure.arguments.iter().map(|one| one.name.as_ref().map(|name| name.name.clone())).collect()
    };
    let [f, g] = &program.versions[0].procedures[..] else { panic!() };
    assert_eq!(names(f), [Some("id".to_owned())]);
    assert_eq!(names(g), [Some("a".to_owned()), Some("b".to_owned()), Some("c".to_owned()), None]);
    assert!(matches!(&g.arguments[1].multiplicity, Multiplicity::Variable(Some(max)) if number(max) == 4));
    assert_eq!(g.arguments[2].multiplicity, Multiplicity::Optional);
}

#[test]
fn arguments_and_results_may_be_arrays() {
    let text = "program P { version V { int<4> F(int a[3]) = 1; opaque<> G(opaque b<N>) = 2; s[2] H(s<>) = 3; } = 1; } = 1;";
    let (definitions, odd) = parse_warning(text, &[]);
    assert_eq!(odd, ["X137"; 6]);
    let DefinitionKind::Program(program) = &definitions[0].kind else { panic!() };
    let [f, g, h] = &program.versions[0].procedures[..] else { panic!() };
    let result =
        |procedure: &ProcedureDef| procedure.result.as_ref().map(|result| result.multiplicity.clone());
    assert!(matches!(result(f), Some(Multiplicity::Variable(Some(max))) if number(&max) == 4));
    assert_eq!(result(g), Some(Multiplicity::Variable(None)));
    assert!(matches!(result(h), Some(Multiplicity::Fixed(len)) if number(&len) == 2));
    assert_eq!(g.arguments[0].specifier.kind, TypeSpecifierKind::Opaque);
    assert_eq!(h.arguments[0].multiplicity, Multiplicity::Variable(None));
}

#[test]
fn characters_are_numbers() {
    let table =
        [("'a'", 97), ("' '", 32), ("'\\n'", 10), ("'\\0'", 0), ("'\\''", 39), ("'\"'", 34), ("'\\\\'", 92)];
    for (text, value) in table {
        let (definitions, odd) = parse_warning(&format!("const A = {text};"), &[]);
        let DefinitionKind::Const(constant) = &definitions[0].kind else { panic!() };
        assert_eq!((number(&constant.value), odd), (value, vec!["X137"]), "{text}");
    }
}

#[test]
fn program_and_version_may_be_names_of_fields() {
    let fields = fields("int program; unsigned int version;");
    assert_eq!(fields.iter().map(declared).collect::<Vec<_>>(), ["program", "version"]);
}

#[test]
fn pass_through_lines_may_be_anywhere() {
    let text = "%#define F(a) \\\n  (a)\n%#include <a.h>\nenum e {\n% note\n  A = 1,\n%\n  B = 2\n};\nconst C = 1;\n";
    assert_eq!(names(&parse(text)), ["%#define F(a) \\\n  (a)", "%#include <a.h>", "e", "% note", "C"]);
}

#[test]
fn comments_on_pass_through_lines_may_continue() {
    let text = "%/*\n% * a\n% */\nconst A = 1;\n%/* b\n   struct not { int x; };\n*/\nconst B = 2;\n";
    let definitions = parse(text);
    assert_eq!(names(&definitions), ["A", "B"]);
    assert_eq!(definitions[0].docs, ["a"]);
    let text =
        "%/* a */ int x; /* b\n c */\nconst A = 1;\n%int y; /* d\n */\n%/* e */ /* f */\nconst B = 2;\n";
    let definitions = parse(text);
    assert_eq!(names(&definitions), ["%/* a */ int x; /* b\n c */", "A", "%int y; /* d\n */", "B"]);
    assert_eq!(definitions[3].docs.len(), 1);
}

#[test]
fn a_string_in_a_line_for_c_begins_no_comment() {
    for line in ["#define GLOB \"/*\"", "%#define GLOB \"/tmp/*\"", "%char *a = \"\\\"/*\", b = '\"';"] {
        let definitions = parse(&format!("{line}\nconst A = 1;\n/* c */\nconst B = 2;\n"));
        assert_eq!(names(&definitions)[1..], ["A", "B"], "{line}");
    }
}

#[test]
fn defines_of_numbers_are_constants() {
    let text = "#define A 4\n  # define B 0x10 /* why */\n#define C\n#define D (1 << 3)\n#define E A\n#define F \"x\"\n\
                #define G (A \\\n  + B)\n#define H(a) 1\n#define I /* one\n line */\nconst J = 1;\n";
    let definitions = parse(text);
    let lines = ["%#define C", "%#define F \"x\"", "%#define H(a) 1", "%#define I /* one\n line */"];
    assert_eq!(names(&definitions), ["A", "B", lines[0], "D", "E", lines[1], "G", lines[2], lines[3], "J"]);
    let value = |index: usize| match &definitions[index].kind {
        DefinitionKind::Const(constant) => number(&constant.value),
        other => panic!("{other:?}"),
    };
    assert_eq!([value(3), value(6)], [8, 20]);
    assert!(matches!(&definitions[1].kind, DefinitionKind::Const(constant) if number(&constant.value) == 16));
}

/// Returns the names of the fields of all structs in a text.
fn expanded(text: &str) -> Vec<String> {
    let definitions = parse(text);
    let bodies = definitions.iter().filter_map(|definition| match &definition.kind {
        DefinitionKind::Struct(_, body) => Some(body),
        _ => None,
    });
    bodies.flat_map(|body| &body.fields).map(|field| declared(field).to_owned()).collect()
}

#[test]
fn macros_beyond_a_value_are_expanded() {
    assert_eq!(expanded("#define HDR int h;\nstruct s { HDR int i; };\n"), ["h", "i"]);
    assert_eq!(
        expanded("#define TWO(t, a) t a; t a##_b;\nstruct s { TWO(unsigned int, x) };\n"),
        ["x", "x_b"]
    );
    assert_eq!(
        expanded("#define F(x) x\n#define G(x) F(x) F(F(int b;))\nstruct s { G(int a;) };\n"),
        ["a", "b"]
    );
    assert_eq!(
        expanded("#define F(a) \\\n  int a; /* why */ \\\n  int b;\nstruct s { F /* x */ (\n a) };\n"),
        ["a", "b"]
    );
    assert_eq!(expanded("#define S(n) struct n { int n; };\nS(a)\nS(b)\n"), ["a", "b"]);
    assert_eq!(expanded("#define H int a;\nstruct s { H };\n#undef H\nstruct t { int H; };\n"), ["a", "H"]);
    assert_eq!(expanded("#define HERE\nstruct s { HERE int a; };\n"), ["a"]);
    assert_eq!(expanded("#define F() int a;\nstruct s { F() };\nstruct t { int F; };\n"), ["a", "F"]);
}

#[test]
fn macros_with_arguments_may_be_values() {
    let text = "#define N 3\n#define SIZE(n) ((n) * 4 + N)\nstruct s { opaque a[SIZE(2)]; opaque b<SIZE(SIZE(0))>; };\n";
    let definitions = parse(text);
    let DefinitionKind::Struct(_, body) = &definitions.last().unwrap().kind else { panic!() };
    assert!(matches!(&body.fields[0].multiplicity, Multiplicity::Fixed(len) if number(len) == 11));
    assert!(matches!(&body.fields[1].multiplicity, Multiplicity::Variable(Some(max)) if number(max) == 15));
    assert!(body.fields.iter().all(|field| field.specifier.kind == TypeSpecifierKind::Opaque));
    assert_eq!(definitions.last().unwrap().text, "struct s { opaque a[SIZE(2)]; opaque b<SIZE(SIZE(0))>; };");
}

#[test]
fn conditions_select_a_branch() {
    let text = "\
#ifdef X
const A = 1;
#ifdef Y
const B = 1;
#else
const C = 1;
#endif
#elif defined(Y)
const D = 1;
#else
const E = 1;
#endif
#if !defined(X) && 1 || 0
const F = 1;
#endif
#ifndef Z
#define Z
const G = 1;
#endif
#if defined Z
const H = 1;
#endif
";
    let chosen = |defined: &[&str]| -> Vec<String> {
        names(&parse_defining(text, defined)).into_iter().filter(|name| !name.starts_with('%')).collect()
    };
    assert_eq!(chosen(&[]), ["E", "F", "G", "H"]);
    assert_eq!(chosen(&["X"]), ["A", "C", "G", "H"]);
    assert_eq!(chosen(&["X", "Y"]), ["A", "B", "G", "H"]);
    assert_eq!(chosen(&["Y"]), ["D", "F", "G", "H"]);
    assert_eq!(chosen(&["Z"]), ["E", "F", "H"]);
}

#[test]
fn preprocessor_lines_may_end_with_a_comment() {
    for comment in ["// a note", "/* a note */", "// see linux/*.h"] {
        let text = format!(
            "#define N 5 {comment}\n#ifdef X {comment}\nconst A = N;\n#else {comment}\nconst B = N;\n\
             #endif {comment}\n/* another */\n#if 0 {comment}\nconst C = N;\n#endif\n"
        );
        assert_eq!(names(&parse_defining(&text, &[])), ["N", "B"], "{comment}");
        assert_eq!(names(&parse_defining(&text, &["X"])), ["N", "A"], "{comment}");
    }
    // As in C, extra text at the end of a conditional directive is ignored.
    let text = "#ifdef X Y\nconst A = 1;\n#endif X\n#ifndef X Y\nconst B = 1;\n#endif\n";
    assert_eq!(names(&parse_defining(text, &["X"])), ["A"]);
}

/// As in C, the conditions of branches that cannot be active are not evaluated.
#[test]
fn conditions_after_the_chosen_branch_may_be_invalid() {
    let text = "#if 1\nconst A = 1;\n#elif 1 / 0\nconst B = 1;\n#endif\n\
                #if 0\n#if 1\n#elif 1 / 0\n#endif\n#elif 0 && 1 / 0\nconst C = 1;\n#endif\n";
    assert_eq!(names(&parse(text)), ["A"]);
}

#[test]
fn lines_for_other_compilers_are_skipped() {
    let text = "#include \"a.x\"\n#pragma once\npragma header nfs4;\nconst A = 1;\npragma public a;\n";
    assert_eq!(names(&parse(text)), ["%#include \"a.x\"", "A"]);
    // The text after a pragma on the same line is XDR.
    assert_eq!(names(&parse("pragma header nfs4; const A = 1;\n")), ["A"]);
}

#[test]
fn comments_stay_with_their_definitions() {
    let text = "\
/*
 * Copyright (c) nobody
 */

/* Not about it. */

/* A pair. */
/* Of two. */
struct pair {            /* In pairs. */
    /* The first. */
    int a;               /* Of all. */
                         /* And more. */
    int b;
    /* Nothing. */
};  /* Ends. */

enum e {
    A = 1, /* one */
    B = 2  /* two */
};

union u switch (int x) {
case 1: /* label */
    int a; /* arm */
case 2: /* body */
    struct {
        int c; /* inner */
    } b; /* behind */
default:
    void; /* nothing */
};
";
    let definitions = parse(text);
    assert_eq!(definitions[0].docs, ["A pair.", "Of two.", "In pairs.", "Ends."]);
    let DefinitionKind::Struct(_, body) = &definitions[0].kind else { panic!() };
    assert_eq!(body.fields[0].docs, ["The first.", "Of all.", "And more."]);
    assert_eq!(body.fields[1].docs, [""; 0]);
    let DefinitionKind::Enum(_, body) = &definitions[1].kind else { panic!() };
    assert_eq!(body.members.iter().flat_map(|member| &member.docs).collect::<Vec<_>>(), ["one", "two"]);
    let DefinitionKind::Union(_, body) = &definitions[2].kind else { panic!() };
    assert_eq!(body.arms[0].declaration.docs, ["label", "arm"]);
    assert_eq!(body.arms[1].declaration.docs, ["body", "behind"]);
    assert_eq!(body.default.as_ref().unwrap().docs, ["nothing"]);
}

#[test]
fn a_definition_keeps_its_text_and_position() {
    let text = "   /* a */\n   struct a {\n      int b;   /* c */\n   };\n";
    let definition = parse(text).remove(0);
    assert_eq!(definition.text, "struct a {\n   int b;   /* c */\n};");
    let start = u32::try_from(text.find("struct").unwrap()).unwrap();
    assert_eq!((definition.span.start, definition.span.end), (start, u32::try_from(text.len()).unwrap() - 1));
}
