//! The derive's model of the input.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident};
use rpcrdma_layout::{Items, Size};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Fields, Ident, Member, Path, Result, Type, parse_quote};

use crate::attr::{Attrs, Errors, Place};
use crate::cycle::{Cycle, Owner};
use crate::syntax::{Borrow, borrow, number};

pub(crate) struct Container<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) krate: Path,
    /// Whether the type belongs to a program that is called only in the backward direction.
    pub(crate) backward: bool,
    /// The items declared by `#[xdr(items = N, largest = SIZE)]`.
    pub(crate) items: Option<(Span, Items)>,
    pub(crate) body: Body<'a>,
}

pub(crate) enum Body<'a> {
    Struct(Vec<Field<'a>>),
    Enum(Vec<Variant<'a>>),
    Union { discriminant: Box<Type>, arms: Vec<Arm<'a>> },
}

pub(crate) struct Variant<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) unknown: Option<Unknown>,
}

/// An enum value that only the compiler can compute.
#[derive(Clone, Copy)]
pub(crate) enum Unknown {
    /// The value of the expression with this span.
    Given(Span),
    /// No expression: one more than the previous value, or 0 for the first.
    Follows,
}

pub(crate) struct Field<'a> {
    pub(crate) member: Member,
    /// The variable that generated code binds to the field.
    pub(crate) binding: Ident,
    /// The name in runtime errors.
    pub(crate) name: String,
    pub(crate) ty: &'a Type,
    /// The type in generated code: an alias, unless the derived type has type or const parameters.
    pub(crate) alias: TokenStream,
    pub(crate) attrs: Attrs,
    /// An expression for the bound in `max`, of type `u32`.
    pub(crate) bound: Option<TokenStream>,
    /// Set if the field may contain values of the derived type.
    pub(crate) cycle: Option<Cycle>,
}

pub(crate) enum Kind<'f> {
    Eligible,
    /// `&[u8]` or `&str` with a bound.
    Slice(&'f TokenStream),
    /// A counted array with a bound.
    Array(&'f TokenStream),
    /// A linked list of optional data.
    List,
    /// Any other field, which has the encoding of its type.
    Plain,
}

impl Field<'_> {
    pub(crate) fn kind(&self) -> Kind<'_> {
        match &self.bound {
            _ if self.attrs.eligible.is_some() => Kind::Eligible,
            Some(bound) if borrow(self.ty) == Some(Borrow::Slice) => Kind::Slice(bound),
            Some(bound) => Kind::Array(bound),
            None if self.attrs.list.is_some() => Kind::List,
            None => Kind::Plain,
        }
    }

    /// Returns the field's name with the span of its type, so that errors are reported at the type.
    pub(crate) fn member_at_type(&self) -> Member {
        let mut member = self.member.clone();
        let span = self.ty.span();
        match &mut member {
            Member::Named(name) => name.set_span(span.resolved_at(name.span())),
            Member::Unnamed(index) => index.span = span.resolved_at(index.span),
        }
        member
    }
}

pub(crate) struct Arm<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) cases: Vec<Expr>,
    pub(crate) default: Option<Span>,
    /// The type of the first field if it stores the discriminant.
    pub(crate) kept: Option<&'a Type>,
    pub(crate) payload: Option<Field<'a>>,
}

impl<'a> Container<'a> {
    pub(crate) fn from_input(input: &'a DeriveInput) -> Result<Self> {
        let mut errors = Errors::default();
        let attrs = Attrs::parse(Place::Type, &input.attrs, &mut errors);
        if attrs.failed {
            errors.finish()?;
            errors = Errors::default();
        }
        let owner = Owner { ident: &input.ident, generics: &input.generics };
        let body = match &input.data {
            Data::Struct(data) => {
                if let Some(union) = &attrs.union {
                    errors.at(union, "an XDR union is a Rust enum: write one variant for each arm");
                }
                Body::Struct(fields(owner, &data.fields, &mut errors))
            }
            Data::Enum(data) => match attrs.union {
                Some(discriminant) => Body::Union {
                    discriminant: Box::new(discriminant),
                    arms: data
                        .variants
                        .iter()
                        .filter_map(|variant| arm(owner, variant, &mut errors))
                        .collect(),
                },
                None => Body::Enum(data.variants.iter().map(|variant| value(variant, &mut errors)).collect()),
            },
            Data::Union(data) => {
                let message =
                    "a Rust union has no discriminant: write an enum with `#[xdr(union = \"Type\")]`";
                return Err(Error::new_spanned(data.union_token, message));
            }
        };
        let items = declared(attrs.items, attrs.largest, &mut errors);
        errors.finish()?;
        Ok(Container {
            owner,
            krate: attrs.krate.unwrap_or_else(|| parse_quote!(::rpcrdma_runtime)),
            backward: attrs.backward.is_some(),
            items,
            body,
        })
    }

    pub(crate) fn fields_mut(&mut self) -> Vec<&mut Field<'a>> {
        match &mut self.body {
            Body::Struct(fields) => fields.iter_mut().collect(),
            Body::Union { arms, .. } => arms.iter_mut().filter_map(|arm| arm.payload.as_mut()).collect(),
            Body::Enum(_) => Vec::new(),
        }
    }

    pub(crate) fn fields(&self) -> Vec<&Field<'a>> {
        match &self.body {
            Body::Struct(fields) => fields.iter().collect(),
            Body::Union { arms, .. } => arms.iter().filter_map(|arm| arm.payload.as_ref()).collect(),
            Body::Enum(_) => Vec::new(),
        }
    }
}

