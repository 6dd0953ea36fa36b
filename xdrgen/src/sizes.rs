//! How large the messages of a program can be, and what of RPC-over-RDMA version 1 they need at an inline threshold.
//!
//! Sizes of types are those that the runtime has as constants of the generated types: the largest encoding, and the
//! largest with every eligible item out of the stream (RFC 8166 section 3.4.4).

mod layout;

use std::fmt;

use crate::diag::{self, Diagnostic};
use crate::generate::{self, Options};
use crate::ir::{Module, Procedure, Sum, Type};
use crate::source::Sources;

pub(crate) use layout::Layouts;
pub use layout::{Layout, Size};

/// What is counted beside arguments and results. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The inline threshold, in both directions.
    pub inline: u32,
    /// The body of the credential in a call.
    pub credential: u32,
    /// The body of the verifier in a reply.
    pub verifier: u32,
}

impl Default for Assumed {
    /// The threshold that both ends have before they learn another (RFC 8166 section 3.3.2), the largest AUTH_SYS
    /// credential (RFC 5531 appendix A), and the largest verifier.
    fn default() -> Self {
        Assumed { inline: 1024, credential: 340, verifier: 400 }
    }
}

/// A transport header with three empty lists (RFC 8166 section 4.2, 4.3).
const TRANSPORT: u64 = 28;
/// A Read chunk of one segment in the header; a Write chunk of one segment takes as much.
const CHUNK: u64 = 24;
/// A Reply chunk of one segment in the header.
const REPLY_CHUNK: u64 = 20;
/// An RPC call's header besides the credential's body; the verifier of a call is AUTH_NONE (RFC 5531 section 9).
const CALL: u64 = 40;
/// An RPC reply's header besides the verifier's body.
const REPLY: u64 = 24;
/// More Write chunks than this the runtime does not offer for one call.
const WRITE_CHUNKS: u64 = 16;

/// A size that may depend on the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most this many bytes.
    Bytes(u64),
    /// As the arguments of the call say: a sum.
    Arguments(String),
    /// Nothing bounds it.
    Unbounded,
}

impl Bound {
    fn of(size: Size) -> Self {
        size.0.map_or(Bound::Unbounded, Bound::Bytes)
    }

    fn fits(&self, room: Option<u64>) -> bool {
        matches!((self, room), (Bound::Bytes(bytes), Some(room)) if *bytes <= room)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Bytes(bytes) => write!(f, "{bytes}"),
            Bound::Arguments(sum) => f.write_str(sum),
            Bound::Unbounded => f.write_str("unbounded"),
        }
    }
}

/// One direction of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The largest arguments or the largest result, without any header.
    pub whole: Bound,
    /// The same with the eligible items out of the stream.
    pub reduced: Bound,
    /// What the largest takes.
    pub needs: Needs,
}

/// What a message takes that does not fit inline (RFC 8166 section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Read chunks of a call, or Write chunks of a reply: how many eligible items there can be, at most.
    pub chunks: Size,
    /// A Position-Zero Read chunk of a call, or a Reply chunk of a reply: it is long.
    pub long: bool,
    /// It has no bound, so no memory can be offered for it: such a reply needs a bound in the binding.
    pub unbounded: bool,
}

impl Needs {
    /// Whether the message is always sent inline as it is.
    #[must_use]
    pub fn inline(&self) -> bool {
        *self == Needs::default()
    }
}

/// A procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureSizes {
    /// Its name in the document.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Its call.
    pub call: Message,
    /// Its reply.
    pub reply: Message,
}

/// A version of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionSizes {
    /// The program's name.
    pub program: String,
    /// The version's name.
    pub name: String,
    /// Whether it has a binding. Without one nothing is eligible, and it is not called over RPC-over-RDMA.
    pub bound: bool,
    /// Its procedures in order.
    pub procedures: Vec<ProcedureSizes>,
}

/// What a run gives.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// What is wrong with the documents. After an error there are no sizes.
    pub diagnostics: Vec<Diagnostic>,
    /// The sizes of each type by its name in the document, in the documents' order.
    pub types: Vec<(String, Layout)>,
    /// The versions of all programs.
    pub versions: Vec<VersionSizes>,
}

