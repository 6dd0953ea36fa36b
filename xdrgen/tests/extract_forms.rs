//! The three forms of documents, and the mapping of each extracted byte to its position.

use rpcrdma_xdrgen::ast::{ConstDef, DefinitionKind, Specification, Value};
use rpcrdma_xdrgen::extract;
use rpcrdma_xdrgen::extract::{Extract, Form};
use rpcrdma_xdrgen::parse::{ParseOptions, parse_extract};
use rpcrdma_xdrgen::source::{Source, SourceId};

fn extracted(name: &str, text: &str) -> Extract {
    let extract = extract(SourceId(0), &Source::new(name, text));
    // Except in the indented form, each byte other than white space maps to its position in the document.
    for (offset, byte) in extract.text.bytes().enumerate() {
        let place = extract.map.document(u32::try_from(offset).expect("a short text")) as usize;
        if !byte.is_ascii_whitespace() && extract.form != Form::Indented {
            assert_eq!(text.as_bytes()[place], byte, "byte {offset} of {:?}", extract.text);
        }
    }
    extract
}

fn parsed(extract: &Extract) -> Specification {
    parse_extract(extract, &ParseOptions::default()).0
}

const BREAK: &str = "\n\n\nAuthor                  Standards Track                  [Page 7]\n\u{c}\nRFC 9999                  A Test                  June 2020\n\n\n";

#[test]
fn marked_lines_may_have_any_indentation() {
    let text = "\u{feff}Prose.\n///const A = 1;\n/// const B = 2;\n  /// const C = 3;\n\t/// const D = 4;\n            ///\n       ///  const E = 5;\nstruct prose { int x; };\n";
    let extract = extracted("rfc.txt", text);
    assert_eq!(extract.form, Form::Marked);
    assert_eq!(extract.text, "const A = 1;\nconst B = 2;\nconst C = 3;\nconst D = 4;\n\n const E = 5;\n");
}

#[test]
fn page_breaks_may_be_between_and_inside_definitions_and_comments() {
    let text = format!(
        "   /// /* one{BREAK}   ///  * two */\n   /// struct a {{{BREAK}   ///   int b;\n{BREAK}   /// }};\n"
    );
    let extract = extracted("rfc.txt", &text);
    assert_eq!(extract.text, "/* one\n * two */\nstruct a {\n  int b;\n};\n");
    assert_eq!(parsed(&extract).definitions[0].docs, ["one\ntwo"]);
}

#[test]
fn prose_separates_unrelated_comments() {
    let text = "   /// /* The licence. */\n\n   Prose.\n\n   /// /* About a. */\n   /// const A = 1;\n";
    let extract = extracted("rfc.txt", text);
    assert_eq!(parsed(&extract).definitions[0].docs, ["About a."]);
}

#[test]
fn carriage_returns_are_accepted() {
    let extract = extracted("rfc.txt", "   /// const A = 1;\r\n   ///\r\n   /// const B = 2;\r\n");
    assert_eq!(extract.text, "const A = 1;\n\nconst B = 2;\n");
    assert_eq!(parsed(&extracted("a.x", "const A = 1;\r\n#define B 2\r\n%x\r\n")).definitions.len(), 3);
}

#[test]
fn definitions_have_their_section() {
    let text = "1.  One\n\n   /// const A = 1;\n\n1.1.  A Title That\n      Goes On\n\n   /// const B = 2;\n   /// const C = 3;\n\nAppendix A.  Last\n\n/// const D = 4;\n";
    let specification = parsed(&extracted("rfc.txt", text));
    let sections: Vec<Option<&str>> =
        specification.definitions.iter().map(|definition| definition.section.as_deref()).collect();
    let goes_on = Some("1.1. A Title That Goes On");
    assert_eq!(sections, [Some("1. One"), goes_on, goes_on, Some("Appendix A. Last")]);
}

#[test]
fn an_x_file_is_read_completely_even_with_marks() {
    let text = "/// A comment to some.\nconst A = 1;\n";
    let extract = extracted("a.x", text);
    assert_eq!((extract.form, extract.text.as_str()), (Form::Plain, text));
}

/// An RFC without `///` marks; `@@` stands for a page break.
const OLD_RFC: &str = "RFC 9999                  A Test                  June 2020\n
2.4 Sizes

   These sizes are in bytes:

   HANDLESIZE 64
      The longest handle.

   UNUSED 5
      Nobody uses it.

2.5 Types

   struct of the following kind carry handles; typedef names them,
   union members don't, and const is the qualifier of C.
   program number, version number and procedure number tell

      /* A handle. */
      struct handle {
         opaque data<HANDLESIZE>;
@@
         int kind;   /* of it */
      };
      The text goes on here.

      union example switch (enum status) {
           case OK:
              int x;
      }

      union result switch (int status) {
      case 0:
         handle ok;
      default:
         void;
      } result;

   Again:

      struct handle {
         opaque data<HANDLESIZE>;
         int kind;
      };

      case <OPCODE>:  <argument>;

      program P {
         version V {
            void
            NULL(void) = 0;
         } = 1;
      } = 200000;

   const LIMIT = 3;  /* behind */
   #define OTHER 0x10
";

const OLD_RFC_XDR: &str = "\
const HANDLESIZE = 64;

/* A handle. */
struct handle {
   opaque data<HANDLESIZE>;
   int kind;   /* of it */
};

union result switch (int status) {
case 0:
   handle ok;
default:
   void;
} result;

