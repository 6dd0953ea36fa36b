//! Rust from the intermediate form. Nothing is decided here.

mod borrowed;
mod derives;
mod docs;
mod documents;
mod file;
mod lints;
mod overview;
mod print;
mod program;
mod types;

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::hash::HashSet;
use crate::ir::{Bound, Module, Scalar, Type, TypeId};
use crate::names::{Names, is_ident};
use crate::sizes::Layouts;

pub(crate) use derives::Known;
pub(crate) use docs::Texts;
pub(crate) use documents::Document;
pub(crate) use file::{Files, Head};

/// What emission is told besides the module.
pub(crate) struct Emitter<'m> {
    pub(crate) module: &'m Module,
    /// The path of the runtime: `::rpcrdma_runtime`, or `crate` inside it.
    pub(crate) runtime: TokenStream,
    /// The same as text.
    pub(crate) runtime_path: String,
    /// The documentation of what was emitted last.
    pub(crate) texts: docs::Texts,
    /// Whether emitted code may use the standard library; else it uses `alloc`.
    pub(crate) std: bool,
    /// How definitions are called: the document's way is not Rust's, and says so to its lints.
    pub(crate) names: Names,
    /// What types derive besides.
    pub(crate) derives: &'m [String],
    /// Whether derives of known crates hang on features of the emitted one.
    pub(crate) features: bool,
    /// The sizes of types, where there are procedures whose documentation says how large their messages can be.
    pub(crate) sizes: Option<&'m Layouts>,
    /// The documents that have a module each; none if all items stand in one.
    pub(crate) documents: Vec<Document>,
    /// The constants that are called like a type.
    pub(crate) also_types: HashSet<&'m str>,
}

/// From where a type is named.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Beside the types, where the runtime's names are imported.
    Types,
    /// In the module of a program version.
    Version,
    /// In the module of its procedures.
    Procedures,
}

/// The constants in Rust that are called like a type. In Rust that is no harm but among a type's arguments.
pub(crate) fn also_types(module: &Module) -> HashSet<&str> {
    let constants: HashSet<&str> = module.consts.iter().map(|one| one.ident.as_str()).collect();
    module.types.iter().map(|ty| ty.ident.as_str()).filter(|ident| constants.contains(ident)).collect()
}

impl<'m> Emitter<'m> {
    /// Makes one like this in another thread, since tokens do not move between threads.
    fn elsewhere(&self) -> impl FnOnce() -> Emitter<'m> + Send + use<'m> {
        let Emitter { module, std, names, derives, features, sizes, .. } = *self;
        let (runtime_path, documents) = (self.runtime_path.clone(), self.documents.clone());
        let also_types = self.also_types.clone();
        move || Emitter {
            module,
            runtime: parse(&runtime_path),
            runtime_path,
            texts: Texts::default(),
            std,
            names,
            derives,
            features,
            sizes,
            documents,
            also_types,
        }
    }
}

