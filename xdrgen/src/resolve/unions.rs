//! Unions: discriminants, labels and arms (RFC 4506 section 4.15).

use super::consts;
use super::definitions::{Places, Resolver};
use super::named::declared_name;
use super::text;
use crate::ast::{CaseSpec, Declaration, DeclarationKind, Identifier, UnionBody, Value};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::hir::{Arm, Body, Chooser, Docs, Label, Member, Scalar, Type, TypeId, Union};
use crate::source::Span;

const DISCRIMINANTS: &str =
    "a discriminant is an int, an unsigned int, a bool or an enum (RFC 4506 section 4.15)";

/// How many values a warning names.
const NAMED: usize = 5;

impl<'a> Resolver<'a> {
    pub(crate) fn union(&mut self, body: &'a UnionBody, path: &str, at: Span) -> Option<Body> {
        let mut discriminant = self.field(&body.discriminant, path);
        let kind =
            discriminant.as_mut().and_then(|field| self.chooser(&mut field.ty, body.discriminant.span));
        if discriminant.is_some() && kind.is_none() || discriminant.is_none() && is_void(&body.discriminant) {
            self.found.push(
                Diagnostic::error("X215", body.discriminant.span, "this cannot choose the arm of a union")
                    .with_label("not an int, an unsigned int, a bool or an enum")
                    .with_help(DISCRIMINANTS),
            );
        }
        let count = body.arms.len() + usize::from(body.default.is_some());
        let mut seen = crate::hash::with_room(count);
        let mut arms = Vec::with_capacity(count);
        // A label that is wrong may have been meant for a value that has none.
        let mut sound = true;
        for case in &body.arms {
            let labels = self.labels(case, kind, &mut seen);
            sound &= labels.len() == case.labels.len();
            let payload = self.field(&case.declaration, path);
            if labels.is_empty() {
                continue;
            }
            let written: Vec<String> = case.labels.iter().map(written).collect();
            let span = case.labels.first().map_or(case.declaration.span, consts::span);
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
        Some(Body::Union(Union { at, discriminant_name, discriminant, arms, sound }))
    }

    /// What a discriminant is. One that only some compilers accept becomes the integer that is sent.
    fn chooser(&mut self, ty: &mut Type, span: Span) -> Option<Chooser> {
        let (sent, what) = match self.hir.behind(ty) {
            Type::Scalar(Scalar::Char) => (Scalar::Int, "a `char`"),
            Type::Scalar(Scalar::UnsignedChar) => (Scalar::UnsignedInt, "an `unsigned char`"),
            Type::Scalar(Scalar::Short) => (Scalar::Int, "a `short`"),
            Type::Scalar(Scalar::UnsignedShort) => (Scalar::UnsignedInt, "an `unsigned short`"),
            Type::Scalar(Scalar::Hyper) => (Scalar::Hyper, "a `hyper`"),
            Type::Scalar(Scalar::UnsignedHyper) => (Scalar::UnsignedHyper, "an `unsigned hyper`"),
            ty => return self.hir.chooser(ty),
        };
        *ty = Type::Scalar(sent);
        self.found.push(Diagnostic::portability(span, &format!("{what} as a discriminant"), DISCRIMINANTS));
        self.hir.chooser(ty)
    }

    /// An arm's labels; those that are wrong are reported and left out.
    fn labels(
        &mut self,
        case: &CaseSpec,
        kind: Option<Chooser>,
        seen: &mut HashMap<i128, (Span, String)>,
    ) -> Vec<Label> {
        let mut labels = Vec::with_capacity(case.labels.len());
        for value in &case.labels {
            let Some(number) = kind.and_then(|kind| self.label(value, kind)) else { continue };
            if let Some((first, text)) = seen.get(&number) {
                self.found.push(second_label(value, *first, text));
                continue;
            }
            seen.insert(number, (consts::span(value), written(value)));
            let name = if let Value::Name(name) = value { Some(name.name.clone()) } else { None };
            labels.push(Label { value: number, name });
        }
        labels
    }

    /// The value that a label stands for.
    fn label(&mut self, value: &Value, kind: Chooser) -> Option<i128> {
        if let (Chooser::Enum(id), Value::Name(name)) = (kind, value) {
            if let Some(member) = self.member_named(id, &name.name) {
                return Some(member.value.into());
            }
            if self.scope.value_named(&name.name).is_none() {
                return self.no_member(id, name);
            }
        }
        let written = self.eval(value)?;
        // What is sent decides: above 2^31 a signed label is the bit pattern of a negative one.
        let number = match kind {
            Chooser::Int | Chooser::Enum(_) => {
                u32::try_from(written).map_or(written, |bits| i128::from(bits.cast_signed()))
            }
            _ => written,
        };
        match kind {
            Chooser::Int if i32::try_from(number).is_err() => self.label_range(value, written, "an int"),
            Chooser::Unsigned if u32::try_from(number).is_err() => {
                self.label_range(value, written, "an unsigned int")
            }
            Chooser::Hyper if i64::try_from(number).is_err() => self.label_range(value, written, "a hyper"),
            Chooser::UnsignedHyper if u64::try_from(number).is_err() => {
                self.label_range(value, written, "an unsigned hyper")
            }
            Chooser::Bool if number != 0 && number != 1 => self.label_range(value, written, "a bool"),
            Chooser::Enum(id) if !self.places_in(id).values.contains_key(&number) => {
                self.not_in_enum(id, value, written)
            }
            _ => Some(number),
        }
    }

    /// An enum's member by its name.
    fn member_named(&mut self, id: TypeId, name: &str) -> Option<&Member> {
        let index = *self.places_in(id).names.get(name)?;
        self.hir.members(id).get(index)
    }

    /// Where an enum's members stand. Enums are resolved before unions, and do not change.
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
        let of = self.hir.get(id)?;
        let message = format!("`{}` is no member of `{}`", name.name, of.name);
        let names = || self.hir.members(id).iter().map(|member| member.name.as_str());
        if let Some(near) = self.scope.taken_for(name, names()).map(str::to_owned) {
            let value = self.member_named(id, &near)?.value;
            let warning = Diagnostic::warning("X213", name.span, message);
            self.found.push(warning.with_label(format!("taken for `{near}`")));
            return Some(value.into());
        }
        let error = Diagnostic::error("X213", name.span, message)
            .with_label("a label must be a value of the discriminant")
            .with_related(of.docs.span, "the discriminant's type");
        let error = match self.scope.like(&name.name, names()) {
            Some(near) => error.with_help(format!("`{near}` is one; is that what is meant?")),
            None => error.with_help(values_of(self.hir.members(id))),
        };
        self.found.push(error);
        None
    }

