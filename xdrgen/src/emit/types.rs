//! Emission of types and constants.

use super::code::Code;
use super::docs::{self, Lines};
use super::{Emitter, Place, parameter};
use crate::ir::{Arm, Body, Const, Docs, Field, Label, Member, Type, TypeDef, Union};
use crate::namespace::last;

/// The path of the runtime that the derives use by default.
const OWN_PATH: &str = "::rpcrdma_runtime";

/// The position of a field's attribute.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Placement {
    /// On its own line.
    Alone,
    /// Before a field in parentheses.
    Inline,
}

pub(super) fn field_attribute(placement: Placement, code: &mut Code, write: impl FnOnce(&mut Code)) {
    match placement {
        Placement::Alone => code.begin().then(write).end(),
        Placement::Inline => _ = code.then(write).after_attribute(),
    }
}

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Const, code: &mut Code) {
        let ty = const_type(constant.value);
        definition_docs(&constant.name, &constant.ident, &constant.docs, code);
        self.allow_const(&constant.ident, code);
        code.begin()
            .add(["pub const ", &constant.ident, ": ", ty, " = "])
            .show(constant.value)
            .push(";")
            .end();
    }

    pub(super) fn type_def(&self, ty: &TypeDef, code: &mut Code) {
        definition_docs(&ty.name, &ty.ident, &ty.docs, code);
        self.allow_type(ty, code);
        match &ty.body {
            Body::Alias(of) => {
                code.begin().add(["pub type ", &ty.ident, parameter(ty), " = "]);
                code.then(|code| self.ty(of, Place::Types, code)).push(";").end();
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
                docs::part(&field.docs.comments, &field.docs.declaration, &mut Lines::new(code));
                alias(&field.name, &field.ident, code);
                self.field_attributes(field, Placement::Alone, code);
                code.begin().add(["pub ", &field.ident, ": "]);
                code.then(|code| self.field_type(field, Place::Types, code)).push(",").end();
            }
        });
    }

    fn tuple(&self, ty: &TypeDef, fields: &[Field], code: &mut Code) {
        self.derive_attributes(ty.derives, true, code);
        self.container_attribute(ty, None, code);
        code.begin().add(["pub struct ", &ty.ident, parameter(ty)]).open("(");
        for field in fields {
            self.field_attributes(field, Placement::Inline, code.comma());
            self.field_type(field, Place::Types, code.push("pub "));
        }
        code.close_list(");").end();
    }

    fn conversions(&self, ty: &TypeDef, field: &Field, code: &mut Code) {
        let name = |code: &mut Code| _ = code.add([&ty.ident, parameter(ty)]);
        let held = |code: &mut Code| self.field_type(field, Place::Types, code);
        conversion(parameter(ty), held, name, &format!("{}(value)", ty.ident), code);
        conversion(parameter(ty), name, held, "value.0", code);
    }

    fn container_attribute(&self, ty: &TypeDef, union: Option<&str>, code: &mut Code) {
        let own = Some(self.runtime.as_str()).filter(|path| *path != OWN_PATH);
        let arguments = [("union = ", union), ("crate = ", own)];
        if ty.items.is_none() && arguments.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        code.begin().open("#[xdr(");
        for (key, value) in arguments {
            let Some(value) = value else { continue };
            code.comma().show(format_args!("{key}{value:?}"));
        }
        if let Some(items) = ty.items {
            code.comma().show(format_args!("items = {}", items.count));
            if !items.is_none() {
                code.comma().show(format_args!("largest = {}", items.largest));
            }
        }
        code.close(")]").end();
    }

    fn field_attributes(&self, field: &Field, placement: Placement, code: &mut Code) {
        // For borrowed arrays, the type `ArrayRef` or `ListRef` states the bound and whether the array is a
        // list.
        let owns = !matches!(field.ty, Type::Array(_)) || !self.is_borrowed();
        let write_if = |condition: bool, attribute: &str, code: &mut Code| {
            if condition {
                field_attribute(placement, code, |code| _ = code.push(attribute));
            }
        };
        write_if(field.eligible, "#[ddp_eligible]", code);
        write_if(field.list && owns, "#[xdr(list)]", code);
        if let Some(max) = field.max.as_ref().filter(|_| owns) {
            field_attribute(placement, code, |code| {
                code.open("#[xdr(").push("max = ").then(|code| self.word_bound(max, code)).close(")]");
            });
        }
        write_if(field.recursive, "#[xdr(recursive)]", code);
        self.field_hints(field, placement, code);
    }

    fn enumeration(&self, ty: &TypeDef, members: &[Member], code: &mut Code) {
        self.derive_attributes(ty.derives, true, code);
        self.container_attribute(ty, None, code);
        code.line(["#[repr(i32)]"]);
        code.line(["pub enum ", &ty.ident, " {"]);
        code.block(|code| {
            for member in members.iter().filter(|member| member.same_as.is_none()) {
                member_docs(member, code);
                if member.value == 0 {
                    code.line(["#[default]"]);
                }
                code.begin().add([&member.ident, " = "]).show(member.value).push(",").end();
            }
        });
        if members.iter().any(|member| member.same_as.is_some()) {
            code.apart();
            code.line(["impl ", &ty.ident, " {"]);
            code.block(|code| self.other_names(ty, members, code));
        }
    }

    /// Writes constants for the members that share their value with an earlier member.
    fn other_names(&self, ty: &TypeDef, members: &[Member], code: &mut Code) {
        for member in members {
            let Some(same) = member.same_as.and_then(|same| members.get(same as usize)) else { continue };
            code.apart();
            member_docs(member, code);
            self.allow_const(&member.ident, code);
            let (name, ty) = (member.ident.as_str(), ty.ident.as_str());
            code.line(["pub const ", name, ": ", ty, " = ", ty, "::", &same.ident, ";"]);
        }
    }

    fn union(&self, ty: &TypeDef, union: &Union, code: &mut Code) {
        let discriminant = self.flat(&union.discriminant, code);
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
                docs::part(&arm.docs.comments, &arm.docs.declaration, &mut Lines::new(code));
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

    fn arm(&self, of: &str, union: &Union, index: usize, discriminant: &str, code: &mut Code) {
        let Some(arm) = union.arms.get(index) else { return };
        self.arm_hint(union, arm, code);
        code.begin().push(&arm.ident);
        if arm.keeps_discriminant() || arm.payload.is_some() {
            code.open("(");
            if arm.keeps_discriminant() {
                self.kept_hints(of, union, index, code);
                code.push(discriminant);
            }
            if let Some(field) = &arm.payload {
                self.field_attributes(field, Placement::Inline, code.comma());
                self.field_type(field, Place::Types, code);
            }
            code.close_list(")");
        }
        code.push(",").end();
    }

    fn labels(&self, arm: &Arm, code: &mut Code) {
        code.begin().open("#[xdr(").push(if arm.labels.is_empty() { "default" } else { "" });
        for label in &arm.labels {
            let quote = if matches!(label, Label::Member { .. }) { "\"" } else { "" };
            code.comma().add(["case = ", quote]).then(|code| self.label(label, code)).push(quote);
        }
        code.close(")]").end();
    }

    pub(super) fn label(&self, label: &Label, code: &mut Code) {
        match label {
            Label::Number(value) => _ = code.show(value),
            Label::Bool(value) => _ = code.show(value),
            Label::Member { of, index } => {
                let Some(ty) = self.module.get(*of) else { return };
                if let Some(member) = self.module.members(*of).get(*index) {
                    self.item(ty.source, &ty.ident, Place::Types, code);
                    code.add(["::", &member.ident]);
                }
            }
        }
    }

    /// Returns the Rust code for a type, as used in the module of the types.
    pub(super) fn flat(&self, ty: &Type, code: &mut Code) -> String {
        let begin = code.len();
        self.ty(ty, Place::Types, code);
        code.text().split_off(begin)
    }
}

