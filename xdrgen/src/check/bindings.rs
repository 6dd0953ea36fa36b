//! Checks the Upper-Layer Binding against the XDR: eligible items and bounds of replies.

use super::{Facts, service};
use crate::binding::{Binding, Direction, Placed, Reply, Term};
use crate::diag::{BindingKind, Found, Inside, MessageKind, Unknown};
use crate::graph::Graph;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Field, Hir, Procedure, Scalar, Sum, Type, TypeId};
use crate::similarity::nearest;
use crate::source::Span;

/// The default minimum size of an item that a client sends in a Read chunk, in bytes. Equals the smallest
/// inline threshold.
const WORTH: u32 = 1024;

/// A binding with its resolved names.
pub(super) struct Bound<'b> {
    pub(super) binding: &'b Binding,
    program: usize,
    version: usize,
    /// The types in the version's messages.
    reached: HashSet<TypeId>,
    items: Vec<Item<'b>>,
    replies: Vec<BoundReply<'b>>,
}

/// A field that a binding lists as eligible.
struct Item<'b> {
    written: &'b Placed<String>,
    of: TypeId,
    /// The index of the field. In a union, the indices of the eligible arms with this name, or of all arms
    /// with this name if none is eligible. The indices are in ascending order.
    fields: Vec<usize>,
    /// The index of the largest field in `fields`. Its size is `size`.
    largest: usize,
    size: ItemSize,
    /// The position of the previous mention of the field in any binding, if the field can be eligible.
    before: Option<Span>,
}

/// Whether a field can be DDP-eligible, and its maximum size if that is less than `WORTH`.
enum ItemSize {
    /// A string or variable-length opaque data, if a value may have `WORTH` bytes or more.
    Large,
    /// A string or opaque data of at most `bytes` bytes, or of exactly `bytes` bytes if `fixed`.
    Small { bytes: u32, fixed: bool },
    /// Any other type, including opaque data with a fixed length of `WORTH` bytes or more.
    None,
}

struct BoundReply<'b> {
    reply: &'b Reply,
    procedure: usize,
    item: Option<Sum>,
    unreduced: Option<Sum>,
}

/// Resolves the names in bindings. A second binding of a version is dropped.
pub(super) fn resolve<'b>(
    hir: &Hir,
    graph: &Graph,
    bindings: &'b [Binding],
    found: &mut Found,
) -> Vec<Bound<'b>> {
    let mut named: HashMap<&str, Span> = HashMap::default();
    let mut versions: HashMap<(usize, usize), Span> = HashMap::default();
    let mut all = Vec::new();
    for binding in bindings {
        let Some((program, version)) = find_version(hir, binding, found) else { continue };
        let span = binding.version.span;
        if let Some(first) = versions.insert((program, version), span) {
            let twice = BindingKind::TwoBindings { version: binding.version.value.clone(), first };
            found.push(twice.at(span));
            continue;
        }
        let Some(procedures) = procedures(hir, program, version) else { continue };
        let starts = procedures.iter().flat_map(|one| [&one.arguments, &one.result]);
        let reached = graph.reached_from(starts.filter_map(Type::named));
        let places = binding.eligible.iter().filter(|_| binding.direction == Direction::Forward);
        let mut items: Vec<Item<'b>> = places.filter_map(|item| find_item(hir, item, found)).collect();
        for item in items.iter_mut().filter(|item| item.size.is_eligible()) {
            item.before = named.insert(&item.written.value, item.written.span);
        }
        let replies = binding.replies.iter().filter_map(|one| reply(hir, procedures, one, found)).collect();
        all.push(Bound { binding, program, version, reached, items, replies });
    }
    all
}

fn unknown<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Unknown {
    Unknown { name: name.to_owned(), near: nearest(name, candidates).map(str::to_owned) }
}

