//! The sizes of the calls and replies of procedures.

use std::fmt;

use rpcrdma_layout::{Items, Lengths, Size, WRITE_CHUNKS};
use serde::Serialize;

use super::layout::{Layouts, TypeSizes};
use crate::ir::{Module, Procedure, Program, Sum, Version};

/// Assumed sizes that documents do not determine, in bytes: the inline threshold, and the lengths of the
/// bodies of credentials and verifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The inline threshold in both directions. If `None`, the threshold is that of the binding, or 1024 if
    /// the binding has none (RFC 8166 section 3.3.3).
    pub inline: Option<u32>,
    /// The length of the credential's body in a call.
    pub credential: u32,
    /// The length of the verifier's body in a reply.
    pub verifier: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for Assumed {
    /// Assumes the largest AUTH_SYS credential (RFC 5531 appendix A), the largest verifier, and the binding's
    /// inline threshold or 1024.
    fn default() -> Self {
        Assumed { inline: None, credential: 340, verifier: 400, non_exhaustive: () }
    }
}

impl Assumed {
    fn inline_at(self, version: &Version) -> u32 {
        let bound = version.binding.as_ref().and_then(|binding| binding.inline_threshold);
        self.inline.or(bound).unwrap_or(INLINE)
    }
}

/// The inline threshold in bytes that a sender assumes by default (RFC 8166 section 3.3.3).
const INLINE: u32 = 1024;

/// The length in bytes of a transport header with an empty Read list, an empty Write list and no Reply chunk
/// (RFC 8166 sections 4.2 and 4.3).
const TRANSPORT: u64 = 28;
/// The number of bytes that a Read chunk or a Write chunk of one segment adds to the transport header.
const CHUNK: u64 = 24;
/// The number of bytes that a Reply chunk of one segment adds to the transport header.
const REPLY_CHUNK: u64 = 20;
/// The length in bytes of an RPC call's header with an empty credential body and an empty verifier (RFC 5531
/// section 9). The verifier of an RPCSEC_GSS call is not included.
const CALL: u64 = 40;
/// The length in bytes of an RPC reply's header without the verifier's body.
const REPLY: u64 = 24;

/// A size that may depend on the arguments of a call. In JSON it is a number, a string, or null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Bound {
    /// At most this many bytes.
    Bytes(u64),
    /// A sum that depends on the arguments of the call.
    Arguments(String),
    /// No bound.
    Unbounded,
}

impl Bound {
    fn of(size: Size) -> Self {
        size.bound().map_or(Bound::Unbounded, Bound::Bytes)
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

/// The sizes of a call or a reply of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSizes {
    /// The maximum size of the arguments or the result, without headers.
    pub unreduced: Bound,
    /// The maximum size without headers and eligible items.
    pub reduced: Bound,
    /// The chunks that the largest message needs.
    pub needs: Needs,
}

/// The chunks of a message that does not fit inline (RFC 8166 section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The number of Read chunks of a call or Write chunks of a reply: the maximum number of eligible items.
    pub chunks: Size,
    /// True if the message is long: it needs a Position-Zero Read chunk or a Reply chunk.
    pub long: bool,
    /// True if the Position-Zero Read chunk, the Reply chunk or a Write chunk has no maximum size. No memory
    /// can be offered for an unbounded reply, so the binding must bound the reply.
    pub unbounded: bool,
}

impl Needs {
    /// Returns true if the message is always sent inline without reduction.
    #[must_use]
    pub fn inline(&self) -> bool {
        *self == Needs::default()
    }
}

/// The sizes of a procedure's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureSizes {
    /// The procedure's name in the document.
    pub name: String,
    /// The procedure's number.
    pub number: u32,
    /// The sizes of the call.
    pub call: MessageSizes,
    /// The sizes of the reply.
    pub reply: MessageSizes,
}

/// The sizes of the messages of a program version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionSizes {
    /// The program's name.
    pub program: String,
    /// The version's name.
    pub name: String,
    /// True if the version has a binding. A version without a binding cannot be called over RPC-over-RDMA.
    pub bound: bool,
    /// True if the binding is for the backward direction, in which the server calls the client.
    pub backward: bool,
    /// The assumed inline threshold.
    pub inline: u32,
    /// The procedures in source order.
    pub procedures: Vec<ProcedureSizes>,
}

