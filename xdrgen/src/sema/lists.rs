//! Shapes that XDR spells out and Rust has a type for: optional data behind a bool, and lists.

use super::ends::MAX_DEPTH;
use super::graph::collect_named;
use crate::hash::{HashMap, HashSet};
use crate::ir::{Arm, Body, Docs, Field, Item, Module, Scalar, Type, TypeDef, TypeId, Union};
use crate::names::{Names, Taken};

/// A union of something at TRUE and nothing at FALSE is optional data (RFC 4506 section 4.19 says so itself).
pub(crate) fn collapse_options(module: &mut Module) {
    for index in 0..module.types.len() {
        let Some(TypeDef { body: Body::Union(union), .. }) = module.types.get(index) else { continue };
        if let Some(payload) = option_of(module, union)
            && let Some(ty) = module.types.get_mut(index)
        {
            ty.body = Body::Alias(Type::Optional(Box::new(payload)));
        }
    }
}

fn option_of(module: &Module, union: &Union) -> Option<Type> {
    if !is_bool(module, &union.discriminant) {
        return None;
    }
    let [first, second] = union.arms.as_slice() else { return None };
    let chosen_by = |arm: &crate::ir::Arm, value: bool| arm.labels == [crate::ir::Label::Bool(value)];
    let (some, none) = if chosen_by(first, true) { (first, second) } else { (second, first) };
    let matched = chosen_by(some, true) && (chosen_by(none, false) || none.labels.is_empty());
    let payload = some.payload.as_ref()?;
    // What needs an attribute at its field has no place in an `Option`.
    (matched && none.payload.is_none() && payload.max.is_none() && !payload.eligible)
        .then(|| payload.ty.clone())
}

fn is_bool(module: &Module, ty: &Type) -> bool {
    let mut ty = ty;
    for _ in 0..=MAX_DEPTH {
        match ty {
            Type::Named(id) => match module.get(*id).map(|ty| &ty.body) {
                Some(Body::Alias(of)) => ty = of,
                _ => return false,
            },
            other => return *other == Type::Scalar(Scalar::Bool),
        }
    }
    false
}

/// Structs that link to themselves at their end, and are reached by such links only, become the elements of lists:
/// they lose the link, and each link to them is a `Vec` that is decoded in a loop.
pub(crate) fn make_lists(module: &mut Module, names: Names, idents: &mut Taken) {
    let embedded = embedded(module);
    let nodes: HashSet<TypeId> = (0..module.types.len())
        .map(TypeId)
        .filter(|id| !embedded.contains(id) && is_node(module, *id))
        .collect();
    for node in &nodes {
        if let Some(TypeDef { body: Body::Struct(fields), .. }) = module.types.get_mut(node.0) {
            fields.pop();
        }
    }
    let element = |ty: &Type| match ty {
        Type::Optional(of) => match **of {
            Type::Named(id) if nodes.contains(&id) => Some(id),
            _ => None,
        },
        _ => None,
    };
    for ty in &mut module.types {
        if let Body::Alias(of) = &ty.body
            && let Some(id) = element(of)
        {
            ty.body = Body::Newtype(list_field(id, &ty.docs.declaration));
        }
        for field in fields_mut(&mut ty.body) {
            if let Some(id) = element(&field.ty) {
                field.ty = Type::Array(Box::new(Type::Named(id)));
                field.list = true;
            }
        }
    }
    wrap_procedures(module, names, idents, &element);
}

fn list_field(id: TypeId, declaration: &str) -> Field {
    Field {
        name: "0".to_owned(),
        ident: "0".to_owned(),
        ty: Type::Array(Box::new(Type::Named(id))),
        max: None,
        recursive: false,
        list: true,
        eligible: false,
        docs: Docs { declaration: declaration.to_owned(), ..Docs::default() },
    }
}

