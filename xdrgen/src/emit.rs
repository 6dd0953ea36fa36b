//! Emission: generates the text of Rust files from the Rust IR.

mod code;
mod derives;
mod docs;
mod documents;
mod file;
mod lints;
mod overview;
mod program;
mod types;

use std::borrow::Cow;

use crate::hash::{HashMap, HashSet};
use crate::ir::{Bound, Const, Data, Field, Module, Scalar, Type, TypeDef, TypeId};
use crate::names::Names;
use crate::sizes::layout::Layouts;
use crate::source::SourceId;

use code::Code;
pub(crate) use derives::Known;
pub(crate) use documents::{Document, items_by_source};
pub(crate) use file::Head;
pub(crate) use overview::enumerated;

pub(crate) struct Emitter<'m> {
    pub(crate) module: &'m Module,
    pub(crate) head: Head,
    /// The path of the runtime without spaces, such as `::rpcrdma_runtime` or `crate`.
    pub(crate) runtime: String,
    /// True if emitted code may use the standard library. Otherwise it uses `alloc`.
    pub(crate) std: bool,
    pub(crate) names: Names,
    pub(crate) derives: &'m [String],
    /// True if the derives of serde and arbitrary depend on features of the emitted crate.
    pub(crate) features: bool,
    /// The sizes of types; `None` if the module has no programs.
    pub(crate) sizes: Option<&'m Layouts>,
    /// The documents and namespaces that are separate modules; empty if all items are in one module.
    pub(crate) documents: Vec<Document>,
    /// The index in `documents` of each source that has a module.
    pub(crate) homes: HashMap<SourceId, usize>,
    pub(crate) ambiguous: HashSet<&'m str>,
}

/// The module in which emitted code uses a type or a constant.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The module of the types, which imports the runtime's names.
    Types,
    Version,
    /// The module `proc` in a version's module.
    Procedures,
}

/// Returns the Rust names that several constants or types share. Two such items are in different namespaces,
/// or one is a constant and the other a type.
pub(crate) fn ambiguous(module: &Module) -> HashSet<&str> {
    let mut names = HashSet::default();
    let constants = module.consts.iter().map(|one| one.ident.as_str());
    let all = constants.chain(module.types.iter().map(|ty| ty.ident.as_str()));
    all.filter(|name| !names.insert(*name)).collect()
}

