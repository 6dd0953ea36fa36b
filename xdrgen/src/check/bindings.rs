//! The Upper-Layer Binding against the XDR: what is eligible, and how large replies can be.

use super::service;
use crate::binding::{Binding, Direction, Placed, Term};
use crate::diag::{BindingKind, Found, Inside, Unknown};
use crate::graph::Graph;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Field, Hir, Procedure, Scalar, Sum, Type, TypeId, Version};
use crate::likeness::nearest;
use crate::source::Span;

/// Items that are never larger stay in the message: the runtime moves nothing smaller unless it is told to, and what is
/// this small fits into a message of the smallest inline threshold.
const WORTH: u32 = 1024;

/// Applies bindings to a protocol.
pub(crate) fn apply(hir: &mut Hir, bindings: &[Binding], found: &mut Found) {
    if bindings.is_empty() {
        return;
    }
    let graph = Graph::of_all_uses(hir);
    let mut marked = HashMap::default();
    let mut backward: HashMap<TypeId, &Binding> = HashMap::default();
    let mut bound: HashMap<(&str, &str), Span> = HashMap::default();
    for binding in bindings {
        let Some((program, version)) = find_version(hir, binding, found) else { continue };
        let names = (binding.program.value.as_str(), binding.version.value.as_str());
        if let Some(first) = bound.insert(names, binding.version.span) {
            let twice = BindingKind::TwoBindings { version: names.1.to_owned(), first };
            found.push(twice.at(binding.version.span));
            continue;
        }
        let reached = reached_by(hir, &graph, program, version);
        let before = found.errors();
        if may_place(binding, found) {
            for item in &binding.eligible {
                mark(hir, item, &reached, &mut marked, found);
            }
        } else {
            for id in &reached {
                backward.entry(*id).or_insert(binding);
            }
        }
        // What was meant to be an item may be what a rule for a reply is about.
        let lacks_items = found.errors() > before;
        let replies = replies(hir, &graph, (program, version), binding, lacks_items, found);
        let service = service::check(binding, found);
        let Some(version) =
            hir.programs.get_mut(program).and_then(|program| program.versions.get_mut(version))
        else {
            continue;
        };
        version.binding = Some(service);
        for (index, item, whole) in replies {
            if let Some(procedure) = version.procedures.get_mut(index) {
                (procedure.item, procedure.whole) = (item, whole);
            }
        }
    }
    not_backward(hir, &marked, &backward, found);
}

/// An item is eligible wherever its type is used, so no message of a backward-only program may hold one.
fn not_backward(
    hir: &Hir,
    marked: &HashMap<String, Marked>,
    backward: &HashMap<TypeId, &Binding>,
    found: &mut Found,
) {
    let shared = marked.iter().filter_map(|(name, marked)| Some((name, marked, backward.get(&marked.of)?)));
    for (name, marked, binding) in shared {
        let (item, of) = (name.clone(), hir.get(marked.of).map_or_else(String::new, |ty| ty.name.clone()));
        let (version, place) = (binding.version.value.clone(), binding.version.span);
        found.push(BindingKind::ItemInBackward { item, version, place, of }.at(marked.span));
    }
}

/// An item that was marked.
struct Marked {
    /// Where the binding names it.
    span: Span,
    /// The type that it is a field of.
    of: TypeId,
}

/// Whether the version's messages may have eligible items: those of a backward-only program may not.
fn may_place(binding: &Binding, found: &mut Found) -> bool {
    if binding.direction == Direction::Forward {
        return true;
    }
    if let Some(first) = binding.eligible.first() {
        found.push(BindingKind::Backward { version: binding.version.value.clone() }.at(first.span));
    }
    false
}

fn unknown<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Unknown {
    Unknown { name: name.to_owned(), near: nearest(name, candidates).map(str::to_owned) }
}

fn find_version(hir: &Hir, binding: &Binding, found: &mut Found) -> Option<(usize, usize)> {
    let programs = hir.programs.iter();
    let Some(index) = programs.clone().position(|program| program.name == binding.program.value) else {
        let name = unknown(&binding.program.value, programs.map(|program| program.name.as_str()));
        found.push(BindingKind::NoProgram { name }.at(binding.program.span));
        return None;
    };
    let versions = hir.programs.get(index)?.versions.iter();
    let Some(version) = versions.clone().position(|version| version.name == binding.version.value) else {
        let name = unknown(&binding.version.value, versions.map(|version| version.name.as_str()));
        found.push(BindingKind::NoVersion { name }.at(binding.version.span));
        return None;
    };
    Some((index, version))
}