fn procedures(hir: &Hir, program: usize, version: usize) -> Option<&[Procedure]> {
    Some(&hir.programs.get(program)?.versions.get(version)?.procedures)
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

fn find_item<'b>(hir: &Hir, item: &'b Placed<String>, found: &mut Found) -> Option<Item<'b>> {
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
    let named = ty.body.fields().enumerate().filter(|(_, field)| field.name == name);
    let mut sizes: Vec<_> = named.map(|(index, field)| (index, ItemSize::of(hir, field))).collect();
    if sizes.is_empty() {
        let name = unknown(name, ty.body.fields().map(|field| field.name.as_str()));
        found.push(BindingKind::NoField { of: of.to_owned(), defined: ty.docs.span, name }.at(item.span));
        return None;
    }
    if sizes.iter().any(|(_, size)| size.is_eligible()) {
        sizes.retain(|(_, size)| size.is_eligible());
    }
    let fields = sizes.iter().map(|(index, _)| *index).collect();
    let (largest, size) = sizes.into_iter().max_by_key(|(_, size)| match size {
        ItemSize::Large => u32::MAX,
        ItemSize::Small { bytes, .. } => *bytes,
        ItemSize::None => 0,
    })?;
    Some(Item { written: item, of: TypeId(id), fields, largest, size, before: None })
}

fn reply<'b>(
    hir: &Hir,
    procedures: &[Procedure],
    reply: &'b Reply,
    found: &mut Found,
) -> Option<BoundReply<'b>> {
    let name = &reply.procedure;
    let Some(index) = procedures.iter().position(|one| one.name == name.value) else {
        let unknown = unknown(&name.value, procedures.iter().map(|one| one.name.as_str()));
        found.push(MessageKind::NoProcedure { name: unknown }.at(name.span));
        return None;
    };
    let procedure = procedures.get(index)?;
    let mut bound = |terms: &Option<_>| terms.as_ref().and_then(|terms| sum(hir, procedure, terms, found));
    let (item, unreduced) = (bound(&reply.item), bound(&reply.unreduced));
    Some(BoundReply { reply, procedure: index, item, unreduced })
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

/// Finds the field at `path` in the procedure's arguments. The field must be an `unsigned int` or an
/// `unsigned hyper`. Returns the path, and true if the field is an `unsigned hyper`.
fn field_path(
    hir: &Hir,
    procedure: &Procedure,
    path: &[String],
    span: Span,
    found: &mut Found,
) -> Option<(Vec<String>, bool)> {
    let mut ty = hir.resolve_alias(&procedure.arguments);
    for name in path {
        let body = if let Type::Named(id) = ty { Some(&hir.get(*id)?.body) } else { None };
        let fields: &[Field] = if let Some(Body::Struct(fields)) = body { fields } else { &[] };
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            let name = unknown(name, fields.iter().map(|field| field.name.as_str()));
            found.push(MessageKind::NoArgument { procedure: procedure.name.clone(), name }.at(span));
            return None;
        };
        ty = hir.resolve_alias(&field.ty);
    }
    let wide = match ty {
        Type::Scalar(Scalar::UnsignedInt) => false,
        Type::Scalar(Scalar::UnsignedHyper) => true,
        _ => {
            found.push(MessageKind::NoSize { field: path.join(".") }.at(span));
            return None;
        }
    };
    Some((path.to_vec(), wide))
}

impl ItemSize {
    fn of(hir: &Hir, field: &Field) -> Self {
        match hir.resolve_alias(&field.ty) {
            Type::Opaque(Some(bound)) | Type::String(Some(bound)) if bound.value < WORTH => {
                ItemSize::Small { bytes: bound.value, fixed: bound.value == 0 }
            }
            Type::Opaque(_) | Type::String(_) => ItemSize::Large,
            Type::FixedOpaque(length) if length.value < WORTH => {
                ItemSize::Small { bytes: length.value, fixed: true }
            }
            _ => ItemSize::None,
        }
    }