impl Emitter<'_> {
    /// The crate that has `Box` and `Vec`.
    fn heap(&self) -> TokenStream {
        if self.std { quote!(::std) } else { quote!(::alloc) }
    }

    /// A type of the runtime or of Rust.
    fn own(&self, name: &str, from: Place, out: &mut String) {
        if from != Place::Types {
            add(out, [&self.runtime_path, "::xdr::"]);
        }
        out.push_str(name);
    }

    fn bounded(&self, name: &str, max: Option<&Bound>, from: Place, out: &mut String) {
        self.own(name, from, out);
        if let Some(max) = max {
            out.push('<');
            self.argument_bound(max, out);
            out.push('>');
        }
    }

    /// A bound as a `u32` among a type's arguments. There the name of a constant that a type has too means the type.
    fn argument_bound(&self, bound: &Bound, out: &mut String) {
        let is_type =
            bound.constant.as_ref().is_some_and(|constant| self.also_types.contains(constant.as_str()));
        out.push_str(if is_type { "{ " } else { "" });
        word_bound(bound, out);
        out.push_str(if is_type { " }" } else { "" });
    }

    fn named(&self, id: TypeId, from: Place, out: &mut String) {
        let Some(ty) = self.module.get(id) else { return };
        let above = match from {
            Place::Types => "",
            Place::Version => "super::",
            Place::Procedures => "super::super::",
        };
        add(out, [above, &ty.ident, Self::argument(ty, from)]);
    }

    /// A type where it is used.
    fn ty(&self, ty: &Type, from: Place, out: &mut String) {
        match ty {
            Type::Void => out.push_str("()"),
            Type::Scalar(scalar) => match scalar_type(*scalar) {
                Ok(name) => out.push_str(name),
                Err(name) => self.own(name, from, out),
            },
            Type::Named(id) => self.named(*id, from, out),
            Type::Extern(path) => out.push_str(path),
            Type::FixedOpaque(len) => {
                out.push_str("[u8; ");
                size_bound(len, out);
                out.push(']');
            }
            Type::Opaque(max) if self.is_borrowed() => {
                self.borrowed("OpaqueRef", None, max.as_ref(), from, out);
            }
            Type::String(max) if self.is_borrowed() => {
                self.borrowed("StringRef", None, max.as_ref(), from, out);
            }
            Type::Array(of) if self.is_borrowed() => self.borrowed("ArrayRef", Some(of), None, from, out),
            Type::Boxed(of) if self.is_borrowed() => self.borrowed("BoxRef", Some(of), None, from, out),
            Type::Opaque(max) => self.bounded("Opaque", max.as_ref(), from, out),
            Type::String(max) => self.bounded("XdrString", max.as_ref(), from, out),
            Type::SmallOpaque(max) => {
                self.own("SmallOpaque", from, out);
                out.push_str(if max.constant.is_some() { "<{ " } else { "<" });
                size_bound(max, out);
                out.push_str(if max.constant.is_some() { " }>" } else { ">" });
            }
            Type::FixedArray(of, len) => {
                out.push('[');
                self.ty(of, from, out);
                out.push_str("; ");
                size_bound(len, out);
                out.push(']');
            }
            Type::Array(of) => self.wrapped("Vec<", of, from, out),
            Type::Optional(of) => self.wrapped("Option<", of, from, out),
            Type::Boxed(of) => self.wrapped("Box<", of, from, out),
        }
    }

    fn wrapped(&self, open: &str, of: &Type, from: Place, out: &mut String) {
        out.push_str(open);
        self.ty(of, from, out);
        out.push('>');
    }

    /// The document's name, for a search in the documentation, among tokens.
    fn alias_token(&self, name: &str, ident: &str) -> Literal {
        self.texts.with(|out| types::alias(name, ident, out))
    }
}

/// Adds some parts.
fn add<const N: usize>(out: &mut String, parts: [&str; N]) {
    parts.into_iter().for_each(|part| out.push_str(part));
}

/// The name of a scalar's type: one of Rust's own, or else one of the runtime's.
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

/// A bound as a `u32`.
fn word_bound(bound: &Bound, out: &mut String) {
    match &bound.constant {
        Some(constant) => out.push_str(constant),
        None => types::number(i128::from(bound.value), out),
    }
}

/// A bound as a `usize`.
fn size_bound(bound: &Bound, out: &mut String) {
    word_bound(bound, out);
    if bound.constant.is_some() {
        out.push_str(" as usize");
    }
}

/// A name that names.rs chose.
fn ident(name: &str) -> proc_macro2::Ident {
    if !is_ident(name) {
        return format_ident!("_");
    }
    let (make, name): (fn(&str, _) -> _, _) = match name.strip_prefix("r#") {
        Some(rest) => (proc_macro2::Ident::new_raw, rest),
        None => (proc_macro2::Ident::new, name),
    };
    make(name, proc_macro2::Span::call_site())
}

fn number(value: i128) -> TokenStream {
    proc_macro2::Literal::i128_unsuffixed(value).into_token_stream()
}

/// Tokens from text of our own, or from a path that the user gave and that was checked.
pub(crate) fn parse(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}