    fn not_in_enum(&mut self, id: TypeId, value: &Value, number: i128) -> Option<i128> {
        if let Value::Name(name) = value {
            return self.no_member(id, name);
        }
        let of = self.hir.get(id)?;
        let message = format!("{number} is no value of `{}`", of.name);
        let error = Diagnostic::error("X213", consts::span(value), message)
            .with_label("a label must be a value of the discriminant")
            .with_related(of.docs.span, "the discriminant's type")
            .with_help(values_of(self.hir.members(id)));
        self.found.push(error);
        None
    }

    fn label_range<T>(&mut self, value: &Value, number: i128, what: &str) -> Option<T> {
        self.found.push(
            Diagnostic::error("X216", consts::span(value), format!("{number} is no value of {what}"))
                .with_label("a label must be a value of the discriminant")
                .with_help(match what {
                    "a bool" => "a bool is TRUE or FALSE",
                    "an int" => "an int has 32 bits",
                    "a hyper" => "a hyper has 64 bits, and is negative above 2^63-1",
                    "an unsigned hyper" => "an unsigned hyper has no sign",
                    _ => "an unsigned int has 32 bits and no sign",
                }),
        );
        None
    }
}

/// The values of an enum, or the first of them.
fn values_of(members: &[Member]) -> String {
    let mut all = members.iter().take(NAMED).map(|member| format!("{} = {}", member.name, member.value));
    let first = all.next().unwrap_or_default();
    let rest = all.fold(first, |list, one| format!("{list}, {one}"));
    match members.len().saturating_sub(NAMED) {
        0 => format!("its values are {rest}"),
        more => format!("its values are {rest} and {more} more"),
    }
}

/// What is said of a label that is there already, perhaps written in another way.
fn second_label(value: &Value, first: Span, text: &str) -> Diagnostic {
    let again = written(value);
    let error = Diagnostic::error("X212", consts::span(value), format!("two arms have the label {again}"))
        .with_label("the second")
        .with_related(first, "the first");
    if again == text {
        error
    } else {
        error.with_help(format!("{text} and {again} are sent as the same number"))
    }
}

fn is_void(declaration: &Declaration) -> bool {
    declaration.kind == DeclarationKind::Void || declared_name(declaration).is_none()
}

fn written(value: &Value) -> String {
    match value {
        Value::Literal { value, .. } => value.to_string(),
        Value::Name(name) => name.name.clone(),
    }
}

fn docs(label: &str, declaration: &Declaration, span: Span) -> Docs {
    Docs {
        comments: declaration.docs.clone(),
        section: None,
        declaration: format!("{label}: {}", text::declaration(declaration)),
        span,
    }
}