/// A list as the argument or result itself has no field to carry the attribute: it gets a struct.
fn wrap_procedures(
    module: &mut Module,
    names: Names,
    idents: &mut Taken,
    element: &dyn Fn(&Type) -> Option<TypeId>,
) {
    let mut added: Vec<(usize, TypeDef)> = Vec::new();
    let known = module.types.len();
    for (index, program) in module.programs.iter_mut().enumerate() {
        let source = program.source;
        for procedure in program.versions.iter_mut().flat_map(|version| &mut version.procedures) {
            let name = procedure.name.clone();
            for (ty, suffix) in [(&mut procedure.arguments, "args"), (&mut procedure.result, "res")] {
                let Some(id) = element(ty) else { continue };
                let path = format!("{name}_{suffix}");
                let (ident, _) = idents.take(names.of_type(&path), &path);
                let docs = Docs {
                    declaration: procedure.docs.declaration.clone(),
                    span: procedure.docs.span,
                    ..Docs::default()
                };
                let body = Body::Newtype(list_field(id, &docs.declaration));
                *ty = Type::Named(TypeId(known + added.len()));
                let derives = crate::ir::Derives::default();
                added.push((
                    index,
                    TypeDef { name: path, ident, body, borrows: false, items: None, derives, source, docs },
                ));
            }
        }
    }
    // Each stands before its program.
    let mut before: HashMap<usize, Vec<Item>> = HashMap::default();
    for (program, ty) in added {
        before.entry(program).or_default().push(Item::Type(TypeId(module.types.len())));
        module.types.push(ty);
    }
    if before.is_empty() {
        return;
    }
    for item in std::mem::take(&mut module.order) {
        if let Item::Program(index) = item {
            module.order.extend(before.remove(&index).into_iter().flatten());
        }
        module.order.push(item);
    }
}

/// A struct that links to itself at its end, and not before.
fn is_node(module: &Module, id: TypeId) -> bool {
    let Some(TypeDef { body: Body::Struct(fields), .. }) = module.get(id) else { return false };
    fields.last().is_some_and(|last| links_to(module, &last.ty, id))
}

/// The types that are held in another way than by a link: a struct's link to itself counts as one at its end only.
fn embedded(module: &Module) -> HashSet<TypeId> {
    let mut embedded = Vec::new();
    for (index, ty) in module.types.iter().enumerate() {
        match &ty.body {
            Body::Alias(of) => collect_embedded(of, &mut embedded),
            Body::Struct(fields) => {
                let own = TypeId(index);
                let link = fields.len().checked_sub(1);
                for (at, field) in fields.iter().enumerate() {
                    if Some(at) == link && links_to(module, &field.ty, own) {
                        continue;
                    }
                    collect_embedded(&field.ty, &mut embedded);
                }
            }
            body => fields_of(body).for_each(|field| collect_embedded(&field.ty, &mut embedded)),
        }
    }
    let versions = module.programs.iter().flat_map(|program| &program.versions);
    for procedure in versions.flat_map(|version| &version.procedures) {
        collect_embedded(&procedure.arguments, &mut embedded);
        collect_embedded(&procedure.result, &mut embedded);
    }
    embedded.into_iter().collect()
}

/// The types that a type names in another way than as optional data.
fn collect_embedded(ty: &Type, embedded: &mut Vec<TypeId>) {
    match ty {
        Type::Optional(of) if matches!(**of, Type::Named(_)) => {}
        ty => collect_named(ty, embedded),
    }
}

/// Whether a type is optional data of `id`, by itself or by a typedef.
fn links_to(module: &Module, ty: &Type, id: TypeId) -> bool {
    let is_link = |ty: &Type| matches!(ty, Type::Optional(of) if **of == Type::Named(id));
    match ty {
        Type::Named(alias) => {
            matches!(module.get(*alias).map(|ty| &ty.body), Some(Body::Alias(of)) if is_link(of))
        }
        ty => is_link(ty),
    }
}

/// Everything in a body that is a field. An alias has none.
pub(crate) fn fields_of(body: &Body) -> impl Iterator<Item = &Field> {
    let (fields, arms): (&[Field], &[Arm]) = match body {
        Body::Alias(_) | Body::Enum(_) => (&[], &[]),
        Body::Newtype(field) => (std::slice::from_ref(field), &[]),
        Body::Struct(fields) | Body::Tuple(fields) => (fields, &[]),
        Body::Union(union) => (&[], &union.arms),
    };
    fields.iter().chain(arms.iter().filter_map(|arm| arm.payload.as_ref()))
}

/// The same, to change them.
pub(crate) fn fields_mut(body: &mut Body) -> impl Iterator<Item = &mut Field> {
    let (fields, arms): (&mut [Field], &mut [Arm]) = match body {
        Body::Alias(_) | Body::Enum(_) => (&mut [], &mut []),
        Body::Newtype(field) => (std::slice::from_mut(field), &mut []),
        Body::Struct(fields) | Body::Tuple(fields) => (fields, &mut []),
        Body::Union(union) => (&mut [], &mut union.arms),
    };
    fields.iter_mut().chain(arms.iter_mut().filter_map(|arm| arm.payload.as_mut()))
}
