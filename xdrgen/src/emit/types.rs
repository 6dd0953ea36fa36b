//! Types and constants.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};

use super::{Emitter, Place, docs, ident, number, word_bound};
use crate::ir::{Arm, Body, Const, ConstType, Docs, Field, Label, Member, Type, TypeDef, Union};

/// The path of the runtime that derives take for granted.
const OWN_PATH: &str = "::rpcrdma_runtime";

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Const) -> TokenStream {
        let name = ident(&constant.ident);
        let value = number(constant.value);
        let ty = ident(match constant.ty {
            ConstType::U32 => "u32",
            ConstType::I32 => "i32",
            ConstType::U64 => "u64",
            ConstType::I64 => "i64",
        });
        let docs = self.definition_docs(&constant.name, &constant.ident, &constant.docs);
        let allow = self.allow_const(&constant.ident);
        quote!(#docs #allow pub const #name: #ty = #value;)
    }

    /// A type, and what belongs to it.
    pub(super) fn type_def(&self, ty: &TypeDef) -> Vec<TokenStream> {
        let name = ident(&ty.ident);
        let (docs, allow) = (self.definition_docs(&ty.name, &ty.ident, &ty.docs), self.allow_type(ty));
        let docs = quote!(#docs #allow);
        let container = |union: Option<&str>| self.container_attribute(union);
        let lifetime = Self::parameter(ty);
        match &ty.body {
            Body::Alias(of) => {
                let of = self.ty(of, Place::Types);
                vec![quote!(#docs pub type #name #lifetime = #of;)]
            }
            Body::Newtype(field) => {
                let (derives, container) = (self.derive_attributes(ty.derives, true), container(None));
                let (attributes, of) = (self.field_attributes(field), self.field_type(field, Place::Types));
                vec![
                    quote!(#docs #derives #container pub struct #name #lifetime(#attributes pub #of);),
                    quote!(impl #lifetime ::core::convert::From<#of> for #name #lifetime { fn from(value: #of) -> Self { #name(value) } }),
                    quote!(impl #lifetime ::core::convert::From<#name #lifetime> for #of { fn from(value: #name #lifetime) -> Self { value.0 } }),
                ]
            }
            Body::Enum(members) => self.enumeration(ty, members, &docs),
            Body::Struct(fields) => {
                let (derives, container) = (self.derive_attributes(ty.derives, true), container(None));
                let fields = fields.iter().map(|field| {
                    let (docs, attributes) =
                        (self.texts.attribute(docs::part(&field.docs)), self.field_attributes(field));
                    let (name, alias) = (ident(&field.ident), self.alias(&field.name, &field.ident));
                    let ty = self.field_type(field, Place::Types);
                    quote!(#docs #alias #attributes pub #name: #ty)
                });
                vec![quote!(#docs #derives #container pub struct #name #lifetime { #(#fields,)* })]
            }
            Body::Tuple(fields) => {
                let (derives, container) = (self.derive_attributes(ty.derives, true), container(None));
                let fields = fields.iter().map(|field| {
                    let (attributes, ty) =
                        (self.field_attributes(field), self.field_type(field, Place::Types));
                    quote!(#attributes pub #ty)
                });
                vec![quote!(#docs #derives #container pub struct #name #lifetime(#(#fields),*);)]
            }
            Body::Union(union) => self.union(ty, union, &docs),
        }
    }

    /// `#[xdr(...)]` on a type, if it says anything.
    fn container_attribute(&self, union: Option<&str>) -> Option<TokenStream> {
        let path = &self.runtime_path;
        if let Some(union) = union.filter(|union| is_plain(union) && path == OWN_PATH)
            && let Some(whole) = self.texts.whole(format!("#[xdr(union = \"{union}\")]"))
        {
            return Some(whole.into_token_stream());
        }
        let krate = (path != OWN_PATH).then(|| quote!(crate = #path));
        let union = union.map(|union| quote!(union = #union));
        let parts: Vec<TokenStream> = union.into_iter().chain(krate).collect();
        (!parts.is_empty()).then(|| quote!(#[xdr(#(#parts),*)]))
    }

    fn field_attributes(&self, field: &Field) -> TokenStream {
        // What borrows says these things by its type.
        let owns = !matches!(field.ty, Type::Array(_)) || !self.is_borrowed();
        let eligible = field.eligible.then(|| quote!(#[ddp_eligible]));
        let list = (field.list && owns).then(|| quote!(#[xdr(list)]));
        let max = field.max.as_ref().filter(|_| owns).map(|max| {
            let max = word_bound(max);
            quote!(#[xdr(max = #max)])
        });
        let recursive = field.recursive.then(|| quote!(#[xdr(recursive)]));
        let hints = self.field_hints(field);
        quote!(#eligible #list #max #recursive #hints)
    }

    fn enumeration(&self, ty: &TypeDef, members: &[Member], docs: &TokenStream) -> Vec<TokenStream> {
        let name = ident(&ty.ident);
        let (derives, container) = (self.derive_attributes(ty.derives, true), self.container_attribute(None));
        let variants = members.iter().filter(|member| member.same_as.is_none()).map(|member| {
            let docs = self.texts.attribute(docs::part(&member.docs));
            let (variant, alias, value) = (
                ident(&member.ident),
                self.alias(&member.name, &member.ident),
                number(i128::from(member.value)),
            );
            let default = (member.value == 0).then(|| quote!(#[default]));
            quote!(#docs #alias #default #variant = #value)
        });
        let mut items =
            vec![quote!(#docs #derives #container #[repr(i32)] pub enum #name { #(#variants,)* })];
        let constants: Vec<TokenStream> = members
            .iter()
            .filter_map(|member| {
                let same = ident(&members.get(member.same_as?)?.ident);
                let docs = self.texts.attribute(docs::part(&member.docs));
                let (constant, alias) = (ident(&member.ident), self.alias(&member.name, &member.ident));
                let allow = self.allow_const(&member.ident);
                Some(quote!(#docs #alias #allow pub const #constant: #name = #name::#same;))
            })
            .collect();
        if !constants.is_empty() {
            items.push(quote!(impl #name { #(#constants)* }));
        }
        items
    }

    fn union(&self, ty: &TypeDef, union: &Union, docs: &TokenStream) -> Vec<TokenStream> {
        let (name, lifetime) = (ident(&ty.ident), Self::parameter(ty));
        let discriminant = self.ty(&union.discriminant, Place::Types);
        let initial = union.initial.and_then(|index| union.arms.get(index)).filter(|_| ty.derives.default);
        let derived = initial.is_some_and(|arm| !arm.keeps_discriminant() && arm.payload.is_none());
        let (derives, container) = (
            self.derive_attributes(ty.derives, derived),
            self.container_attribute(Some(&discriminant.to_string())),
        );
        let large = union.uneven.then(|| {
            quote!(#[allow(clippy::large_enum_variant, reason = "a box would hide how long the payload can be")])
        });
        let arms = union.arms.iter().enumerate().map(|(index, arm)| {
            let default = (derived && union.initial == Some(index)).then(|| quote!(#[default]));
            self.arm(union, arm, &discriminant, default)
        });
        let mut items =
            vec![quote!(#docs #derives #container #large pub enum #name #lifetime { #(#arms,)* })];
        if let Some(arm) = initial.filter(|_| !derived) {
            let variant = ident(&arm.ident);
            let parts = usize::from(arm.keeps_discriminant()) + usize::from(arm.payload.is_some());
            let parts = std::iter::repeat_n(quote!(::core::default::Default::default()), parts);
            items.push(quote! {
                impl #lifetime ::core::default::Default for #name #lifetime {
                    fn default() -> Self { #name::#variant(#(#parts),*) }
                }
            });
        }
        items
    }

    fn arm(
        &self,
        union: &Union,
        arm: &Arm,
        discriminant: &TokenStream,
        default: Option<TokenStream>,
    ) -> TokenStream {
        let docs = self.texts.attribute(docs::part(&arm.docs));
        let name = ident(&arm.ident);
        let chosen = self.chosen(arm);
        let (hint, kept_hint) = self.arm_hints(union, arm);
        let kept = arm.keeps_discriminant().then(|| quote!(#kept_hint #discriminant));
        let payload = arm.payload.as_ref().map(|field| {
            let (attributes, ty) = (self.field_attributes(field), self.field_type(field, Place::Types));
            quote!(#attributes #ty)
        });
        let parts: Vec<TokenStream> = kept.into_iter().chain(payload).collect();
        let parts = (!parts.is_empty()).then(|| quote!((#(#parts),*)));
        quote!(#docs #default #chosen #hint #name #parts)
    }

    /// The attribute that says which discriminants choose an arm.
    fn chosen(&self, arm: &Arm) -> TokenStream {
        let whole = match arm.labels.as_slice() {
            [] => self.texts.whole("#[xdr(default)]"),
            [label] => self
                .member_path(label)
                .filter(|path| is_plain(path))
                .and_then(|path| self.texts.whole(format!("#[xdr(case = \"{path}\")]"))),
            _ => None,
        };
        if let Some(whole) = whole {
            return whole.into_token_stream();
        }
        let cases = arm.labels.iter().map(|label| match label {
            Label::Member { .. } => {
                let path = self.member_path(label);
                quote!(case = #path)
            }
            Label::Number(value) => {
                let value = number(*value);
                quote!(case = #value)
            }
            Label::Bool(value) => quote!(case = #value),
        });
        quote!(#[xdr(#(#cases),*)])
    }

    fn definition_docs(&self, name: &str, ident: &str, text: &Docs) -> TokenStream {
        let (docs, alias) = (self.texts.attribute(docs::definition(name, text)), self.alias(name, ident));
        quote!(#docs #alias)
    }

    /// The document's name for a search in the documentation, where Rust's differs.
    pub(super) fn alias(&self, name: &str, ident: &str) -> Option<TokenStream> {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name || ident.trim_start_matches("r#") == name {
            return None;
        }
        let whole = is_plain(name).then(|| self.texts.whole(format!("#[doc(alias = \"{name}\")]"))).flatten();
        Some(whole.map_or_else(|| quote!(#[doc(alias = #name)]), Literal::into_token_stream))
    }

    /// `Enum::Member`
    pub(super) fn member_path(&self, label: &Label) -> Option<String> {
        let Label::Member { of, index } = label else { return None };
        let ty = self.module.get(*of)?;
        match &ty.body {
            Body::Enum(members) => Some(format!("{}::{}", ty.ident, members.get(*index)?.ident)),
            _ => None,
        }
    }
}

/// Whether a text is the same between quotation marks.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'#'))
}
