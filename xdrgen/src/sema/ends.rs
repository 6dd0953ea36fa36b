//! Types without an end, typedefs that go in a circle, and definitions that nest too deep.

use super::graph::{Graph, collect_named_in};
use super::lists::fields_of;
use crate::diag::{Diagnostic, Found};
use crate::hash::HashSet;
use crate::ir::{Body, Module, Type, TypeDef, TypeId, Union};
use crate::source::Span;

/// How many definitions may be made of one another in a row. Published documents have up to about a dozen; rustc
/// follows types 128 deep.
pub(crate) const MAX_DEPTH: usize = 100;

/// How many of the types of a circle are named.
const NAMED: usize = 8;

/// Reports types whose every value would be infinite, typedefs that go in a circle, and what nests too deep.
pub(crate) fn check(module: &Module, spans: &[Span], found: &mut Found) {
    let all = Graph::of_all_uses(module);
    let finite = all.settle(false, |id, finite| module.get(id).is_none_or(|ty| ends(&ty.body, finite)));
    let is_endless = |id: TypeId| finite.get(id.0) == Some(&false);
    // Both kinds of circle are circles of all uses: most documents have none to be looked at again.
    let turns = |(index, ty): (usize, &TypeDef)| {
        let id = TypeId(index);
        (is_endless(id) || matches!(ty.body, Body::Alias(_))) && all.is_circle(id, id)
    };
    if module.types.iter().enumerate().any(turns) {
        check_circles(module, spans, &is_endless, found);
    }
    check_depth(module, spans, &all, found);
}

/// Reports types without an end, and typedefs that lead back to themselves.
fn check_circles(module: &Module, spans: &[Span], is_endless: &dyn Fn(TypeId) -> bool, found: &mut Found) {
    let endless = Graph::new(module, |id, body, held| {
        if is_endless(id) {
            held.extend(in_place(body).into_iter().filter(|id| is_endless(*id)));
        }
    });
    report(module, spans, &endless, found, |name, span| {
        Diagnostic::error("X222", span, format!("a value of `{name}` would have no end"))
            .with_label(format!("holds `{name}` again"))
            .with_help("let it be optional (`*`), or hold itself in a counted array (`<>`)")
    });
    let aliases = Graph::new(module, |id, body, named| {
        if matches!(body, Body::Alias(_)) && !is_endless(id) {
            collect_named_in(body, named);
        }
    });
    report(module, spans, &aliases, found, alias_cycle);
}

fn alias_cycle(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error("X223", span, format!("type alias cycle: `{name}` is a name of itself"))
        .with_label("leads back to itself by typedefs alone")
        .with_help("let one of the typedefs name another type, or put a struct in between")
}

/// Reports each circle once, at the first of its types in the documents: at the field that leads into it.
fn report(
    module: &Module,
    spans: &[Span],
    graph: &Graph,
    found: &mut Found,
    say: impl Fn(&str, Span) -> Diagnostic,
) {
    let mut said = HashSet::default();
    for id in (0..module.types.len()).map(TypeId) {
        if !graph.is_circle(id, id) || !said.insert(graph.circle(id)) {
            continue;
        }
        let Some(ty) = module.get(id) else { continue };
        // Each leads to the one before it, and the first to the last.
        let way = graph.way_around(id);
        let of_aliases =
            way.iter().all(|id| matches!(module.get(*id).map(|ty| &ty.body), Some(Body::Alias(_))));
        let mut to = way.last().copied().unwrap_or(id);
        let mut place = |from| {
            let place = link(module, from, to).or_else(|| spans.get(from.0).copied());
            to = from;
            place
        };
        let Some(span) = place(id) else { continue };
        let mut error = if of_aliases { alias_cycle(&ty.name, span) } else { say(&ty.name, span) };
        for other in way.into_iter().filter(|other| *other != id).take(NAMED) {
            if let (Some(ty), Some(span)) = (module.get(other), place(other)) {
                error = error.with_related(span, format!("by way of `{}`", ty.name));
            }
        }
        found.push(error);
    }
}

/// The field by which a type holds another in place. An alias has none.
fn link(module: &Module, from: TypeId, to: TypeId) -> Option<Span> {
    let mut fields = fields_of(&module.get(from)?.body);
    let field = fields.find(|field| in_place_of(&field.ty) == Some(to))?;
    Some(field.docs.span)
}

/// Reports the first definition that nests deeper than rustc would follow.
fn check_depth(module: &Module, spans: &[Span], graph: &Graph, found: &mut Found) {
    let depths = graph.depths();
    let Some(index) = depths.iter().position(|depth| *depth == MAX_DEPTH + 1) else { return };
    let (Some(ty), Some(span)) = (module.types.get(index), spans.get(index)) else { return };
    let deepest = depths.iter().max().copied().unwrap_or(0);
    let message = format!("`{}` is made of more than {MAX_DEPTH} definitions in a row", ty.name);
    found.push(
        Diagnostic::error("X225", *span, message)
            .with_label(format!("the deepest type of this run is {deepest} definitions deep"))
            .with_help("rustc would not follow it: leave out definitions that only give another a name"),
    );
}

fn ends(body: &Body, finite: &[bool]) -> bool {
    match body {
        Body::Alias(ty) => type_ends(ty, finite),
        Body::Enum(_) => true,
        Body::Union(Union { arms, .. }) => {
            arms.is_empty()
                || arms.iter().any(|arm| {
                    arm.payload.as_ref().is_none_or(|field| field.list || type_ends(&field.ty, finite))
                })
        }
        body => fields_of(body).all(|field| field.list || type_ends(&field.ty, finite)),
    }
}

fn type_ends(ty: &Type, finite: &[bool]) -> bool {
    match ty {
        Type::Named(id) => finite.get(id.0).copied().unwrap_or(true),
        // An array of none has an end, but its type has none in Rust, nor a size here.
        Type::FixedArray(of, _) | Type::Boxed(of) => type_ends(of, finite),
        _ => true,
    }
}

/// The types that a body holds in place.
fn in_place(body: &Body) -> Vec<TypeId> {
    match body {
        Body::Alias(ty) => in_place_of(ty).into_iter().collect(),
        body => fields_of(body).filter_map(|field| in_place_of(&field.ty)).collect(),
    }
}

fn in_place_of(ty: &Type) -> Option<TypeId> {
    let mut ty = ty;
    while let Type::FixedArray(of, _) = ty {
        ty = of;
    }
    if let Type::Named(id) = ty { Some(*id) } else { None }
}
