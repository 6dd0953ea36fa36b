//! `rpcrdma-xdrgen compat`: whether one protocol is a compatible extension of another.

use clap::Args;

use super::report::Reporting;
use super::versions::Versions;
use super::{Failure, print};
use crate::compat::{self, Addition, Compat, Kind, NotCompared, Rules, Verdict};
use crate::diag;
use crate::source::{Sources, Span};

/// Two versions of a protocol and the rules for comparing them.
#[derive(Args, Debug)]
#[command(after_help = "\
An extension keeps every message of the base. It may add message types (enum values with their arms in unions without a
default), flag bits, programs, versions and procedures (draft-ietf-nfsv4-rfc5666bis-04, section 9.1). Names, typedefs
and comments may change, since they are not sent.

Exit status: 0 if NEW extends BASE, 1 if it does not, 2 if that is unknown: the documents have errors or cannot be
read, or an invalid definition of a published document was omitted.")]
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
    let Compat { mut diagnostics, breaches, additions, not_compared } = compared;
    if diag::has_errors(&diagnostics) {
        return reporting.report(&sources, &diagnostics).map_err(|_| Failure::Incomparable);
    }
    diagnostics.extend(breaches);
    let reported = reporting.report(&sources, &diagnostics);
    let mut text: String = not_compared.iter().map(|one| unknown(&sources, one)).collect();
    match verdict {
        Verdict::Breach => return print(&text).and(reported),
        Verdict::Unknown => {
            text.push_str("no verdict: some definitions could not be compared; all others are compatible\n");
            return print(&text).and(Err(Failure::Incomparable));
        }
        Verdict::Extension => reported?,
    }
    if additions.is_empty() {
        return print("compatible; no additions\n");
    }
    let mut text = "compatible; additions:\n".to_owned();
    for addition in &additions {
        text.push_str(&format!("  {}  ({})\n", line(addition), place(&sources, addition.span)));
    }
    print(&text)
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

pub(super) fn unknown(sources: &Sources, one: &NotCompared) -> String {
    let name = if one.name.is_empty() { "a definition" } else { &one.name };
    format!("not compared: {name} ({}, {})\n", one.why(), place(sources, one.span))
}

pub(super) fn place(sources: &Sources, span: Span) -> String {
    let Some(source) = sources.get(span.source) else { return String::new() };
    format!("{}:{}", source.name().display(), source.line_column(span.start).line)
}