fn version_at(hir: &Hir, program: usize, version: usize) -> Option<&Version> {
    hir.programs.get(program)?.versions.get(version)
}

/// The types that a version's messages are made of.
fn reached_by(hir: &Hir, graph: &Graph, program: usize, version: usize) -> HashSet<TypeId> {
    let procedures = version_at(hir, program, version).into_iter().flat_map(|version| &version.procedures);
    let starts: Vec<TypeId> =
        procedures.flat_map(|one| [&one.arguments, &one.result]).filter_map(Type::named).collect();
    let mut reached = graph.reached_from(starts.iter().copied());
    reached.extend(starts);
    reached
}

/// Marks one item, `Type.field`, as eligible.
fn mark(
    hir: &mut Hir,
    item: &Placed<String>,
    reached: &HashSet<TypeId>,
    marked: &mut HashMap<String, Marked>,
    found: &mut Found,
) {
    let Some((id, field)) = find_item(hir, item, found) else { return };
    let marking = Marked { span: item.span, of: id };
    if let Some(Marked { span: first, .. }) = marked.insert(item.value.clone(), marking) {
        if first.source == item.span.source && reached.contains(&id) {
            found.push(BindingKind::ItemTwice { item: item.value.clone(), first }.at(item.span));
        }
        return;
    }
    if !reached.contains(&id) {
        found.push(BindingKind::InNoMessage { item: item.value.clone() }.at(item.span));
    }
    let fields = hir.types.get_mut(id.0).into_iter().flat_map(|ty| ty.body.declared_mut());
    fields.skip(field).take(1).for_each(|field| field.eligible = true);
}

/// The type and the field that `Type.field` names, if RDMA may place the field.
fn find_item(hir: &Hir, item: &Placed<String>, found: &mut Found) -> Option<(TypeId, usize)> {
    let Some((of, name)) = item.value.rsplit_once('.') else {
        found.push(BindingKind::NoPath { item: item.value.clone() }.at(item.span));
        return None;
    };
    let Some(id) = hir.types.iter().position(|ty| ty.name == of) else {
        let name = unknown(of, hir.types.iter().map(|ty| ty.name.as_str()));
        found.push(BindingKind::NoType { name }.at(item.span));
        return None;
    };
    let ty = hir.types.get(id)?;
    if let Body::Union(union) = &ty.body
        && union.discriminant_name == name
    {
        let (name, of) = (name.to_owned(), of.to_owned());
        found.push(BindingKind::Discriminant { name, of }.at(item.span));
        return None;
    }
    let Some((index, field)) = ty.body.fields().enumerate().find(|(_, field)| field.name == name) else {
        let name = unknown(name, ty.body.fields().map(|field| field.name.as_str()));
        found.push(BindingKind::NoField { of: of.to_owned(), defined: ty.docs.span, name }.at(item.span));
        return None;
    };
    is_worth_it(hir, item, field, found).then_some((TypeId(id), index))
}

/// Whether RDMA may place a field, and it is not fixed and small. Says so if that is not so, or if it is always small.
fn is_worth_it(hir: &Hir, item: &Placed<String>, field: &Field, found: &mut Found) -> bool {
    let (name, declaration) = (item.value.clone(), field.docs.declaration.clone());
    let (bytes, fixed) = match hir.behind(&field.ty) {
        Type::Opaque(Some(bound)) | Type::String(Some(bound)) if bound.value < WORTH => (bound.value, false),
        Type::Opaque(_) | Type::String(_) => return true,
        Type::FixedOpaque(length) if length.value < WORTH => (length.value, true),
        ty => {
            let inside = ty.named().and_then(|id| inside(hir, id));
            found.push(BindingKind::NotEligible { item: name, declaration, inside }.at(item.span));
            return false;
        }
    };
    let small = BindingKind::SmallItem { item: name, declaration, bytes, fixed, worth: WORTH };
    found.push(small.at(item.span));
    !fixed
}