/// The sizes of all types and messages of documents that are compiled together, with their bindings.
#[must_use]
pub fn sizes(sources: &Sources, options: &Options, assumed: &Assumed) -> Sizes {
    let (module, diagnostics) = generate::lower(sources, options);
    if diag::has_errors(&diagnostics) {
        return Sizes { diagnostics, ..Sizes::default() };
    }
    let layouts = Layouts::of(&module);
    let named = module.types.iter().enumerate();
    let types = named.map(|(index, ty)| (ty.name.clone(), layouts.named(index))).collect();
    let versions = versions(&module, &layouts, assumed);
    Sizes { diagnostics, types, versions }
}

fn versions(module: &Module, layouts: &Layouts, assumed: &Assumed) -> Vec<VersionSizes> {
    let programs = module.programs.iter();
    let all = programs.flat_map(|program| program.versions.iter().map(move |version| (program, version)));
    all.map(|(program, version)| VersionSizes {
        program: program.name.clone(),
        name: version.name.clone(),
        bound: version.binding.as_ref().is_some_and(|binding| !binding.backward),
        procedures: version
            .procedures
            .iter()
            .map(|procedure| sizes_of(procedure, layouts, assumed))
            .collect(),
    })
    .collect()
}

fn sizes_of(procedure: &Procedure, layouts: &Layouts, assumed: &Assumed) -> ProcedureSizes {
    let layout = |ty: &Type| layouts.ty(ty);
    let reply = reply(procedure, layout(&procedure.result), assumed);
    let call = call(layout(&procedure.arguments), &reply.needs, assumed);
    ProcedureSizes { name: procedure.name.clone(), number: procedure.number, call, reply }
}

/// Whether nothing bounds what a client has to offer for the reply, neither the result's type nor the binding.
pub(crate) fn is_unbounded(procedure: &Procedure, layouts: &Layouts) -> bool {
    reply(procedure, layouts.ty(&procedure.result), &Assumed::default()).needs.unbounded
}

/// How large a procedure's messages can be, in a line for its documentation.
pub(crate) fn line(procedure: &Procedure, layouts: &Layouts) -> String {
    let (arguments, result) = (layouts.ty(&procedure.arguments), layouts.ty(&procedure.result));
    let Reply { whole, reduced, .. } = bounds(procedure, result);
    let taken = words(&Bound::of(arguments.max), &Bound::of(arguments.max_reduced), arguments.items);
    format!("Arguments: {taken}. Result: {}.", words(&whole, &reduced, result.items))
}

fn words(whole: &Bound, reduced: &Bound, items: Size) -> String {
    let most = |bound: &Bound| match bound {
        Bound::Bytes(0) => "none".to_owned(),
        Bound::Bytes(bytes) => format!("at most {bytes} bytes"),
        Bound::Arguments(sum) => format!("at most `{sum}` bytes"),
        Bound::Unbounded => "unbounded".to_owned(),
    };
    if items == Size::ZERO || *reduced == Bound::Unbounded {
        return most(whole);
    }
    format!("{}, and {} without eligible items", most(whole), most(reduced))
}

/// How a call travels: as it is, with its items in Read chunks, or in a chunk at position zero. The chunks that it
/// offers for the reply are in its header.
fn call(arguments: Layout, reply: &Needs, assumed: &Assumed) -> Message {
    let offered = reply.chunks.0.unwrap_or(WRITE_CHUNKS).min(WRITE_CHUNKS) * CHUNK
        + if reply.long { REPLY_CHUNK } else { 0 };
    let header = TRANSPORT + offered + CALL + u64::from(assumed.credential).next_multiple_of(4);
    let room = |chunks: u64| {
        let header = chunks.checked_mul(CHUNK)?.checked_add(header)?;
        u64::from(assumed.inline).checked_sub(header)
    };
    let (whole, reduced) = (Bound::of(arguments.max), Bound::of(arguments.max_reduced));
    let needs = if whole.fits(room(0)) {
        Needs::default()
    } else {
        let fits = arguments.items.0.is_some_and(|items| reduced.fits(room(items)));
        let long = arguments.items == Size::ZERO || !fits;
        Needs { chunks: arguments.items, long, unbounded: arguments.max_reduced.0.is_none() }
    };
    Message { whole, reduced, needs }
}

