//! The names that a document uses, and those that it defines.

use super::scope::{declared_name, defined_name};
use crate::ast::{
    ArraySize, Declaration, DeclarationKind, Definition, DefinitionKind, EnumBody, Identifier, ProcedureDef,
    ProgramDef, StructBody, TypeSpecifier, TypeSpecifierKind, UnionBody, Value,
};
use crate::hash::HashSet;

/// What is used, in the order in which it stands, but for the names that are known.
#[derive(Default)]
pub(crate) struct Uses<'d> {
    known: Option<&'d Defined>,
    /// Names that stand where a type must.
    pub(crate) types: Vec<Identifier>,
    /// Names that stand where a value must.
    pub(crate) values: Vec<Identifier>,
}

/// What is defined.
#[derive(Default)]
pub(crate) struct Defined {
    pub(crate) types: HashSet<String>,
    pub(crate) values: HashSet<String>,
}

impl<'d> Uses<'d> {
    /// Nothing; the names that are defined will be left out.
    pub(crate) fn beyond(known: &'d Defined) -> Self {
        Uses { known: Some(known), ..Uses::default() }
    }

    /// Adds what a definition uses.
    pub(crate) fn add(&mut self, definition: &Definition) {
        match &definition.kind {
            DefinitionKind::Const(constant) => self.value(&constant.value),
            DefinitionKind::Typedef(declaration) => self.declaration(declaration),
            DefinitionKind::Enum(_, body) => self.enumeration(body),
            DefinitionKind::Struct(_, body) => self.structure(body),
            DefinitionKind::Union(_, body) => self.union(body),
            DefinitionKind::Program(program) => self.program(program),
            DefinitionKind::PassThrough(_) => {}
        }
    }

    fn value(&mut self, value: &Value) {
        if let Value::Name(name) = value
            && self.known.is_none_or(|known| !known.values.contains(&name.name))
        {
            self.values.push(name.clone());
        }
    }

    fn enumeration(&mut self, body: &EnumBody) {
        body.members.iter().filter_map(|member| member.value.as_ref()).for_each(|value| self.value(value));
    }

    fn structure(&mut self, body: &StructBody) {
        body.fields.iter().for_each(|field| self.declaration(field));
    }

    fn union(&mut self, body: &UnionBody) {
        self.declaration(&body.discriminant);
        for arm in &body.arms {
            arm.labels.iter().for_each(|label| self.value(label));
            self.declaration(&arm.declaration);
        }
        body.default.iter().for_each(|declaration| self.declaration(declaration));
    }

    fn declaration(&mut self, declaration: &Declaration) {
        let (of, bound) = match &declaration.kind {
            DeclarationKind::Void => (None, None),
            DeclarationKind::Plain(of, _) | DeclarationKind::Optional(of, _) => (Some(of), None),
            DeclarationKind::FixedArray(of, _, len) => (Some(of), Some(len)),
            DeclarationKind::VariableArray(of, _, max) => (Some(of), max.as_ref()),
            DeclarationKind::FixedOpaque(_, len) => (None, Some(len)),
            DeclarationKind::VariableOpaque(_, max) | DeclarationKind::String(_, max) => (None, max.as_ref()),
        };
        of.into_iter().for_each(|of| self.specifier(of));
        bound.into_iter().for_each(|bound| self.value(bound));
    }

    fn specifier(&mut self, of: &TypeSpecifier) {
        match &of.kind {
            TypeSpecifierKind::Named(name)
                if self.known.is_none_or(|known| !known.types.contains(&name.name)) =>
            {
                self.types.push(name.clone());
            }
            TypeSpecifierKind::Enum(body) => self.enumeration(body),
            TypeSpecifierKind::Struct(body) => self.structure(body),
            TypeSpecifierKind::Union(body) => self.union(body),
            _ => {}
        }
    }

    fn program(&mut self, program: &ProgramDef) {
        self.value(&program.number);
        for version in &program.versions {
            self.value(&version.number);
            for ProcedureDef { result, arguments, number, .. } in &version.procedures {
                self.value(number);
                for ty in result.iter().chain(arguments) {
                    self.specifier(&ty.specifier);
                    if let Some(ArraySize::Fixed(size) | ArraySize::Variable(Some(size))) = &ty.size {
                        self.value(size);
                    }
                }
            }
        }
    }
}

impl Defined {
    /// Adds what a definition defines.
    pub(crate) fn add(&mut self, definition: &Definition) {
        let name = || defined_name(definition).map(|name| name.name.clone());
        match &definition.kind {
            DefinitionKind::Const(_) => self.values.extend(name()),
            DefinitionKind::Program(program) => self.program(program),
            DefinitionKind::PassThrough(_) => {}
            // `typedef struct foo foo;` defines nothing.
            DefinitionKind::Typedef(declaration) if names_itself(declaration) => {}
            DefinitionKind::Typedef(declaration) => {
                self.types.extend(name());
                self.declaration(declaration);
            }
            DefinitionKind::Enum(_, body) => {
                self.types.extend(name());
                self.enumeration(body);
            }
            DefinitionKind::Struct(_, body) => {
                self.types.extend(name());
                self.structure(body);
            }
            DefinitionKind::Union(_, body) => {
                self.types.extend(name());
                self.union(body);
            }
        }
    }

    fn program(&mut self, program: &ProgramDef) {
        self.values.insert(program.name.name.clone());
        for version in &program.versions {
            self.values.insert(version.name.name.clone());
            self.values.extend(version.procedures.iter().map(|procedure| procedure.name.name.clone()));
        }
    }

    fn enumeration(&mut self, body: &EnumBody) {
        self.values.extend(body.members.iter().map(|member| member.name.name.clone()));
    }

    fn structure(&mut self, body: &StructBody) {
        body.fields.iter().for_each(|field| self.declaration(field));
    }

    fn union(&mut self, body: &UnionBody) {
        self.declaration(&body.discriminant);
        body.arms.iter().for_each(|arm| self.declaration(&arm.declaration));
        body.default.iter().for_each(|declaration| self.declaration(declaration));
    }

    /// The members of enums that stand in a declaration.
    fn declaration(&mut self, declaration: &Declaration) {
        let (DeclarationKind::Plain(of, _)
        | DeclarationKind::Optional(of, _)
        | DeclarationKind::FixedArray(of, _, _)
        | DeclarationKind::VariableArray(of, _, _)) = &declaration.kind
        else {
            return;
        };
        match &of.kind {
            TypeSpecifierKind::Enum(body) => self.enumeration(body),
            TypeSpecifierKind::Struct(body) => self.structure(body),
            TypeSpecifierKind::Union(body) => self.union(body),
            _ => {}
        }
    }
}

fn names_itself(declaration: &Declaration) -> bool {
    let DeclarationKind::Plain(TypeSpecifier { kind: TypeSpecifierKind::Named(of), .. }, _) =
        &declaration.kind
    else {
        return false;
    };
    declared_name(declaration).is_some_and(|name| name.name == of.name)
}