/// What to name instead of a union, or of a struct with data in it.
fn inside(hir: &Hir, id: TypeId) -> Option<Inside> {
    let ty = hir.get(id)?;
    let of_union = match ty.body {
        Body::Union(_) => true,
        Body::Struct(_) => false,
        _ => return None,
    };
    let is_item = |field: &&Field| matches!(hir.behind(&field.ty), Type::Opaque(_) | Type::String(_));
    let item = ty.body.fields().find(is_item)?;
    Some(Inside { of_union, item: format!("{}.{}", ty.name, item.name), already: item.eligible })
}

// ---- replies

fn replies(
    hir: &Hir,
    graph: &Graph,
    (program, version): (usize, usize),
    binding: &Binding,
    lacks_items: bool,
    found: &mut Found,
) -> Vec<(usize, Option<Sum>, Option<Sum>)> {
    let Some(version) = version_at(hir, program, version) else { return Vec::new() };
    let mut replies = Vec::new();
    for reply in &binding.replies {
        let procedures = version.procedures.iter();
        let Some(index) = procedures.clone().position(|one| one.name == reply.procedure.value) else {
            let name = unknown(&reply.procedure.value, procedures.map(|one| one.name.as_str()));
            found.push(BindingKind::NoProcedure { name }.at(reply.procedure.span));
            continue;
        };
        let Some(procedure) = version.procedures.get(index) else { continue };
        if reply.is_empty {
            let empty = BindingKind::EmptyReply { procedure: procedure.name.clone() };
            found.push(empty.at(reply.procedure.span));
        }
        let item = reply.item.as_ref().and_then(|item| {
            let bound = sum(hir, procedure, item, found)?;
            if has_item(hir, graph, procedure) {
                return Some(bound);
            }
            if !lacks_items {
                found.push(BindingKind::NoItem { procedure: procedure.name.clone() }.at(item.span));
            }
            None
        });
        let whole = reply.whole.as_ref().and_then(|whole| sum(hir, procedure, whole, found));
        replies.push((index, item, whole));
    }
    replies
}

/// Whether the result of a procedure holds an eligible item.
fn has_item(hir: &Hir, graph: &Graph, procedure: &Procedure) -> bool {
    let mut types: Vec<TypeId> = Vec::new();
    if let Type::Named(id) = &procedure.result {
        types.push(*id);
        types.extend(graph.reached_from([*id]));
    }
    let mut types = types.iter().filter_map(|id| hir.get(*id));
    types.any(|ty| ty.body.fields().any(|field| field.eligible))
}

fn sum(hir: &Hir, procedure: &Procedure, terms: &Placed<Vec<Term>>, found: &mut Found) -> Option<Sum> {
    let mut sum = Sum::default();
    for term in &terms.value {
        match term {
            Term::Number(number) => sum.number = sum.number.saturating_add(*number),
            Term::Field(path) => sum.fields.push(field_path(hir, procedure, path, terms.span, found)?),
        }
    }
    Some(sum)
}

/// The field of the arguments that a path names. It must be a number that is not negative.
fn field_path(
    hir: &Hir,
    procedure: &Procedure,
    path: &[String],
    span: Span,
    found: &mut Found,
) -> Option<(Vec<String>, bool)> {
    let mut ty = hir.behind(&procedure.arguments);
    for name in path {
        let fields: &[Field] = match ty {
            Type::Named(id) => match &hir.get(*id)?.body {
                Body::Struct(fields) => fields,
                _ => &[],
            },
            _ => &[],
        };
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            let name = unknown(name, fields.iter().map(|field| field.name.as_str()));
            found.push(BindingKind::NoArgument { procedure: procedure.name.clone(), name }.at(span));
            return None;
        };
        ty = hir.behind(&field.ty);
    }
    let wide = match ty {
        Type::Scalar(Scalar::UnsignedInt) => false,
        Type::Scalar(Scalar::UnsignedHyper) => true,
        _ => {
            found.push(BindingKind::NoSize { field: path.join(".") }.at(span));
            return None;
        }
    };
    Some((path.to_vec(), wide))
}
