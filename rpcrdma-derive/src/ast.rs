//! The input as the derive sees it.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Fields, Generics, Ident, Path, Result, Type, parse_quote};

use crate::attr::{ContainerAttrs, Errors, FieldAttrs, VariantAttrs, bare};

pub(crate) struct Container<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    pub(crate) krate: Path,
    /// Its messages are those of a program that is called in the backward direction only.
    pub(crate) backward: bool,
    pub(crate) body: Body<'a>,
}

pub(crate) enum Body<'a> {
    Struct { style: Style, fields: Vec<Field<'a>> },
    Enum { variants: Vec<Variant<'a>> },
    Union { discriminant: Box<Type>, arms: Vec<Arm<'a>> },
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Style {
    Named,
    Tuple,
    Unit,
}

/// A value of an enum.
pub(crate) struct Variant<'a> {
    pub(crate) ident: &'a Ident,
    /// Whether only the compiler knows what the value is.
    pub(crate) unknown: Option<Unknown>,
}

/// A value that only the compiler knows.
#[derive(Clone, Copy)]
pub(crate) enum Unknown {
    /// It is that of an expression, which stands here.
    Given(Span),
    /// It is one more than the last.
    Follows,
}

pub(crate) struct Field<'a> {
    pub(crate) member: syn::Member,
    /// What a binding of the field is called in generated code.
    pub(crate) binding: Ident,
    /// What errors call it.
    pub(crate) name: String,
    pub(crate) ty: &'a Type,
    /// What generated code calls that type.
    pub(crate) called: TokenStream,
    pub(crate) attrs: FieldAttrs,
    /// The value of `max`, a `u32`.
    pub(crate) bound: Option<TokenStream>,
    /// The field may hold values of the type that is being derived.
    pub(crate) recursive: bool,
    /// It holds that type and no other: there is an array, an option or a box of it.
    pub(crate) only_itself: bool,
    /// It holds that type in place, so it would be of no size.
    pub(crate) in_place: bool,
}

impl Field<'_> {
    /// How the field is named where an error is to be at its type.
    pub(crate) fn member_at_type(&self) -> syn::Member {
        let mut member = self.member.clone();
        let span = type_span(self.ty);
        match &mut member {
            syn::Member::Named(name) => name.set_span(span.resolved_at(name.span())),
            syn::Member::Unnamed(index) => index.span = span.resolved_at(index.span),
        }
        member
    }
}

pub(crate) struct Arm<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) cases: Vec<Expr>,
    pub(crate) default: Option<Span>,
    /// The first field is the discriminant.
    pub(crate) keeps_discriminant: bool,
    /// The type of that field.
    pub(crate) kept: Option<&'a Type>,
    pub(crate) payload: Option<Field<'a>>,
}

impl<'a> Container<'a> {
    pub(crate) fn from_input(input: &'a DeriveInput) -> Result<Self> {
        let mut errors = Errors::default();
        let attrs = ContainerAttrs::parse(&input.attrs, &mut errors);
        if attrs.failed {
            errors.finish()?;
            errors = Errors::default();
        }
        let body = match &input.data {
            Data::Struct(data) => {
                if let Some(union) = &attrs.union {
                    errors.at(union, "a union is written as a Rust enum, one variant an arm");
                }
                Some(Body::Struct {
                    style: style(&data.fields),
                    fields: fields(&input.ident, &data.fields, &mut errors),
                })
            }
            Data::Enum(data) => match attrs.union {
                Some(discriminant) => Some(Body::Union {
                    discriminant: Box::new(discriminant),
                    arms: arms(&input.ident, data, &mut errors),
                }),
                None => Some(Body::Enum { variants: variants(data, &mut errors) }),
            },
            Data::Union(data) => {
                errors.at(
                    &data.union_token,
                    "a Rust union has no discriminant; write an enum with `#[xdr(union = \"Type\")]`",
                );
                None
            }
        };
        errors.finish()?;
        let body = body.ok_or_else(|| Error::new(Span::call_site(), "not a struct or an enum"))?;
        let krate = attrs.krate.unwrap_or_else(|| parse_quote!(::rpcrdma_runtime));
        let backward = attrs.backward.is_some();
        Ok(Container { ident: &input.ident, generics: &input.generics, krate, backward, body })
    }

