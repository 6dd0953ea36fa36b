//! Findings about bindings.

use super::{Text, text};
use crate::source::Span;

kinds! {
    /// X3: bindings
    Binding BindingKind {
    /// not a valid binding
    X300 Error NoBinding { error: Box<toml::de::Error> } => text(error.message().lines().next().unwrap_or("not a binding file"))
        .label("in this binding")
        .help("a binding requires `program`, `version` and `eligible`; the optional keys are `direction`, `port`, \
            `netids`, `inline_threshold` and `reply`");
    /// no program has this name
    X301 Error NoProgram { name: Unknown } => unknown("program", name);
    /// no version of the program has this name
    X302 Error NoVersion { name: Unknown } => unknown("version of this program", name);
    /// no type has this name
    X303 Error NoType { name: Unknown } => unknown("type", name);
    /// no field of the type has this name
    X304 Error NoField { of: String, defined: Span, name: Unknown } =>
        unknown(&format!("field of `{of}`"), name).and(*defined, "the type");
    /// An item without a `.`.
    X304 Error NoPath { item: String } => text(format!("`{item}` does not name a field")).label("expected `Type.field`");
    /// a field cannot be DDP-eligible
    X305 Error NotEligible { item: String, declaration: String, inside: Option<Inside> } => {
        let help = match inside {
            None => "only strings and variable-length opaque data can be eligible, including fields of inner types".to_owned(),
            Some(Inside { of_union, item, already }) => {
                let what = if *of_union { "a union's discriminant" } else { "a struct's other fields" };
                let fix = if *already {
                    format!("remove this item, since the inner field `{item}` is already eligible")
                } else {
                    format!("name the inner field `{item}` instead")
                };
                format!("{what} must stay in the message: {fix}")
            }
        };
        text(format!("`{item}` cannot be DDP-eligible")).label(format!("declared as `{declaration}`")).help(help)
    };
    /// an item is named twice
    X306 Warning ItemTwice { item: String, first: Span } => twice(item, *first).help("remove the second item");
    /// a discriminant is never eligible
    X310 Error Discriminant { name: String, of: String } => text(format!("`{name}` is the discriminant of `{of}`"))
        .label("a discriminant is never eligible (RFC 8166 section 3.4.4)");
    /// a version has two bindings
    X312 Error TwoBindings { version: String, first: Span } => text(format!("`{version}` has two bindings"))
        .label("the second")
        .and(*first, "the first")
        .help("merge the two tables");
    /// an item is in no message
    X313 Warning InNoMessage { item: String } => text(format!("no message of this version contains `{item}`"))
        .label("no procedure uses this item");
    /// borrowed output omits a binding
    X314 Warning Borrowed { version: String } =>
        text(format!("borrowed output omits the binding of `{version}`"))
        .label("borrowed data cannot be placed directly")
        .help("the transport must own memory for RDMA, but borrowed memory has another owner: use `bytes` output to call \
            this program over RPC-over-RDMA");
    /// an item is too small for a chunk
    X315 Warning SmallItem { item: String, declaration: String, bytes: u32, fixed: bool, worth: u32 } => {
        let (most, advice) = match fixed {
            true => ("", "omit it"),
            false => (" at most", "omit it, unless the protocol's Upper-Layer Binding lists it"),
        };
        text(format!("`{item}` is too small for a chunk: {bytes} bytes{most}"))
            .label(format!("declared as `{declaration}`"))
            .help(format!("items of less than {worth} bytes cost less in the message: {advice}"))
    };
    /// items of a backward-only program cannot be eligible
    X316 Error Backward { version: String } => text(format!("`{version}` is called in the backward direction only"))
        .label("cannot be DDP-eligible: backward calls and replies have no chunks")
        .help("write `eligible = []`, or omit `direction` if the connecting peer also calls the program");
    /// an inline threshold that cannot be announced
    X317 Error Threshold { bytes: u32, near: u32 } => text(format!("no peer can announce an inline threshold of {bytes} bytes"))
        .label("expected a multiple of 1024, from 1024 to 262144 (RFC 8797 section 4.2)")
        .help(format!("use a valid value: `inline_threshold = {near}`"));
    /// not a netid of RPC-over-RDMA
    X318 Error NoNetid { name: Unknown } => {
        let text = text(format!("`{}` is not a netid of RPC-over-RDMA", name.name))
            .label("clients do not look up the service under this netid")
            .help("the netids are `rdma` (IPv4) and `rdma6` (IPv6); other transports need no binding");
        if name.near.is_some() { text.like(&name.near) } else { text }
    };
    /// A repeated netid.
    X318 Error NetidTwice { netid: String, first: Span } => twice(netid, *first).help("remove one of them");
    /// port 0
    X319 Error PortZero => text("port 0 is not a valid port")
        .label("ports range from 1 to 65535")
        .help("omit `port` if the service has no assigned port; clients must then be configured with a port");
    /// an item is in messages of a backward-only program
    X323 Error ItemInBackward { item: String, version: String, place: Span, of: String } =>
        text(format!("`{item}` is also in messages of `{version}`, which cannot have eligible items"))
        .label("eligible here")
        .and(*place, "called in the backward direction only")
        .help(format!("define a separate type for `{version}` in place of `{of}`"));
    /// keys without effect on a backward-only program
    X324 Warning NoEffect { key: &'static str, version: String } => text(format!("`{key}` has no effect on `{version}`"))
        .label("this program is called in the backward direction only")
        .help("omit it: calls use an existing connection, and messages are sent inline");
    }
}

/// An unknown name, and a similar valid name, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) name: String,
    pub(crate) near: Option<String>,
}

/// A field that can be eligible, in a struct or a union that cannot be eligible as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) of_union: bool,
    /// `Type.field`
    pub(crate) item: String,
    /// True if the item is already eligible: listed by a binding, or `zcopaque` in the document.
    pub(crate) already: bool,
}

pub(super) fn unknown(what: &str, Unknown { name, near }: &Unknown) -> Text {
    text(format!("no {what} named `{name}`")).label("a binding uses the names of the document").like(near)
}

fn twice(name: &str, first: Span) -> Text {
    text(format!("`{name}` is named twice")).label("again").and(first, "the first time")
}