/// Returns the first of `u32`, `i32`, `u64` and `i64` that can represent a value.
fn const_type(value: i128) -> &'static str {
    if u32::try_from(value).is_ok() {
        "u32"
    } else if i32::try_from(value).is_ok() {
        "i32"
    } else if u64::try_from(value).is_ok() {
        "u64"
    } else {
        "i64"
    }
}

fn conversion(
    lifetime: &str,
    from: impl Fn(&mut Code),
    to: impl Fn(&mut Code),
    value: &str,
    code: &mut Code,
) {
    code.apart();
    code.begin().add(["impl", lifetime, " "]).open("::core::convert::From<").then(&from).close_list(">");
    code.end_impl(to);
    code.block(|code| {
        code.begin().open("fn from(").push("value: ").then(from).close_list(") -> Self {").end();
        code.block(|code| code.line([value]));
    });
}

/// Writes `Default` for a union whose initial arm has a payload or stores the discriminant.
fn default_arm(ty: &TypeDef, arm: &Arm, code: &mut Code) {
    code.begin().add(["impl", parameter(ty), " ::core::default::Default"]);
    code.end_impl(|code| _ = code.add([&ty.ident, parameter(ty)]));
    code.block(|code| {
        code.line(["fn default() -> Self {"]);
        code.block(|code| {
            code.begin().add([&ty.ident, "::", &arm.ident]).open("(");
            for _ in 0..usize::from(arm.keeps_discriminant()) + usize::from(arm.payload.is_some()) {
                code.comma().push("::core::default::Default::default()");
            }
            code.close_list(")").end();
        });
    });
}

fn definition_docs(name: &str, ident: &str, text: &Docs, code: &mut Code) {
    docs::definition(name, text, &mut Lines::new(code));
    alias(name, ident, code);
}

fn member_docs(member: &Member, code: &mut Code) {
    let declaration = format!("{} = {}", member.name, member.value);
    docs::part(&member.comments, &declaration, &mut Lines::new(code));
    alias(&member.name, &member.ident, code);
}

/// Writes the XDR name of an item as a search alias in the documentation, if the name begins with a letter
/// and differs from the Rust name.
pub(super) fn alias(name: &str, ident: &str, code: &mut Code) {
    let name = last(name);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_name && ident.trim_start_matches("r#") != name {
        code.begin().open("#[doc(").show(format_args!("alias = {name:?}")).close(")]").end();
    }
}
