//! The Upper-Layer Binding against the XDR: what is eligible, and how large replies can be.

use super::graph::Graph;
use super::lists::fields_mut;
use super::lists::fields_of;
use super::scope::nearest;
use super::service;
use crate::binding::{Binding, Direction, Placed, Term};
use crate::diag::{Diagnostic, Found};
use crate::hash::{HashMap, HashSet};
use crate::ir::{
    self, Body, Docs, FieldPath, Module, Procedure, ReplyBounds, Scalar, Sum, Type, TypeDef, TypeId, Version,
};
use crate::source::Span;

/// Items that are never larger stay in the message: the runtime moves nothing smaller unless it is told to, and what is
/// this small fits into a message of the smallest inline threshold.
const WORTH: u32 = 1024;

/// Applies bindings to a module. Gives the typedefs that eligible fields are made of.
pub(crate) fn apply(
    module: &mut Module,
    spans: &[Span],
    bindings: &[Binding],
    found: &mut Found,
) -> HashSet<TypeId> {
    let mut shared = HashSet::default();
    if bindings.is_empty() {
        return shared;
    }
    let graph = Graph::of_all_uses(module);
    let mut marked = HashMap::default();
    let mut backward: HashMap<TypeId, &Binding> = HashMap::default();
    let mut bound: HashMap<(&str, &str), Span> = HashMap::default();
    for binding in bindings {
        let Some((program, version)) = find_version(module, binding, found) else { continue };
        let names = (binding.program.value.as_str(), binding.version.value.as_str());
        if let Some(first) = bound.insert(names, binding.version.span) {
            found.push(
                Diagnostic::error("X312", binding.version.span, format!("`{}` has two bindings", names.1))
                    .with_label("the second")
                    .with_related(first, "the first"),
            );
            continue;
        }
        let reached = reached_by(module, &graph, program, version);
        let before = found.errors();
        if may_place(binding, found) {
            for item in &binding.eligible {
                mark(module, spans, item, &reached, &mut shared, &mut marked, found);
            }
        } else {
            for id in &reached {
                backward.entry(*id).or_insert(binding);
            }
        }
        // What was meant to be an item may be what a rule for a reply is about.
        let lacks_items = found.errors() > before;
        let replies = replies(module, &graph, (program, version), binding, lacks_items, found);
        let service = service::check(binding, found);
        let Some(version) =
            module.programs.get_mut(program).and_then(|program| program.versions.get_mut(version))
        else {
            continue;
        };
        version.binding = Some(service);
        for (index, reply) in replies {
            if let Some(procedure) = version.procedures.get_mut(index) {
                procedure.reply = reply;
            }
        }
    }
    not_backward(module, &marked, &backward, found);
    shared
}

