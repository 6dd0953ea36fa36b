//! What a definition is called.

use crate::ast::{Declaration, DeclarationKind, Definition, DefinitionKind, Identifier, TypeSpecifierKind};

/// The name that a definition defines.
pub(crate) fn defined_name(definition: &Definition) -> Option<&Identifier> {
    match &definition.kind {
        DefinitionKind::Const(constant) => Some(&constant.name),
        DefinitionKind::Typedef(declaration) => declared_name(declaration),
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            Some(name)
        }
        DefinitionKind::Program(program) => Some(&program.name),
        DefinitionKind::PassThrough(_) => None,
    }
}

/// The name that a declaration declares; `void` declares none.
pub(crate) fn declared_name(declaration: &Declaration) -> Option<&Identifier> {
    match &declaration.kind {
        DeclarationKind::Void => None,
        DeclarationKind::Plain(_, name)
        | DeclarationKind::FixedArray(_, name, _)
        | DeclarationKind::VariableArray(_, name, _)
        | DeclarationKind::Optional(_, name)
        | DeclarationKind::FixedOpaque(name, _)
        | DeclarationKind::VariableOpaque(name, _)
        | DeclarationKind::String(name, _) => Some(name),
    }
}

pub(crate) fn is_own_name(definition: &Definition) -> bool {
    let DefinitionKind::Typedef(Declaration { kind: DeclarationKind::Plain(of, name), .. }) =
        &definition.kind
    else {
        return false;
    };
    matches!(&of.kind, TypeSpecifierKind::Named(named) if named.name == name.name)
}
