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

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

use crate::hash::HashSet;
use crate::ir::{Bound, Item, Module, Scalar, Type, TypeId};
use crate::names::Names;
use crate::sizes::Layouts;

pub(crate) use derives::Known;
pub(crate) use docs::Texts;
pub(crate) use documents::Document;
pub(crate) use file::{Files, Head};

/// What emission is told besides the module.
pub(crate) struct Emitter<'m> {
    pub(crate) module: &'m Module,
    /// The path of the runtime: `::rpcrdma_runtime`, or `crate` inside it.
    pub(crate) runtime: syn::Path,
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
            runtime: syn::parse_str(&runtime_path).unwrap_or_else(|_| syn::Path::from(ident("crate"))),
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
    /// Items, in their order.
    fn items(&self, wanted: &[Item]) -> Vec<TokenStream> {
        let mut items = Vec::new();
        for item in wanted {
            match item {
                Item::Const(index) => {
                    items.extend(self.module.consts.get(*index).map(|one| self.constant(one)))
                }
                Item::Type(id) => {
                    items.extend(self.module.get(*id).into_iter().flat_map(|ty| self.type_def(ty)))
                }
                Item::Program(index) => {
                    let program = self.module.programs.get(*index);
                    items.extend(program.into_iter().flat_map(|program| self.program(program)));
                }
            }
        }
        items
    }

    /// The crate that has `Box` and `Vec`.
    fn heap(&self) -> TokenStream {
        if self.std { quote!(::std) } else { quote!(::alloc) }
    }

    fn bounded(&self, name: &TokenStream, max: Option<&Bound>) -> TokenStream {
        match max {
            None => name.clone(),
            Some(max) => {
                let max = self.argument_bound(max);
                quote!(#name<#max>)
            }
        }
    }

    /// A bound as a `u32` among a type's arguments. There the name of a constant that a type has too means the type.
    fn argument_bound(&self, bound: &Bound) -> TokenStream {
        let max = word_bound(bound);
        let is_type =
            bound.constant.as_ref().is_some_and(|constant| self.also_types.contains(constant.as_str()));
        if is_type { quote!({ #max }) } else { max }
    }

    fn named(&self, id: TypeId, from: Place) -> TokenStream {
        let Some(ty) = self.module.get(id) else { return TokenStream::new() };
        let (name, lifetime) = (ident(&ty.ident), Self::argument(ty, from));
        match from {
            Place::Types => quote!(#name #lifetime),
            Place::Version => quote!(super::#name #lifetime),
            Place::Procedures => quote!(super::super::#name #lifetime),
        }
    }

    /// A type where it is used.
    fn ty(&self, ty: &Type, from: Place) -> TokenStream {
        let runtime = &self.runtime;
        let own = |name: &str| {
            let name = format_ident!("{name}");
            if from == Place::Types { quote!(#name) } else { quote!(#runtime::xdr::#name) }
        };
        match ty {
            Type::Void => quote!(()),
            Type::Scalar(scalar) => scalar_type(*scalar).map_or_else(own, |name| {
                let name = format_ident!("{name}");
                quote!(#name)
            }),
            Type::Named(id) => self.named(*id, from),
            Type::Extern(path) => parse(path),
            Type::FixedOpaque(len) => {
                let len = size_bound(len);
                quote!([u8; #len])
            }
            Type::Opaque(max) if self.is_borrowed() => self.borrowed("OpaqueRef", None, max.as_ref(), from),
            Type::String(max) if self.is_borrowed() => self.borrowed("StringRef", None, max.as_ref(), from),
            Type::Array(of) if self.is_borrowed() => self.borrowed("ArrayRef", Some(of), None, from),
            Type::Boxed(of) if self.is_borrowed() => self.borrowed("BoxRef", Some(of), None, from),
            Type::Opaque(max) => self.bounded(&own("Opaque"), max.as_ref()),
            Type::String(max) => self.bounded(&own("XdrString"), max.as_ref()),
            Type::SmallOpaque(max) => {
                let (name, max) = (own("SmallOpaque"), size_bound(max));
                let max = if is_plain(&max) { max } else { quote!({ #max }) };
                quote!(#name<#max>)
            }
            Type::FixedArray(of, len) => {
                let (of, len) = (self.ty(of, from), size_bound(len));
                quote!([#of; #len])
            }
            Type::Array(of) => {
                let of = self.ty(of, from);
                quote!(Vec<#of>)
            }
            Type::Optional(of) => {
                let of = self.ty(of, from);
                quote!(Option<#of>)
            }
            Type::Boxed(of) => {
                let of = self.ty(of, from);
                quote!(Box<#of>)
            }
        }
    }
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
fn word_bound(bound: &Bound) -> TokenStream {
    match &bound.constant {
        Some(constant) => {
            let constant = ident(constant);
            quote!(#constant)
        }
        None => number(i128::from(bound.value)),
    }
}

/// A bound as a `usize`.
fn size_bound(bound: &Bound) -> TokenStream {
    match &bound.constant {
        Some(constant) => {
            let constant = ident(constant);
            quote!(#constant as usize)
        }
        None => number(i128::from(bound.value)),
    }
}

fn is_plain(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().count() == 1
}

/// A name that names.rs chose.
fn ident(name: &str) -> proc_macro2::Ident {
    let (raw, rest) = name.strip_prefix("r#").map_or((false, name), |rest| (true, rest));
    if rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()) || !rest.chars().all(is_part_of_name)
    {
        return syn::parse_str(name).unwrap_or_else(|_| format_ident!("_"));
    }
    let make = if raw { proc_macro2::Ident::new_raw } else { proc_macro2::Ident::new };
    make(rest, proc_macro2::Span::call_site())
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn number(value: i128) -> TokenStream {
    proc_macro2::Literal::i128_unsuffixed(value).into_token_stream()
}

/// Tokens from text of our own, or from a path that the user gave and that was checked.
fn parse(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}