pub(super) fn versions(module: &Module, layouts: &Layouts, assumed: Assumed) -> Vec<VersionSizes> {
    let sizes = |(program, version): (&Program, &Version)| VersionSizes {
        program: program.name.clone(),
        name: version.name.clone(),
        bound: version.binding.is_some(),
        backward: version.binding.as_ref().is_some_and(|binding| binding.backward),
        inline: assumed.inline_at(version),
        procedures: version.procedures.iter().map(|one| sizes_of(one, version, layouts, assumed)).collect(),
    };
    module.versions().map(sizes).collect()
}

fn sizes_of(procedure: &Procedure, version: &Version, layouts: &Layouts, assumed: Assumed) -> ProcedureSizes {
    let inline = assumed.inline_at(version);
    let reply = reply(procedure, layouts.ty(&procedure.result), inline, assumed.verifier);
    let call = call(layouts.ty(&procedure.arguments), &reply.needs, inline, assumed.credential);
    ProcedureSizes { name: procedure.name.clone(), number: procedure.number, call, reply }
}

/// Returns true if neither the result's type nor the binding bounds the reply.
pub(crate) fn is_unbounded(procedure: &Procedure, version: &Version, layouts: &Layouts) -> bool {
    sizes_of(procedure, version, layouts, Assumed::default()).reply.needs.unbounded
}

/// Returns the larger of the maximum item size and the maximum size of a long reply's stream, if it exceeds
/// the maximum chunk length. Returns `None` if a bound of the reply depends on the arguments.
pub(crate) fn beyond_a_chunk(procedure: &Procedure, version: &Version, layouts: &Layouts) -> Option<u64> {
    let mut sums = procedure.reply.item.iter().chain(&procedure.reply.unreduced);
    if sums.any(|sum| !sum.fields.is_empty()) {
        return None;
    }
    let assumed = Assumed::default();
    let Needs { chunks, long, .. } = sizes_of(procedure, version, layouts, assumed).reply.needs;
    let Reply { unreduced, reduced, item } = bounds(procedure, layouts.ty(&procedure.result));
    let stream = match long {
        true if chunks.fits(WRITE_CHUNKS) => reduced,
        true => unreduced,
        false => Bound::Bytes(0),
    };
    let item = if chunks == Size::ZERO { Bound::Bytes(0) } else { item };
    let header = REPLY + u64::from(assumed.verifier);
    let sizes = [(item, 0), (stream, header)].into_iter().filter_map(|(bound, header)| match bound {
        Bound::Bytes(bytes) => Some(bytes.saturating_add(header)),
        Bound::Arguments(_) | Bound::Unbounded => None,
    });
    sizes.filter(|bytes| *bytes > u64::from(u32::MAX)).max()
}

/// Returns true if a reply that does not fit inline may contain so many eligible items that the call offers
/// too few Write chunks.
pub(crate) fn has_excess_items(procedure: &Procedure, version: &Version, layouts: &Layouts) -> bool {
    let needs = sizes_of(procedure, version, layouts, Assumed::default()).reply.needs;
    !needs.chunks.fits(WRITE_CHUNKS)
}

/// Returns the number of argument bytes in the Read chunks of a procedure's longest call, if bounded.
pub(crate) fn longest_read(procedure: &Procedure, version: &Version, layouts: &Layouts) -> Option<u64> {
    let Lengths { max, max_reduced, .. } = layouts.ty(&procedure.arguments).lengths;
    let needs = sizes_of(procedure, version, layouts, Assumed::default()).call.needs;
    let stays = match needs.long {
        _ if needs.inline() => max,
        true => Size::ZERO,
        false => max_reduced,
    };
    max.bound()?.checked_sub(stays.bound()?)
}

/// Returns the sizes of a procedure's messages, as one line of its documentation.
pub(crate) fn line(procedure: &Procedure, layouts: &Layouts) -> String {
    let (arguments, result) = (layouts.ty(&procedure.arguments), layouts.ty(&procedure.result));
    let Reply { unreduced, reduced, .. } = bounds(procedure, result);
    let taken =
        words(&Bound::of(arguments.lengths.max), &Bound::of(arguments.lengths.max_reduced), arguments.items);
    format!("Arguments: {taken}. Result: {}.", words(&unreduced, &reduced, result.items))
}

fn words(unreduced: &Bound, reduced: &Bound, items: Items) -> String {
    let at_most = |bound: &Bound| match bound {
        Bound::Bytes(0) => "none".to_owned(),
        Bound::Bytes(bytes) => format!("at most {bytes} bytes"),
        Bound::Arguments(sum) => format!("at most `{sum}` bytes"),
        Bound::Unbounded => "unbounded".to_owned(),
    };
    if items.is_none() || *reduced == Bound::Unbounded {
        return at_most(unreduced);
    }
    format!("{}, and {} without eligible items", at_most(unreduced), at_most(reduced))
}