impl Emitter<'_> {
    fn is_borrowed(&self) -> bool {
        self.module.data == Data::Borrowed
    }

    /// Returns the name of a type that the runtime or `alloc` defines, without generic arguments. Returns
    /// `None` for other types.
    fn imported(&self, ty: &Type) -> Option<&'static str> {
        let [owned, borrowed] = match ty {
            Type::Scalar(scalar) => return scalar_type(*scalar).err(),
            Type::SmallOpaque(_) => return Some("SmallOpaque"),
            Type::Opaque(_) => ["Opaque", "OpaqueRef"],
            Type::String(_) => ["XdrString", "StringRef"],
            Type::Array(_) => ["Vec", "ArrayRef"],
            Type::Boxed(_) => ["Box", "BoxRef"],
            Type::FixedArray(..) | Type::Optional(_) | Type::Void => return None,
            Type::Named(_) | Type::Extern(_) | Type::FixedOpaque(_) => return None,
        };
        Some(if self.is_borrowed() { borrowed } else { owned })
    }

    fn ty(&self, ty: &Type, from: Place, code: &mut Code) {
        let name = self.imported(ty).unwrap_or_default();
        match ty {
            Type::Void => _ = code.push("()"),
            Type::Scalar(scalar) => match scalar_type(*scalar) {
                Ok(name) => _ = code.push(name),
                Err(name) => self.path(name, from, code),
            },
            Type::Named(id) => self.named(*id, from, code),
            Type::Extern(path) => _ = code.push(&spaced(path)),
            Type::FixedOpaque(len) => self.array(|code| _ = code.push("u8"), len, code),
            Type::FixedArray(of, len) => self.array(|code| self.ty(of, from, code), len, code),
            Type::SmallOpaque(max) => {
                let [open, close] = if max.constant.is_some() { ["{ ", " }"] } else { ["", ""] };
                self.path(name, from, code);
                code.open("<").push(open).then(|code| self.size_bound(max, code)).push(close).close_list(">");
            }
            Type::Opaque(max) | Type::String(max) => self.generic(name, None, max.as_ref(), from, code),
            Type::Array(of) | Type::Boxed(of) => self.generic(name, Some(of), None, from, code),
            Type::Optional(of) => {
                code.open("Option<").then(|code| self.ty(of, from, code)).close_list(">");
            }
        }
    }

    /// Writes the type of a field. The type of a borrowed array includes its bound; the bound of an owned
    /// array is in an attribute.
    fn field_type(&self, field: &Field, from: Place, code: &mut Code) {
        match &field.ty {
            Type::Array(of) if self.is_borrowed() => {
                let name = if field.list { "ListRef" } else { "ArrayRef" };
                self.generic(name, Some(of), field.max.as_ref(), from, code);
            }
            ty => self.ty(ty, from, code),
        }
    }

    fn path(&self, name: &'static str, from: Place, code: &mut Code) {
        if from == Place::Types {
            code.used.imported.insert(name);
        } else if !matches!(name, "Vec" | "Box") {
            code.add([&self.runtime, "::xdr::"]);
        }
        code.push(name);
    }

    /// Writes a type of the runtime or of `alloc` with its generic arguments: a lifetime in borrowed output,
    /// the element type if there is one, and the bound if there is one.
    fn generic(
        &self,
        name: &'static str,
        of: Option<&Type>,
        max: Option<&Bound>,
        from: Place,
        code: &mut Code,
    ) {
        self.path(name, from, code);
        if !self.is_borrowed() && of.is_none() && max.is_none() {
            return;
        }
        code.open("<");
        if self.is_borrowed() {
            code.push(if from == Place::Version { "'_" } else { "'a" });
        }
        if let Some(of) = of {
            self.ty(of, from, code.comma());
        }
        if let Some(max) = max {
            code.comma().then(|code| self.argument_bound(max, code));
        }
        code.close_list(">");
    }

    fn named(&self, id: TypeId, from: Place, code: &mut Code) {
        let Some(ty) = self.module.get(id) else { return };
        self.item(ty.source, &ty.ident, from, code);
        code.push(if ty.borrows && from == Place::Version { "<'_>" } else { parameter(ty) });
    }

    /// Writes the name of a type or a constant. A name from another module is imported, or qualified if the
    /// name would be ambiguous.
    fn item(&self, source: SourceId, name: &str, from: Place, code: &mut Code) {
        code.push(match from {
            Place::Types => "",
            Place::Version => "super::",
            Place::Procedures => "super::super::",
        });
        if code.used.own != Some(source)
            && let Some(home) = self.home(source)
        {
            if self.ambiguous.contains(name) {
                code.add(["super::", &home.ident, "::"]);
            } else {
                code.used.foreign.entry(home.ident.clone()).or_default().insert(name.to_owned());
            }
        }
        code.push(name);
    }

    /// Writes a bound as a `u32`.
    fn word_bound(&self, bound: &Bound, code: &mut Code) {
        match self.constant_of(bound) {
            Some(constant) => self.item(constant.source, &constant.ident, Place::Types, code),
            None => _ = code.show(bound.value),
        }
    }

    /// Writes a bound as a `usize`.
    fn size_bound(&self, bound: &Bound, code: &mut Code) {
        self.word_bound(bound, code);
        if bound.constant.is_some() {
            code.push(" as usize");
        }
    }

    /// Writes a bound as a `u32` generic argument. A name that a constant shares with a type is in braces,
    /// since the bare name would mean the type.
    fn argument_bound(&self, bound: &Bound, code: &mut Code) {
        let is_plain = self.constant_of(bound).is_none_or(|of| !self.ambiguous.contains(of.ident.as_str()));
        let [open, close] = if is_plain { ["", ""] } else { ["{ ", " }"] };
        code.push(open).then(|code| self.word_bound(bound, code)).push(close);
    }

    fn constant_of(&self, bound: &Bound) -> Option<&Const> {
        self.module.consts.get(bound.constant?)
    }

    fn array(&self, element: impl FnOnce(&mut Code), len: &Bound, code: &mut Code) {
        code.open("[").then(element).push("; ").then(|code| self.size_bound(len, code)).close("]");
    }
}

fn parameter(ty: &TypeDef) -> &'static str {
    if ty.borrows { "<'a>" } else { "" }
}

/// Returns a path with the spacing of rustfmt.
fn spaced(path: &str) -> Cow<'_, str> {
    if !path.contains([' ', ',', ';']) {
        return path.into();
    }
    overview::compact(path).replace(",>", ">").replace(',', ", ").replace(';', "; ").into()
}

/// Returns `Ok` with the name of Rust's built-in type for a scalar, or `Err` with the name of the runtime's
/// type.
fn scalar_type(scalar: Scalar) -> Result<&'static str, &'static str> {
    match scalar {
        Scalar::Int => Ok("i32"),
        Scalar::UnsignedInt => Ok("u32"),
        Scalar::Hyper => Ok("i64"),
        Scalar::UnsignedHyper => Ok("u64"),
        Scalar::Float => Ok("f32"),
        Scalar::Double => Ok("f64"),
        Scalar::Bool => Ok("bool"),
        Scalar::Short => Ok("i16"),
        Scalar::UnsignedShort => Ok("u16"),
        Scalar::Quadruple => Err("Quadruple"),
        Scalar::Char => Err("Char"),
        Scalar::UnsignedChar => Err("UnsignedChar"),
    }
}
