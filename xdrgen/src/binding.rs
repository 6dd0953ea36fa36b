//! Binding files: a protocol's Upper-Layer Binding to RPC-over-RDMA (RFC 8166 section 6), in TOML.
//!
//! Each `[[binding]]` table is the binding of one version of a program. Programs, versions, types, fields and
//! procedures have the same names as in the document.
//!
//! ```toml
//! [[binding]]
//! program = "NFS_PROGRAM"
//! version = "NFS_V3"
//! port = 20049
//! netids = ["rdma", "rdma6"]
//! inline_threshold = 4096
//! eligible = ["WRITE3args.data", "READ3resok.data"]
//!
//! [binding.reply."NFSPROC3_READ"]
//! item = "count"
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use crate::diag::{BindingKind, Diagnostic, MessageKind};
use crate::keywords::is_word;
use crate::source::{Source, SourceId, Span};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    binding: Vec<RawBinding>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBinding {
    program: Spanned<String>,
    version: Spanned<String>,
    #[serde(default)]
    direction: Direction,
    port: Option<Spanned<u16>>,
    #[serde(default)]
    netids: Vec<Spanned<String>>,
    inline_threshold: Option<Spanned<u32>>,
    eligible: Vec<Spanned<String>>,
    #[serde(default)]
    reply: BTreeMap<Spanned<String>, RawReply>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    item: Option<Spanned<RawSum>>,
    unreduced: Option<Spanned<RawSum>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawSum {
    Number(u64),
    Text(String),
    Other(IgnoredAny),
}

/// The peer that calls the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// The peer that initiated the connection calls the program.
    #[default]
    Forward,
    /// Only the peer that accepted the connection calls the program (RFC 8167).
    Backward,
}

/// A value and its position in the binding file.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// The binding of one program version, with unresolved names.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) program: Placed<String>,
    pub(crate) version: Placed<String>,
    pub(crate) direction: Direction,
    pub(crate) port: Option<Placed<u16>>,
    pub(crate) netids: Vec<Placed<String>>,
    pub(crate) inline_threshold: Option<Placed<u32>>,
    pub(crate) eligible: Vec<Placed<String>>,
    pub(crate) replies: Vec<Reply>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) procedure: Placed<String>,
    pub(crate) item: Option<Placed<Vec<Term>>>,
    pub(crate) unreduced: Option<Placed<Vec<Term>>>,
    /// True if the table has neither `unreduced` nor `item`.
    pub(crate) is_empty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Number(u64),
    /// A field in the procedure's arguments, as the names on the path to the field.
    Field(Vec<String>),
}

/// Parses a binding file. A file that cannot be deserialized yields one diagnostic and no bindings.
pub(crate) fn read(id: SourceId, source: &Source, found: &mut Vec<Diagnostic>) -> Vec<Binding> {
    match toml::from_str::<RawFile>(source.text()) {
        Ok(file) => file.binding.into_iter().map(|raw| binding(id, raw, found)).collect(),
        Err(error) => {
            let span = Span::of(id, error.span().unwrap_or(0..0));
            found.push(BindingKind::NoBinding { error: Box::new(error) }.at(span));
            Vec::new()
        }
    }
}

fn binding(id: SourceId, raw: RawBinding, found: &mut Vec<Diagnostic>) -> Binding {
    let mut sum = |raw: Option<Spanned<RawSum>>| {
        let Placed { value, span } = placed(id, raw?);
        let terms = terms(value);
        if terms.is_none() {
            found.push(MessageKind::NoSum.at(span));
        }
        Some(Placed { value: terms?, span })
    };
    let replies = raw.reply.into_iter().map(|(procedure, reply)| {
        let is_empty = reply.item.is_none() && reply.unreduced.is_none();
        let (item, unreduced) = (sum(reply.item), sum(reply.unreduced));
        Reply { procedure: placed(id, procedure), item, unreduced, is_empty }
    });
    Binding {
        replies: replies.collect(),
        program: placed(id, raw.program),
        version: placed(id, raw.version),
        direction: raw.direction,
        port: raw.port.map(|port| placed(id, port)),
        inline_threshold: raw.inline_threshold.map(|bytes| placed(id, bytes)),
        netids: raw.netids.into_iter().map(|netid| placed(id, netid)).collect(),
        eligible: raw.eligible.into_iter().map(|item| placed(id, item)).collect(),
    }
}

fn placed<T>(id: SourceId, raw: Spanned<T>) -> Placed<T> {
    Placed { span: Span::of(id, raw.span()), value: raw.into_inner() }
}

fn terms(raw: RawSum) -> Option<Vec<Term>> {
    match raw {
        RawSum::Number(number) => Some(vec![Term::Number(number)]),
        RawSum::Other(_) => None,
        RawSum::Text(text) => text.split('+').map(|text| term(text.trim())).collect(),
    }
}

fn term(text: &str) -> Option<Term> {
    if let Ok(number) = text.parse() {
        return Some(Term::Number(number));
    }
    let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
    parts.iter().all(|part| is_word(part)).then_some(Term::Field(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_numbers_and_fields() {
        let text = |text: &str| terms(RawSum::Text(text.to_owned()));
        assert_eq!(text("count"), Some(vec![Term::Field(vec!["count".into()])]));
        assert_eq!(
            text("a.b + 200"),
            Some(vec![Term::Field(vec!["a".into(), "b".into()]), Term::Number(200)])
        );
        assert_eq!(text("count - 1"), None);
        assert_eq!(text(""), None);
        assert_eq!(text("1 +"), None);
    }
}
