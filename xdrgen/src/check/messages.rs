//! Checks the sizes of calls and replies, and the bounds of replies in bindings.

use rpcrdma_layout::{MEMORY, Size, WRITE_CHUNKS};

use crate::binding::{Binding, Placed, Reply, Term};
use crate::diag::{Excerpt, Found, MessageKind};
use crate::ir::{Procedure, Version};
use crate::sizes::layout::{Layouts, TypeSizes};
use crate::sizes::messages as sizes;

/// Maximum number of procedures named in a finding.
const NAMED: usize = 3;

pub(super) struct Messages<'m> {
    pub(super) version: &'m Version,
    pub(super) binding: &'m Binding,
    pub(super) layouts: &'m Layouts,
}

impl<'m> Messages<'m> {
    fn bounded(&self) -> impl Iterator<Item = (&'m Procedure, &'m Reply)> {
        let Messages { version, binding, .. } = *self;
        binding.replies.iter().filter_map(|reply| {
            let mut procedures = version.procedures.iter();
            Some((procedures.find(|procedure| procedure.name == reply.procedure.value)?, reply))
        })
    }
}

/// X321: a bound that is too small for any result or item, a bound on a void result, or a bound that is
/// larger than any chunk.
pub(super) fn impossible_bounds(messages: &Messages<'_>, found: &mut Found) {
    for (Procedure { name, result, .. }, Reply { item, unreduced, .. }) in messages.bounded() {
        let procedure = || name.clone();
        for sum in item.iter().chain(unreduced) {
            if let Some(bytes) = beyond_a_chunk(sum) {
                found.push(MessageKind::LongReply { procedure: procedure(), bytes }.at(sum.span));
            }
        }
        let lengths = messages.layouts.ty(result).lengths;
        if let (Some(unreduced), Size::ZERO) = (unreduced, lengths.max) {
            found.push(MessageKind::VoidResult { procedure: procedure() }.at(unreduced.span));
        } else if let Some((unreduced, bytes)) = constant(unreduced.as_ref())
            && bytes < lengths.min.max(1)
        {
            let short = MessageKind::ShortReply { procedure: procedure(), bytes, least: lengths.min };
            found.push(short.at(unreduced.span));
        }
        if let Some((item, 0)) = constant(item.as_ref()) {
            found.push(MessageKind::EmptyItem { procedure: procedure() }.at(item.span));
        }
    }
    long_results(messages, found);
}

/// X321: the types of a result allow a reply that no chunk can hold.
fn long_results(messages: &Messages<'_>, found: &mut Found) {
    let Messages { version, binding, layouts } = *messages;
    let is_reported = |procedure: &Procedure| {
        let mut bounded = messages.bounded().filter(|(bounded, _)| bounded.name == procedure.name);
        bounded.any(|(_, reply)| {
            reply.item.iter().chain(&reply.unreduced).any(|sum| beyond_a_chunk(sum).is_some())
        })
    };
    let long = |procedure: &Procedure| match is_reported(procedure) {
        true => None,
        false => sizes::beyond_a_chunk(procedure, version, layouts),
    };
    let procedures = version.procedures.iter();
    let Some(bytes) = procedures.clone().filter_map(long).max() else { return };
    let procedures = few(procedures.filter(|procedure| long(procedure).is_some()));
    found.push(MessageKind::LongResult { procedures, bytes }.at(binding.version.span));
}

/// Returns the total of the numbers in a sum if it exceeds the largest chunk.
fn beyond_a_chunk(sum: &Placed<Vec<Term>>) -> Option<u64> {
    let bytes = numbers(sum).fold(0, |sum, number| number.unwrap_or(0).saturating_add(sum));
    (bytes > u64::from(u32::MAX)).then_some(bytes)
}

/// Returns the numbers in a sum, and `None` for each field.
fn numbers(sum: &Placed<Vec<Term>>) -> impl Iterator<Item = Option<u64>> {
    sum.value.iter().map(|term| if let Term::Number(number) = term { Some(*number) } else { None })
}

