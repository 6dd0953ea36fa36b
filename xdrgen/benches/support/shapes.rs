//! Documents of any size. Each document has a shape that is expensive for one stage of the compiler.

use std::fmt::Write;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// Returns the text of a document. The length of the text is roughly proportional to the argument.
    pub(crate) text: fn(usize) -> String,
    /// True if the document has no errors. Otherwise, each of its parts has an error.
    pub(crate) is_valid: bool,
}

pub(crate) const SHAPES: &[Shape] = &[
    Shape { name: "definitions", file: "a.x", text: definitions, is_valid: true },
    Shape { name: "members and arms", file: "a.x", text: members, is_valid: true },
    Shape { name: "one large struct", file: "a.x", text: fields, is_valid: true },
    Shape { name: "typedefs of typedefs", file: "a.x", text: typedefs, is_valid: true },
    Shape { name: "constants of constants", file: "a.x", text: constants, is_valid: true },
    Shape { name: "comments", file: "a.x", text: comments, is_valid: true },
    Shape { name: "bodies in bodies", file: "a.x", text: nested, is_valid: true },
    Shape { name: "recursion", file: "a.x", text: recursive, is_valid: true },
    Shape { name: "conflicting Rust names", file: "a.x", text: clashes, is_valid: true },
    Shape { name: "procedures", file: "a.x", text: procedures, is_valid: true },
    Shape { name: "namespaces", file: "a.x", text: namespaces, is_valid: true },
    Shape { name: "macros", file: "a.x", text: macros, is_valid: true },
    Shape { name: "marked text with pages", file: "a.txt", text: marked, is_valid: true },
    Shape { name: "definitions in prose", file: "a.txt", text: prose, is_valid: true },
    Shape { name: "undefined names", file: "a.x", text: undefined, is_valid: false },
    Shape { name: "misspelled names in an RFC", file: "a.txt", text: misspelled, is_valid: true },
    Shape { name: "broken definitions", file: "a.x", text: broken, is_valid: false },
    Shape { name: "repeated definitions", file: "a.x", text: repeated, is_valid: false },
    Shape { name: "a long definition and short repetitions", file: "a.x", text: shortened, is_valid: false },
    Shape { name: "repeated labels", file: "a.x", text: labels, is_valid: false },
];

/// Adds a line. Writing to a string never fails.
macro_rules! line {
    ($text:expr, $($what:tt)*) => { writeln!($text, $($what)*).expect("writing to a string never fails") };
}

fn definitions(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "const LIMIT_{at} = {};", at + 1);
        line!(text, "enum kind_{at} {{ KIND_{at}_NONE = 0, KIND_{at}_SOME = 1 }};");
        line!(text, "typedef opaque handle_{at}<LIMIT_{at}>;");
        line!(text, "struct part_{at} {{ handle_{at} handle; unsigned hyper size; string name<>; }};");
        line!(text, "union part_or_not_{at} switch (kind_{at} which) {{");
        line!(text, "case KIND_{at}_SOME: part_{at} part;\ndefault: void;\n}};");
    }
    text
}

fn members(n: usize) -> String {
    let mut text = "enum status {\n".to_owned();
    for at in 0..n {
        line!(text, "    ERR_{at}_OF_MANY = {at},");
    }
    text.push_str("    ERR_LAST = 0x7fffffff\n};\nunion result switch (status code) {\n");
    for at in 0..n {
        line!(text, "case ERR_{at}_OF_MANY: int value_{at};");
    }
    text.push_str("default: void;\n};\n");
    text
}

fn fields(n: usize) -> String {
    let mut text = "struct large {\n".to_owned();
    for at in 0..n {
        line!(
            text,
            "    unsigned int first_{at}; /* the field with the number {at} */\n    opaque second_{at}<>;"
        );
    }
    text.push_str("};\n");
    text
}

fn typedefs(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        if at % 90 == 0 {
            line!(text, "typedef unsigned int link_{at};");
        } else {
            line!(text, "typedef link_{} link_{at};", at - 1);
        }
        line!(text, "struct of_link_{at} {{ link_{at} one; }};");
    }
    text
}

fn constants(n: usize) -> String {
    let mut text = "const C_0 = 1;\n".to_owned();
    for at in 1..n {
        line!(text, "const C_{at} = C_{};\ntypedef opaque o_{at}[C_{at}];", at - 1);
    }
    text
}

fn comments(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "/* A comment with the number {at}, and *more* of it_\n *    - one\n *    - two\n */");
        line!(text, "// and another\n%#include <some/header_{at}.h>");
        if at % 10 == 0 {
            line!(text, "struct s_{at} {{ int a; /* behind it */ }};");
        }
    }
    text
}

fn nested(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "struct outer_{at} {{");
        for depth in 0..20 {
            line!(text, "struct {{ int at_{depth};");
        }
        for depth in (0..20).rev() {
            line!(text, "}} inner_{depth};");
        }
        line!(text, "}};");
    }
    text
}

