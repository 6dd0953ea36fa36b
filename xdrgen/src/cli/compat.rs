//! `rpcrdma-xdrgen compat`: whether one protocol is a compatible extension of another.

use clap::Args;
use serde::Serialize;

use super::report::Reporting;
use super::versions::{Omitted, Place, Versions, omitted, place};
use super::{Failure, json_line, print};
use crate::compat::{self, Addition, Compat, Kind, Rules, Verdict};
use crate::source::Sources;

/// Two versions of a protocol and the rules for comparing them.
#[derive(Args, Debug)]
#[command(after_help = "\
An extension keeps every message of the base. It may add message types (enum values with their arms in unions without a
default), flag bits, programs, versions and procedures (draft-ietf-nfsv4-rfc5666bis-04, section 9.1). Names, typedefs
and comments may change, since they are not sent.

With --message-format json, unless the documents have errors, each addition is a JSON object on one line of standard output.
Its `kind` is `addition`, followed by `what` (`value`, `arm`, `flag`, `constant`, `type`, `program`, `version` or
`procedure`), `name`, `text`, `file`, `line` and `column`. A definition that could not be compared has the `kind`
`not_compared`, followed by `name`, `why`, `file`, `line` and `column`. The last line has the `kind` `summary`, followed by
`verdict` (`extension`, `breach` or `unknown`) and the numbers `additions`, `breaches` and `not_compared`. Additions are
listed only for an extension.

Exit status: 0 if NEW extends BASE, 1 if it does not, 2 if that is unknown: the documents have errors (with --deny warnings,
also warnings) or cannot be read, or an invalid definition of a published document was omitted.")]
pub(super) struct Arguments {
    #[command(flatten)]
    versions: Versions,
    /// NEW contains only the additions and is compiled together with BASE.
    #[arg(long)]
    extends: bool,
    /// The document whose rules define an extension.
    #[arg(long, value_name = "DOCUMENT", value_enum, default_value_t)]
    rules: Rules,
}

pub(super) fn run(arguments: &Arguments, reporting: &Reporting) -> Result<(), Failure> {
    let (sources, base, mut new) = arguments.versions.read()?;
    if arguments.extends {
        new.retain(|document| !base.contains(document));
        new.splice(0..0, base.iter().copied());
    }
    let compared = compat::compat_by(arguments.rules, &sources, &base, &new, &arguments.versions.options());
    let verdict = compared.verdict();
    let Compat { mut diagnostics, breaches, mut additions, not_compared } = compared;
    if reporting.has_errors(&diagnostics) {
        return reporting.report(&sources, &diagnostics).map_err(|_| Failure::Incomparable);
    }
    if verdict != Verdict::Extension {
        additions.clear();
    }
    let summary = Summary {
        verdict,
        additions: additions.len(),
        breaches: breaches.len(),
        not_compared: not_compared.len(),
    };
    diagnostics.extend(breaches);
    let reported = reporting.report(&sources, &diagnostics);
    let omitted = not_compared.iter().map(|one| omitted(&sources, one));
    print(&match reporting.is_json() {
        true => json(&sources, omitted, &additions, summary),
        false => human(&sources, omitted, &additions, verdict),
    })?;
    match verdict {
        Verdict::Unknown => Err(Failure::Incomparable),
        Verdict::Breach | Verdict::Extension => reported,
    }
}

fn human<'a>(
    sources: &Sources,
    omitted: impl Iterator<Item = Omitted<'a>>,
    additions: &[Addition],
    verdict: Verdict,
) -> String {
    let mut text: String = omitted.map(|one| one.to_string()).collect();
    text.push_str(match verdict {
        Verdict::Breach => "",
        Verdict::Unknown => "no verdict: some definitions could not be compared; all others are compatible\n",
        Verdict::Extension if additions.is_empty() => "compatible; no additions\n",
        Verdict::Extension => "compatible; additions:\n",
    });
    for addition in additions {
        text.push_str(&format!("  {}  ({})\n", line(addition), place(sources, addition.span)));
    }
    text
}

/// One line of JSON. Future versions may add fields but never remove them.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    NotCompared(Omitted<'a>),
    Addition {
        what: Kind,
        name: &'a str,
        text: &'a str,
        #[serde(flatten)]
        place: Place,
    },
    Summary(Summary),
}

#[derive(Serialize)]
struct Summary {
    verdict: Verdict,
    additions: usize,
    breaches: usize,
    not_compared: usize,
}

fn json<'a>(
    sources: &Sources,
    omitted: impl Iterator<Item = Omitted<'a>>,
    additions: &'a [Addition],
    summary: Summary,
) -> String {
    let additions = additions.iter().map(|Addition { kind, name, text, span }| Line::Addition {
        what: *kind,
        name,
        text,
        place: Place::of(sources, *span),
    });
    let lines = omitted.map(Line::NotCompared).chain(additions).chain([Line::Summary(summary)]);
    lines.map(|line| json_line(&line)).collect()
}

fn line(addition: &Addition) -> String {
    let Addition { kind, name, text, .. } = addition;
    match kind {
        Kind::Value => format!("value of {name}: {text}"),
        Kind::Arm => format!("arm of {name}: {text}"),
        Kind::Flag => format!("flag: {text}"),
        Kind::Constant => format!("constant: {text}"),
        Kind::Type => format!("type: {name}"),
        Kind::Program => format!("program: {name} = {text}"),
        Kind::Version => format!("version of {name}: {text}"),
        Kind::Procedure => format!("procedure of {name}: {text}"),
    }
}
