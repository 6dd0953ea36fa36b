//! Derives beside the encoding: serde's, arbitrary's, any other's; and what fields must tell the first two, so that
//! bounds hold.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, add, number, parse};
use crate::hir::MAX_DEPTH;
use crate::ir::{Arm, Body, Bound, Derives, Field, Label, Type, Union};

/// serde has arrays up to this length.
const SERDE_ARRAY: u32 = 32;

/// The derives that the compiler knows more of than their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Serde,
    Arbitrary,
}

impl Known {
    /// The derive that is asked for by a name that is no path.
    pub(crate) fn named(name: &str) -> Option<Known> {
        match name {
            "serde" => Some(Known::Serde),
            "arbitrary" => Some(Known::Arbitrary),
            _ => None,
        }
    }

    /// Its crate, and the feature of emitted crates and of the runtime.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Known::Serde => "serde",
            Known::Arbitrary => "arbitrary",
        }
    }

    /// What its feature gives.
    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Known::Serde => "every type can be written and read by [serde](https://serde.rs).",
            Known::Arbitrary => "every type can be made from the bytes of a fuzzer.",
        }
    }

    /// Its crate as a dependency of a crate that stands alone.
    pub(crate) fn dependency(self) -> &'static str {
        match self {
            Known::Serde => {
                "{ version = \"1\", default-features = false, features = [\"alloc\", \"derive\"], optional = true }"
            }
            Known::Arbitrary => "{ version = \"1\", features = [\"derive\"], optional = true }",
        }
    }

    fn traits(self) -> &'static str {
        match self {
            Known::Serde => "::serde::Serialize, ::serde::Deserialize",
            Known::Arbitrary => "::arbitrary::Arbitrary",
        }
    }
}

/// The derives where none were asked for besides, as an attribute.
fn usual(derives: Derives, default: bool) -> &'static str {
    match (derives.copy, derives.default && default, derives.eq) {
        (false, false, false) => "#[derive(Clone, Debug, PartialEq, Xdr)]",
        (false, false, true) => "#[derive(Clone, Debug, PartialEq, Eq, Hash, Xdr)]",
        (false, true, false) => "#[derive(Clone, Debug, Default, PartialEq, Xdr)]",
        (false, true, true) => "#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Xdr)]",
        (true, false, false) => "#[derive(Clone, Copy, Debug, PartialEq, Xdr)]",
        (true, false, true) => "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]",
        (true, true, false) => "#[derive(Clone, Copy, Debug, Default, PartialEq, Xdr)]",
        (true, true, true) => "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)]",
    }
}

