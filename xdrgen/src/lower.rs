//! Lowers the protocol to its Rust form: names, boxes, derives, lists and borrowed data. This stage decides
//! Rust names and types; emission only renders them.

mod borrowed;
mod layout;
mod lists;
mod naming;

use std::collections::BTreeMap;

use crate::binding::Binding;
use crate::diag::Found;
use crate::graph::Graph;
use crate::hash::HashMap;
use crate::hir::{self, Hir, Selector, TypeId};
use crate::ir::{
    Arm, Body, Bound, Const, Data, Derives, Field, FieldPath, Label, Member, Module, Procedure, Program,
    ReplyBounds, Sum, Type, TypeDef, Union, Version,
};
use crate::names::{Names, Taken};
use crate::namespace;
use crate::options::Options;
use crate::sizes::layout as sizes;
use naming::Naming;

pub(crate) fn lower(mut hir: Hir, bindings: &[Binding], options: &Options, found: &mut Found) -> Module {
    let data = options.data;
    if data == Data::Borrowed && !found.has_errors() {
        borrowed::omit_eligible(&mut hir, bindings, found);
    }
    let (mut module, mut naming) = Lower::run(hir, options, found);
    lists::make_lists(&mut module, &mut naming);
    if data == Data::Bytes {
        layout::store_small_opaque_in_place(&mut module);
    }
    // Boxes do not change which types use one another, so the graph stays valid.
    let graph = Graph::of_module(&module);
    layout::box_recursion(&mut module, &graph);
    sizes::state_items(&mut module, &graph);
    if data == Data::Borrowed {
        borrowed::find_borrowing(&mut module, &graph);
    }
    let held = layout::Held::of(&module);
    layout::decide_derives(&mut module, &graph, &held);
    layout::find_uneven_unions(&mut module, &held);
    module
}

struct Lower<'a, 'f> {
    naming: Naming<'f>,
    externs: &'a BTreeMap<String, String>,
    consts: HashMap<String, usize>,
    module: Module,
    /// For each enum that discriminates a union, maps each value to the index of the first member with this
    /// value.
    places: HashMap<TypeId, HashMap<i128, usize>>,
}

impl<'a, 'f> Lower<'a, 'f> {
    fn run(hir: Hir, options: &'a Options, found: &'f mut Found) -> (Module, Naming<'f>) {
        let selectors: Vec<_> = hir.types.iter().map(|ty| selector(&hir, &ty.body)).collect();
        let Hir { types, consts, programs, order } = hir;
        let mut lower = Lower {
            naming: Naming::new(options.names, options.data, found),
            externs: &options.externs,
            consts: consts.iter().enumerate().map(|(index, one)| (one.name.clone(), index)).collect(),
            module: Module { data: options.data, order, ..Module::default() },
            places: HashMap::default(),
        };
        lower.module.consts = consts.into_iter().map(|one| lower.constant(one)).collect();
        // Enums come first, since arms are named after enum members.
        let mut others = Vec::new();
        for (index, (ty, selector)) in types.into_iter().zip(selectors).enumerate() {
            let ident = lower.naming.of_type(&ty);
            let hir::TypeDef { name, body, docs } = ty;
            let body = match body {
                hir::Body::Enum(members) => lower.enumeration(members),
                other => {
                    others.push((index, other, selector));
                    Body::Struct(Vec::new())
                }
            };
            let (derives, source) = (Derives::default(), docs.span.source);
            let ty = TypeDef { name, ident, body, borrows: false, items: None, derives, source, docs };
            lower.module.types.push(ty);
        }
        for (index, body, selector) in others {
            let body = lower.body(body, selector);
            if let Some(ty) = lower.module.types.get_mut(index) {
                ty.body = body;
            }
        }
        lower.module.programs = programs.into_iter().map(|one| lower.program(one)).collect();
        (lower.module, lower.naming)
    }

    fn constant(&mut self, one: hir::Const) -> Const {
        let hir::Const { name, value, docs } = one;
        let ident = self.naming.of_const(&name, docs.span);
        Const { name, ident, value, source: docs.span.source, docs }
    }

    fn body(&mut self, body: hir::Body, selector: Option<Choice>) -> Body {
        match body {
            hir::Body::Alias(field) => {
                let field = self.field(field);
                if field.max.is_some() { Body::Newtype(field) } else { Body::Alias(field.ty) }
            }
            hir::Body::Enum(members) => self.enumeration(members),
            hir::Body::Struct(fields) => {
                let mut idents = Taken::with_room(fields.len());
                let fields = fields.into_iter().map(|field| {
                    let (wanted, at) = (self.naming.names.of_field(&field.name), field.at);
                    let ident = self.naming.take(&mut idents, wanted, &field.name, at);
                    Field { ident, ..self.field(field) }
                });
                Body::Struct(fields.collect())
            }
            hir::Body::Tuple(fields) => {
                let fields = fields.into_iter();
                let mut fields: Vec<Field> =
                    fields.map(|field| Field { ident: field.name.clone(), ..self.field(field) }).collect();
                match fields.pop() {
                    Some(only) if fields.is_empty() => Body::Newtype(only),
                    last => Body::Tuple(fields.into_iter().chain(last).collect()),
                }
            }
            hir::Body::Union(union) => self.union(union, selector),
        }
    }

