//! The Upper-Layer Binding against the XDR: what is eligible, and how large replies can be.

use super::service;
use crate::binding::{Binding, Direction, Placed, Term};
use crate::diag::{Diagnostic, Found};
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
            found.push(
                Diagnostic::error("X312", binding.version.span, format!("`{}` has two bindings", names.1))
                    .with_label("the second")
                    .with_related(first, "the first"),
            );
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
        let version = &binding.version;
        let of = hir.get(marked.of).map_or("it", |ty| ty.name.as_str());
        found.push(
            Diagnostic::error(
                "X323",
                marked.span,
                format!("`{name}` is in messages of `{}`, too, where nothing is eligible", version.value),
            )
            .with_label("eligible here")
            .with_related(version.span, "called in the backward direction only")
            .with_help(format!("give `{}` a type of its own in place of `{of}`", version.value)),
        );
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
        let message = format!("`{}` is called in the backward direction only", binding.version.value);
        found.push(
            Diagnostic::error("X316", first.span, message)
                .with_label("cannot be DDP-eligible: calls and replies have no chunks there")
                .with_help(
                    "write `eligible = []`, or leave out `direction` if the end that connects calls it too",
                ),
        );
    }
    false
}

fn unknown<'c>(
    code: &'static str,
    what: &str,
    name: &Placed<String>,
    candidates: impl Iterator<Item = &'c str>,
) -> Diagnostic {
    let error = Diagnostic::error(code, name.span, format!("no {what} is called `{}`", name.value))
        .with_label("names in a binding are those of the document")
        .with_missing(&name.value);
    match nearest(&name.value, candidates) {
        Some(near) => error.with_help(format!("`{near}` is one; is that what is meant?")),
        None => error,
    }
}

fn find_version(hir: &Hir, binding: &Binding, found: &mut Found) -> Option<(usize, usize)> {
    let programs = hir.programs.iter();
    let Some(index) = programs.clone().position(|program| program.name == binding.program.value) else {
        let names = programs.map(|program| program.name.as_str());
        found.push(unknown("X301", "program", &binding.program, names));
        return None;
    };
    let versions = hir.programs.get(index)?.versions.iter();
    let Some(version) = versions.clone().position(|version| version.name == binding.version.value) else {
        let names = versions.map(|version| version.name.as_str());
        found.push(unknown("X302", "version of this program", &binding.version, names));
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
            found.push(
                Diagnostic::warning("X306", item.span, format!("`{}` is named twice", item.value))
                    .with_label("again")
                    .with_related(first, "the first time"),
            );
        }
        return;
    }
    if !reached.contains(&id) {
        found.push(
            Diagnostic::warning(
                "X313",
                item.span,
                format!("`{}` is in no message of this version", item.value),
            )
            .with_label("no procedure takes or returns it"),
        );
    }
    let fields = hir.types.get_mut(id.0).into_iter().flat_map(|ty| ty.body.declared_mut());
    fields.skip(field).take(1).for_each(|field| field.eligible = true);
}

/// The type and the field that `Type.field` names, if RDMA may place the field.
fn find_item(hir: &Hir, item: &Placed<String>, found: &mut Found) -> Option<(TypeId, usize)> {
    let Some((of, name)) = item.value.rsplit_once('.') else {
        let error = Diagnostic::error("X304", item.span, format!("`{}` names no field", item.value));
        found.push(error.with_label("expected `Type.field`").with_missing(&item.value));
        return None;
    };
    let Some(id) = hir.types.iter().position(|ty| ty.name == of) else {
        let of = Placed { value: of.to_owned(), span: item.span };
        let error = unknown("X303", "type", &of, hir.types.iter().map(|ty| ty.name.as_str()));
        found.push(error);
        return None;
    };
    let ty = hir.types.get(id)?;
    if let Body::Union(union) = &ty.body
        && union.discriminant_name == name
    {
        let error = Diagnostic::error("X310", item.span, format!("`{name}` is the discriminant of `{of}`"));
        found.push(error.with_label("a discriminant is never eligible (RFC 8166 section 3.4.4)"));
        return None;
    }
    let Some((index, field)) = ty.body.fields().enumerate().find(|(_, field)| field.name == name) else {
        let fields = ty.body.fields().map(|field| field.name.as_str());
        let name = Placed { value: name.to_owned(), span: item.span };
        let error = unknown("X304", &format!("field of `{of}`"), &name, fields);
        found.push(error.with_missing(of).with_related(ty.docs.span, "the type"));
        return None;
    };
    is_worth_it(hir, item, field, found).then_some((TypeId(id), index))
}

