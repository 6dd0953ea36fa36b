//! Unions: discriminants, labels and arms (RFC 4506 section 4.15).

use super::definitions::{Places, Resolver};
use super::text;
use crate::ast::{CaseSpec, Declaration, Identifier, UnionBody, Value};
use crate::diag::{Excerpt, PortabilityKind, UnionKind};
use crate::hash::HashMap;
use crate::hir::{Arm, Body, Docs, Label, Member, Scalar, Selector, Type, TypeId, Union};
use crate::source::Span;

/// Maximum number of values named in a finding.
const NAMED: usize = 5;

impl<'a> Resolver<'a> {
    pub(crate) fn union(&mut self, body: &'a UnionBody, path: &str, at: Span) -> Option<Body> {
        let mut discriminant = self.field(&body.discriminant, path);
        let kind =
            discriminant.as_mut().and_then(|field| self.selector(&mut field.ty, body.discriminant.span));
        if discriminant.is_some() && kind.is_none() || body.discriminant.name.is_none() {
            self.found.push(UnionKind::NoDiscriminant.at(body.discriminant.span));
        }
        let count = body.arms.len() + usize::from(body.default.is_some());
        let mut seen = crate::hash::with_room(count);
        let mut arms = Vec::with_capacity(count);
        // After an invalid label, values that seem to have no arm are not reported.
        let mut has_all_labels = true;
        for case in &body.arms {
            let labels = self.labels(case, kind, &mut seen);
            has_all_labels &= labels.len() == case.labels.len();
            let payload = self.field(&case.declaration, path);
            if labels.is_empty() {
                continue;
            }
            let written: Vec<_> = case.labels.iter().map(text::value).collect();
            let span = case.labels.first().map_or(case.declaration.span, Value::span);
            let docs = docs(&format!("case {}", written.join(", ")), &case.declaration, span);
            arms.push(Arm { labels, payload, docs });
        }
        if let Some(declaration) = &body.default {
            let payload = self.field(declaration, path);
            let docs = docs("default", declaration, declaration.span);
            arms.push(Arm { labels: Vec::new(), payload, docs });
        }
        let discriminant = discriminant?;
        kind?;
        let (discriminant_name, discriminant) = (discriminant.name, discriminant.ty);
        Some(Body::Union(Union { at, discriminant_name, discriminant, arms, has_all_labels }))
    }

    /// Returns the selector for a discriminant's type. A nonstandard type becomes the integer type with the
    /// same encoding, and is reported.
    fn selector(&mut self, ty: &mut Type, span: Span) -> Option<Selector> {
        let resolved = self.hir.resolve_alias(ty);
        let Type::Scalar(of) = *resolved else { return self.hir.selector(resolved) };
        let sent = match of {
            Scalar::Char | Scalar::Short => Scalar::Int,
            Scalar::UnsignedChar | Scalar::UnsignedShort => Scalar::UnsignedInt,
            Scalar::Hyper | Scalar::UnsignedHyper => of,
            _ => return self.hir.selector(resolved),
        };
        *ty = Type::Scalar(sent);
        self.found.push(PortabilityKind::OddDiscriminant { of }.at(span));
        self.hir.selector(ty)
    }

    fn labels(
        &mut self,
        case: &'a CaseSpec,
        kind: Option<Selector>,
        seen: &mut HashMap<i128, &'a Value>,
    ) -> Vec<Label> {
        let mut labels = Vec::with_capacity(case.labels.len());
        for value in &case.labels {
            let Some(number) = kind.and_then(|kind| self.label(value, kind)) else { continue };
            if let Some(first) = seen.get(&number) {
                let (label, written) = (text::value(value).into_owned(), text::value(first).into_owned());
                let second = UnionKind::SecondLabel { label, first: first.span(), written };
                self.found.push(second.at(value.span()));
                continue;
            }
            seen.insert(number, value);
            let name = if let Value::Name(name) = value { Some(name.name.clone()) } else { None };
            labels.push(Label { value: number, name });
        }
        labels
    }

