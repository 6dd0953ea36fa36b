//! The bounds of replies against their types: a client has to know how much memory a reply can take.

use rpcrdma_layout::{MAX_TRANSFER, Size};

use crate::binding::{Binding, Direction, Placed, Reply, Term};
use crate::diag::{Diagnostic, Found};
use crate::ir::{Module, Procedure, Version};
use crate::sizes::layout::Layouts;
use crate::sizes::messages as sizes;

/// How many procedures are named.
const NAMED: usize = 3;

/// Looks at the replies of the versions that have bindings, once the types are what is emitted.
pub(crate) fn check(module: &Module, bindings: &[Binding], found: &mut Found) {
    if bindings.is_empty() {
        return;
    }
    let layouts = Layouts::of(module);
    for binding in bindings.iter().filter(|binding| binding.direction == Direction::Forward) {
        let program = module.programs.iter().find(|program| program.name == binding.program.value);
        let versions = program.map_or(&[][..], |program| &program.versions);
        let bound = |version: &&Version| version.name == binding.version.value && version.binding.is_some();
        let Some(version) = versions.iter().find(bound) else { continue };
        for reply in &binding.replies {
            let named = version.procedures.iter().find(|procedure| procedure.name == reply.procedure.value);
            named.into_iter().for_each(|procedure| keeps(procedure, reply, &layouts, found));
        }
        all_bounded(version, binding, &layouts, found);
        all_fetched(version, binding, &layouts, found);
    }
}

/// Whether a result can keep to its bounds.
fn keeps(procedure: &Procedure, reply: &Reply, layouts: &Layouts, found: &mut Found) {
    reply.item.iter().chain(&reply.whole).for_each(|sum| beyond(procedure, sum, found));
    let result = layouts.ty(&procedure.result);
    if let (Some(whole), Size::ZERO) = (&reply.whole, result.lengths.max) {
        let message = format!("the result of `{}` is void", procedure.name);
        found.push(
            Diagnostic::error("X321", whole.span, message)
                .with_label("bounds nothing")
                .with_help("leave it out: such a reply is its header"),
        );
    } else if let Some((whole, bytes)) = number(reply.whole.as_ref())
        && bytes < result.lengths.min.max(1)
    {
        let message = format!("no result of `{}` has {bytes} bytes", procedure.name);
        found.push(
            Diagnostic::error("X321", whole.span, message).with_label("no reply is this short").with_help(
                format!("the smallest result has {} bytes; the bound is for the largest", result.lengths.min),
            ),
        );
    }
    if let Some((item, 0)) = number(reply.item.as_ref()) {
        let message = format!("an item of `{}` could hold nothing", procedure.name);
        found.push(
            Diagnostic::error("X321", item.span, message).with_label("no item is this short").with_help(
                "the bound is for the largest item: a number of bytes, or a field of the arguments",
            ),
        );
    }
}

/// A number that is larger than anything that could be counted: lengths and counts have 32 bits.
fn beyond(procedure: &Procedure, sum: &Placed<Vec<Term>>, found: &mut Found) {
    let numbers = sum.value.iter().map(|term| if let Term::Number(number) = term { *number } else { 0 });
    let least = numbers.fold(0u64, u64::saturating_add);
    if least > u64::from(u32::MAX) {
        let message = format!("no reply of `{}` has {least} bytes", procedure.name);
        found.push(
            Diagnostic::error("X321", sum.span, message).with_label("longer than any reply").with_help(
                "a chunk's length has 32 bits (RFC 8166 section 3.4): the largest bound is 4294967295",
            ),
        );
    }
}

/// A bound that is the same for every call.
fn number(sum: Option<&Placed<Vec<Term>>>) -> Option<(&Placed<Vec<Term>>, u64)> {
    let placed = sum?;
    let mut sum = 0u64;
    for term in &placed.value {
        let Term::Number(number) = term else { return None };
        sum = sum.saturating_add(*number);
    }
    Some((placed, sum))
}

/// A call whose reply has no bound fails before it is sent, for no memory could be offered that is surely enough.
fn all_bounded(version: &Version, binding: &Binding, layouts: &Layouts, found: &mut Found) {
    // Where a rule is written that is wrong, that is said already.
    let wrong = |procedure: &Procedure| {
        procedure.reply.item.is_none()
            && procedure.reply.whole.is_none()
            && binding.replies.iter().any(|reply| reply.procedure.value == procedure.name)
    };
    let unbounded: Vec<&str> = version
        .procedures
        .iter()
        .filter(|procedure| sizes::is_unbounded(procedure, version, layouts) && !wrong(procedure))
        .map(|procedure| procedure.name.as_str())
        .collect();
    let Some(first) = unbounded.first() else { return };
    let message = format!("nothing bounds the reply of {}", listed(&unbounded));
    found.push(
        Diagnostic::error("X322", binding.version.span, message)
            .with_label("each such call fails: a client must offer memory for the longest reply (RFC 8166 section 6.2)")
            .with_help(format!(
                "bound it below `[binding.reply.\"{first}\"]`: `whole` is the largest result in bytes, `item` its largest eligible item"
            )),
    );
}

/// A server with the runtime's default limit refuses a call whose Read chunks hold more.
fn all_fetched(version: &Version, binding: &Binding, layouts: &Layouts, found: &mut Found) {
    let read = |procedure: &Procedure| sizes::longest_read(procedure, version, layouts).unwrap_or(0);
    let beyond = version.procedures.iter().filter(|procedure| read(procedure) > MAX_TRANSFER);
    let names: Vec<&str> = beyond.clone().map(|procedure| procedure.name.as_str()).collect();
    let Some(longest) = beyond.map(read).max() else { return };
    let message = format!(
        "a call of {} can need {longest} bytes in Read chunks, and servers accept {MAX_TRANSFER} by default",
        listed(&names)
    );
    found.push(
        Diagnostic::warning("X325", binding.version.span, message)
            .with_label("such a call is rejected unless the server has another limit")
            .with_help(
                "lower the bound in the document, or raise `Limits::transfer` of `rpcrdma_runtime::wire::rdma` in each server",
            ),
    );
}

/// The first of some procedures, and how many more there are.
fn listed(names: &[&str]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    first.join(", ") + &more
}