    fn enumeration(&mut self, members: Vec<hir::Member>) -> Body {
        let names: Vec<&str> = members.iter().map(|member| namespace::last(&member.name)).collect();
        let prefix = self.naming.names.prefix(&names).to_owned();
        let mut idents = Taken::with_room(members.len());
        let members = members.into_iter().map(|member| {
            let hir::Member { name, value, same_as, comments, span } = member;
            let name = namespace::last(&name).to_owned();
            let rest = name.strip_prefix(&prefix).unwrap_or(&name);
            let wanted = match self.naming.names {
                // A member with the value of an earlier member becomes a constant.
                Names::Rust if same_as.is_some() => Names::Rust.of_const(&rest.to_uppercase()),
                names => names.of_type(rest),
            };
            let ident = self.naming.take(&mut idents, wanted, &name, span);
            Member { name, ident, value, same_as, comments }
        });
        Body::Enum(members.collect())
    }

    /// Lowers a field, and leaves the Rust name empty.
    fn field(&mut self, field: hir::Field) -> Field {
        let hir::Field { name, ty, eligible, mut docs, .. } = field;
        if eligible {
            docs.comments.push("DDP-eligible: RDMA may place this field directly.".to_owned());
        }
        let (ty, max) = match ty {
            hir::Type::Array(of, max) => {
                (Type::Array(Box::new(self.ty(*of))), max.map(|max| self.bound(max)))
            }
            ty => (self.ty(ty), None),
        };
        Field { name, ident: String::new(), ty, max, recursive: false, list: false, eligible, docs }
    }

    fn ty(&self, ty: hir::Type) -> Type {
        let bound = |bound| self.bound(bound);
        match ty {
            hir::Type::Void => Type::Void,
            hir::Type::Scalar(scalar) => Type::Scalar(scalar),
            hir::Type::Named(id) => Type::Named(id),
            hir::Type::Extern(name) => Type::Extern(self.externs.get(&name).cloned().unwrap_or(name)),
            hir::Type::FixedOpaque(len) => Type::FixedOpaque(bound(len)),
            hir::Type::Opaque(max) => Type::Opaque(max.map(bound)),
            hir::Type::String(max) => Type::String(max.map(bound)),
            hir::Type::FixedArray(of, len) => Type::FixedArray(Box::new(self.ty(*of)), bound(len)),
            hir::Type::Array(of, _) => Type::Array(Box::new(self.ty(*of))),
            hir::Type::Optional(of) => Type::Optional(Box::new(self.ty(*of))),
        }
    }

    fn bound(&self, bound: hir::Bound) -> Bound {
        let constant = bound.constant.and_then(|name| self.consts.get(&name).copied());
        Bound { value: bound.value, constant }
    }

    fn union(&mut self, union: hir::Union, selector: Option<Choice>) -> Body {
        let hir::Union { discriminant, arms, .. } = union;
        let selector = match selector {
            // If the payload needs an attribute, the selector is `Choice::Arm`, since an `Option` cannot have
            // attributes.
            Some(Choice::Option) => {
                let payload = arms.into_iter().find_map(|arm| arm.payload).map(|field| self.ty(field.ty));
                return Body::Alias(Type::Optional(Box::new(payload.unwrap_or(Type::Void))));
            }
            Some(Choice::Arm(selector)) => selector,
            None => Selector::Int,
        };
        let mut idents = Taken::with_room(arms.len());
        let zero = arms.iter().position(|arm| arm.labels.iter().any(|label| label.value == 0));
        let initial = zero.or_else(|| arms.iter().position(|arm| arm.labels.is_empty()));
        let arms = arms.into_iter().map(|arm| self.arm(arm, selector, &mut idents)).collect();
        let discriminant = self.ty(discriminant);
        Body::Union(Union { discriminant, arms, initial, uneven: false })
    }

    fn arm(&mut self, arm: hir::Arm, selector: Selector, idents: &mut Taken) -> Arm {
        let hir::Arm { labels, payload, docs } = arm;
        let names = self.naming.names;
        let named = labels.first().and_then(|label| label.name.as_deref());
        let first = labels.first().map(|label| (self.label(label.value, selector), named));
        let wanted = match (&payload, first) {
            (Some(field), _) if labels.len() > 1 => names.of_type(&field.name),
            (_, None) => names.own("Default", "default"),
            (_, Some((Label::Member { of, index }, _))) => {
                self.module.members(of).get(index).map_or_else(String::new, |member| member.ident.clone())
            }
            (_, Some((Label::Bool(true), _))) => names.own("True", "TRUE"),
            (_, Some((Label::Bool(false), _))) => names.own("False", "FALSE"),
            (_, Some((Label::Number(_), Some(name)))) => names.of_type(namespace::last(name)),
            (_, Some((Label::Number(number), _))) if number < 0 => {
                format!("CaseMinus{}", number.unsigned_abs())
            }
            (_, Some((Label::Number(number), _))) => format!("Case{number}"),
        };
        let (ident, _) = idents.take(wanted, "");
        let labels = labels.into_iter().map(|label| self.label(label.value, selector)).collect();
        Arm { ident, labels, payload: payload.map(|field| self.field(field)), docs }
    }