/// An item is eligible wherever its type is used, so no message of a backward-only program may hold one.
fn not_backward(
    module: &Module,
    marked: &HashMap<String, Marked>,
    backward: &HashMap<TypeId, &Binding>,
    found: &mut Found,
) {
    let shared = marked.iter().filter_map(|(name, marked)| Some((name, marked, backward.get(&marked.of)?)));
    for (name, marked, binding) in shared {
        let version = &binding.version;
        let of = module.get(marked.of).map_or("it", |ty| ty.name.as_str());
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
        .with_label("names in a binding are those of the document");
    match nearest(&name.value, candidates) {
        Some(near) => error.with_help(format!("`{near}` is one; is that what is meant?")),
        None => error,
    }
}

fn find_version(module: &Module, binding: &Binding, found: &mut Found) -> Option<(usize, usize)> {
    let programs = module.programs.iter();
    let Some(index) = programs.clone().position(|program| program.name == binding.program.value) else {
        let names = programs.map(|program| program.name.as_str());
        found.push(unknown("X301", "program", &binding.program, names));
        return None;
    };
    let versions = module.programs.get(index)?.versions.iter();
    let Some(version) = versions.clone().position(|version| version.name == binding.version.value) else {
        let names = versions.map(|version| version.name.as_str());
        found.push(unknown("X302", "version of this program", &binding.version, names));
        return None;
    };
    Some((index, version))
}

fn version_at(module: &Module, program: usize, version: usize) -> Option<&Version> {
    module.programs.get(program)?.versions.get(version)
}

/// The types that a version's messages are made of.
fn reached_by(module: &Module, graph: &Graph, program: usize, version: usize) -> HashSet<TypeId> {
    let procedures = version_at(module, program, version).map(|version| version.procedures.iter());
    let types = procedures.into_iter().flatten().flat_map(|one| [&one.arguments, &one.result]);
    let starts: Vec<TypeId> = types
        .filter_map(|ty| match ty {
            Type::Optional(of) => {
                if let Type::Named(id) = **of {
                    Some(id)
                } else {
                    None
                }
            }
            Type::Named(id) => Some(*id),
            _ => None,
        })
        .collect();
    let mut reached = graph.reached_from(starts.iter().copied());
    reached.extend(starts);
    reached
}

/// Marks one item, `Type.field`, as eligible.
fn mark(
    module: &mut Module,
    spans: &[Span],
    item: &Placed<String>,
    reached: &HashSet<TypeId>,
    shared: &mut HashSet<TypeId>,
    marked: &mut HashMap<String, Marked>,
    found: &mut Found,
) {
    let Some((id, field)) = find_item(module, spans, item, found) else { return };
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
    let Some(TypeDef { body, .. }) = module.types.get_mut(id.0) else { return };
    let Some(field) = fields_mut(body).nth(field) else { return };
    field.eligible = true;
    let mut ty = &field.ty.clone();
    while let Type::Named(id) = ty {
        let Some(Body::Alias(of)) = module.types.get(id.0).map(|ty| &ty.body) else { return };
        shared.insert(*id);
        ty = of;
    }
}

/// The type and the field that `Type.field` names, if RDMA may place the field.
fn find_item(
    module: &Module,
    spans: &[Span],
    item: &Placed<String>,
    found: &mut Found,
) -> Option<(TypeId, usize)> {
    let Some((of, name)) = item.value.rsplit_once('.') else {
        let error = Diagnostic::error("X304", item.span, format!("`{}` names no field", item.value));
        found.push(error.with_label("expected `Type.field`"));
        return None;
    };
    let Some(id) = module.types.iter().position(|ty| ty.name == of) else {
        let of = Placed { value: of.to_owned(), span: item.span };
        let error = unknown("X303", "type", &of, module.types.iter().map(|ty| ty.name.as_str()));
        found.push(error);
        return None;
    };
    let ty = module.types.get(id)?;
    if let Body::Union(union) = &ty.body
        && union.discriminant_name == name
    {
        let error = Diagnostic::error("X310", item.span, format!("`{name}` is the discriminant of `{of}`"));
        found.push(error.with_label("a discriminant is never eligible (RFC 8166 section 3.4.4)"));
        return None;
    }
    let Some((index, field)) = fields_of(&ty.body).enumerate().find(|(_, field)| field.name == name) else {
        let fields = fields_of(&ty.body).map(|field| field.name.as_str());
        let name = Placed { value: name.to_owned(), span: item.span };
        let mut error = unknown("X304", &format!("field of `{of}`"), &name, fields);
        if let Some(span) = spans.get(id) {
            error = error.with_related(*span, "the type");
        }
        found.push(error);
        return None;
    };
    is_worth_it(module, item, field, found).then_some((TypeId(id), index))
}

/// Whether RDMA may place a field, and it is not fixed and small. Says so if that is not so, or if it is always small.
fn is_worth_it(module: &Module, item: &Placed<String>, field: &ir::Field, found: &mut Found) -> bool {
    let small = |length: String, what: &str| {
        Diagnostic::warning(
            "X315",
            item.span,
            format!("`{}` is not worth a chunk: it has {length}", item.value),
        )
        .with_label(format!("declared as `{}`", field.docs.declaration))
        .with_help(format!("what has less than {WORTH} bytes is better sent in the message: {what}"))
    };
    match resolve(module, &field.ty) {
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
                Type::Named(id) => inside(module, *id),
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
fn inside(module: &Module, id: TypeId) -> Option<String> {
    let ty = module.get(id)?;
    let what = match ty.body {
        Body::Union(_) => "a union's discriminant has to stay in the message",
        Body::Struct(_) => "a struct's other fields have to stay in the message",
        _ => return None,
    };
    let item = fields_of(&ty.body).find(|field| is_item(module, &field.ty))?;
    let already = if item.eligible { ", which is named already" } else { "" };
    Some(format!("{what}: name the data inside, `{}.{}`{already}", ty.name, item.name))
}

/// A type behind its typedefs.
fn resolve<'m>(module: &'m Module, ty: &'m Type) -> &'m Type {
    let mut ty = ty;
    for _ in 0..=module.types.len() {
        match ty {
            Type::Named(id) => match module.get(*id).map(|ty| &ty.body) {
                Some(Body::Alias(of)) => ty = of,
                _ => return ty,
            },
            _ => return ty,
        }
    }
    ty
}

fn is_item(module: &Module, ty: &Type) -> bool {
    matches!(resolve(module, ty), Type::Opaque(_) | Type::String(_))
}

// ---- replies

fn replies(
    module: &Module,
    graph: &Graph,
    (program, version): (usize, usize),
    binding: &Binding,
    lacks_items: bool,
    found: &mut Found,
) -> Vec<(usize, ReplyBounds)> {
    let Some(version) = version_at(module, program, version) else { return Vec::new() };
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
            let bound = sum(module, procedure, item, found)?;
            if has_item(module, graph, procedure) {
                return Some(bound);
            }
            if !lacks_items {
                found.push(no_item(procedure, item.span));
            }
            None
        });
        let whole = reply.whole.as_ref().and_then(|whole| sum(module, procedure, whole, found));
        replies.push((index, ReplyBounds { item, whole }));
    }
    replies
}

