//! Findings about the extraction of XDR from documents, and about included files.

use super::{Excerpt, text};
use crate::source::{Refused, Span};

kinds! {
    /// X0: documents
    Document DocumentKind {
    /// no definition was found
    X001 Warning NoDefinition => text("no definition was found in this document")
        .label("no definition from here to the end")
        .help("put definitions after `///`, in indented text of an RFC, or in a file with the extension `.x`");
    /// the lines after `///` are not XDR
    X002 Error NoXdr => text("the lines after `///` are not XDR")
        .label("no definition begins here or later")
        .help("compile the document that defines the protocol instead");
    /// a definition without a mark is omitted
    X003 Warning Unmarked { name: String } =>
        text(format!("`{name}` is omitted: its definition is not marked with `///`"))
        .label("prose, since other lines are marked with `///`")
        .help("if the definition belongs to the protocol, write `///` before each of its lines");
    /// An unmarked line inside a body.
    X003 Error UnmarkedLine => text("missing `///` before a line inside a body")
        .label("prose, since the lines around it are marked with `///`")
        .help("write `///` before the line, or move the line out of the body");
    /// A definition that shares a line with another definition and is omitted, since repeated parsing is
    /// limited to `mib` MiB.
    X003 Error SharedLine { mib: usize } =>
        text(format!("too many definitions share lines: repeated parsing is limited to {mib} MiB"))
        .label("this definition and the rest of its line are omitted")
        .help("begin each definition on its own line, or mark the lines of XDR with `///`");
    /// an included file cannot be read
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
    match why {
        Refused::Unnamed => "empty".to_owned(),
        Refused::Missing(path) => format!("no such file: `{}`", path.display()),
        Refused::Unreadable { path, error } => format!("`{}`: {error}", path.display()),
        Refused::NoFile(path) => format!("`{}` is not a regular file", path.display()),
        Refused::TooMany { max } => format!("a run includes at most {max} files"),
        Refused::TooLong { path, mib } => format!("`{}` is longer than {mib} MiB", path.display()),
        Refused::TooMuch { mib } => format!("the included files of a run are limited to {mib} MiB in total"),
        Refused::NotUtf8(path) => format!("`{}` is not UTF-8", path.display()),
    }
}