    fn label(&mut self, value: i128, selector: Selector) -> Label {
        match selector {
            Selector::Int | Selector::Unsigned | Selector::Hyper | Selector::UnsignedHyper => {
                Label::Number(value)
            }
            Selector::Bool => Label::Bool(value != 0),
            Selector::Enum(of) => {
                let Lower { module, places, .. } = self;
                let places = places.entry(of).or_insert_with(|| {
                    let indexed = module.members(of).iter().enumerate().rev();
                    indexed.map(|(index, member)| (member.value.into(), index)).collect()
                });
                Label::Member { of, index: places.get(&value).copied().unwrap_or(0) }
            }
        }
    }

    fn program(&mut self, program: hir::Program) -> Program {
        let hir::Program { name, number, versions, docs, .. } = program;
        let versions = versions.into_iter().map(|version| self.version(&name, version)).collect();
        Program { name, number, versions, source: docs.span.source, docs }
    }

    fn version(&mut self, program: &str, version: hir::Version) -> Version {
        let hir::Version { name, number, procedures, omitted, binding, docs } = version;
        // The common prefix is that of all procedures, including omitted procedures, so that an omission does
        // not rename other procedures.
        let all: Vec<&str> =
            procedures.iter().map(|one| &one.name).chain(&omitted).map(String::as_str).collect();
        let prefix = self.naming.names.prefix(&all).to_owned();
        let mut idents = self.naming.for_procedures();
        let mut methods = naming::for_methods();
        let procedures = procedures.into_iter().map(|procedure| {
            let hir::Procedure { name, number, arguments, parameter, result, item, unreduced, docs } =
                procedure;
            let short = name.strip_prefix(&prefix).unwrap_or(&name);
            let ident = self.naming.take(&mut idents, self.naming.names.of_type(short), &name, docs.span);
            let (method, _) = methods.take(self.naming.names.of_field(short), &name);
            let parameter = self.naming.of_parameter(parameter);
            let (arguments, result) = (self.ty(arguments), self.ty(result));
            let bound = |sum: Option<hir::Sum>| sum.map(|sum| reply_bound(&self.module, &arguments, sum));
            let reply = ReplyBounds { item: bound(item), unreduced: bound(unreduced) };
            Procedure { name, ident, method, number, arguments, parameter, result, reply, docs }
        });
        let procedures = procedures.collect();
        let (ident, module) = self.naming.of_version(program, &name);
        Version { name, ident, module, number, procedures, binding, docs }
    }
}

enum Choice {
    /// The union is optional data: the discriminant states whether the data is present.
    Option,
    /// The discriminant selects an arm.
    Arm(Selector),
}

fn selector(hir: &Hir, body: &hir::Body) -> Option<Choice> {
    let hir::Body::Union(union) = body else { return None };
    if plain_option(hir, union).is_some_and(|payload| !is_alias_cycle(hir, payload)) {
        return Some(Choice::Option);
    }
    hir.selector(&union.discriminant).map(Choice::Arm)
}

/// Returns the payload if a union is optional data and its payload needs no attribute.
fn plain_option<'h>(hir: &'h Hir, union: &'h hir::Union) -> Option<&'h hir::Field> {
    let is_plain = |field: &&hir::Field| !field.eligible && !is_bounded_array(&field.ty);
    hir.option(union).filter(is_plain)
}

fn is_bounded_array(ty: &hir::Type) -> bool {
    matches!(ty, hir::Type::Array(_, Some(_)))
}

/// Returns true if the Rust aliases that a payload leads to would form a cycle, which rustc rejects, or a
/// chain longer than [`hir::MAX_DEPTH`].
fn is_alias_cycle(hir: &Hir, payload: &hir::Field) -> bool {
    let mut ty = &payload.ty;
    for _ in 0..=hir::MAX_DEPTH {
        let next = match ty.named().and_then(|id| hir.get(id)).map(|ty| &ty.body) {
            Some(hir::Body::Alias(field)) if !is_bounded_array(&field.ty) => Some(field),
            Some(hir::Body::Union(union)) => plain_option(hir, union),
            _ => None,
        };
        let Some(field) = next else { return false };
        ty = &field.ty;
    }
    true
}

/// Lowers a bound for a reply: replaces the name of each field in the document with the field's Rust name.
fn reply_bound(module: &Module, arguments: &Type, sum: hir::Sum) -> Sum {
    let fields = sum.fields.into_iter().map(|(path, wide)| {
        let mut ty = arguments;
        let mut idents = Vec::new();
        for name in path {
            let named = module.resolve_alias(ty).named();
            let Some(TypeDef { body, .. }) = named.and_then(|id| module.get(id)) else { break };
            let Some(field) = body.fields().find(|field| field.name == name) else { break };
            idents.push(field.ident.clone());
            ty = &field.ty;
        }
        FieldPath { idents, wide }
    });
    Sum { fields: fields.collect(), number: sum.number }
}