fn declared(
    items: Option<(Span, Size)>,
    largest: Option<(Span, Size)>,
    errors: &mut Errors,
) -> Option<(Span, Items)> {
    match (items, largest) {
        (Some((span, Size::ZERO)), None) => return Some((span, Items::NONE)),
        (Some((span, count)), Some((_, largest))) => return Some((span, Items { count, largest })),
        (Some((span, _)), None) => {
            errors.at_span(span, "`items` needs the size of the largest item: add `largest = SIZE`")
        }
        (None, Some((span, _))) => {
            errors.at_span(span, "`largest` needs the number of items: add `items = N`")
        }
        (None, None) => {}
    }
    None
}

fn fields<'a>(owner: Owner<'_>, fields: &'a Fields, errors: &mut Errors) -> Vec<Field<'a>> {
    fields.iter().enumerate().map(|(index, field)| one_field(owner, index, field, errors)).collect()
}

fn one_field<'a>(owner: Owner<'_>, index: usize, field: &'a syn::Field, errors: &mut Errors) -> Field<'a> {
    let attrs = Attrs::parse(Place::Field, &field.attrs, errors);
    let (member, name) = match &field.ident {
        Some(ident) => (Member::Named(ident.clone()), ident.to_string()),
        None => (Member::Unnamed(index.into()), index.to_string()),
    };
    Field {
        member,
        binding: format_ident!("__field_{index}"),
        name: attrs.name.clone().unwrap_or_else(|| name.trim_start_matches("r#").to_owned()),
        ty: &field.ty,
        alias: field.ty.to_token_stream(),
        cycle: owner.cycle(&field.ty, attrs.recursive.is_some()),
        attrs,
        bound: None,
    }
}

// ---- enums

pub(crate) const VALUE: &str = "an enum's value is a signed 32-bit integer (RFC 4506 section 4.3): write a value from -2147483648 to 2147483647";

fn value<'a>(variant: &'a syn::Variant, errors: &mut Errors) -> Variant<'a> {
    if !matches!(variant.fields, Fields::Unit) {
        errors.at(
            &variant.ident,
            "a variant with data makes this enum a union: name its discriminant with `#[xdr(union = \"Type\")]` on the enum",
        );
    }
    Attrs::parse(Place::Value, &variant.attrs, errors);
    let explicit = variant.discriminant.as_ref().map(|(_, value)| value);
    let unknown = match explicit.map(|value| (value, number(value))) {
        None => Some(Unknown::Follows),
        Some((value, None)) => Some(Unknown::Given(value.span())),
        Some((value, Some(number))) => {
            if i32::try_from(number).is_err() {
                errors.at(value, VALUE);
            }
            None
        }
    };
    Variant { ident: &variant.ident, unknown }
}

// ---- unions

fn arm<'a>(owner: Owner<'_>, variant: &'a syn::Variant, errors: &mut Errors) -> Option<Arm<'a>> {
    let attrs = Attrs::parse(Place::Arm, &variant.attrs, errors);
    if let Fields::Named(_) = &variant.fields {
        errors.at(
            &variant.fields,
            "a union's arm is one declaration: write a tuple variant with one payload, or none for `void`",
        );
        return None;
    }
    if let Some((_, value)) = &variant.discriminant {
        errors.at(value, "labels select a union's arm: write `#[xdr(case = ...)]` instead of `= value`");
    }
    if attrs.cases.is_empty() && attrs.default.is_none() {
        if !attrs.failed {
            errors.at(&variant.ident, "this arm has no label: add `#[xdr(case = ...)]` or `#[xdr(default)]`");
        }
        return None;
    }
    let keeps_discriminant = attrs.default.is_some() || attrs.cases.len() > 1;
    let mut fields = fields(owner, &variant.fields, errors);
    let leading = usize::from(keeps_discriminant);
    if fields.len() < leading || fields.len() > leading + 1 {
        errors.at(&variant.ident, if keeps_discriminant {
            "a default arm, or an arm with several labels, stores the discriminant: write `Name(Discriminant)` or `Name(Discriminant, Payload)`"
        } else {
            "a union's arm is one declaration: write one payload, or none for `void`"
        });
        return None;
    }
    let kept = fields.first().filter(|_| keeps_discriminant).map(|kept| {
        if let Some(span) = kept.attrs.eligible {
            errors.at_span(
                span,
                "a discriminant is never DDP-eligible (RFC 8166 section 3.4.4): mark the payload",
            );
        } else if !kept.attrs.is_empty() {
            errors
                .at(&variant.ident, "the discriminant of an arm accepts no attributes: remove the attribute");
        }
        kept.ty
    });
    let payload = payload(variant, fields.drain(leading..).next(), attrs.eligible, errors);
    Some(Arm { ident: &variant.ident, cases: attrs.cases, default: attrs.default, kept, payload })
}

/// Returns the payload. The payload inherits the arm's `#[ddp_eligible]` and, unless the payload has its own
/// name, the arm's name.
fn payload<'a>(
    variant: &syn::Variant,
    payload: Option<Field<'a>>,
    eligible: Option<Span>,
    errors: &mut Errors,
) -> Option<Field<'a>> {
    let Some(mut field) = payload else {
        if let Some(span) = eligible {
            errors.at_span(
                span,
                "a `void` arm contains no data that could be DDP-eligible: mark the payload of another arm",
            );
        }
        return None;
    };
    if field.attrs.name.is_none() {
        field.name = variant.ident.to_string();
    }
    match eligible {
        Some(span) if field.attrs.eligible.is_some() => {
            errors.at_span(span, "`#[ddp_eligible]` is given twice: remove one");
        }
        Some(span) => field.attrs.eligible = Some(span),
        None => {}
    }
    Some(field)
}
