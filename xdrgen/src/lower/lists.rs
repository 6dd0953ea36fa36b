//! Lists: structs that link to themselves, as vectors of their elements.

use crate::hash::{HashMap, HashSet};
use crate::ir::{Body, Docs, Field, Item, Module, Type, TypeDef, TypeId};
use crate::names::{Names, Taken};
use crate::namespace::last;

/// Structs that link to themselves at their end become the elements of lists where something else links to them: they
/// lose the link, and each link to them is a `Vec` that is decoded in a loop. What holds such a struct in another way has
/// the first element of a list with those behind it, as a type of its own.
pub(crate) fn make_lists(module: &mut Module, names: Names, idents: &mut Taken) {
    let (linked, embedded) = uses(module);
    let mut nodes: Vec<TypeId> = linked.into_iter().filter(|id| is_node(module, *id)).collect();
    nodes.sort_unstable();
    let chains: HashMap<TypeId, TypeId> = nodes
        .iter()
        .filter(|node| embedded.contains(node))
        .filter_map(|node| Some((*node, add_chain(module, *node, names, idents)?)))
        .collect();
    let nodes: HashSet<TypeId> = nodes.into_iter().collect();
    for node in &nodes {
        if let Some(TypeDef { body: Body::Struct(fields), .. }) = module.types.get_mut(node.0) {
            fields.pop();
        }
    }
    if !chains.is_empty() {
        for_each_type(module, &mut |ty| hold_chains(ty, &chains));
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
        for field in ty.body.fields_mut() {
            if let Some(id) = element(&field.ty) {
                field.ty = Type::Array(Box::new(Type::Named(id)));
                field.list = true;
            }
        }
    }
    wrap_procedures(module, names, idents, &element);
}

/// Adds the type of a node with all that follows it, behind that of its elements.
fn add_chain(module: &mut Module, node: TypeId, names: Names, idents: &mut Taken) -> Option<TypeId> {
    let id = TypeId(module.types.len());
    let mut chain = module.get(node)?.clone();
    chain.name.push_str("_chain");
    chain.ident = idents.take(names.of_type(last(&chain.name)), &chain.name).0;
    chain.docs.comments.push("With the elements that follow it.".to_owned());
    module.types.push(chain);
    let place = module.order.iter().position(|item| *item == Item::Type(node));
    module.order.insert(place.map_or(module.order.len(), |place| place + 1), Item::Type(id));
    Some(id)
}

/// Lets what holds a node in another way than by a link hold all that follows it.
fn hold_chains(ty: &mut Type, chains: &HashMap<TypeId, TypeId>) {
    match ty {
        Type::Named(id) => *id = chains.get(id).copied().unwrap_or(*id),
        Type::Optional(of) if matches!(**of, Type::Named(_)) => {}
        Type::FixedArray(of, _) | Type::Array(of) | Type::Optional(of) | Type::Boxed(of) => {
            hold_chains(of, chains);
        }
        _ => {}
    }
}

fn for_each_type(module: &mut Module, to: &mut dyn FnMut(&mut Type)) {
    for ty in &mut module.types {
        match &mut ty.body {
            Body::Alias(of) => to(of),
            body => body.fields_mut().for_each(|field| to(&mut field.ty)),
        }
    }
    let versions = module.programs.iter_mut().flat_map(|program| &mut program.versions);
    for procedure in versions.flat_map(|version| &mut version.procedures) {
        to(&mut procedure.arguments);
        to(&mut procedure.result);
    }
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

/// The types that something links to, and those that something holds in another way. A struct's link to itself at its end
/// is neither.
fn uses(module: &Module) -> (HashSet<TypeId>, HashSet<TypeId>) {
    let (mut linked, mut embedded) = (HashSet::default(), HashSet::default());
    let mut add = |ty: &Type| match ty {
        Type::Optional(of) if matches!(**of, Type::Named(_)) => linked.extend(of.named()),
        ty => embedded.extend(ty.named()),
    };
    for (index, ty) in module.types.iter().enumerate() {
        let types = ty.body.types();
        match &ty.body {
            Body::Struct(fields) if is_node(module, TypeId(index)) => {
                types.take(fields.len().saturating_sub(1)).for_each(&mut add);
            }
            Body::Union(_) => types.skip(1).for_each(&mut add),
            _ => types.for_each(&mut add),
        }
    }
    let versions = module.programs.iter().flat_map(|program| &program.versions);
    let sent = versions.flat_map(|version| &version.procedures);
    sent.flat_map(|one| [&one.arguments, &one.result]).for_each(add);
    (linked, embedded)
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
