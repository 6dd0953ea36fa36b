//! The bounds of replies against their types: a client has to know how much memory a reply can take.

use rpcrdma_layout::{MAX_TRANSFER, Size};

use crate::binding::{Binding, Direction, Placed, Reply, Term};
use crate::diag::{BindingKind, Few, Found};
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
        found.push(BindingKind::VoidResult { procedure: procedure.name.clone() }.at(whole.span));
    } else if let Some((whole, bytes)) = number(reply.whole.as_ref())
        && bytes < result.lengths.min.max(1)
    {
        let (procedure, least) = (procedure.name.clone(), result.lengths.min);
        found.push(BindingKind::ShortReply { procedure, bytes, least }.at(whole.span));
    }
    if let Some((item, 0)) = number(reply.item.as_ref()) {
        found.push(BindingKind::EmptyItem { procedure: procedure.name.clone() }.at(item.span));
    }
}

/// A number that is larger than anything that could be counted: lengths and counts have 32 bits.
fn beyond(procedure: &Procedure, sum: &Placed<Vec<Term>>, found: &mut Found) {
    let numbers = sum.value.iter().map(|term| if let Term::Number(number) = term { *number } else { 0 });
    let least = numbers.fold(0u64, u64::saturating_add);
    if least > u64::from(u32::MAX) {
        found.push(BindingKind::LongReply { procedure: procedure.name.clone(), bytes: least }.at(sum.span));
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
    if !unbounded.is_empty() {
        found.push(BindingKind::Unbounded { procedures: listed(&unbounded) }.at(binding.version.span));
    }
}

/// A server with the runtime's default limit refuses a call whose Read chunks hold more.
fn all_fetched(version: &Version, binding: &Binding, layouts: &Layouts, found: &mut Found) {
    let read = |procedure: &Procedure| sizes::longest_read(procedure, version, layouts).unwrap_or(0);
    let beyond = version.procedures.iter().filter(|procedure| read(procedure) > MAX_TRANSFER);
    let names: Vec<&str> = beyond.clone().map(|procedure| procedure.name.as_str()).collect();
    let Some(longest) = beyond.map(read).max() else { return };
    let long = BindingKind::LongCall { procedures: listed(&names), bytes: longest, most: MAX_TRANSFER };
    found.push(long.at(binding.version.span));
}

/// The first of some procedures, and how many more there are.
fn listed(names: &[&str]) -> Few<String> {
    Few::of(names.iter().map(|name| (*name).to_owned()), NAMED)
}