impl Emitter<'_> {
    /// `#[derive(...)]`. In a crate serde's and arbitrary's hang on features.
    pub(super) fn derive_attributes(&self, derives: Derives, default: bool, out: &mut String) {
        if self.derives.is_empty() {
            return add(out, [usual(derives, default), "\n"]);
        }
        let copy = if derives.copy { "Copy, " } else { "" };
        let default = if derives.default && default { "Default, " } else { "" };
        let eq = if derives.eq { "Eq, Hash, " } else { "" };
        add(out, ["#[derive(Clone, ", copy, "Debug, ", default, "PartialEq, ", eq, "Xdr"]);
        let is_apart = |derive: &&String| self.features && Known::named(derive).is_some();
        for derive in self.derives.iter().filter(|derive| !is_apart(derive)) {
            let traits = Known::named(derive).map(Known::traits);
            add(out, [", ", traits.unwrap_or(derive)]);
        }
        out.push_str(")]\n");
        for known in self.derives.iter().filter(is_apart).filter_map(|derive| Known::named(derive)) {
            let (feature, traits) = (known.name(), known.traits());
            add(out, ["#[cfg_attr(feature = \"", feature, "\", derive(", traits, "))]\n"]);
        }
    }

    /// What the derives are told of a field.
    pub(super) fn field_hints(&self, field: &Field, out: &mut String) {
        if self.derives.is_empty() {
            return;
        }
        let runtime = &self.runtime;
        let serde = self.knows(Known::Serde).and_then(|()| {
            let shape = self.shape(&field.ty, field.max.as_ref())?;
            let with = quote!(#runtime::xdr::serde_as::As::<#shape>).to_string().replace(' ', "");
            Some(self.hint(Known::Serde, &quote!(serde(with = #with))))
        });
        let arbitrary = self.knows(Known::Arbitrary).and_then(|()| {
            let max = self.argument_bound_tokens(field.max.as_ref()?);
            let with = quote!(#runtime::xdr::arbitrary_with::array::<_, #max>);
            Some(self.hint(Known::Arbitrary, &quote!(arbitrary(with = #with))))
        });
        serde.into_iter().chain(arbitrary).for_each(|hint| add(out, [&hint, " "]));
    }

    /// What the derives are told of an arm, and of the discriminant that it keeps, which has to choose this arm.
    pub(super) fn arm_hints(&self, name: &str, union: &Union, index: usize) -> (String, String) {
        let (mut hint, mut kept_hint) = (String::new(), String::new());
        let Some(arm) = union.arms.get(index).filter(|arm| arm.keeps_discriminant()) else {
            return (hint, kept_hint);
        };
        let runtime = &self.runtime;
        if self.knows(Known::Arbitrary).is_some() {
            let (function, labels) = self.choice(union, arm);
            if labels.is_empty() && function == "one_of" {
                hint = self.hint(Known::Arbitrary, &quote!(arbitrary(skip)));
            } else {
                let function = super::ident(function);
                let with = quote!(#runtime::xdr::arbitrary_with::#function(&[#(#labels),*]));
                kept_hint = self.hint(Known::Arbitrary, &quote!(arbitrary(with = #with)));
            }
        }
        if self.knows(Known::Serde).is_some() {
            let path = quote!(#runtime::xdr::serde_as::Kept).to_string().replace(' ', "");
            let with = format!("{path}::<{name}, {index}>");
            kept_hint.push_str(&self.hint(Known::Serde, &quote!(serde(with = #with))));
        }
        (hint, kept_hint)
    }

    /// The discriminants of an arm: one of these, or none of these.
    fn choice(&self, union: &Union, arm: &Arm) -> (&'static str, Vec<TokenStream>) {
        if !arm.labels.is_empty() {
            return ("one_of", arm.labels.iter().map(|label| self.label(label)).collect());
        }
        let taken: Vec<&Label> = union.arms.iter().flat_map(|arm| &arm.labels).collect();
        let bools = [Label::Bool(false), Label::Bool(true)];
        let all: Vec<Label> = match self.behind(&union.discriminant) {
            Type::Named(of) => match self.module.get(*of).map(|ty| &ty.body) {
                Some(Body::Enum(members)) => {
                    let members = members.iter().enumerate().filter(|(_, member)| member.same_as.is_none());
                    members.map(|(index, _)| Label::Member { of: *of, index }).collect()
                }
                _ => Vec::new(),
            },
            Type::Scalar(crate::ir::Scalar::Bool) => bools.into(),
            _ => return ("none_of", taken.into_iter().map(|label| self.label(label)).collect()),
        };
        let taken: crate::hash::HashSet<i128> =
            taken.into_iter().filter_map(|label| self.key(label)).collect();
        let free = all.iter().filter(|label| self.key(label).is_some_and(|key| !taken.contains(&key)));
        ("one_of", free.map(|label| self.label(label)).collect())
    }

    fn key(&self, label: &Label) -> Option<i128> {
        match label {
            Label::Bool(value) => Some(i128::from(*value)),
            Label::Number(value) => Some(*value),
            Label::Member { of, index } => match &self.module.get(*of)?.body {
                Body::Enum(members) => members.get(*index).map(|member| i128::from(member.value)),
                _ => None,
            },
        }
    }

    fn label(&self, label: &Label) -> TokenStream {
        match label {
            Label::Bool(value) => quote!(#value),
            Label::Number(value) => number(*value),
            Label::Member { .. } => {
                let mut path = String::new();
                self.member_path(label, &mut path);
                parse(&path)
            }
        }
    }

    /// The shape in which serde reads a type, where it is not serde's own.
    fn shape(&self, ty: &Type, max: Option<&Bound>) -> Option<TokenStream> {
        let runtime = &self.runtime;
        let shapes = quote!(#runtime::xdr::serde_as);
        let inner = |of: &Type| self.shape(of, None).unwrap_or_else(|| quote!(#shapes::Same));
        let wrapped =
            |of: &Type, shape: TokenStream| self.shape(of, None).map(|of| quote!(#shapes::#shape<#of>));
        match self.behind(ty) {
            Type::Array(of) => match max {
                None => wrapped(of, quote!(Many)),
                Some(max) => {
                    let (of, max) = (inner(of), self.argument_bound_tokens(max));
                    Some(quote!(#shapes::Bounded<#of, #max>))
                }
            },
            Type::FixedOpaque(len) => {
                (len.value > SERDE_ARRAY).then(|| quote!(#shapes::Array<#shapes::Same>))
            }
            Type::FixedArray(of, len) if len.value > SERDE_ARRAY => {
                let of = inner(of);
                Some(quote!(#shapes::Array<#of>))
            }
            Type::FixedArray(of, _) => wrapped(of, quote!(Array)),
            Type::Optional(of) => wrapped(of, quote!(Maybe)),
            Type::Boxed(of) => wrapped(of, quote!(Boxed)),
            _ => None,
        }
    }

    /// What a type is behind its aliases.
    fn behind<'t>(&'t self, ty: &'t Type) -> &'t Type {
        let mut ty = ty;
        for _ in 0..=MAX_DEPTH {
            match ty {
                Type::Named(id) => match self.module.get(*id).map(|ty| &ty.body) {
                    Some(Body::Alias(of)) => ty = of,
                    _ => break,
                },
                _ => break,
            }
        }
        ty
    }

    fn knows(&self, wanted: Known) -> Option<()> {
        self.derives.iter().any(|derive| Known::named(derive) == Some(wanted)).then_some(())
    }

    fn argument_bound_tokens(&self, bound: &Bound) -> TokenStream {
        let mut code = String::new();
        self.argument_bound(bound, &mut code);
        parse(&code)
    }

    /// An attribute, which may be too long for a line.
    fn hint(&self, of: Known, attribute: &TokenStream) -> String {
        if self.features {
            let feature = of.name();
            quote!(#[cfg_attr(feature = #feature, #attribute)]).to_string()
        } else {
            quote!(#[#attribute]).to_string()
        }
    }
}
