//! Findings of extraction and inclusion.

use std::path::Path;

use super::{Few, text};
use crate::source::{Refused, Span};

kinds! {
    /// X0: documents
    Document DocumentKind {
    /// no definition was found
    ///
    /// The document was read, and nothing in it is XDR. It is an error, or a warning if another document of
    /// the run has definitions.
    ///
    /// ```text
    /// 1. Introduction
    ///
    ///    This protocol is described elsewhere.
    /// ```
    ///
    /// In RFC text, set `///` before each line of XDR, or indent whole definitions as RFCs do. A file named
    /// `.x` is XDR throughout.
    ///
    /// ```text
    /// 1. Introduction
    ///
    ///    /// const VERSION = 3;
    /// ```
    X001 Warning NoDefinition => text("no definition was found in this document")
        .label("none from here to the end")
        .help("put definitions after `///`, in indented text of an RFC, or in a file named `.x`");
    /// the lines after `///` are not XDR
    ///
    /// A published document sets `///` before lines of which none begins a definition. RFC 7532 does so with
    /// a schema for directories.
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
        .label("no definition begins here, or later")
        .help("there is nothing to compile in this document; compile the one that defines the protocol");
    /// a definition without a mark is omitted
    ///
    /// If some lines of a document have `///`, all others are prose, which often repeats definitions. This
    /// definition occurs nowhere else. A warning; not in published RFCs, which quote one another.
    ///
    /// A line without a mark between the marked lines of one body, which reads as a part of a body, is an
    /// error: without it messages would have another layout. In a published RFC it is a warning, and the line
    /// stays prose.
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
    X003 Warning Unmarked { name: String } => text(format!("`{name}` is defined without `///` and omitted"))
        .label("prose, since other lines are marked with `///`")
        .help("set `///` before each line of it, if it belongs to the protocol");
    /// A line of a body has none.
    X003 Error UnmarkedLine => text("missing `///` before a line inside a body")
        .label("prose, since the lines around it are marked with `///`")
        .help("set `///` before it, or move it out of the body");
    /// an included file cannot be read
    ///
    /// `#include "file.x"` is relative to the document that has it. `#include <file.x>`, `%#include` and
    /// files of C (`.h`, `.c`, `.cc`, `.cpp`, `.hpp`) are not read. A missing file is an error if a name is
    /// missing that the file may define, else a warning.
    ///
    /// An included file must be a regular file in UTF-8 of at most 16 MiB. A run includes at most 1000 files
    /// and 64 MiB. Breaking one of these limits is an error.
    ///
    /// ```xdr file
    /// #include "types.x"
    /// struct entry { key id; };
    /// ```
    ///
    /// Give the file's path from the document on, or name it as a document of the run
    /// (`rpcrdma-xdrgen check types.x entry.x`).
    ///
    /// ```xdr file
    /// #include "../common/types.x"
    /// struct entry { key id; };
    /// ```
    X004 Error NotIncluded { name: String, why: Refused, lacking: Few<Span> } => {
        let mut text = text(match name.as_str() {
            "" => "an included file has no name".to_owned(),
            name => format!("cannot read the included file `{name}`"),
        });
        for (at, span) in (1..).zip(&lacking.first) {
            let is_last = at == lacking.first.len() && lacking.more > 0;
            let more = if is_last { format!(", and {} more", lacking.more) } else { String::new() };
            text = text.and(*span, format!("not defined without it{more}"));
        }
        text.label(reason(why))
            .help("a path is relative to the document; or name the file as one more document of the run")
    };
    }
}

/// Why a file cannot be read.
fn reason(why: &Refused) -> String {
    let shown = |path: &Path| path.display().to_string();
    match why {
        Refused::Unnamed => "empty".to_owned(),
        Refused::Missing(path) => format!("searched at `{}`", shown(path)),
        Refused::NoFile(path) => format!("`{}` is not a regular file", shown(path)),
        Refused::TooMany { most } => format!("a run includes at most {most} files"),
        Refused::TooLong { path, mib } => format!("`{}` is longer than {mib} MiB", shown(path)),
        Refused::TooMuch { mib } => format!("a run includes at most {mib} MiB"),
        Refused::NotUtf8(path) => format!("`{}` is not UTF-8", shown(path)),
    }
}
