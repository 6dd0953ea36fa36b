//! Linked lists: replaces the links of list nodes with arrays of elements.

use crate::hash::HashMap;
use crate::ir::{Body, Docs, Field, Item, Module, Type, TypeDef, TypeId};
use crate::namespace::{join, split};

use super::naming::Naming;

/// Converts nodes: structs whose last field links to the struct itself. This link, and any other link to a
/// node, becomes an array of elements, which is decoded in a loop. An element is the node without the link.
/// The encoding is unchanged, and the node type remains for other uses.
pub(crate) fn make_lists(module: &mut Module, naming: &mut Naming<'_>) {
    let nodes = (0..module.types.len()).map(TypeId).filter(|id| is_node(module, *id)).collect::<Vec<_>>();
    let elements: HashMap<TypeId, TypeId> =
        nodes.into_iter().filter_map(|node| Some((node, add_element(module, node, naming)?))).collect();
    for item in std::mem::take(&mut module.order) {
        module.order.push(item);
        if let Item::Type(id) = item {
            module.order.extend(elements.get(&id).copied().map(Item::Type));
        }
    }
    let element = |ty: &Type| {
        let Type::Optional(of) = ty else { return None };
        if let Type::Named(node) = **of { elements.get(&node).copied() } else { None }
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
    wrap_procedures(module, naming, &element);
}

fn add_element(module: &mut Module, node: TypeId, naming: &mut Naming<'_>) -> Option<TypeId> {
    let id = TypeId(module.types.len());
    let mut element = module.get(node)?.clone();
    let Body::Struct(fields) = &mut element.body else { return None };
    fields.pop();
    element.docs.comments.push("An element of a list, without the link to the next element.".to_owned());
    element.name.push_str("_element");
    element.ident = naming.of_added(&element.name);
    module.types.push(element);
    Some(id)
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

/// If an argument or a result is a list, wraps the list in a struct, since the attribute `#[xdr(list)]` needs
/// a field.
fn wrap_procedures(module: &mut Module, naming: &mut Naming<'_>, element: &dyn Fn(&Type) -> Option<TypeId>) {
    // The wrappers, by the index of their program. In the order, each wrapper precedes its program.
    let mut before: HashMap<usize, Vec<Item>> = HashMap::default();
    for (index, program) in module.programs.iter_mut().enumerate() {
        let source = program.source;
        for procedure in program.versions.iter_mut().flat_map(|version| &mut version.procedures) {
            let name = procedure.name.clone();
            for (ty, suffix) in [(&mut procedure.arguments, "args"), (&mut procedure.result, "res")] {
                let Some(of) = element(ty) else { continue };
                let path = join(split(&program.name).0, &format!("{name}_{suffix}"));
                let ident = naming.of_added(&path);
                let docs = Docs {
                    declaration: procedure.docs.declaration.clone(),
                    span: procedure.docs.span,
                    ..Docs::default()
                };
                let body = Body::Newtype(list_field(of, &docs.declaration));
                let (derives, id) = (crate::ir::Derives::default(), TypeId(module.types.len()));
                *ty = Type::Named(id);
                let wrapper =
                    TypeDef { name: path, ident, body, borrows: false, items: None, derives, source, docs };
                module.types.push(wrapper);
                before.entry(index).or_default().push(Item::Type(id));
            }
        }
    }
    for item in std::mem::take(&mut module.order) {
        if let Item::Program(index) = item {
            module.order.extend(before.remove(&index).into_iter().flatten());
        }
        module.order.push(item);
    }
}

fn is_node(module: &Module, id: TypeId) -> bool {
    let Some(TypeDef { body: Body::Struct(fields), .. }) = module.get(id) else { return false };
    fields.last().is_some_and(|last| links_to(module, &last.ty, id))
}

/// Returns true if a type is optional data of the type `id`, directly or through a typedef.
fn links_to(module: &Module, ty: &Type, id: TypeId) -> bool {
    let is_link = |ty: &Type| matches!(ty, Type::Optional(of) if **of == Type::Named(id));
    match ty {
        Type::Named(alias) => {
            matches!(module.get(*alias).map(|ty| &ty.body), Some(Body::Alias(of)) if is_link(of))
        }
        ty => is_link(ty),
    }
}
