//! Types and constants.

use super::code::Code;
use super::docs::{self, Lines};
use super::{Emitter, Place, number, parameter, quoted, word_bound};
use crate::ir::{Arm, Body, Const, ConstType, Docs, Field, Label, Member, Type, TypeDef, Union};

/// The path of the runtime that derives assume.
const OWN_PATH: &str = "::rpcrdma_runtime";

/// Where an attribute stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stands {
    /// In a line of its own.
    Alone,
    /// Before a field in parentheses.
    Inline,
}

/// Writes an attribute of a field.
pub(super) fn field_attribute(stands: Stands, code: &mut Code, write: impl FnOnce(&mut Code)) {
    if stands == Stands::Alone {
        code.begin();
    }
    write(code);
    match stands {
        Stands::Alone => code.end(),
        Stands::Inline => code.after_attribute(),
    }
}

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Const, code: &mut Code) {
        let ty = match constant.ty {
            ConstType::U32 => "u32",
            ConstType::I32 => "i32",
            ConstType::U64 => "u64",
            ConstType::I64 => "i64",
        };
        definition_docs(&constant.name, &constant.ident, &constant.docs, code);
        self.allow_const(&constant.ident, code);
        code.begin();
        code.add(["pub const ", &constant.ident, ": ", ty, " = "]);
        number(constant.value, code.text());
        code.push(";");
        code.end();
    }

    /// Writes a type and its implementations.
    pub(super) fn type_def(&self, ty: &TypeDef, code: &mut Code) {
        definition_docs(&ty.name, &ty.ident, &ty.docs, code);
        self.allow_type(ty, code);
        match &ty.body {
            Body::Alias(of) => {
                code.begin();
                code.add(["pub type ", &ty.ident, parameter(ty), " = "]);
                self.ty(of, Place::Types, code);
                code.push(";");
                code.end();
            }
            Body::Newtype(field) => {
                self.tuple(ty, std::slice::from_ref(field), code);
                self.conversions(ty, field, code);
            }
            Body::Enum(members) => self.enumeration(ty, members, code),
            Body::Struct(fields) => self.structure(ty, fields, code),
            Body::Tuple(fields) => self.tuple(ty, fields, code),
            Body::Union(union) => self.union(ty, union, code),
        }
    }

    fn structure(&self, ty: &TypeDef, fields: &[Field], code: &mut Code) {
        self.derive_attributes(ty.derives, true, code);
        self.container_attribute(ty, None, code);
        code.line(["pub struct ", &ty.ident, parameter(ty), " {"]);
        code.block(|code| {
            for field in fields {
                docs::part(&field.docs, &mut Lines::new(code));
                alias(&field.name, &field.ident, code);
                self.field_attributes(field, Stands::Alone, code);
                code.begin();
                code.add(["pub ", &field.ident, ": "]);
                self.field_type(field, Place::Types, code);
                code.push(",");
                code.end();
            }
        });
    }

    fn tuple(&self, ty: &TypeDef, fields: &[Field], code: &mut Code) {
        self.derive_attributes(ty.derives, true, code);
        self.container_attribute(ty, None, code);
        code.begin();
        code.add(["pub struct ", &ty.ident, parameter(ty)]);
        code.open("(");
        for field in fields {
            code.comma();
            self.field_attributes(field, Stands::Inline, code);
            code.push("pub ");
            self.field_type(field, Place::Types, code);
        }
        code.close_list(");");
        code.end();
    }

    /// Writes the conversions between a struct of one unnamed field and that field.
    fn conversions(&self, ty: &TypeDef, field: &Field, code: &mut Code) {
        let name = |code: &mut Code| code.add([&ty.ident, parameter(ty)]);
        let held = |code: &mut Code| self.field_type(field, Place::Types, code);
        conversion(parameter(ty), held, name, &[&ty.ident, "(value)"], code);
        conversion(parameter(ty), name, held, &["value.0"], code);
    }

    /// Writes `#[xdr(...)]` of a type if it says anything.
    fn container_attribute(&self, ty: &TypeDef, union: Option<&str>, code: &mut Code) {
        let own = Some(self.runtime.as_str()).filter(|path| *path != OWN_PATH);
        let arguments = [("union = ", union), ("crate = ", own)];
        if ty.items.is_none() && arguments.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        code.begin();
        code.open("#[xdr(");
        for (key, value) in arguments {
            let Some(value) = value else { continue };
            code.comma();
            code.push(key);
            quoted(value, code.text());
        }
        if let Some(items) = ty.items {
            code.comma();
            code.add(["items = ", &items.count.to_string()]);
            if !items.is_none() {
                code.comma();
                code.add(["largest = ", &items.largest.to_string()]);
            }
        }
        code.close(")]");
        code.end();
    }

    /// Writes what the derives are told of a field.
    fn field_attributes(&self, field: &Field, stands: Stands, code: &mut Code) {
        // What borrows states these things by its type.
        let owns = !matches!(field.ty, Type::Array(_)) || !self.is_borrowed();
        let says = |holds: bool, attribute: &str, code: &mut Code| {
            if holds {
                field_attribute(stands, code, |code| code.push(attribute));
            }
        };
        says(field.eligible, "#[ddp_eligible]", code);
        says(field.list && owns, "#[xdr(list)]", code);
        if let Some(max) = field.max.as_ref().filter(|_| owns) {
            field_attribute(stands, code, |code| {
                code.open("#[xdr(");
                code.push("max = ");
                word_bound(max, code.text());
                code.close(")]");
            });
        }
        says(field.recursive, "#[xdr(recursive)]", code);
        self.field_hints(field, stands, code);
    }

    fn enumeration(&self, ty: &TypeDef, members: &[Member], code: &mut Code) {
        self.derive_attributes(ty.derives, true, code);
        self.container_attribute(ty, None, code);
        code.line(["#[repr(i32)]"]);
        code.line(["pub enum ", &ty.ident, " {"]);
        code.block(|code| {
            for member in members.iter().filter(|member| member.same_as.is_none()) {
                docs::part(&member.docs, &mut Lines::new(code));
                alias(&member.name, &member.ident, code);
                if member.value == 0 {
                    code.line(["#[default]"]);
                }
                code.begin();
                code.add([&member.ident, " = "]);
                number(member.value, code.text());
                code.push(",");
                code.end();
            }
        });
        if members.iter().any(|member| member.same_as.is_some()) {
            code.apart();
            code.line(["impl ", &ty.ident, " {"]);
            code.block(|code| self.other_names(ty, members, code));
        }
    }

    /// Writes the members that share their value with one before them: constants.
    fn other_names(&self, ty: &TypeDef, members: &[Member], code: &mut Code) {
        for member in members {
            let Some(same) = member.same_as.and_then(|same| members.get(same)) else { continue };
            code.apart();
            docs::part(&member.docs, &mut Lines::new(code));
            alias(&member.name, &member.ident, code);
            self.allow_const(&member.ident, code);
            let (name, ty) = (member.ident.as_str(), ty.ident.as_str());
            code.line(["pub const ", name, ": ", ty, " = ", ty, "::", &same.ident, ";"]);
        }
    }

    fn union(&self, ty: &TypeDef, union: &Union, code: &mut Code) {
        let discriminant = self.flat(&union.discriminant);
        let initial = union.initial.and_then(|index| union.arms.get(index)).filter(|_| ty.derives.default);
        let derived = initial.is_some_and(|arm| !arm.keeps_discriminant() && arm.payload.is_none());
        self.derive_attributes(ty.derives, derived, code);
        self.container_attribute(ty, Some(&discriminant), code);
        if union.uneven {
            let reason = "reason = \"a box would hide how long the payload can be\"";
            code.attribute("allow", ["clippy::large_enum_variant", reason]);
        }
        code.line(["pub enum ", &ty.ident, parameter(ty), " {"]);
        code.block(|code| {
            for (index, arm) in union.arms.iter().enumerate() {
                docs::part(&arm.docs, &mut Lines::new(code));
                if derived && union.initial == Some(index) {
                    code.line(["#[default]"]);
                }
                self.labels(arm, code);
                self.arm(&ty.ident, union, index, &discriminant, code);
            }
        });
        if let Some(arm) = initial.filter(|_| !derived) {
            code.apart();
            default_arm(ty, arm, code);
        }
    }

    /// Writes an arm's variant.
    fn arm(&self, of: &str, union: &Union, index: usize, discriminant: &str, code: &mut Code) {
        let Some(arm) = union.arms.get(index) else { return };
        self.arm_hint(union, arm, code);
        code.begin();
        code.push(&arm.ident);
        if arm.keeps_discriminant() || arm.payload.is_some() {
            code.open("(");
            if arm.keeps_discriminant() {
                self.kept_hints(of, union, index, code);
                code.push(discriminant);
            }
            if let Some(field) = &arm.payload {
                code.comma();
                self.field_attributes(field, Stands::Inline, code);
                self.field_type(field, Place::Types, code);
            }
            code.close_list(")");
        }
        code.push(",");
        code.end();
    }

    /// Writes the attribute that says which discriminants choose an arm.
    fn labels(&self, arm: &Arm, code: &mut Code) {
        code.begin();
        code.open("#[xdr(");
        code.push(if arm.labels.is_empty() { "default" } else { "" });
        for label in &arm.labels {
            code.comma();
            code.push("case = ");
            let quote = if matches!(label, Label::Member { .. }) { "\"" } else { "" };
            code.push(quote);
            self.label(label, code.text());
            code.push(quote);
        }
        code.close(")]");
        code.end();
    }

    /// Writes a label as a value.
    pub(super) fn label(&self, label: &Label, out: &mut String) {
        match label {
            Label::Number(value) => number(value, out),
            Label::Bool(value) => number(value, out),
            Label::Member { of, index } => {
                let Some(ty) = self.module.get(*of) else { return };
                if let Body::Enum(members) = &ty.body
                    && let Some(member) = members.get(*index)
                {
                    out.extend([&ty.ident, "::", &member.ident]);
                }
            }
        }
    }

    /// Returns a type beside the types in one line.
    pub(super) fn flat(&self, ty: &Type) -> String {
        let mut code = Code::default();
        self.ty(ty, Place::Types, &mut code);
        code.finish()
    }
}