    /// Whether it has parameters that are types or constants: then it is many types.
    pub(crate) fn is_generic(&self) -> bool {
        self.generics.params.iter().any(|parameter| !matches!(parameter, syn::GenericParam::Lifetime(_)))
    }

    /// The same, to be changed.
    pub(crate) fn fields_mut(&mut self) -> Vec<&mut Field<'a>> {
        match &mut self.body {
            Body::Struct { fields, .. } => fields.iter_mut().collect(),
            Body::Union { arms, .. } => arms.iter_mut().filter_map(|arm| arm.payload.as_mut()).collect(),
            Body::Enum { .. } => Vec::new(),
        }
    }

    /// The fields of a struct, or the payloads of a union's arms.
    pub(crate) fn fields(&self) -> Vec<&Field<'a>> {
        match &self.body {
            Body::Struct { fields, .. } => fields.iter().collect(),
            Body::Union { arms, .. } => arms.iter().filter_map(|arm| arm.payload.as_ref()).collect(),
            Body::Enum { .. } => Vec::new(),
        }
    }
}

fn style(fields: &Fields) -> Style {
    match fields {
        Fields::Named(_) => Style::Named,
        Fields::Unnamed(_) => Style::Tuple,
        Fields::Unit => Style::Unit,
    }
}

fn fields<'a>(container: &Ident, fields: &'a Fields, errors: &mut Errors) -> Vec<Field<'a>> {
    fields.iter().enumerate().map(|(index, field)| one_field(container, index, field, errors)).collect()
}

fn one_field<'a>(container: &Ident, index: usize, field: &'a syn::Field, errors: &mut Errors) -> Field<'a> {
    let name = field.ident.as_ref().map_or_else(
        || index.to_string(),
        |ident| {
            let name = ident.to_string();
            name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
        },
    );
    let member = match &field.ident {
        Some(ident) => syn::Member::Named(ident.clone()),
        None => syn::Member::Unnamed(syn::Index::from(index)),
    };
    let attrs = FieldAttrs::parse(&field.attrs, errors);
    let recursive = attrs.recursive.is_some() || names(field.ty.to_token_stream(), container);
    let only_itself = is_only(&field.ty, container);
    let in_place = is_in_place(&field.ty, container);
    Field {
        member,
        binding: format_ident!("__field_{index}"),
        name,
        ty: &field.ty,
        called: field.ty.to_token_stream(),
        attrs,
        bound: None,
        recursive,
        only_itself,
        in_place,
    }
}

/// Whether a type is this one, or an array or an option of it.
fn is_in_place(ty: &Type, container: &Ident) -> bool {
    match ty {
        Type::Array(array) => is_in_place(&array.elem, container),
        Type::Path(path) if path.qself.is_none() => path.path.segments.last().is_some_and(|last| {
            let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return path.path.is_ident(container) || path.path.is_ident("Self");
            };
            path.path.is_ident(container)
                || last.ident == *container && path.path.segments.len() == 1
                || last.ident == "Option"
                    && arguments
                        .args
                        .iter()
                        .any(|of| matches!(of, syn::GenericArgument::Type(of) if is_in_place(of, container)))
        }),
        _ => false,
    }
}

/// Whether a type is this one, or holds it and nothing else.
fn is_only(ty: &Type, container: &Ident) -> bool {
    const AROUND: [&str; 6] = ["Box", "Option", "Vec", "ArrayRef", "BoxRef", "ListRef"];
    let last = match ty {
        Type::Array(array) => return is_only(&array.elem, container),
        Type::Group(group) => return is_only(&group.elem, container),
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    };
    let Some(last) = last else { return false };
    if last.ident == *container || last.ident == "Self" {
        return true;
    }
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    AROUND.iter().any(|name| last.ident == name)
        && arguments
            .args
            .iter()
            .any(|of| matches!(of, syn::GenericArgument::Type(of) if is_only(of, container)))
}

