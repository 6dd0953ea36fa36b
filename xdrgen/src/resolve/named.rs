//! The name of a definition.

use crate::ast::{Declaration, Definition, DefinitionKind, Identifier, Multiplicity, TypeSpecifierKind};

pub(crate) fn defined_name(definition: &Definition) -> Option<&Identifier> {
    match &definition.kind {
        DefinitionKind::Const(constant) => Some(&constant.name),
        DefinitionKind::Typedef(declaration) => declaration.name.as_ref(),
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            Some(name)
        }
        DefinitionKind::Program(program) => Some(&program.name),
        DefinitionKind::PassThrough(_) => None,
    }
}

pub(crate) fn is_own_name(definition: &Definition) -> bool {
    let DefinitionKind::Typedef(Declaration { specifier, name, multiplicity: Multiplicity::One, .. }) =
        &definition.kind
    else {
        return false;
    };
    matches!((&specifier.kind, name), (TypeSpecifierKind::Named(of), Some(name)) if of.name == name.name)
}
