//! Declarations as XDR text, for documentation.

use std::borrow::Cow;

use crate::ast::{
    ArraySize, Declaration, DeclarationKind, ProcedureDef, ProcedureType, TypeSpecifierKind, Value,
};

/// A declaration as it would be written, without the `;`.
pub(crate) fn declaration(declaration: &Declaration) -> String {
    let mut text = String::new();
    match &declaration.kind {
        DeclarationKind::Void => text.push_str("void"),
        DeclarationKind::Plain(of, name) => text.extend([specifier(&of.kind), " ", &name.name]),
        DeclarationKind::FixedArray(of, name, len) => {
            text.extend([specifier(&of.kind), " ", &name.name, "[", &value(len), "]"]);
        }
        DeclarationKind::VariableArray(of, name, max) => {
            text.extend([specifier(&of.kind), " ", &name.name, "<", &bound(max), ">"]);
        }
        DeclarationKind::Optional(of, name) => text.extend([specifier(&of.kind), " *", &name.name]),
        DeclarationKind::FixedOpaque(name, len) => {
            text.extend(["opaque ", &name.name, "[", &value(len), "]"])
        }
        DeclarationKind::VariableOpaque(name, max) => {
            text.extend(["opaque ", &name.name, "<", &bound(max), ">"]);
        }
        DeclarationKind::String(name, max) => text.extend(["string ", &name.name, "<", &bound(max), ">"]),
    }
    text
}

fn bound(max: &Option<Value>) -> Cow<'_, str> {
    max.as_ref().map(value).unwrap_or_default()
}

/// A procedure as it would be written.
pub(crate) fn procedure(procedure: &ProcedureDef) -> String {
    let result = procedure.result.as_ref().map_or_else(|| "void".to_owned(), procedure_type);
    let arguments: Vec<String> = procedure.arguments.iter().map(procedure_type).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    format!("{result} {}({arguments}) = {};", procedure.name.name, value(&procedure.number))
}

pub(super) fn procedure_type(ty: &ProcedureType) -> String {
    let name = ty.name.as_ref().map_or("", |name| name.name.as_str());
    let size = match &ty.size {
        None => String::new(),
        Some(ArraySize::Fixed(len)) => format!("[{}]", value(len)),
        Some(ArraySize::Variable(max)) => format!("<{}>", bound(max)),
    };
    let blank = if ty.optional || !name.is_empty() { " " } else { "" };
    let star = if ty.optional { "*" } else { "" };
    format!("{}{blank}{star}{name}{size}", specifier(&ty.specifier.kind))
}

/// A value as it was written.
pub(crate) fn value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Literal { value, .. } => value.to_string().into(),
        Value::Name(name) => name.name.as_str().into(),
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
        TypeSpecifierKind::Opaque => "opaque",
        TypeSpecifierKind::Named(name) => &name.name,
        TypeSpecifierKind::Enum(_) => "enum { ... }",
        TypeSpecifierKind::Struct(_) => "struct { ... }",
        TypeSpecifierKind::Union(_) => "union switch (...) { ... }",
    }
}
