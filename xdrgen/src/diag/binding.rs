//! Findings of the checks of bindings.

use super::{Text, text};
use crate::source::Span;

kinds! {
    /// X3: bindings
    ///
    /// A binding (`NAME.ddp.toml`) lists the data of a program that RDMA may place directly. The examples
    /// in this chapter use this document:
    ///
    /// ```xdr document
    /// struct args { unsigned int count; int sign; opaque blob<>; string tag<16>; };
    /// union res switch (int status) { case 0: opaque data<65536>; default: void; };
    /// struct unused { opaque x<>; };
    /// program STORE {
    ///    version STORE_V1 {
    ///       res GET(args) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// program NEWS {
    ///    version NEWS_V1 {
    ///       args LATEST(void) = 1;
    ///    } = 1;
    /// } = 0x2000009a;
    /// struct image { opaque pixels<33554432>; };
    /// struct stripe { unsigned int first; opaque pixels<1048576>; };
    /// struct photo { opaque pixels<1048576>; };
    /// program SCAN {
    ///    version SCAN_V1 { void PUT(image) = 1; } = 1;
    ///    version SCAN_V2 { void PUT(stripe) = 1; } = 2;
    /// } = 0x2000009d;
    /// struct page { photo photos<17>; };
    /// struct sheet { photo photos<16>; };
    /// program ALBUM {
    ///    version ALBUM_V1 { page OPEN(unsigned int) = 1; } = 1;
    ///    version ALBUM_V2 { sheet OPEN(unsigned int) = 1; } = 2;
    /// } = 0x2000009e;
    /// ```
    Binding BindingKind {
    /// not a valid binding
    ///
    /// The file is not TOML, a key is missing or unknown, or a value has the wrong type. A binding has
    /// `program`, `version` and `eligible`, and may have `direction` (`"forward"` or `"backward"`), `port`,
    /// `netids`, `inline_threshold` and `reply`. If nothing is eligible, write `eligible = []`.
    ///
    /// ```toml
    /// [[binding]]
    /// programme = "STORE"
    /// version = "STORE_V1"
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = []
    /// ```
    X300 Error NoBinding { error: Box<toml::de::Error> } => text(error.message().lines().next().unwrap_or("not a binding file"))
        .label("in this binding")
        .help("a binding has program, version and eligible, and may have direction, port, netids, inline_threshold and reply");
    /// no program has this name
    ///
    /// A binding uses the names of the document.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORES"
    /// version = "STORE_V1"
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = []
    /// ```
    X301 Error NoProgram { name: Unknown } => unknown("program", name);
    /// no version of the program has this name
    ///
    /// `version` is the name of the version in the document, not its number.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "V1"
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = []
    /// ```
    X302 Error NoVersion { name: Unknown } => unknown("version of this program", name);
    /// no type has this name
    ///
    /// The part of an item before the `.` names a type of the document.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["arg.blob"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    /// ```
    X303 Error NoType { name: Unknown } => unknown("type", name);
    /// no field of the type has this name
    ///
    /// An item has the form `Type.field`.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blub"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    /// ```
    X304 Error NoField { of: String, defined: Span, name: Unknown } =>
        unknown(&format!("field of `{of}`"), name).and(*defined, "the type");
    /// An item without a `.`.
    X304 Error NoPath { item: String } => text(format!("`{item}` does not name a field")).label("expected `Type.field`");
    /// a field cannot be DDP-eligible
    ///
    /// Only opaque data and strings of variable length can be eligible. If the field's type is a struct or
    /// a union that contains such data, name the inner field. The surrounding data must stay in the
    /// message, and one item cannot contain another.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.count"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    /// ```
    X305 Error NotEligible { item: String, declaration: String, inside: Option<Inside> } => {
        let help = match inside {
            None => "only opaque data and strings of variable length can be eligible, also as fields of an inner type".to_owned(),
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
    ///
    /// The second entry has no effect. This is a warning.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob", "args.blob"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    /// ```
    X306 Warning ItemTwice { item: String, first: Span } => twice(item, *first).help("remove the second item");
    /// a discriminant is never eligible
    ///
    /// Only the arms of a union can be eligible (RFC 8166 section 3.4.4.3), since the receiver needs the
    /// discriminant to decode the rest of the union.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["res.status"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["res.data"]
    /// ```
    X310 Error Discriminant { name: String, of: String } => text(format!("`{name}` is the discriminant of `{of}`"))
        .label("a discriminant is never eligible (RFC 8166 section 3.4.4)");
    /// a version has two bindings
    ///
    /// A binding lists all eligible items of one version of a program. Merge the two tables.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    ///
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["res.data"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob", "res.data"]
    /// ```
    X312 Error TwoBindings { version: String, first: Span } => text(format!("`{version}` has two bindings"))
        .label("the second")
        .and(*first, "the first")
        .help("merge the two tables");
    /// an item is in no message
    ///
    /// No argument or result of the version contains the item's type. This is a warning.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["unused.x"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["res.data"]
    /// ```
    X313 Warning InNoMessage { item: String } => text(format!("no message of this version contains `{item}`"))
        .label("no procedure uses this item");
    /// borrowed output omits a binding
    ///
    /// With `--data borrowed` or `Build::borrowed()`, decoded values borrow from their message. Direct
    /// placement needs memory that the transport owns until the peer has finished, but the transport cannot
    /// own borrowed memory. The compiler therefore marks no items and omits the binding of the version, and
    /// the version cannot be called over RPC-over-RDMA. This is a warning. A binding without eligible items
    /// is kept.
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --binding store.ddp.toml --data borrowed
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --binding store.ddp.toml --data bytes
    /// ```
    X314 Warning Borrowed { version: String } =>
        text(format!("borrowed output omits the binding of `{version}`"))
        .label("borrowed data cannot be placed directly")
        .help("the transport must own memory for RDMA, but borrowed memory has another owner: use `bytes` output to call \
            this program over RPC-over-RDMA");
    /// an item is too small for a chunk
    ///
    /// The item is always shorter than 1024 bytes. By default, such an item stays in the message of a
    /// call. In a reply, the item stays in the message only if the largest reply fits inline. This is a
    /// warning. Data of variable length stays eligible, since the peer's binding may list the item. Data
    /// of fixed length is not eligible.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.tag"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    /// ```
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
    ///
    /// With `direction = "backward"`, only the peer that accepted the connection calls the program. RFC 8167
    /// section 5.3 makes chunks optional in these calls and replies. This implementation sends none of these
    /// chunks, so no item can be placed.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// direction = "backward"
    /// eligible = ["args.blob"]
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// direction = "backward"
    /// eligible = []
    /// ```
    X316 Error Backward { version: String } => text(format!("`{version}` is called in the backward direction only"))
        .label("cannot be DDP-eligible: backward calls and replies have no chunks")
        .help("write `eligible = []`, or omit `direction` if the connecting peer also calls the program");
    /// an inline threshold that cannot be announced
    ///
    /// Each peer announces its send and receive sizes in whole KiB, from 1 to 256 (RFC 8797 section 4.2).
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// inline_threshold = 4000
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// inline_threshold = 4096
    /// eligible = []
    /// ```
    X317 Error Threshold { bytes: u32, near: u32 } => text(format!("no peer can announce an inline threshold of {bytes} bytes"))
        .label("expected a multiple of 1024, from 1024 to 262144 (RFC 8797 section 4.2)")
        .help(format!("use a valid value: `inline_threshold = {near}`"));
    /// not a netid of RPC-over-RDMA
    ///
    /// A service is registered as `rdma` for IPv4 addresses and as `rdma6` for IPv6 addresses (RFC 8166
    /// section 5). A binding lists each of these netids at most once. Other transports need no binding.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// netids = ["rdma", "rmda6"]
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// netids = ["rdma", "rdma6"]
    /// eligible = []
    /// ```
    X318 Error NoNetid { name: Unknown } => {
        let text = text(format!("`{}` is not a netid of RPC-over-RDMA", name.name))
            .label("clients do not look up the service under this netid")
            .help("the netids are `rdma` (IPv4) and `rdma6` (IPv6); other transports need no binding");
        if name.near.is_some() { text.like(&name.near) } else { text }
    };
    /// A repeated netid.
    X318 Error NetidTwice { netid: String, first: Span } => twice(netid, *first).help("remove one of them");
    /// port 0
    ///
    /// Clients cannot connect to port 0. Omit `port` if the service has no assigned port.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// port = 0
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// port = 20099
    /// eligible = []
    /// ```
    X319 Error PortZero => text("port 0 is not a valid port")
        .label("ports range from 1 to 65535")
        .help("omit `port` if the service has no assigned port; clients must then be configured with a port");
    /// an item is in messages of a backward-only program
    ///
    /// An item is eligible in every message that contains its type. Messages of a program with
    /// `direction = "backward"` have no chunks (see X316), so they must not contain eligible items. Omit the
    /// item, or define a separate type for one of the programs.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["args.blob"]
    ///
    /// [[binding]]
    /// program = "NEWS"
    /// version = "NEWS_V1"
    /// direction = "backward"
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// eligible = ["res.data"]
    ///
    /// [[binding]]
    /// program = "NEWS"
    /// version = "NEWS_V1"
    /// direction = "backward"
    /// eligible = []
    /// ```
    X323 Error ItemInBackward { item: String, version: String, place: Span, of: String } =>
        text(format!("`{item}` is also in messages of `{version}`, which cannot have eligible items"))
        .label("eligible here")
        .and(*place, "called in the backward direction only")
        .help(format!("define a separate type for `{version}` in place of `{of}`"));
    /// keys without effect on a backward-only program
    ///
    /// Backward calls use an existing connection, and these calls and their replies are sent inline.
    /// A port, netids, an inline threshold and bounds of replies therefore have no effect. This is a
    /// warning.
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// direction = "backward"
    /// port = 20099
    /// eligible = []
    /// ```
    ///
    /// ```toml
    /// [[binding]]
    /// program = "STORE"
    /// version = "STORE_V1"
    /// direction = "backward"
    /// eligible = []
    /// ```
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

/// A field inside a struct or a union that can be eligible in place of the whole struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) of_union: bool,
    /// `Type.field`
    pub(crate) item: String,
    /// True if a binding already lists the item.
    pub(crate) already: bool,
}

impl BindingKind {
    /// Returns the undefined names that the finding reports. Text that could not be parsed may define them.
    pub(super) fn missing(&self) -> Vec<&str> {
        match self {
            BindingKind::NoProgram { name }
            | BindingKind::NoVersion { name }
            | BindingKind::NoType { name } => vec![&name.name],
            BindingKind::NoField { of, name, .. } => vec![&name.name, of],
            BindingKind::NoPath { item } => vec![item],
            _ => Vec::new(),
        }
    }
}

pub(super) fn unknown(what: &str, Unknown { name, near }: &Unknown) -> Text {
    text(format!("no {what} named `{name}`")).label("a binding uses the names of the document").like(near)
}

fn twice(name: &str, first: Span) -> Text {
    text(format!("`{name}` is named twice")).label("again").and(first, "the first time")
}