    /// Returns true if the field can be eligible: a string or variable-length opaque data, with a maximum
    /// above 0.
    fn is_eligible(&self) -> bool {
        matches!(self, ItemSize::Large | ItemSize::Small { fixed: false, .. })
    }
}

impl Bound<'_> {
    pub(super) fn mark(&self, hir: &mut Hir) {
        for item in self.items.iter().filter(|item| item.size.is_eligible()) {
            let fields = hir.types.get_mut(item.of.0).into_iter().flat_map(|ty| ty.body.declared_mut());
            let named = fields.enumerate().filter(|(index, _)| item.fields.binary_search(index).is_ok());
            named.for_each(|(_, field)| field.eligible = true);
        }
    }

    /// Applies the valid parts of a binding to the version.
    pub(super) fn write(&self, hir: &mut Hir, graph: &Graph) {
        let has_item = |one: &BoundReply<'_>| {
            self.procedure_of(hir, one).is_some_and(|procedure| has_item(hir, graph, procedure))
        };
        let items: Vec<bool> = self.replies.iter().map(has_item).collect();
        let program = hir.programs.get_mut(self.program);
        let version = program.and_then(|program| program.versions.get_mut(self.version));
        let Some(version) = version else { return };
        version.binding = Some(service::valid_parameters(self.binding));
        for (one, has_item) in self.replies.iter().zip(items) {
            if let Some(procedure) = version.procedures.get_mut(one.procedure) {
                procedure.item = one.item.clone().filter(|_| has_item);
                procedure.unreduced = one.unreduced.clone();
            }
        }
    }

    fn procedure_of<'h>(&self, hir: &'h Hir, one: &BoundReply<'_>) -> Option<&'h Procedure> {
        procedures(hir, self.program, self.version)?.get(one.procedure)
    }
}

fn items<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Bound<'f>, &'f Item<'f>, &'f Field)> {
    let all = facts.bound.iter().flat_map(|bound| bound.items.iter().map(move |item| (bound, item)));
    all.filter_map(|(bound, item)| {
        let mut fields = facts.hir.get(item.of)?.body.declared();
        Some((bound, item, fields.nth(item.largest)?))
    })
}

/// X305: a field that cannot be eligible.
pub(super) fn ineligible_items(facts: &Facts<'_>, found: &mut Found) {
    for (_, item, field) in items(facts).filter(|(_, item, _)| matches!(item.size, ItemSize::None)) {
        let inside = facts.hir.resolve_alias(&field.ty).named().and_then(|id| inside(facts.hir, id));
        let declaration = field.docs.declaration.clone();
        let name = item.written.value.clone();
        found.push(BindingKind::NotEligible { item: name, declaration, inside }.at(item.written.span));
    }
}

/// X315: an item that is always shorter than [`WORTH`] bytes, so that a chunk costs more than it saves.
pub(super) fn small_items(facts: &Facts<'_>, found: &mut Found) {
    for (_, Item { written, size, .. }, field) in items(facts) {
        let ItemSize::Small { bytes, fixed } = *size else { continue };
        let (item, declaration) = (written.value.clone(), field.docs.declaration.clone());
        let small = BindingKind::SmallItem { item, declaration, bytes, fixed, worth: WORTH };
        found.push(small.at(written.span));
    }
}

/// X306: an item that a file names twice. If versions share a type, bindings in different files may each
/// name the type's items.
pub(super) fn repeated_items(facts: &Facts<'_>, found: &mut Found) {
    for (bound, Item { written, of, before, .. }, _) in items(facts) {
        if let Some(first) = before.filter(|first| first.source == written.span.source)
            && bound.reached.contains(of)
        {
            found.push(BindingKind::ItemTwice { item: written.value.clone(), first }.at(written.span));
        }
    }
}

/// X313: an item that no message of the version contains.
pub(super) fn unused_items(facts: &Facts<'_>, found: &mut Found) {
    let first = items(facts).filter(|(_, item, _)| item.size.is_eligible() && item.before.is_none());
    for (_, Item { written, .. }, _) in first.filter(|(bound, item, _)| !bound.reached.contains(&item.of)) {
        found.push(BindingKind::InNoMessage { item: written.value.clone() }.at(written.span));
    }
}