/// Whether the result of a procedure holds an eligible item.
fn has_item(module: &Module, graph: &Graph, procedure: &Procedure) -> bool {
    let mut types: Vec<TypeId> = Vec::new();
    if let Type::Named(id) = &procedure.result {
        types.push(*id);
        types.extend(graph.reached_from([*id]));
    }
    let mut types = types.iter().filter_map(|id| module.get(*id));
    types.any(|ty| fields_of(&ty.body).any(|field| field.eligible))
}

/// A bound on items needs an item in the result.
fn no_item(procedure: &Procedure, span: Span) -> Diagnostic {
    let message = format!("the result of `{}` holds no eligible item", procedure.name);
    Diagnostic::error("X311", span, message)
        .with_label("bounds an item")
        .with_help("name the item in `eligible`, or bound the result by `whole`")
}

fn sum(module: &Module, procedure: &Procedure, terms: &Placed<Vec<Term>>, found: &mut Found) -> Option<Sum> {
    let mut sum = Sum::default();
    for term in &terms.value {
        match term {
            Term::Number(number) => sum.number = sum.number.saturating_add(*number),
            Term::Field(path) => sum.fields.push(field_path(module, procedure, path, terms.span, found)?),
        }
    }
    Some(sum)
}

/// The field of the arguments that a path names. It must be a number that is not negative.
fn field_path(
    module: &Module,
    procedure: &Procedure,
    path: &[String],
    span: Span,
    found: &mut Found,
) -> Option<FieldPath> {
    let mut ty = resolve(module, &procedure.arguments);
    let mut idents = Vec::new();
    for name in path {
        let fields: &[ir::Field] = match ty {
            Type::Named(id) => match &module.get(*id)?.body {
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
        idents.push(field.ident.clone());
        ty = resolve(module, &field.ty);
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
    Some(FieldPath { idents, wide })
}

/// What a binding adds to a field's documentation.
pub(crate) fn note(docs: &mut Docs) {
    docs.comments.push("RDMA may place it directly (DDP-eligible).".to_owned());
}