/// Returns the number of bytes that remain for the stream in an inline message with a header of `header`
/// bytes and `chunks` chunks. Returns `None` if the header and the chunks do not fit.
fn room(inline: u32, header: u64, chunks: u64) -> Option<u64> {
    u64::from(inline).checked_sub(chunks.checked_mul(CHUNK)?.checked_add(header)?)
}

/// Returns the sizes of a call, and the chunks that it needs if it does not fit inline. The call's header
/// includes the chunks offered for the reply.
fn call(arguments: TypeSizes, reply: &Needs, inline: u32, credential: u32) -> MessageSizes {
    let offered = reply.chunks.bound().unwrap_or(WRITE_CHUNKS).min(WRITE_CHUNKS) * CHUNK
        + if reply.long { REPLY_CHUNK } else { 0 };
    let header = TRANSPORT + offered + CALL + u64::from(credential).next_multiple_of(4);
    let room = |chunks| room(inline, header, chunks);
    let (unreduced, reduced) = (Bound::of(arguments.lengths.max), Bound::of(arguments.lengths.max_reduced));
    let needs = if unreduced.fits(room(0)) {
        Needs::default()
    } else {
        let chunks = arguments.items.count;
        let fits = chunks.bound().is_some_and(|items| reduced.fits(room(items)));
        let unbounded = arguments.lengths.max_reduced == Size::Unbounded;
        Needs { chunks, long: arguments.items.is_none() || !fits, unbounded }
    };
    MessageSizes { unreduced, reduced, needs }
}

/// Returns the sizes of a reply, and the chunks that it needs if it does not fit inline. The runtime offers
/// at most [`WRITE_CHUNKS`] Write chunks.
fn reply(procedure: &Procedure, result: TypeSizes, inline: u32, verifier: u32) -> MessageSizes {
    let header = TRANSPORT + REPLY + u64::from(verifier).next_multiple_of(4);
    let room = |chunks| room(inline, header, chunks);
    let Reply { unreduced, reduced, item } = bounds(procedure, result);
    if unreduced.fits(room(0)) {
        return MessageSizes { unreduced, reduced, needs: Needs::default() };
    }
    let chunks = result.items.count;
    let offered = chunks.bound().unwrap_or(WRITE_CHUNKS).min(WRITE_CHUNKS);
    // Items without a Write chunk stay in the stream.
    let stream = if chunks.fits(WRITE_CHUNKS) { &reduced } else { &unreduced };
    let long = !stream.fits(room(offered));
    let unbounded = item == Bound::Unbounded || long && *stream == Bound::Unbounded;
    let needs = Needs { chunks, long, unbounded };
    MessageSizes { unreduced, reduced, needs }
}

struct Reply {
    unreduced: Bound,
    reduced: Bound,
    item: Bound,
}

/// Returns the bounds of the result's type. Narrows them by the binding's bounds, as the runtime does.
fn bounds(procedure: &Procedure, result: TypeSizes) -> Reply {
    let mut reply = Reply {
        unreduced: Bound::of(result.lengths.max),
        reduced: Bound::of(result.lengths.max_reduced),
        item: Bound::of(result.items.largest),
    };
    if let Some(item) = &procedure.reply.item {
        narrow(&mut reply.item, &largest(item));
        let with_items = together(&reply.reduced, &reply.item, result.items.count);
        narrow(&mut reply.unreduced, &with_items);
    }
    if let Some(unreduced) = &procedure.reply.unreduced {
        let unreduced = largest(unreduced);
        narrow(&mut reply.unreduced, &unreduced);
        narrow(&mut reply.reduced, &unreduced);
        if reply.item != Bound::Bytes(0) {
            narrow(&mut reply.item, &unreduced);
        }
    }
    reply
}

/// Replaces `bound` with `to` if `bound` is unbounded, or if both are numbers and `to` is smaller. Other
/// bounds are unchanged.
fn narrow(bound: &mut Bound, to: &Bound) {
    *bound = match (&*bound, to) {
        (Bound::Bytes(one), Bound::Bytes(other)) => Bound::Bytes(*one.min(other)),
        (Bound::Unbounded, other) => other.clone(),
        (one, _) => one.clone(),
    };
}

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

/// Returns the maximum total size of a stream and `items` items of at most `item` bytes, including padding.
fn together(stream: &Bound, item: &Bound, items: Size) -> Bound {
    match (stream, item, items.bound()) {
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
