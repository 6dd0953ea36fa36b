//! Types and constants, as text: a line of documentation or an attribute begins its line.

use std::fmt::Write;

use proc_macro2::Literal;

use super::docs::{self, Lines};
use super::{Emitter, Place, add, word_bound};
use crate::ir::{Arm, Body, Const, ConstType, Docs, Field, Label, Member, Type, TypeDef, Union};

/// The path of the runtime that derives take for granted.
const OWN_PATH: &str = "::rpcrdma_runtime";

/// Behind an attribute: fields in braces and variants have a line for each of theirs, fields in parentheses have not.
const LINE: &str = "\n";
const BLANK: &str = " ";

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Const, out: &mut String) {
        let ty = match constant.ty {
            ConstType::U32 => "u32",
            ConstType::I32 => "i32",
            ConstType::U64 => "u64",
            ConstType::I64 => "i64",
        };
        definition_docs(&constant.name, &constant.ident, &constant.docs, out);
        self.allow_const(&constant.ident, out);
        add(out, ["pub const ", &constant.ident, ": ", ty, " = "]);
        number(constant.value, out);
        out.push_str(";\n");
    }

    /// A type, and what belongs to it.
    pub(super) fn type_def(&self, ty: &TypeDef, out: &mut String) {
        definition_docs(&ty.name, &ty.ident, &ty.docs, out);
        self.allow_type(ty, out);
        let lifetime = Self::parameter(ty);
        match &ty.body {
            Body::Alias(of) => {
                add(out, ["pub type ", &ty.ident, lifetime, " = "]);
                self.ty(of, Place::Types, out);
                out.push_str(";\n");
            }
            Body::Newtype(field) => self.newtype(ty, field, out),
            Body::Enum(members) => self.enumeration(ty, members, out),
            Body::Struct(fields) => {
                self.derive_attributes(ty.derives, true, out);
                self.container_attribute(ty, None, out);
                add(out, ["pub struct ", &ty.ident, lifetime, " {\n"]);
                for field in fields {
                    docs::part(&field.docs, &mut Lines::new(out));
                    alias(&field.name, &field.ident, out);
                    self.field_attributes(field, LINE, out);
                    add(out, ["pub ", &field.ident, ": "]);
                    self.field_type(field, Place::Types, out);
                    out.push_str(",\n");
                }
                out.push_str("}\n");
            }
            Body::Tuple(fields) => {
                self.derive_attributes(ty.derives, true, out);
                self.container_attribute(ty, None, out);
                add(out, ["pub struct ", &ty.ident, lifetime, "("]);
                for (index, field) in fields.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    self.field_attributes(field, BLANK, out);
                    out.push_str("pub ");
                    self.field_type(field, Place::Types, out);
                }
                out.push_str(");\n");
            }
            Body::Union(union) => self.union(ty, union, out),
        }
    }

    /// A struct of one field without a name, and the ways to it and back.
    fn newtype(&self, ty: &TypeDef, field: &Field, out: &mut String) {
        let (name, lifetime) = (ty.ident.as_str(), Self::parameter(ty));
        let mut of = String::new();
        self.field_type(field, Place::Types, &mut of);
        self.derive_attributes(ty.derives, true, out);
        self.container_attribute(ty, None, out);
        add(out, ["pub struct ", name, lifetime, "("]);
        self.field_attributes(field, BLANK, out);
        add(out, ["pub ", &of, ");\n"]);
        add(out, ["impl", lifetime, " ::core::convert::From<", &of, "> for ", name, lifetime]);
        add(out, [" { fn from(value: ", &of, ") -> Self { ", name, "(value) } }\n"]);
        add(out, ["impl", lifetime, " ::core::convert::From<", name, lifetime, "> for ", &of]);
        add(out, [" { fn from(value: ", name, lifetime, ") -> Self { value.0 } }\n"]);
    }

    /// `#[xdr(...)]` on a type, if it says anything.
    fn container_attribute(&self, ty: &TypeDef, union: Option<&str>, out: &mut String) {
        let is_own = self.runtime_path == OWN_PATH;
        let parts = [("union = ", union), ("crate = ", Some(self.runtime_path.as_str()).filter(|_| !is_own))];
        let mut open = "#[xdr(";
        for (key, value) in parts {
            let Some(value) = value else { continue };
            add(out, [std::mem::replace(&mut open, ", "), key]);
            quoted(value, out);
        }
        if let Some(items) = ty.items {
            let largest =
                if items.is_none() { String::new() } else { format!(", largest = {}", items.largest) };
            add(out, [std::mem::replace(&mut open, ", "), "items = ", &items.count.to_string(), &largest]);
        }
        out.push_str(if open == ", " { ")]\n" } else { "" });
    }

    /// What the derive is told of a field; `end` stands behind each attribute.
    fn field_attributes(&self, field: &Field, end: &str, out: &mut String) {
        // What borrows says these things by its type.
        let owns = !matches!(field.ty, Type::Array(_)) || !self.is_borrowed();
        if field.eligible {
            add(out, ["#[ddp_eligible]", end]);
        }
        if field.list && owns {
            add(out, ["#[xdr(list)]", end]);
        }
        if let Some(max) = field.max.as_ref().filter(|_| owns) {
            out.push_str("#[xdr(max = ");
            word_bound(max, out);
            add(out, [")]", end]);
        }
        if field.recursive {
            add(out, ["#[xdr(recursive)]", end]);
        }
        self.field_hints(field, out);
    }

    fn enumeration(&self, ty: &TypeDef, members: &[Member], out: &mut String) {
        self.derive_attributes(ty.derives, true, out);
        self.container_attribute(ty, None, out);
        add(out, ["#[repr(i32)]\npub enum ", &ty.ident, " {\n"]);
        for member in members.iter().filter(|member| member.same_as.is_none()) {
            docs::part(&member.docs, &mut Lines::new(out));
            alias(&member.name, &member.ident, out);
            out.push_str(if member.value == 0 { "#[default]\n" } else { "" });
            add(out, [&member.ident, " = "]);
            number(i128::from(member.value), out);
            out.push_str(",\n");
        }
        out.push_str("}\n");
        if members.iter().all(|member| member.same_as.is_none()) {
            return;
        }
        add(out, ["impl ", &ty.ident, " {\n"]);
        for member in members {
            let Some(same) = member.same_as.and_then(|same| members.get(same)) else { continue };
            docs::part(&member.docs, &mut Lines::new(out));
            alias(&member.name, &member.ident, out);
            self.allow_const(&member.ident, out);
            add(
                out,
                ["pub const ", &member.ident, ": ", &ty.ident, " = ", &ty.ident, "::", &same.ident, ";\n"],
            );
        }
        out.push_str("}\n");
    }

    fn union(&self, ty: &TypeDef, union: &Union, out: &mut String) {
        let (name, lifetime) = (ty.ident.as_str(), Self::parameter(ty));
        let mut discriminant = String::new();
        self.ty(&union.discriminant, Place::Types, &mut discriminant);
        let initial = union.initial.and_then(|index| union.arms.get(index)).filter(|_| ty.derives.default);
        let derived = initial.is_some_and(|arm| !arm.keeps_discriminant() && arm.payload.is_none());
        self.derive_attributes(ty.derives, derived, out);
        self.container_attribute(ty, Some(&discriminant), out);
        if union.uneven {
            out.push_str("#[allow(clippy::large_enum_variant, ");
            out.push_str("reason = \"a box would hide how long the payload can be\")]\n");
        }
        add(out, ["pub enum ", name, lifetime, " {\n"]);
        for (index, arm) in union.arms.iter().enumerate() {
            docs::part(&arm.docs, &mut Lines::new(out));
            out.push_str(if derived && union.initial == Some(index) { "#[default]\n" } else { "" });
            self.arm(name, union, index, arm, &discriminant, out);
        }
        out.push_str("}\n");
        if let Some(arm) = initial.filter(|_| !derived) {
            let parts = usize::from(arm.keeps_discriminant()) + usize::from(arm.payload.is_some());
            let parts = vec!["::core::default::Default::default()"; parts].join(", ");
            add(out, ["impl", lifetime, " ::core::default::Default for ", name, lifetime, " {\n"]);
            add(out, ["fn default() -> Self { ", name, "::", &arm.ident, "(", &parts, ") }\n}\n"]);
        }
    }

    /// An arm, behind its documentation.
    fn arm(&self, of: &str, union: &Union, index: usize, arm: &Arm, discriminant: &str, out: &mut String) {
        self.chosen(arm, out);
        let (hint, kept_hint) = self.arm_hints(of, union, index);
        add(out, [&hint, &arm.ident]);
        if arm.keeps_discriminant() || arm.payload.is_some() {
            out.push('(');
            if arm.keeps_discriminant() {
                add(out, [&kept_hint, discriminant]);
            }
            if let Some(field) = &arm.payload {
                out.push_str(if arm.keeps_discriminant() { ", " } else { "" });
                self.field_attributes(field, BLANK, out);
                self.field_type(field, Place::Types, out);
            }
            out.push(')');
        }
        out.push_str(",\n");
    }

    /// The attribute that says which discriminants choose an arm.
    fn chosen(&self, arm: &Arm, out: &mut String) {
        out.push_str(if arm.labels.is_empty() { "#[xdr(default" } else { "#[xdr(" });
        for (index, label) in arm.labels.iter().enumerate() {
            out.push_str(if index > 0 { ", case = " } else { "case = " });
            match label {
                Label::Member { .. } => {
                    out.push('"');
                    self.member_path(label, out);
                    out.push('"');
                }
                Label::Number(value) => number(*value, out),
                Label::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            }
        }
        out.push_str(")]\n");
    }

    /// `Enum::Member`
    pub(super) fn member_path(&self, label: &Label, out: &mut String) {
        let Label::Member { of, index } = label else { return };
        let Some(ty) = self.module.get(*of) else { return };
        if let Body::Enum(members) = &ty.body
            && let Some(member) = members.get(*index)
        {
            add(out, [&ty.ident, "::", &member.ident]);
        }
    }
}

fn definition_docs(name: &str, ident: &str, text: &Docs, out: &mut String) {
    docs::definition(name, text, &mut Lines::new(out));
    alias(name, ident, out);
}

/// The document's name for a search in the documentation, where Rust's differs.
pub(super) fn alias(name: &str, ident: &str, out: &mut String) {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_name && ident.trim_start_matches("r#") != name {
        out.push_str("#[doc(alias = ");
        quoted(name, out);
        out.push_str(")]\n");
    }
}

/// A text between quotation marks.
fn quoted(text: &str, out: &mut String) {
    if is_plain(text) {
        add(out, ["\"", text, "\""]);
    } else {
        out.push_str(&Literal::string(text).to_string());
    }
}

/// Whether a text is the same between quotation marks.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'#'))
}

/// Adds a number. Writing to a string does not fail.
pub(super) fn number(value: i128, out: &mut String) {
    let _ = match i64::try_from(value) {
        Ok(value) => write!(out, "{value}"),
        Err(_) => write!(out, "{value}"),
    };
}
