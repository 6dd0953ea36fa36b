//! Unions: discriminants, labels and arms (RFC 4506 section 4.15).

use super::consts;
use super::ends::MAX_DEPTH;
use super::lower::Lower;
use super::scope::declared_name;
use super::text;
use crate::ast::{CaseSpec, Declaration, DeclarationKind, Identifier, UnionBody, Value};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::ir::{Arm, Body, Docs, Field, Label, Member, Scalar, Type, TypeId, Union};
use crate::names::Taken;
use crate::source::Span;

/// What a discriminant is behind its typedefs.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int,
    Unsigned,
    Hyper,
    UnsignedHyper,
    Bool,
    Enum(TypeId),
}

/// Where the members of an enum stand, by their names and by their values.
#[derive(Default)]
pub(crate) struct Places {
    names: HashMap<String, usize>,
    values: HashMap<i128, usize>,
}

const DISCRIMINANTS: &str =
    "a discriminant is an int, an unsigned int, a bool or an enum (RFC 4506 section 4.15)";

/// How many values a warning names.
const NAMED: usize = 5;

impl<'a> Lower<'a> {
    pub(crate) fn union(&mut self, body: &'a UnionBody, path: &str, span: Span) -> Option<Body> {
        let mut discriminant = self.field(&body.discriminant, path);
        let kind = discriminant
            .as_mut()
            .and_then(|field| self.discriminant_kind(&mut field.ty, body.discriminant.span));
        if discriminant.is_some() && kind.is_none() || discriminant.is_none() && is_void(&body.discriminant) {
            self.found.push(
                Diagnostic::error("X215", body.discriminant.span, "this cannot choose the arm of a union")
                    .with_label("not an int, an unsigned int, a bool or an enum")
                    .with_help(DISCRIMINANTS),
            );
        }
        let count = body.arms.len() + usize::from(body.default.is_some());
        let mut idents = Taken::with_room(count);
        let mut seen = crate::hash::with_room(count);
        let mut arms = Vec::with_capacity(count);
        // A label that is wrong may have been meant for a value that has none.
        let mut sound = true;
        for case in &body.arms {
            let labels = self.labels(case, kind, &mut seen);
            sound &= labels.len() == case.labels.len();
            let payload = self.payload(&case.declaration, path);
            let arm = self.arm(case, labels, payload, &mut idents);
            arms.extend(arm);
        }
        if let Some(declaration) = &body.default {
            let payload = self.payload(declaration, path);
            let (ident, _) = idents.take(self.names.own("Default", "default"), "default");
            arms.push(Arm {
                ident,
                labels: Vec::new(),
                payload,
                docs: docs("default", declaration, declaration.span),
            });
        } else if let Some(kind) = kind.filter(|_| sound) {
            self.warn_uncovered(kind, &seen, span);
        }
        let discriminant = discriminant?;
        kind?;
        let initial = arms.iter().position(|arm| arm.labels.iter().any(|label| self.is_zero(label)));
        let initial = initial.or_else(|| arms.iter().position(|arm| arm.labels.is_empty()));
        Some(Body::Union(Union {
            discriminant_name: discriminant.name,
            discriminant: discriminant.ty,
            arms,
            initial,
            uneven: false,
        }))
    }

    fn payload(&mut self, declaration: &'a Declaration, path: &str) -> Option<Field> {
        self.field(declaration, path)
    }

    /// What a discriminant is. One that only some compilers accept becomes the integer that is sent.
    fn discriminant_kind(&mut self, ty: &mut Type, span: Span) -> Option<Kind> {
        let mut behind = &*ty;
        // A longer chain of typedefs is an error of its own.
        for _ in 0..=MAX_DEPTH {
            let Type::Named(id) = behind else { break };
            match &self.module.get(*id)?.body {
                Body::Enum(_) => return Some(Kind::Enum(*id)),
                Body::Alias(of) => behind = of,
                _ => return None,
            }
        }
        let Type::Scalar(scalar) = *behind else { return None };
        let (kind, sent, what) = match scalar {
            Scalar::Int => return Some(Kind::Int),
            Scalar::UnsignedInt => return Some(Kind::Unsigned),
            Scalar::Bool => return Some(Kind::Bool),
            Scalar::Char => (Kind::Int, Scalar::Int, "a `char`"),
            Scalar::UnsignedChar => (Kind::Unsigned, Scalar::UnsignedInt, "an `unsigned char`"),
            Scalar::Short => (Kind::Int, Scalar::Int, "a `short`"),
            Scalar::UnsignedShort => (Kind::Unsigned, Scalar::UnsignedInt, "an `unsigned short`"),
            Scalar::Hyper => (Kind::Hyper, Scalar::Hyper, "a `hyper`"),
            Scalar::UnsignedHyper => (Kind::UnsignedHyper, Scalar::UnsignedHyper, "an `unsigned hyper`"),
            _ => return None,
        };
        *ty = Type::Scalar(sent);
        self.found.push(Diagnostic::portability(span, &format!("{what} as a discriminant"), DISCRIMINANTS));
        Some(kind)
    }