    fn label(&mut self, value: &Value, kind: Selector) -> Option<i128> {
        if let (Selector::Enum(id), Value::Name(name)) = (kind, value) {
            if let Some(member) = self.member_named(id, &name.name) {
                return Some(member.value.into());
            }
            if self.scope.value_named(&name.name).is_none() {
                return self.no_member(id, name);
            }
        }
        let written = self.eval(value)?;
        // Labels are compared by encoding. For an `int` or an enum, a label from 2^31 to 2^32-1 has the bit
        // pattern of a negative label.
        let number = match kind {
            Selector::Int | Selector::Enum(_) => {
                u32::try_from(written).map_or(written, |bits| i128::from(bits.cast_signed()))
            }
            _ => written,
        };
        let fits = match kind {
            Selector::Int => i32::try_from(number).is_ok(),
            Selector::Unsigned => u32::try_from(number).is_ok(),
            Selector::Hyper => i64::try_from(number).is_ok(),
            Selector::UnsignedHyper => u64::try_from(number).is_ok(),
            Selector::Bool => number == 0 || number == 1,
            Selector::Enum(id) if !self.places_in(id).values.contains_key(&number) => {
                return self.not_in_enum(id, value, written);
            }
            Selector::Enum(_) => true,
        };
        if !fits {
            self.found.push(UnionKind::LabelRange { number: written, of: kind }.at(value.span()));
        }
        fits.then_some(number)
    }

    fn member_named(&mut self, id: TypeId, name: &str) -> Option<&Member> {
        let index = *self.places_in(id).names.get(name)?;
        self.hir.members(id).get(index)
    }

    /// Returns the indices of an enum's members. The indices are cached, since enums are resolved before
    /// unions and never change.
    fn places_in(&mut self, id: TypeId) -> &Places {
        if !self.places.contains_key(&id) {
            let mut places = Places::default();
            for (index, member) in self.hir.members(id).iter().enumerate() {
                places.names.entry(member.name.clone()).or_insert(index);
                places.values.entry(i128::from(member.value)).or_insert(index);
            }
            self.places.insert(id, places);
        }
        self.places.entry(id).or_default()
    }

    fn no_member(&mut self, id: TypeId, name: &Identifier) -> Option<i128> {
        let ty = self.hir.get(id)?;
        let (of, place) = (ty.name.clone(), ty.docs.span);
        let names = || self.hir.members(id).iter().map(|member| member.name.as_str());
        let near = self.scope.intended_name(name, names()).map(str::to_owned);
        let Identifier { name, span } = name.clone();
        if let Some(near) = near {
            let value = self.member_named(id, &near)?.value;
            self.found.push(UnionKind::MemberTakenFor { name, of, near }.at(span));
            return Some(value.into());
        }
        let near = self.scope.like(&name, names()).map(str::to_owned);
        let values = values_of(self.hir.members(id));
        self.found.push(UnionKind::NoMember { name, of, place, near, values }.at(span));
        None
    }

    fn not_in_enum(&mut self, id: TypeId, value: &Value, number: i128) -> Option<i128> {
        if let Value::Name(name) = value {
            return self.no_member(id, name);
        }
        let ty = self.hir.get(id)?;
        let (of, place, values) = (ty.name.clone(), ty.docs.span, values_of(self.hir.members(id)));
        self.found.push(UnionKind::NoValueOf { number, of, place, values }.at(value.span()));
        None
    }
}

fn values_of(members: &[Member]) -> Excerpt<(String, i32)> {
    Excerpt::of(members.iter().map(|member| (member.name.clone(), member.value)), NAMED)
}

fn docs(label: &str, declaration: &Declaration, span: Span) -> Docs {
    Docs {
        comments: declaration.docs.clone(),
        section: None,
        declaration: format!("{label}: {}", text::declaration(declaration)),
        span,
    }
}