/// Returns a bound and its value, if the value is the same for every call.
fn constant(sum: Option<&Placed<Vec<Term>>>) -> Option<(&Placed<Vec<Term>>, u64)> {
    let sum = sum?;
    Some((sum, numbers(sum).try_fold(0u64, |sum, number| Some(sum.saturating_add(number?)))?))
}

/// X322: a call whose reply is unbounded fails before it is sent, since no offered memory is certain to be
/// large enough.
pub(super) fn unbounded_replies(messages: &Messages<'_>, found: &mut Found) {
    let Messages { version, binding, layouts } = *messages;
    // An invalid bound or an empty reply table was already reported.
    let is_wrong = |procedure: &Procedure| {
        procedure.reply.item.is_none()
            && procedure.reply.unreduced.is_none()
            && binding.replies.iter().any(|reply| reply.procedure.value == procedure.name)
    };
    let is_unbounded = |one: &&Procedure| sizes::is_unbounded(one, version, layouts) && !is_wrong(one);
    let procedures = few(version.procedures.iter().filter(is_unbounded));
    if !procedures.first.is_empty() {
        found.push(MessageKind::Unbounded { procedures }.at(binding.version.span));
    }
}

/// X325: a server with the default memory budget rejects a call if its Read chunks exceed half of the budget.
pub(super) fn long_calls(messages: &Messages<'_>, found: &mut Found) {
    let Messages { version, binding, layouts } = *messages;
    let max = MEMORY / 2;
    let read = |procedure: &Procedure| sizes::longest_read(procedure, version, layouts).unwrap_or(0);
    let long = version.procedures.iter().filter(|procedure| read(procedure) > max);
    let Some(bytes) = long.clone().map(read).max() else { return };
    let long = MessageKind::LongCall { procedures: few(long), bytes, max };
    found.push(long.at(binding.version.span));
}

/// X326: a bound that is the same for every call, but smaller than the bound of the type. Sums with fields of
/// the arguments are exempt, since they may state limits that the XDR cannot express.
pub(super) fn narrow_bounds(messages: &Messages<'_>, found: &mut Found) {
    for (Procedure { name, result, .. }, Reply { item, unreduced, .. }) in messages.bounded() {
        let layout = messages.layouts.ty(result);
        let narrow = |bound: &Option<_>, least: u64, max: u64, of_item: bool| {
            // A bound below `least` was already reported.
            let (place, bytes) =
                constant(bound.as_ref()).filter(|(_, bytes)| (least..max).contains(bytes))?;
            Some(MessageKind::NarrowBound { procedure: name.clone(), bytes, max, of_item }.at(place.span))
        };
        let item = narrow(item, 1, largest(&[layout.items.largest]), true);
        // Each reply has at most one finding.
        found.extend(item.or_else(|| narrow(unreduced, layout.lengths.min.max(1), longest(layout), false)));
    }
}

fn longest(TypeSizes { lengths, items }: TypeSizes) -> u64 {
    largest(&[lengths.max, lengths.max_reduced, items.largest])
}

/// Returns the largest of the sizes that fit in a chunk, or 0 if none fits.
fn largest(sizes: &[Size]) -> u64 {
    let bounded = sizes.iter().filter_map(|size| size.bound());
    bounded.filter(|bytes| *bytes <= u64::from(u32::MAX)).max().unwrap_or(0)
}

/// X327: a result that may contain more eligible items than a call offers Write chunks.
pub(super) fn excess_items(messages: &Messages<'_>, found: &mut Found) {
    let Messages { version, binding, layouts } = *messages;
    let many = version.procedures.iter().filter(|one| sizes::has_excess_items(one, version, layouts));
    let Some(items) = many.clone().map(|one| layouts.ty(&one.result).items.count).reduce(Size::max) else {
        return;
    };
    let excess =
        MessageKind::ExcessItems { procedures: few(many), items: items.bound(), chunks: WRITE_CHUNKS };
    found.push(excess.at(binding.version.span));
}

fn few<'p>(procedures: impl Iterator<Item = &'p Procedure>) -> Excerpt<String> {
    Excerpt::of(procedures.map(|procedure| procedure.name.clone()), NAMED)
}