program P {
   version V {
      void
      NULL(void) = 0;
   } = 1;
} = 200000;

const LIMIT = 3;  /* behind */

#define OTHER 0x10

";

/// Only the first line of an indented `#define` is extracted.
#[test]
fn a_comment_that_continues_after_an_indented_define_hides_nothing() {
    for (comment, extracts) in
        [("/* one\n      two */", ""), ("/* one /* two\n */", ""), ("/* 1 */ /*/\n */", " /* 1 */")]
    {
        let text = OLD_RFC.replace("@@", BREAK).replace("0x10", &format!("0x10 {comment}"));
        let expected = format!("\n#define OTHER 0x10{extracts}\n\n");
        assert!(extracted("rfc9999.txt", &text).text.ends_with(&expected), "{comment}");
    }
}

#[test]
fn the_value_of_an_indented_define_may_be_an_expression() {
    let text = "1. A\n\n   #define BIT (1 << 3)\n   #define LOW -5\n   #define AUTH ((AUTH *) x)\n   #define TO be\n\n   \
                struct a { int b[BIT]; };\n";
    let definitions = parsed(&extracted("rfc.txt", text)).definitions;
    let numbers = definitions.iter().filter_map(|definition| match &definition.kind {
        DefinitionKind::Const(ConstDef { value: Value::Literal { value, .. }, .. }) => Some(*value),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [8, -5]);
}

#[test]
fn indented_definitions_are_found_between_prose() {
    let text = OLD_RFC.replace("@@", BREAK);
    let extract = extracted("rfc9999.txt", &text);
    assert_eq!(extract.form, Form::Indented);
    assert_eq!(extract.text, OLD_RFC_XDR);
    let specification = parsed(&extract);
    assert_eq!(specification.definitions.len(), 6);
    assert_eq!(specification.definitions[0].section.as_deref(), Some("2.4 Sizes"));
    assert_eq!(specification.definitions[1].docs, ["A handle."]);
    let codes: Vec<&str> = extract.diagnostics.iter().map(|found| found.code()).collect();
    assert_eq!(codes, ["X100", "X130"]);
    assert!(extract.diagnostics.iter().all(|found| !found.is_error()));
}

#[test]
fn definitions_may_share_a_line() {
    let text = "1. A\n\n   const A = 1; const B = 2; /* two */\n\n   struct c {\n      int x;\n   }; enum d {\n\
                \x20     D = 1\n   };  const E = 3; struct is not the start of prose;\n\n   const F = 4;\n";
    let extract = extracted("rfc.txt", text);
    assert_eq!(
        extract.text,
        "const A = 1;\n\nconst B = 2; /* two */\n\nstruct c {\n   int x;\n};\n\nenum d {\n   D = 1\n};\n\n\
         const E = 3;\n\nconst F = 4;\n\n"
    );
    assert!(extract.diagnostics.is_empty(), "{:?}", extract.diagnostics);
    let specification = parsed(&extract);
    assert_eq!(specification.definitions.len(), 6);
    let span = specification.definitions[1].span;
    assert_eq!(&text[span.start as usize..span.end as usize], "const B = 2;");
}

#[test]
fn definitions_beyond_the_limit_of_a_shared_line_are_reported() {
    let line: String = (0..1000).map(|at| format!("const A{at} = {at}; ")).collect();
    let text = format!("1. A\n\n   {line}\n\n   const LAST = 1;\n");
    let extract = extracted("rfc.txt", &text);
    let [found] = &extract.diagnostics[..] else { panic!("{:?}", extract.diagnostics) };
    assert_eq!((found.code(), found.is_error()), ("X003", true));
    let kept = parsed(&extract).definitions.len() - 1;
    assert!(text[found.span.start as usize..].starts_with(&format!("const A{kept} = ")), "{kept}");
}

#[test]
fn spans_point_into_the_document() {
    let text = "1. A\n\n   BOUND  7\n\n      typedef opaque a<BOUND>;\n\n         struct b {\n           a c;\n         };\n";
    let extract = extracted("rfc.txt", text);
    let specification = parsed(&extract);
    let shown = |index: usize| {
        let span = specification.definitions[index].span;
        &text[span.start as usize..span.end as usize]
    };
    assert_eq!(shown(0), "BOUND  7");
    assert_eq!(shown(1), "typedef opaque a<BOUND>;");
    assert_eq!(shown(2), "struct b {\n           a c;\n         };");
    let DefinitionKind::Const(constant) = &specification.definitions[0].kind else { panic!() };
    assert_eq!(&text[constant.name.span.start as usize..constant.name.span.end as usize], "BOUND");
}

#[test]
fn a_broken_definition_in_an_rfc_is_reported_and_omitted() {
    let text = "1. A\n\n      struct a {\n         int b\n         int c;\n      };\n\n      const D = 1;\n";
    let extract = extracted("rfc.txt", text);
    assert_eq!(parsed(&extract).definitions.len(), 1);
    let [found] = &extract.diagnostics[..] else { panic!("{:?}", extract.diagnostics) };
    assert_eq!(found.code(), "X111");
    assert_eq!(Source::new("", text).line_column(found.span.start).line, 4);
}

#[test]
fn a_definition_without_its_last_semicolon_is_kept() {
    let text = "1. A\n\n      struct a {\n         int b;\n      }\n\n   The structure a has one field.\n";
    let extract = extracted("rfc.txt", text);
    assert_eq!(parsed(&extract).definitions.len(), 1);
    assert_eq!(extract.diagnostics.len(), 1);
}
