//! `rpcrdma-xdrgen diff`: the changes between two versions of a protocol.

use clap::Args;
use serde::Serialize;

use super::report::Reporting;
use super::versions::{Omitted, Place, Versions, omitted, place};
use super::{Failure, json_line, print};
use crate::compat::NotCompared;
use crate::diff::{self, Change, Diff, Sign};
use crate::source::Sources;

/// Two versions of a protocol.
#[derive(Args, Debug)]
#[command(after_help = "\
Each change is one line: a sign (`+` added, `-` removed, `~` changed), the kind and name of the definition, its old and new
form, and the positions. A change that does not affect the encoding, such as a name or a typedef, is marked `(not sent)`. A
change to a type is shown at the definition of the type, not at each use.

With --message-format json, unless the documents have errors, each change is a JSON object on one line of standard output.
Its `kind` is `change`, followed by `sign` (`added`, `removed` or `changed`), `what`, `name`, `wire` (true if the encoding
changes), `old` and `new`. `old` and `new` have `text`, `file`, `line` and `column`; `old` is null if the definition was
added, and `new` is null if it was removed. A definition that was omitted from a version has the `kind` `not_compared`,
followed by `name`, `why`, `file`, `line` and `column`. The last line has the `kind` `summary`, followed by the numbers
`changes`, `wire` and `not_compared`.

Exit status: 0 if nothing changed, 1 if something changed, 2 if the documents have errors (with --deny warnings, also
warnings) or cannot be read. It is also 2 if no change was found but some definitions of a published document could not be
read.")]
pub(super) struct Arguments {
    #[command(flatten)]
    versions: Versions,
}

pub(super) fn run(arguments: &Arguments, reporting: &Reporting) -> Result<(), Failure> {
    let (sources, old, new) = arguments.versions.read()?;
    let Diff { diagnostics, changes, not_compared } =
        diff::diff(&sources, &old, &new, &arguments.versions.options());
    reporting.report(&sources, &diagnostics).map_err(|_| Failure::Incomparable)?;
    let text = if reporting.is_json() {
        json(&sources, &changes, &not_compared)
    } else {
        human(&sources, &changes, &not_compared)
    };
    print(&text)?;
    match (changes.is_empty(), not_compared.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Failure::Incomparable),
        (false, _) => Err(Failure::Findings),
    }
}

fn human(sources: &Sources, changes: &[Change], not_compared: &[NotCompared]) -> String {
    let mut text: String = not_compared.iter().map(|one| omitted(sources, one).to_string()).collect();
    text.extend(changes.iter().map(|change| line(sources, change)));
    if !changes.is_empty() {
        let wire = changes.iter().filter(|change| change.wire).count();
        let plural = if changes.len() == 1 { "" } else { "s" };
        text.push_str(&format!("{} change{plural}, {wire} on the wire\n", changes.len()));
    }
    text
}

fn line(sources: &Sources, change: &Change) -> String {
    let Change { sign, what, name, old, new, wire } = change;
    let sign = match sign {
        Sign::Added => '+',
        Sign::Removed => '-',
        Sign::Changed => '~',
    };
    let sides = || [old, new].into_iter().flatten();
    let texts: Vec<&str> = sides().map(|side| side.text.as_str()).collect();
    let places: Vec<String> = sides().map(|side| place(sources, side.span)).collect();
    let sent = if *wire { "" } else { " (not sent)" };
    let texts = texts.join(" -> ");
    // The declaration of a complete definition includes its kind and name.
    let head =
        if texts.starts_with(&format!("{what} ")) { String::new() } else { format!("{what} {name}: ") };
    format!("{sign} {head}{texts}{sent}  [{}]\n", places.join(", "))
}

/// One line of JSON. Future versions may add fields but never remove them.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    Change {
        sign: Sign,
        what: &'a str,
        name: &'a str,
        wire: bool,
        old: Option<Text<'a>>,
        new: Option<Text<'a>>,
    },
    NotCompared(Omitted<'a>),
    Summary {
        changes: usize,
        wire: usize,
        not_compared: usize,
    },
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
    #[serde(flatten)]
    place: Place,
}

fn json(sources: &Sources, changes: &[Change], not_compared: &[NotCompared]) -> String {
    let mut text = String::new();
    let mut add = |line: &Line<'_>| text.push_str(&json_line(line));
    for one in not_compared {
        add(&Line::NotCompared(omitted(sources, one)));
    }
    for change in changes {
        let [old, new] = [&change.old, &change.new].map(|side| {
            side.as_ref().map(|side| Text { text: &side.text, place: Place::of(sources, side.span) })
        });
        let Change { sign, what, ref name, wire, .. } = *change;
        add(&Line::Change { sign, what, name, wire, old, new });
    }
    let wire = changes.iter().filter(|change| change.wire).count();
    add(&Line::Summary { changes: changes.len(), wire, not_compared: not_compared.len() });
    text
}
