//! Findings of extraction and inclusion.

use std::path::Path;

use super::{Excerpt, text};
use crate::source::{Refused, Span};

kinds! {
    /// X0: documents
    Document DocumentKind {
    /// no definition was found
    ///
    /// The document contains no XDR. This is an error, or a warning if another document of the run has
    /// definitions.
    ///
    /// ```text
    /// 1. Introduction
    ///
    ///    This protocol is described elsewhere.
    /// ```
    ///
    /// In RFC text, write `///` before each line of XDR, or indent complete definitions as RFCs do. A
    /// file with the extension `.x` consists of XDR only.
    ///
    /// ```text
    /// 1. Introduction
    ///
    ///    /// const VERSION = 3;
    /// ```
    X001 Warning NoDefinition => text("no definition was found in this document")
        .label("no definition from here to the end")
        .help("put definitions after `///`, in indented text of an RFC, or in a file with the extension `.x`");
    /// the lines after `///` are not XDR
    ///
    /// None of the lines that a published document marks with `///` begins a definition. RFC 7532 marks a
    /// directory schema in this way.
    ///
    /// ```text
    /// Request for Comments: 9999
    ///
    ///    /// dn: cn=schema
    ///    /// objectClasses: ( 1.3.6 NAME 'fedfsNsdb' )
    /// ```
    ///
    /// Compile the document that defines the protocol.
    ///
    /// ```text
    /// Request for Comments: 9998
    ///
    ///    /// const VERSION = 1;
    /// ```
    X002 Error NoXdr => text("the lines after `///` are not XDR")
        .label("no definition begins here or later")
        .help("compile the document that defines the protocol instead");
    /// a definition without a mark is omitted
    ///
    /// If some lines of a document have `///`, all other lines are prose, which often repeats definitions.
    /// The name of this definition does not occur in the marked lines. This is a warning. Published RFCs
    /// quote one another, so they get no such warning.
    ///
    /// An unmarked line is an error if it is between the marked lines of one body and can be a part of the
    /// body. Without the line, messages would have another layout. In a published RFC this is a warning,
    /// and the line stays prose.
    ///
    /// ```text
    ///    /// const VERSION = 3;
    ///
    ///    struct entry {
    ///       hyper id;
    ///    };
    /// ```
    ///
    /// ```text
    ///    /// const VERSION = 3;
    ///    ///
    ///    /// struct entry {
    ///    ///    hyper id;
    ///    /// };
    /// ```
    X003 Warning Unmarked { name: String } =>
        text(format!("`{name}` is omitted: its definition is not marked with `///`"))
        .label("prose, since other lines are marked with `///`")
        .help("if the definition belongs to the protocol, write `///` before each of its lines");
    /// An unmarked line inside a body.
    X003 Error UnmarkedLine => text("missing `///` before a line inside a body")
        .label("prose, since the lines around it are marked with `///`")
        .help("write `///` before the line, or move the line out of the body");
    /// an included file cannot be read
    ///
    /// The path in `#include "file.x"` is relative to the including document. `#include <file.x>`,
    /// `%#include` and C files (`.h`, `.c`, `.cc`, `.cpp`, `.hpp`) are ignored. A missing file is an
    /// error if the including document uses an undefined name, which the file may define; otherwise it is
    /// a warning.
    ///
    /// An included file must be a readable, regular UTF-8 file of at most 16 MiB. A run includes at most
    /// 1000 files and 64 MiB. A violation of one of these rules is an error.
    ///
    /// ```xdr file
    /// #include "types.x"
    /// struct entry { key id; };
    /// ```
    ///
    /// Write the file's path relative to the document, or list the file as a document of the run
    /// (`rpcrdma-xdrgen check types.x entry.x`).
    ///
    /// ```xdr file
    /// #include "../common/types.x"
    /// struct entry { key id; };
    /// ```
    X004 Error NotIncluded { name: String, why: Refused, lacking: Excerpt<Span> } => {
        let mut text = text(match name.as_str() {
            "" => "an included file has no name".to_owned(),
            name => format!("cannot read the included file `{name}`"),
        });
        for (at, span) in (1..).zip(&lacking.first) {
            let is_last = at == lacking.first.len() && lacking.more > 0;
            let more = if is_last { format!(", and {} more", lacking.more) } else { String::new() };
            text = text.and(*span, format!("undefined without that file{more}"));
        }
        text.label(reason(why))
            .help("use a path relative to the document, or list the file as a document of the run")
    };
    }
}

/// Returns the reason why a file cannot be read.
fn reason(why: &Refused) -> String {
    let shown = |path: &Path| path.display().to_string();
    match why {
        Refused::Unnamed => "empty".to_owned(),
        Refused::Missing(path) => format!("no such file: `{}`", shown(path)),
        Refused::Unreadable { path, error } => format!("`{}`: {error}", shown(path)),
        Refused::NoFile(path) => format!("`{}` is not a regular file", shown(path)),
        Refused::TooMany { max } => format!("a run includes at most {max} files"),
        Refused::TooLong { path, mib } => format!("`{}` is longer than {mib} MiB", shown(path)),
        Refused::TooMuch { mib } => format!("a run includes at most {mib} MiB"),
        Refused::NotUtf8(path) => format!("`{}` is not UTF-8", shown(path)),
    }
}