    /// An arm's labels; those that are wrong are reported and left out.
    fn labels(
        &mut self,
        case: &CaseSpec,
        kind: Option<Kind>,
        seen: &mut HashMap<i128, (Span, String)>,
    ) -> Vec<(Label, i128)> {
        let mut labels = Vec::with_capacity(case.labels.len());
        for value in &case.labels {
            let Some(kind) = kind else {
                continue;
            };
            let Some((label, number)) = self.label(value, kind) else { continue };
            if let Some((first, text)) = seen.get(&number) {
                self.found.push(second_label(value, *first, text));
                continue;
            }
            seen.insert(number, (consts::span(value), written(value)));
            labels.push((label, number));
        }
        labels
    }

    fn label(&mut self, value: &Value, kind: Kind) -> Option<(Label, i128)> {
        if let (Kind::Enum(id), Value::Name(name)) = (kind, value)
            && let Some((index, member)) = self.member_named(id, &name.name)
        {
            return Some((
                Label::Member { of: id, index: member.same_as.unwrap_or(index) },
                i128::from(member.value),
            ));
        }
        if let (Kind::Enum(id), Value::Name(name)) = (kind, value)
            && self.scope.value_named(&name.name).is_none()
        {
            return self.no_member(id, name);
        }
        let written = self.eval(value)?;
        // What is sent decides: above 2^31 a signed label is the bit pattern of a negative one.
        let number = match kind {
            Kind::Int | Kind::Enum(_) => {
                u32::try_from(written).map_or(written, |bits| i128::from(bits.cast_signed()))
            }
            _ => written,
        };
        let label = match kind {
            Kind::Int if i32::try_from(number).is_ok() => Label::Number(number),
            Kind::Int => return self.label_range(value, written, "an int"),
            Kind::Unsigned if u32::try_from(number).is_ok() => Label::Number(number),
            Kind::Unsigned => return self.label_range(value, written, "an unsigned int"),
            Kind::Hyper if i64::try_from(number).is_ok() => Label::Number(number),
            Kind::Hyper => return self.label_range(value, written, "a hyper"),
            Kind::UnsignedHyper if u64::try_from(number).is_ok() => Label::Number(number),
            Kind::UnsignedHyper => return self.label_range(value, written, "an unsigned hyper"),
            Kind::Bool if number == 0 || number == 1 => Label::Bool(number == 1),
            Kind::Bool => return self.label_range(value, written, "a bool"),
            Kind::Enum(id) => match self.member_of(id, number) {
                Some((index, _)) => Label::Member { of: id, index },
                None => return self.not_in_enum(id, value, written),
            },
        };
        Some((label, number))
    }

    /// An enum's member by its name.
    fn member_named(&mut self, id: TypeId, name: &str) -> Option<(usize, &Member)> {
        let index = *self.places_in(id).names.get(name)?;
        self.members(id).get(index).map(|member| (index, member))
    }

    /// An enum's first member of a value.
    fn member_of(&mut self, id: TypeId, value: i128) -> Option<(usize, &Member)> {
        let index = *self.places_in(id).values.get(&value)?;
        self.members(id).get(index).map(|member| (index, member))
    }

    /// Where an enum's members stand. Enums are lowered before unions, and do not change.
    fn places_in(&mut self, id: TypeId) -> &Places {
        if !self.places.contains_key(&id) {
            let mut places = Places::default();
            for (index, member) in self.members(id).iter().enumerate() {
                places.names.entry(member.name.clone()).or_insert(index);
                places.values.entry(i128::from(member.value)).or_insert(index);
            }
            self.places.insert(id, places);
        }
        self.places.entry(id).or_default()
    }

    fn members(&self, id: TypeId) -> &[Member] {
        match self.module.get(id).map(|ty| &ty.body) {
            Some(Body::Enum(members)) => members,
            _ => &[],
        }
    }