/// Whether a type is written with this name in it: such a field makes the type recursive. What is hidden
/// behind an alias or another type is marked `#[xdr(recursive)]`. A constant of the same name, in braces or as the
/// length of an array, is no part of it.
pub(crate) fn names(tokens: TokenStream, wanted: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *wanted || ident == "Self",
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => false,
        TokenTree::Group(group) => {
            let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';');
            names(group.stream().into_iter().take_while(|token| !is_end(token)).collect(), wanted)
        }
        _ => false,
    })
}

fn variants<'a>(data: &'a syn::DataEnum, errors: &mut Errors) -> Vec<Variant<'a>> {
    let mut next = Next::Is(0);
    data.variants
        .iter()
        .map(|variant| {
            check_variant(variant, errors);
            let unknown = value(variant, &mut next, errors);
            Variant { ident: &variant.ident, unknown }
        })
        .collect()
}

/// What a value of an enum may carry: nothing.
fn check_variant(variant: &syn::Variant, errors: &mut Errors) {
    if !matches!(variant.fields, Fields::Unit) {
        errors.at(&variant.ident, "a variant that holds data makes this a union: name its discriminant with `#[xdr(union = \"Type\")]` on the enum");
    }
    let attrs = VariantAttrs::parse(&variant.attrs, errors);
    if let Some(span) = attrs.eligible {
        errors.push(Error::new(
            span,
            "an enum's value is four bytes and cannot be DDP-eligible: mark opaque data or a string",
        ));
    }
    if let Some(case) = attrs.cases.first() {
        errors.at(case, "`case` belongs to a union; an enum's value is written `Name = 3`");
    }
    if let Some(span) = attrs.default {
        errors.push(Error::new(
            span,
            "`default` belongs to a union: put `#[xdr(union = \"Type\")]` on the enum",
        ));
    }
}

/// The value of a variant that does not say its own.
enum Next {
    Is(i128),
    /// It is one more than what the compiler makes of an expression.
    Unknown,
    /// It follows a value that was refused.
    Refused,
}

/// Why a value is refused.
pub(crate) const VALUE: &str = "an enum's value is a signed 32-bit integer (RFC 4506 section 4.3): write one from -2147483648 to 2147483647";

/// Refuses a value that is known and out of range.
fn value(variant: &syn::Variant, next: &mut Next, errors: &mut Errors) -> Option<Unknown> {
    let (place, known): (&dyn ToTokens, _) = match &variant.discriminant {
        Some((_, value)) => (value, number(value)),
        None => match next {
            Next::Is(value) => (&variant.ident, Some(*value)),
            Next::Unknown => return Some(Unknown::Follows),
            Next::Refused => return None,
        },
    };
    match known {
        Some(value) if i32::try_from(value).is_ok() => *next = Next::Is(value.saturating_add(1)),
        Some(_) => {
            errors.at(place, VALUE);
            *next = Next::Refused;
        }
        None => {
            *next = Next::Unknown;
            return Some(Unknown::Given(place.span()));
        }
    }
    None
}

/// The value of a number as it is written: `0x10` and `16` are one. One that is too long for any integer is too large.
pub(crate) fn number(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => number(&unary.expr)?.checked_neg(),
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => {
            Some(int.base10_parse().unwrap_or(i128::MAX))
        }
        _ => None,
    }
}

fn arms<'a>(container: &Ident, data: &'a syn::DataEnum, errors: &mut Errors) -> Vec<Arm<'a>> {
    data.variants.iter().filter_map(|variant| arm(container, variant, errors)).collect()
}