fn recursive(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "struct list_{at} {{ int value; list_{at} *next; }};");
        line!(text, "struct tree_{at} {{ leaf_{at} *left; leaf_{at} *right; }};");
        line!(text, "struct leaf_{at} {{ tree_{at} *down; list_{at} *list; }};");
    }
    text
}

fn namespaces(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(
            text,
            "namespace space_{at} {{\nstruct part {{ int a; }};\ntypedef part parts_{at}<LIMIT>;\nconst LIMIT = 3;\n}}"
        );
        line!(text, "struct whole_{at} {{ space_{at}::part one; space_{at}::parts_{at} more; }};");
    }
    text
}

fn macros(n: usize) -> String {
    let mut text =
        "#define FIELD(type, name) type name; opaque name##_tag[SIZE(2)];\n#define SIZE(n) ((n) * 4)\n"
            .to_owned();
    for at in 0..n {
        line!(text, "#define HEAD_{at} FIELD(int, first)");
        line!(text, "struct of_head_{at} {{ HEAD_{at} unsigned int second; }};");
    }
    text
}

/// Returns a struct with field names that differ only in the number of underscores. In Rust's naming style,
/// these names are equal.
fn clashes(n: usize) -> String {
    let mut text = "struct clash {\n".to_owned();
    for at in 0..n {
        let name: String = ('a'..='p')
            .enumerate()
            .map(|(gap, letter)| format!("{letter}{}", if at >> gap & 1 == 0 { "_" } else { "__" }))
            .collect();
        line!(text, "    int {name};");
    }
    text.push_str("};\n");
    text
}

fn procedures(n: usize) -> String {
    let mut text = "struct args { int a; };\nprogram P {\nversion V {\n".to_owned();
    for at in 0..n {
        line!(text, "/* Does a thing. */ args PROC_{at}(args, int) = {at};");
    }
    text.push_str("} = 1;\n} = 100;\n");
    text
}

fn paged(text: &str, mark: &str) -> String {
    let mut paged = "Request for Comments: 0\n\n1.  Definitions\n\n".to_owned();
    for (at, lines) in text.lines().collect::<Vec<_>>().chunks(40).enumerate() {
        for line in lines {
            line!(paged, "{mark}{line}");
        }
        line!(paged, "\n\n\nAuthor                   Standards Track                 [Page {}]", at + 1);
        line!(paged, "\u{c}\nRFC 0                       Definitions                  January 2000\n\n");
    }
    paged
}

fn marked(n: usize) -> String {
    paged(&definitions(n), "   /// ")
}

fn prose(n: usize) -> String {
    let mut text = "Request for Comments: 0\n\n1.  Definitions\n\n".to_owned();
    for at in 0..n {
        line!(text, "   A client sends structure {at} to describe its request, and a");
        line!(text, "   server rejects an unsupported structure.\n");
        line!(
            text,
            "      struct part_{at} {{\n         unsigned int  size;\n         opaque        data<>;\n      }};\n"
        );
    }
    text
}

fn undefined(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "struct known_number_{at} {{ unknown_number_{at} a; int b[NO_CONSTANT_{at}]; }};");
    }
    text
}

/// Returns a published document in which each undefined name differs from a defined name by one letter.
fn misspelled(n: usize) -> String {
    let mut text = "Request for Comments: 0\n\n1.  Definitions\n\n".to_owned();
    for at in 0..n {
        line!(text, "      struct part_of_many_{at} {{\n         unsigned int  size;\n      }};\n");
        line!(text, "      struct whole_{at} {{\n         part_of_mny_{at}  part;\n      }};\n");
    }
    text
}

fn broken(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(
            text,
            "struct one_{at} {{ int a b; }};\nenum {{ A }} two_{at};\nstruct three_{at} {{ int c }};"
        );
        line!(text, "struct four_{at} {{ int a;\nstruct five_{at} {{ int b; }};");
    }
    text
}

fn repeated(n: usize) -> String {
    let mut text = String::new();
    for at in 0..n {
        line!(text, "struct twice {{ int a_{at}; int b; int b; }};\nconst TWICE = {at};");
    }
    text
}

/// Returns one long and many short definitions of the same name. The compiler compares each short definition
/// with the long definition.
fn shortened(n: usize) -> String {
    let mut text = "struct large {\n".to_owned();
    for at in 0..n {
        line!(text, "    unsigned int field_{at};");
    }
    text.push_str("};\n");
    for at in 0..n {
        line!(text, "struct large {{ int again_{at}; }};");
    }
    text
}

fn labels(n: usize) -> String {
    let mut text = "union u switch (int which) {\n".to_owned();
    for at in 0..n {
        line!(text, "case {at}:\ncase {at}: int a_{at};\ncase 7: void;");
    }
    text.push_str("};\n");
    text
}