    fn no_member(&mut self, id: TypeId, name: &Identifier) -> Option<(Label, i128)> {
        let of = self.module.get(id)?;
        let message = format!("`{}` is no member of `{}`", name.name, of.name);
        let names = || self.members(id).iter().map(|member| member.name.as_str());
        if let Some(near) = self.scope.taken_for(name, names()).map(str::to_owned) {
            let (index, member) = self.member_named(id, &near)?;
            let label =
                (Label::Member { of: id, index: member.same_as.unwrap_or(index) }, i128::from(member.value));
            let warning = Diagnostic::warning("X213", name.span, message);
            self.found.push(warning.with_label(format!("taken for `{near}`")));
            return Some(label);
        }
        let error = Diagnostic::error("X213", name.span, message)
            .with_label("a label must be a value of the discriminant")
            .with_related(*self.spans.get(id.0)?, "the discriminant's type");
        let error =
            match self.scope.like(&name.name, self.members(id).iter().map(|member| member.name.as_str())) {
                Some(near) => error.with_help(format!("`{near}` is one; is that what is meant?")),
                None => error.with_help(self.values_of(id)),
            };
        self.found.push(error);
        None
    }

    fn not_in_enum(&mut self, id: TypeId, value: &Value, number: i128) -> Option<(Label, i128)> {
        if let Value::Name(name) = value {
            return self.no_member(id, name);
        }
        let of = self.module.get(id)?;
        let message = format!("{number} is no value of `{}`", of.name);
        let error = Diagnostic::error("X213", consts::span(value), message)
            .with_label("a label must be a value of the discriminant")
            .with_related(*self.spans.get(id.0)?, "the discriminant's type")
            .with_help(self.values_of(id));
        self.found.push(error);
        None
    }

    /// The values of an enum, or the first of them.
    fn values_of(&self, id: TypeId) -> String {
        let members = self.members(id);
        let mut all = members.iter().take(NAMED).map(|member| format!("{} = {}", member.name, member.value));
        let first = all.next().unwrap_or_default();
        let rest = all.fold(first, |list, one| format!("{list}, {one}"));
        match members.len().saturating_sub(NAMED) {
            0 => format!("its values are {rest}"),
            more => format!("its values are {rest} and {more} more"),
        }
    }

    fn is_zero(&self, label: &Label) -> bool {
        match label {
            Label::Member { of, index } => {
                self.members(*of).get(*index).is_some_and(|member| member.value == 0)
            }
            Label::Number(number) => *number == 0,
            Label::Bool(value) => !value,
        }
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

    fn arm(
        &mut self,
        case: &CaseSpec,
        labels: Vec<(Label, i128)>,
        payload: Option<Field>,
        idents: &mut Taken,
    ) -> Option<Arm> {
        let (first, _) = labels.first()?;
        let wanted = match &payload {
            Some(field) if labels.len() > 1 => self.names.of_type(&field.name),
            _ => self.label_ident(first, case.labels.first()),
        };
        let (ident, _) = idents.take(wanted, "");
        let written: Vec<String> = case.labels.iter().map(written).collect();
        let span = case.labels.first().map_or(case.declaration.span, consts::span);
        let docs = docs(&format!("case {}", written.join(", ")), &case.declaration, span);
        Some(Arm { ident, labels: labels.into_iter().map(|(label, _)| label).collect(), payload, docs })
    }

    fn label_ident(&self, label: &Label, written: Option<&Value>) -> String {
        match (label, written) {
            (Label::Member { of, index }, _) => {
                self.members(*of).get(*index).map_or_else(String::new, |member| member.ident.clone())
            }
            (Label::Bool(true), _) => self.names.own("True", "TRUE"),
            (Label::Bool(false), _) => self.names.own("False", "FALSE"),
            (Label::Number(_), Some(Value::Name(name))) => self.names.of_type(&name.name),
            (Label::Number(number), _) if *number < 0 => format!("CaseMinus{}", number.unsigned_abs()),
            (Label::Number(number), _) => format!("Case{number}"),
        }
    }

    fn warn_uncovered(&mut self, kind: Kind, seen: &HashMap<i128, (Span, String)>, span: Span) {
        let missing: Vec<String> = match kind {
            Kind::Enum(id) => self
                .members(id)
                .iter()
                .filter(|member| member.same_as.is_none() && !seen.contains_key(&i128::from(member.value)))
                .map(|member| member.name.clone())
                .collect(),
            Kind::Bool => [(0, "FALSE"), (1, "TRUE")]
                .iter()
                .filter(|(value, _)| !seen.contains_key(value))
                .map(|(_, name)| (*name).to_owned())
                .collect(),
            _ => return,
        };
        if missing.is_empty() {
            return;
        }
        let mut list = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if missing.len() > NAMED {
            list.push_str(&format!(" and {} more", missing.len() - NAMED));
        }
        self.found.push(
            Diagnostic::warning("X214", span, format!("no arm for {list}"))
                .with_label("a message with such a value cannot be decoded")
                .with_help("add the arms, or `default: void;`"),
        );
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
