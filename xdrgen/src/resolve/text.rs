//! XDR text of definitions, declarations and values, for documentation and for comparison.

use std::borrow::Cow;

use crate::ast::{
    Declaration, Definition, DefinitionKind, EnumBody, Multiplicity, ProcedureDef, StructBody,
    TypeSpecifierKind, UnionBody, Value,
};

/// Returns a declaration in XDR, without the `;`.
pub(crate) fn declaration(declaration: &Declaration) -> String {
    written(declaration, false)
}

/// Returns the canonical form of a definition: without comments, with decimal numbers, and with explicit enum
/// values where they can be computed.
pub(crate) fn definition(definition: &Definition) -> String {
    match &definition.kind {
        DefinitionKind::Const(constant) => {
            format!("const {} = {}", constant.name.name, value(&constant.value))
        }
        DefinitionKind::Typedef(declaration) => format!("typedef {}", written(declaration, true)),
        DefinitionKind::Enum(name, body) => format!("{} {}", enumeration(body), name.name),
        DefinitionKind::Struct(name, body) => format!("{} {}", structure(body), name.name),
        DefinitionKind::Union(name, body) => format!("{} {}", union(body), name.name),
        DefinitionKind::Program(program) => {
            let mut text = format!("program {} = {}", program.name.name, value(&program.number));
            for version in &program.versions {
                text += &format!(" version {} = {} ", version.name.name, value(&version.number));
                text.extend(version.procedures.iter().map(procedure));
            }
            text
        }
        DefinitionKind::PassThrough(text) => text.clone(),
    }
}

fn enumeration(body: &EnumBody) -> String {
    let mut text = "enum {".to_owned();
    let mut next = Some(0);
    for member in &body.members {
        let number = match &member.value {
            Some(Value::Literal { value, .. }) => Some(*value),
            Some(Value::Name(_)) => None,
            None => next,
        };
        let shown = match (number, &member.value) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => value(name).into_owned(),
            (None, None) => String::new(),
        };
        text += &format!(" {} = {shown},", member.name.name);
        next = number.map(|number| number.saturating_add(1));
    }
    text + " }"
}

fn structure(body: &StructBody) -> String {
    let fields: Vec<String> = body.fields.iter().map(|field| written(field, true)).collect();
    format!("struct {{ {} }}", fields.join("; "))
}

fn union(body: &UnionBody) -> String {
    let mut text = format!("union switch ({}) {{", written(&body.discriminant, true));
    for arm in &body.arms {
        arm.labels.iter().for_each(|label| text += &format!(" case {}:", value(label)));
        text += &format!(" {};", written(&arm.declaration, true));
    }
    body.default.iter().for_each(|default| text += &format!(" default: {};", written(default, true)));
    text + " }"
}

fn written(declaration: &Declaration, bodies: bool) -> String {
    let kind = &declaration.specifier.kind;
    let name = declaration.name.as_ref().map_or("", |name| &name.name);
    let is_bytes = matches!(kind, TypeSpecifierKind::Opaque | TypeSpecifierKind::String);
    let (star, size) = match &declaration.multiplicity {
        Multiplicity::One => ("", String::new()),
        Multiplicity::Optional => ("*", String::new()),
        // An array of at most one element is optional data (RFC 4506 section 4.19).
        Multiplicity::Variable(Some(Value::Literal { value: 1, .. })) if bodies && !is_bytes => {
            ("*", String::new())
        }
        Multiplicity::Fixed(len) => ("", format!("[{}]", value(len))),
        Multiplicity::Variable(max) => ("", format!("<{}>", max.as_ref().map(value).unwrap_or_default())),
    };
    let blank = if star.is_empty() && name.is_empty() { "" } else { " " };
    format!("{}{blank}{star}{name}{size}", specifier(kind, bodies))
}

pub(crate) fn procedure(procedure: &ProcedureDef) -> String {
    let result = procedure.result.as_ref().map_or_else(|| "void".to_owned(), declaration);
    let arguments: Vec<String> = procedure.arguments.iter().map(declaration).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    format!("{result} {}({arguments}) = {};", procedure.name.name, value(&procedure.number))
}

pub(crate) fn value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Literal { value, .. } => value.to_string().into(),
        Value::Name(name) => name.name.as_str().into(),
    }
}

fn specifier(kind: &TypeSpecifierKind, bodies: bool) -> Cow<'_, str> {
    let text = match kind {
        TypeSpecifierKind::Scalar(scalar) => scalar.name(),
        TypeSpecifierKind::Void => "void",
        TypeSpecifierKind::String => "string",
        TypeSpecifierKind::Opaque => "opaque",
        TypeSpecifierKind::Named(name) => &name.name,
        TypeSpecifierKind::Enum(body) if bodies => return enumeration(body).into(),
        TypeSpecifierKind::Struct(body) if bodies => return structure(body).into(),
        TypeSpecifierKind::Union(body) if bodies => return union(body).into(),
        TypeSpecifierKind::Enum(_) => "enum { ... }",
        TypeSpecifierKind::Struct(_) => "struct { ... }",
        TypeSpecifierKind::Union(_) => "union switch (...) { ... }",
    };
    text.into()
}