/// How a reply travels: what the runtime offers memory for.
fn reply(procedure: &Procedure, result: Layout, assumed: &Assumed) -> Message {
    let header = TRANSPORT + REPLY + u64::from(assumed.verifier).next_multiple_of(4);
    let room = |chunks: u64| {
        let header = chunks.checked_mul(CHUNK)?.checked_add(header)?;
        u64::from(assumed.inline).checked_sub(header)
    };
    let Reply { whole, reduced, item } = bounds(procedure, result);
    if whole.fits(room(0)) {
        return Message { whole, reduced, needs: Needs::default() };
    }
    let offered = result.items.0.unwrap_or(WRITE_CHUNKS).min(WRITE_CHUNKS);
    // Items that find no Write chunk stay in the stream.
    let stream = if result.items.0.is_some_and(|items| items <= WRITE_CHUNKS) { &reduced } else { &whole };
    let long = !stream.fits(room(offered));
    let unbounded = item == Bound::Unbounded || long && *stream == Bound::Unbounded;
    let needs = Needs { chunks: result.items, long, unbounded };
    Message { whole, reduced, needs }
}

/// A result with what its binding says.
struct Reply {
    whole: Bound,
    reduced: Bound,
    item: Bound,
}

/// The bounds that the result's type has, narrowed by the binding as the runtime narrows them.
fn bounds(procedure: &Procedure, result: Layout) -> Reply {
    let mut reply = Reply {
        whole: Bound::of(result.max),
        reduced: Bound::of(result.max_reduced),
        item: Bound::of(result.item),
    };
    if let Some(item) = &procedure.reply.item {
        narrow(&mut reply.item, &largest(item));
        let with_items = together(&reply.reduced, &reply.item, result.items);
        narrow(&mut reply.whole, &with_items);
    }
    if let Some(whole) = &procedure.reply.whole {
        let whole = largest(whole);
        narrow(&mut reply.whole, &whole);
        narrow(&mut reply.reduced, &whole);
        if reply.item != Bound::Bytes(0) {
            narrow(&mut reply.item, &whole);
        }
    }
    reply
}

/// The smaller of two: a number before a sum of which nobody knows, and that before nothing.
fn narrow(bound: &mut Bound, to: &Bound) {
    *bound = match (&*bound, to) {
        (Bound::Bytes(one), Bound::Bytes(other)) => Bound::Bytes(*one.min(other)),
        (Bound::Unbounded, other) => other.clone(),
        (one, _) => one.clone(),
    };
}

/// A sum over arguments.
fn largest(sum: &Sum) -> Bound {
    if sum.fields.is_empty() {
        return Bound::Bytes(sum.number);
    }
    let mut terms: Vec<String> = sum.fields.iter().map(|field| field.idents.join(".")).collect();
    if sum.number > 0 {
        terms.push(sum.number.to_string());
    }
    Bound::Arguments(terms.join(" + "))
}

/// A stream and its items, with their padding.
fn together(stream: &Bound, item: &Bound, items: Size) -> Bound {
    match (stream, item, items.0) {
        (Bound::Bytes(stream), Bound::Bytes(item), Some(items)) => {
            let padded = item.checked_next_multiple_of(4).and_then(|item| item.checked_mul(items));
            padded.and_then(|all| all.checked_add(*stream)).map_or(Bound::Unbounded, Bound::Bytes)
        }
        (Bound::Bytes(stream), Bound::Arguments(item), Some(1)) => {
            Bound::Arguments(format!("{item} + padding + {stream}"))
        }
        (Bound::Bytes(stream), Bound::Arguments(item), Some(items)) => {
            Bound::Arguments(format!("{items} * ({item} + padding) + {stream}"))
        }
        _ => Bound::Unbounded,
    }
}
