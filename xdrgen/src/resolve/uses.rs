//! The names that a document uses and defines.

use crate::ast::{Declaration, Definition, DefinitionKind, EnumBody, Identifier, TypeSpecifierKind, Value};
use crate::hash::HashSet;

#[derive(Clone, Copy)]
enum Role<'d> {
    DefinesType(&'d Identifier),
    DefinesValue(&'d Identifier),
    UsesType(&'d Identifier),
    UsesValue(&'d Value),
    /// A declaration, a member or a label.
    Part,
    Enum(&'d EnumBody),
}

/// Passes the names, parts and enums of a definition to `to` in source order, with three exceptions. The name
/// of a typedef or a procedure precedes its types. The number of a program, a version or a procedure follows
/// its name directly. The default arm of a union comes last.
fn names<'d>(definition: &'d Definition, to: &mut dyn FnMut(Role<'d>)) {
    match &definition.kind {
        DefinitionKind::Const(constant) => {
            to(Role::DefinesValue(&constant.name));
            to(Role::UsesValue(&constant.value));
        }
        DefinitionKind::Program(program) => {
            to(Role::DefinesValue(&program.name));
            to(Role::UsesValue(&program.number));
            for version in &program.versions {
                to(Role::DefinesValue(&version.name));
                to(Role::UsesValue(&version.number));
                for procedure in &version.procedures {
                    to(Role::DefinesValue(&procedure.name));
                    to(Role::UsesValue(&procedure.number));
                    let types = procedure.result.iter().chain(&procedure.arguments);
                    types.for_each(|ty| typed(ty, to));
                }
            }
        }
        DefinitionKind::PassThrough(_) => {}
        kind => {
            // `typedef struct foo foo;` defines nothing.
            let name = definition.name().filter(|_| !definition.is_own_name());
            name.into_iter().for_each(|name| to(Role::DefinesType(name)));
            match kind {
                DefinitionKind::Typedef(of) => declaration(of, to),
                DefinitionKind::Enum(_, body) => enumeration(body, to),
                DefinitionKind::Struct(_, body) => body.fields.iter().for_each(|of| declaration(of, to)),
                DefinitionKind::Union(_, body) => union(body, to),
                _ => {}
            }
        }
    }
}

fn enumeration<'d>(body: &'d EnumBody, to: &mut dyn FnMut(Role<'d>)) {
    to(Role::Enum(body));
    for member in &body.members {
        to(Role::Part);
        to(Role::DefinesValue(&member.name));
        member.value.iter().for_each(|value| to(Role::UsesValue(value)));
    }
}

fn union<'d>(body: &'d crate::ast::UnionBody, to: &mut dyn FnMut(Role<'d>)) {
    declaration(&body.discriminant, to);
    for arm in &body.arms {
        for label in &arm.labels {
            to(Role::Part);
            to(Role::UsesValue(label));
        }
        declaration(&arm.declaration, to);
    }
    body.default.iter().for_each(|of| declaration(of, to));
}

fn declaration<'d>(of: &'d Declaration, to: &mut dyn FnMut(Role<'d>)) {
    to(Role::Part);
    typed(of, to);
}

fn typed<'d>(of: &'d Declaration, to: &mut dyn FnMut(Role<'d>)) {
    specifier(&of.specifier.kind, to);
    of.multiplicity.bound().into_iter().for_each(|bound| to(Role::UsesValue(bound)));
}

fn specifier<'d>(kind: &'d TypeSpecifierKind, to: &mut dyn FnMut(Role<'d>)) {
    match kind {
        TypeSpecifierKind::Named(name) => to(Role::UsesType(name)),
        TypeSpecifierKind::Enum(body) => enumeration(body, to),
        TypeSpecifierKind::Struct(body) => body.fields.iter().for_each(|of| declaration(of, to)),
        TypeSpecifierKind::Union(body) => union(body, to),
        _ => {}
    }
}

pub(crate) fn parts(definition: &Definition) -> usize {
    let mut parts = 0;
    names(definition, &mut |role| parts += usize::from(matches!(role, Role::Part)));
    parts
}

/// Returns all enums in a definition, including the definition itself if it is an enum.
pub(crate) fn enums(definition: &Definition) -> Vec<&EnumBody> {
    let mut enums = Vec::new();
    names(definition, &mut |role| {
        if let Role::Enum(body) = role {
            enums.push(body);
        }
    });
    enums
}

/// The names that definitions use, in the order of [`names`], except names defined in `known`.
pub(crate) struct Uses<'d> {
    known: &'d Defined,
    pub(crate) types: Vec<Identifier>,
    pub(crate) values: Vec<Identifier>,
}

#[derive(Default)]
pub(crate) struct Defined {
    pub(crate) types: HashSet<String>,
    pub(crate) values: HashSet<String>,
}

impl<'d> Uses<'d> {
    /// Creates an empty collection that ignores names defined in `known`.
    pub(crate) fn beyond(known: &'d Defined) -> Self {
        Uses { known, types: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn add(&mut self, definition: &Definition) {
        names(definition, &mut |role| match role {
            Role::UsesType(name) if !self.known.types.contains(&name.name) => {
                self.types.push(name.clone());
            }
            Role::UsesValue(Value::Name(name)) if !self.known.values.contains(&name.name) => {
                self.values.push(name.clone());
            }
            _ => {}
        });
    }
}

impl Defined {
    pub(crate) fn add(&mut self, definition: &Definition) {
        names(definition, &mut |role| match role {
            Role::DefinesType(name) => {
                self.types.insert(name.name.clone());
            }
            Role::DefinesValue(name) => {
                self.values.insert(name.name.clone());
            }
            _ => {}
        });
    }
}