/// Whether RDMA may place a field, and it is not fixed and small. Says so if that is not so, or if it is always small.
fn is_worth_it(hir: &Hir, item: &Placed<String>, field: &Field, found: &mut Found) -> bool {
    let small = |length: String, what: &str| {
        Diagnostic::warning(
            "X315",
            item.span,
            format!("`{}` is not worth a chunk: it has {length}", item.value),
        )
        .with_label(format!("declared as `{}`", field.docs.declaration))
        .with_help(format!("what has less than {WORTH} bytes is better sent in the message: {what}"))
    };
    match hir.behind(&field.ty) {
        Type::Opaque(Some(bound)) | Type::String(Some(bound)) if bound.value < WORTH => {
            let length = format!("{} bytes at most", bound.value);
            found.push(small(length, "leave it out, unless the protocol's own binding names it"));
            true
        }
        Type::Opaque(_) | Type::String(_) => true,
        Type::FixedOpaque(length) if length.value < WORTH => {
            found.push(small(format!("{} bytes", length.value), "leave it out"));
            false
        }
        ty => {
            let help = match ty {
                Type::Named(id) => inside(hir, *id),
                _ => None,
            };
            let help = help.unwrap_or_else(|| {
                "variable-length opaque data and strings are; name the field inside the type that is one"
                    .to_owned()
            });
            found.push(
                Diagnostic::error("X305", item.span, format!("`{}` cannot be DDP-eligible", item.value))
                    .with_label(format!("declared as `{}`", field.docs.declaration))
                    .with_help(help),
            );
            false
        }
    }
}

/// What to name instead of a union, or of a struct with data in it.
fn inside(hir: &Hir, id: TypeId) -> Option<String> {
    let ty = hir.get(id)?;
    let what = match ty.body {
        Body::Union(_) => "a union's discriminant has to stay in the message",
        Body::Struct(_) => "a struct's other fields have to stay in the message",
        _ => return None,
    };
    let item = ty.body.fields().find(|field| is_item(hir, &field.ty))?;
    let already = if item.eligible { ", which is named already" } else { "" };
    Some(format!("{what}: name the data inside, `{}.{}`{already}", ty.name, item.name))
}

fn is_item(hir: &Hir, ty: &Type) -> bool {
    matches!(hir.behind(ty), Type::Opaque(_) | Type::String(_))
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
            let names = procedures.map(|procedure| procedure.name.as_str());
            found.push(unknown("X307", "procedure of this version", &reply.procedure, names));
            continue;
        };
        let Some(procedure) = version.procedures.get(index) else { continue };
        if reply.is_empty {
            found.push(
                Diagnostic::error(
                    "X320",
                    reply.procedure.span,
                    format!("this says nothing of the reply of `{}`", procedure.name),
                )
                .with_label("neither `item` nor `whole` is below it")
                .with_help(
                    "bound the reply by `whole`, or its eligible item by `item`; or leave the table out",
                ),
            );
        }
        let item = reply.item.as_ref().and_then(|item| {
            let bound = sum(hir, procedure, item, found)?;
            if has_item(hir, graph, procedure) {
                return Some(bound);
            }
            if !lacks_items {
                found.push(no_item(procedure, item.span));
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

/// A bound on items needs an item in the result.
fn no_item(procedure: &Procedure, span: Span) -> Diagnostic {
    let message = format!("the result of `{}` holds no eligible item", procedure.name);
    Diagnostic::error("X311", span, message)
        .with_label("bounds an item")
        .with_help("name the item in `eligible`, or bound the result by `whole`")
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
            let name = Placed { value: name.clone(), span };
            let what = format!("field in the arguments of `{}`", procedure.name);
            found.push(unknown("X309", &what, &name, fields.iter().map(|field| field.name.as_str())));
            return None;
        };
        ty = hir.behind(&field.ty);
    }
    let wide = match ty {
        Type::Scalar(Scalar::UnsignedInt) => false,
        Type::Scalar(Scalar::UnsignedHyper) => true,
        _ => {
            let message = format!("`{}` is no unsigned number", path.join("."));
            found.push(
                Diagnostic::error("X309", span, message)
                    .with_label("a size is an unsigned int or an unsigned hyper"),
            );
            return None;
        }
    };
    Some((path.to_vec(), wide))
}