/// Writes a conversion by `From`.
fn conversion(
    lifetime: &str,
    from: impl Fn(&mut Code),
    to: impl Fn(&mut Code),
    value: &[&str],
    code: &mut Code,
) {
    code.apart();
    code.begin();
    code.add(["impl", lifetime, " "]);
    code.open("::core::convert::From<");
    from(code);
    code.close_list(">");
    code.end_impl(to);
    code.block(|code| {
        code.begin();
        code.push("fn from");
        code.open("(");
        code.push("value: ");
        from(code);
        code.close_list(") -> Self {");
        code.end();
        code.block(|code| code.line([&value.concat()]));
    });
}

/// Writes `Default` for a union whose initial arm carries something.
fn default_arm(ty: &TypeDef, arm: &Arm, code: &mut Code) {
    code.begin();
    code.add(["impl", parameter(ty), " ::core::default::Default"]);
    code.end_impl(|code| code.add([&ty.ident, parameter(ty)]));
    code.block(|code| {
        code.line(["fn default() -> Self {"]);
        code.block(|code| {
            code.begin();
            code.add([&ty.ident, "::", &arm.ident]);
            code.open("(");
            for _ in 0..usize::from(arm.keeps_discriminant()) + usize::from(arm.payload.is_some()) {
                code.comma();
                code.push("::core::default::Default::default()");
            }
            code.close_list(")");
            code.end();
        });
    });
}

fn definition_docs(name: &str, ident: &str, text: &Docs, code: &mut Code) {
    docs::definition(name, text, &mut Lines::new(code));
    alias(name, ident, code);
}

/// Writes the document's name for searches in the documentation, where Rust's differs.
pub(super) fn alias(name: &str, ident: &str, code: &mut Code) {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_name && ident.trim_start_matches("r#") != name {
        code.begin();
        code.open("#[doc(");
        code.push("alias = ");
        quoted(name, code.text());
        code.close(")]");
        code.end();
    }
}