/// X316: an item of a backward-only program, whose messages have no chunks.
pub(super) fn items_called_backward(facts: &Facts<'_>, found: &mut Found) {
    for binding in
        facts.bound.iter().map(|bound| bound.binding).filter(|one| one.direction == Direction::Backward)
    {
        let backward = BindingKind::Backward { version: binding.version.value.clone() };
        found.extend(binding.eligible.first().map(|first| backward.at(first.span)));
    }
}

/// X323: an item of a forward binding that is also in messages of a backward-only program. An item is
/// eligible wherever its type is used.
pub(super) fn items_shared_with_backward(facts: &Facts<'_>, found: &mut Found) {
    let is_backward = |bound: &&Bound<'_>| bound.binding.direction == Direction::Backward;
    for (_, item, _) in items(facts).filter(|(_, item, _)| item.size.is_eligible() && item.before.is_none()) {
        let mut backward = facts.bound.iter().filter(is_backward);
        let Some(bound) = backward.find(|bound| bound.reached.contains(&item.of)) else { continue };
        let of = facts.hir.get(item.of).map_or_else(String::new, |ty| ty.name.clone());
        let Placed { value: version, span: place } = bound.binding.version.clone();
        let item_in = BindingKind::ItemInBackward { item: item.written.value.clone(), version, place, of };
        found.push(item_in.at(item.written.span));
    }
}

/// X320: a reply table without bounds.
pub(super) fn empty_replies(facts: &Facts<'_>, found: &mut Found) {
    let replies = facts.bound.iter().flat_map(|bound| &bound.replies).map(|one| one.reply);
    for reply in replies.filter(|reply| reply.is_empty) {
        let Placed { value: procedure, span } = reply.procedure.clone();
        found.push(MessageKind::EmptyReply { procedure }.at(span));
    }
}

/// X311: a bound on the item of a result that has no eligible item.
pub(super) fn bounds_without_items(facts: &Facts<'_>, found: &mut Found) {
    // A bound may refer to an invalid item, which was already reported, so bindings with invalid items are
    // skipped.
    let has_all = |bound: &&Bound<'_>| {
        let is_valid = |item: &Item<'_>| !matches!(item.size, ItemSize::None);
        bound.items.len() == bound.binding.eligible.len() && bound.items.iter().all(is_valid)
    };
    for bound in facts.bound.iter().filter(has_all) {
        for one in bound.replies.iter().filter(|one| one.item.is_some()) {
            let procedure = bound.procedure_of(facts.hir, one);
            let lacks = procedure.filter(|procedure| !has_item(facts.hir, facts.graph, procedure));
            let Some((Procedure { name, .. }, terms)) = lacks.zip(one.reply.item.as_ref()) else { continue };
            found.push(MessageKind::NoItem { procedure: name.clone() }.at(terms.span));
        }
    }
}

fn has_item(hir: &Hir, graph: &Graph, procedure: &Procedure) -> bool {
    let reached = graph.reached_from(procedure.result.named());
    let mut types = reached.iter().filter_map(|id| hir.get(*id));
    types.any(|ty| ty.body.fields().any(|field| field.eligible))
}

/// Returns the first field that a binding can list instead of the whole union or struct, if any.
fn inside(hir: &Hir, id: TypeId) -> Option<Inside> {
    let ty = hir.get(id)?;
    let of_union = match ty.body {
        Body::Union(_) => true,
        Body::Struct(_) => false,
        _ => return None,
    };
    let is_item = |field: &&Field| matches!(hir.resolve_alias(&field.ty), Type::Opaque(_) | Type::String(_));
    let item = ty.body.fields().find(is_item)?;
    Some(Inside { of_union, item: format!("{}.{}", ty.name, item.name), already: item.eligible })
}
