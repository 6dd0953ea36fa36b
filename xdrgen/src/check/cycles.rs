//! Checks for infinitely large types, cycles of typedefs, and definitions that nest too deeply.

use super::Facts;
use crate::diag::{CycleKind, Found};
use crate::graph::Graph;
use crate::hash::HashSet;
use crate::hir::{Body, Hir, MAX_DEPTH, Type, TypeDef, TypeId};

/// Maximum number of other types that a finding about a cycle names.
const NAMED: usize = 8;

/// X222: a type without finite values.
pub(super) fn infinite_types(facts: &Facts<'_>, found: &mut Found) {
    let of = |id, known: &[bool]| facts.hir.get(id).is_none_or(|ty| is_finite(&ty.body, known));
    let finite = facts.graph.solve(false, of);
    let is_infinite = |id: TypeId| finite.get(id.0) == Some(&false);
    // A cycle of infinite types is also a cycle in the graph of all uses. Most documents have no such cycle,
    // so a cheap search of this graph usually suffices.
    if !facts.hir.typed().any(|(id, _)| is_infinite(id) && facts.graph.is_cycle(id, id)) {
        return;
    }
    let infinite = Graph::new(&facts.hir.types, |id, ty, held| {
        if is_infinite(id) {
            held.extend(
                ty.body.declared().filter_map(|field| in_place(&field.ty)).filter(|id| is_infinite(*id)),
            );
        }
    });
    report(facts.hir, &infinite, false, found);
}

/// X223: a typedef that refers to itself through typedefs alone.
pub(super) fn alias_cycles(facts: &Facts<'_>, found: &mut Found) {
    if !facts.hir.typed().any(|(id, ty)| is_alias(ty) && facts.graph.is_cycle(id, id)) {
        return;
    }
    let aliases = Graph::new(&facts.hir.types, |_, ty, named| {
        if is_alias(ty) {
            named.extend(ty.body.types().filter_map(Type::named));
        }
    });
    report(facts.hir, &aliases, true, found);
}

fn is_alias(ty: &TypeDef) -> bool {
    matches!(ty.body, Body::Alias(_))
}

/// X225: the first definition that nests too deeply for rustc.
pub(super) fn depth(facts: &Facts<'_>, found: &mut Found) {
    let depths = facts.graph.depths();
    let Some(index) = depths.iter().position(|depth| *depth == MAX_DEPTH + 1) else { return };
    let Some(ty) = facts.hir.types.get(index) else { return };
    let deepest = depths.iter().max().copied().unwrap_or(0);
    found.push(CycleKind::TooDeep { name: ty.name.clone(), max: MAX_DEPTH, deepest }.at(ty.docs.span));
}

/// If `of_aliases` is true, reports each cycle of typedefs once. Otherwise, reports each other cycle once.
/// The position of each finding is in the first-defined type of the cycle: the typedef's name, or the field
/// that refers to the next type.
fn report(hir: &Hir, graph: &Graph, of_aliases: bool, found: &mut Found) {
    let mut reported = HashSet::default();
    for (id, ty) in hir.typed() {
        if !graph.is_cycle(id, id) || !reported.insert(graph.cycle(id)) {
            continue;
        }
        // Each type refers to the type before it, and the first type to the last.
        let path = graph.cycle_path(id);
        if path.iter().all(|id| hir.get(*id).is_some_and(is_alias)) != of_aliases {
            continue;
        }
        let mut to = path.last().copied().unwrap_or(id);
        let mut place = |from: TypeId, ty: &TypeDef| {
            let mut fields = ty.body.fields();
            let link = fields.find(|field| in_place(&field.ty) == Some(to)).map(|field| field.docs.span);
            to = from;
            link.unwrap_or(ty.docs.span)
        };
        let span = place(id, ty);
        let others = path.into_iter().filter(|other| *other != id).take(NAMED);
        let others = others.filter_map(|other| Some((other, hir.get(other)?)));
        let via = others.map(|(other, ty)| (place(other, ty), ty.name.clone())).collect();
        let name = ty.name.clone();
        let cycle =
            if of_aliases { CycleKind::AliasCycle { name, via } } else { CycleKind::Infinite { name, via } };
        found.push(cycle.at(span));
    }
}

fn is_finite(body: &Body, known: &[bool]) -> bool {
    let finite = |ty: &Type| in_place(ty).is_none_or(|id| known.get(id.0).copied().unwrap_or(true));
    match body {
        Body::Union(union) => {
            let payload = |arm: &crate::hir::Arm| arm.payload.as_ref().is_none_or(|field| finite(&field.ty));
            union.arms.is_empty() || union.arms.iter().any(payload)
        }
        body => body.declared().all(|field| finite(&field.ty)),
    }
}

/// Returns the defined type that a type contains by value, if any. An array of length 0 counts: in Rust, the
/// array still contains the element type.
fn in_place(ty: &Type) -> Option<TypeId> {
    match ty {
        Type::Named(id) => Some(*id),
        Type::FixedArray(of, _) => in_place(of),
        _ => None,
    }
}