fn arm<'a>(container: &Ident, variant: &'a syn::Variant, errors: &mut Errors) -> Option<Arm<'a>> {
    let attrs = VariantAttrs::parse(&variant.attrs, errors);
    if let Fields::Named(_) = &variant.fields {
        errors.at(
            &variant.fields,
            "a union's arm is one declaration: write a tuple variant with one payload, or none for `void`",
        );
        return None;
    }
    if let Some((_, value)) = &variant.discriminant {
        errors.at(value, "a union's arm is chosen by `#[xdr(case = ...)]`, not by `= value`");
    }
    if attrs.cases.is_empty() && attrs.default.is_none() {
        if !attrs.failed {
            errors.at(&variant.ident, "this arm has no label: add `#[xdr(case = ...)]` or `#[xdr(default)]`");
        }
        return None;
    }
    let keeps_discriminant = attrs.default.is_some() || attrs.cases.len() > 1;
    let mut fields = fields(container, &variant.fields, errors);
    let leading = usize::from(keeps_discriminant);
    if fields.len() < leading || fields.len() > leading + 1 {
        errors.at(&variant.ident, if keeps_discriminant {
            "an arm that several discriminants choose keeps the discriminant: write `Name(Discriminant)` or `Name(Discriminant, Payload)`"
        } else {
            "a union's arm is one declaration: write one payload, or none for `void`"
        });
        return None;
    }
    if keeps_discriminant && let Some(kept) = fields.first() {
        check_kept(variant, kept, errors);
    }
    let payload = fields.drain(leading..).next();
    let payload = name_payload(variant, payload, attrs.eligible, errors);
    Some(Arm {
        ident: &variant.ident,
        cases: attrs.cases,
        default: attrs.default,
        keeps_discriminant,
        kept: variant.fields.iter().next().filter(|_| keeps_discriminant).map(|field| &field.ty),
        payload,
    })
}

/// The discriminant in front of a payload.
fn check_kept(variant: &syn::Variant, kept: &Field<'_>, errors: &mut Errors) {
    if let Some(span) = kept.attrs.eligible {
        errors.push(Error::new(
            span,
            "a discriminant is never DDP-eligible (RFC 8166 section 3.4.4); mark the payload",
        ));
    } else if !kept.attrs.is_empty() {
        errors.at(&variant.ident, "the discriminant of an arm takes no attribute");
    }
}

/// The payload as errors call it, with the mark that may stand at the variant.
fn name_payload<'a>(
    variant: &syn::Variant,
    payload: Option<Field<'a>>,
    eligible: Option<Span>,
    errors: &mut Errors,
) -> Option<Field<'a>> {
    let Some(mut field) = payload else {
        if let Some(span) = eligible {
            errors.push(Error::new(span, "a `void` arm holds nothing that could be DDP-eligible: mark the payload of an arm that holds data"));
        }
        return None;
    };
    field.name = variant.ident.to_string();
    match eligible {
        Some(span) if field.attrs.eligible.is_some() => {
            errors.push(Error::new(span, "`#[ddp_eligible]` stands here twice; remove one"));
        }
        Some(span) => field.attrs.eligible = Some(span),
        None => {}
    }
    Some(field)
}

/// The type's name without path and arguments, if it is a path.
pub(crate) fn type_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// What a field is that borrows: `&[u8]`, `&str`, or one of the runtime's types that end in `Ref`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Borrow {
    /// Opaque data or text as a slice.
    Slice,
    /// A type of the runtime.
    Ref,
    /// Any other reference of Rust: to an array, to a value, or one by which it could be changed.
    Other,
}

/// How a type borrows, as far as its name tells.
pub(crate) fn borrow(ty: &Type) -> Option<Borrow> {
    const REFS: [&str; 5] = ["OpaqueRef", "StringRef", "ArrayRef", "ListRef", "BoxRef"];
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(Borrow::Other),
        Type::Reference(reference) => Some(match &*reference.elem {
            Type::Slice(slice) if type_name(&slice.elem).is_some_and(|name| name == "u8") => Borrow::Slice,
            Type::Path(_) if type_name(&reference.elem).is_some_and(|name| name == "str") => Borrow::Slice,
            _ => Borrow::Other,
        }),
        ty => type_name(ty).filter(|name| REFS.iter().any(|known| name == known)).map(|_| Borrow::Ref),
    }
}

/// The span of a type, for errors at it.
pub(crate) fn type_span(ty: &Type) -> Span {
    ty.span()
}

/// A variable of the derived code, for what is emitted with a type's or a label's span: where a macro was given that, a name
/// with its span would be one of the place that gave it.
pub(crate) fn local(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}
