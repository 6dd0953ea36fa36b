//! Declarations as XDR text, for documentation.

use crate::ast::{Declaration, DeclarationKind, ProcedureDef, ProcedureType, TypeSpecifierKind, Value};

/// A declaration as it would be written, without the `;`.
pub(crate) fn declaration(declaration: &Declaration) -> String {
    let bound = |max: &Option<Value>| max.as_ref().map(value).unwrap_or_default();
    match &declaration.kind {
        DeclarationKind::Void => "void".to_owned(),
        DeclarationKind::Plain(of, name) => format!("{} {}", specifier(&of.kind), name.name),
        DeclarationKind::FixedArray(of, name, len) => {
            format!("{} {}[{}]", specifier(&of.kind), name.name, value(len))
        }
        DeclarationKind::VariableArray(of, name, max) => {
            format!("{} {}<{}>", specifier(&of.kind), name.name, bound(max))
        }
        DeclarationKind::Optional(of, name) => format!("{} *{}", specifier(&of.kind), name.name),
        DeclarationKind::FixedOpaque(name, len) => format!("opaque {}[{}]", name.name, value(len)),
        DeclarationKind::VariableOpaque(name, max) => format!("opaque {}<{}>", name.name, bound(max)),
        DeclarationKind::String(name, max) => format!("string {}<{}>", name.name, bound(max)),
    }
}

/// A procedure as it would be written.
pub(crate) fn procedure(procedure: &ProcedureDef) -> String {
    let result = procedure.result.as_ref().map_or_else(|| "void".to_owned(), procedure_type);
    let arguments: Vec<String> = procedure.arguments.iter().map(procedure_type).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    format!("{result} {}({arguments}) = {};", procedure.name.name, value(&procedure.number))
}

fn procedure_type(ty: &ProcedureType) -> String {
    format!("{}{}", specifier(&ty.specifier.kind), if ty.optional { " *" } else { "" })
}

/// A value as it was written.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Literal { value, .. } => value.to_string(),
        Value::Name(name) => name.name.clone(),
    }
}

fn specifier(kind: &TypeSpecifierKind) -> &str {
    match kind {
        TypeSpecifierKind::Int => "int",
        TypeSpecifierKind::UnsignedInt => "unsigned int",
        TypeSpecifierKind::Hyper => "hyper",
        TypeSpecifierKind::UnsignedHyper => "unsigned hyper",
        TypeSpecifierKind::Float => "float",
        TypeSpecifierKind::Double => "double",
        TypeSpecifierKind::Quadruple => "quadruple",
        TypeSpecifierKind::Bool => "bool",
        TypeSpecifierKind::Char => "char",
        TypeSpecifierKind::UnsignedChar => "unsigned char",
        TypeSpecifierKind::Short => "short",
        TypeSpecifierKind::UnsignedShort => "unsigned short",
        TypeSpecifierKind::String => "string",
        TypeSpecifierKind::Named(name) => &name.name,
        TypeSpecifierKind::Enum(_) => "enum { ... }",
        TypeSpecifierKind::Struct(_) => "struct { ... }",
        TypeSpecifierKind::Union(_) => "union switch (...) { ... }",
    }
}
