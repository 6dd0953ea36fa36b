//! Members and arms that one document adds to an enum or a union of another document.

use super::text;
use crate::ast::{Definition, DefinitionKind, EnumBody, Identifier, Specification, UnionBody, Value};
use crate::diag::{Diagnostic, Excerpt, MeaningKind};
use crate::hash::HashMap;
use crate::source::{SourceId, Span};

/// Maximum number of names that a type's documentation lists for each addition.
const NAMED: usize = 12;

/// Applies the additions of all documents. Each addition extends the first enum or union with the same name.
pub(crate) fn merge(
    documents: &mut [&mut Specification],
    name_of: &dyn Fn(SourceId) -> String,
    found: &mut Vec<Diagnostic>,
) {
    let all = documents.iter_mut().flat_map(|document| std::mem::take(&mut document.additions));
    let additions: Vec<Definition> = all.collect();
    if additions.is_empty() {
        return;
    }
    let mut places: HashMap<String, (usize, usize)> = HashMap::default();
    for (document, specification) in documents.iter().enumerate() {
        for (index, definition) in specification.definitions.iter().enumerate() {
            if let DefinitionKind::Enum(name, _) | DefinitionKind::Union(name, _) = &definition.kind {
                places.entry(name.name.clone()).or_insert((document, index));
            }
        }
    }
    for addition in additions {
        let name = match &addition.kind {
            DefinitionKind::Enum(name, _) | DefinitionKind::Union(name, _) => name.clone(),
            _ => continue,
        };
        let base = places
            .get(&name.name)
            .and_then(|(document, index)| documents.get_mut(*document)?.definitions.get_mut(*index));
        let by = name_of(addition.span.source);
        let Some(base) = base else {
            found.push(MeaningKind::NothingToAddTo { name: name.name }.at(name.span));
            continue;
        };
        let section = addition.section.as_ref().map_or(String::new(), |section| format!(" ({section})"));
        let added = match (&mut base.kind, addition.kind) {
            (DefinitionKind::Enum(_, base), DefinitionKind::Enum(_, more)) => members(base, more, &by, found),
            (DefinitionKind::Union(_, base), DefinitionKind::Union(_, more)) => arms(base, *more, &by, found),
            (_, _) => {
                found.push(MeaningKind::AddedToOther { name: name.name, base: base.span }.at(name.span));
                continue;
            }
        };
        let added = Excerpt::of(added.into_iter(), NAMED);
        if !added.first.is_empty() {
            base.docs.push(format!("{by}{section} adds {}.", added.shown(String::clone)));
        }
    }
}

/// Returns the value of each member; `None` if the value depends on a name.
fn numbered(body: &EnumBody) -> Vec<Option<i128>> {
    let mut next = Some(0_i128);
    let number = |member: &crate::ast::EnumMember| {
        let value = match &member.value {
            None => next,
            Some(Value::Literal { value, .. }) => Some(*value),
            Some(Value::Name(_)) => None,
        };
        next = value.and_then(|value| value.checked_add(1));
        value
    };
    body.members.iter().map(number).collect()
}

fn members(base: &mut EnumBody, more: EnumBody, by: &str, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut by_name: HashMap<String, (Span, Option<i128>)> = HashMap::default();
    let mut by_number: HashMap<i128, Identifier> = HashMap::default();
    for (member, number) in base.members.iter().zip(numbered(base)) {
        by_name.insert(member.name.name.clone(), (member.name.span, number));
        if let Some(number) = number {
            by_number.entry(number).or_insert_with(|| member.name.clone());
        }
    }
    let numbers = numbered(&more);
    let mut added = Vec::new();
    for (mut member, number) in more.members.into_iter().zip(numbers) {
        let name = &member.name;
        if let Some((first, known)) = by_name.get(&name.name) {
            if number.is_none() || *known != number {
                let kind = MeaningKind::AddedMember { name: name.name.clone(), first: *first };
                found.push(kind.at(name.span));
            }
            continue;
        }
        if let Some((number, first)) = number.and_then(|number| Some((number, by_number.get(&number)?))) {
            let (name, other, span) = (name.name.clone(), first.name.clone(), name.span);
            found.push(MeaningKind::AddedNumber { name, number, other, first: first.span }.at(span));
            continue;
        }
        by_name.insert(name.name.clone(), (name.span, number));
        by_number.extend(number.map(|number| (number, name.clone())));
        added.push(name.name.clone());
        // The added member may follow a different member in the base enum, so an implicit value becomes
        // explicit.
        if let (None, Some(value)) = (&member.value, number) {
            member.value = Some(Value::Literal { value, span: member.name.span });
        }
        member.docs.push(format!("Added by {by}."));
        base.members.push(member);
    }
    added
}

/// A label of the extended union.
struct KnownLabel {
    span: Span,
    /// The text of the declaration of the label's arm.
    declared: String,
    /// The index of the label's arm.
    arm: usize,
}

fn arms(base: &mut UnionBody, more: UnionBody, by: &str, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut known: HashMap<String, KnownLabel> = HashMap::default();
    for (at, arm) in base.arms.iter().enumerate() {
        let declared = text::declaration(&arm.declaration);
        let entry = |label: &Value| {
            let known = KnownLabel { span: label.span(), declared: declared.clone(), arm: at };
            (text::value(label).into_owned(), known)
        };
        known.extend(arm.labels.iter().map(entry));
    }
    let mut added = Vec::new();
    for mut arm in more.arms {
        let declared = text::declaration(&arm.declaration);
        let mut again = arm.labels.iter().filter_map(|label| Some((label, known.get(&*text::value(label))?)));
        if let Some((label, first)) = again.clone().find(|(_, known)| known.declared != declared) {
            let conflict =
                MeaningKind::AddedArm { label: text::value(label).into_owned(), first: first.span };
            found.push(conflict.at(label.span()));
            continue;
        }
        // An arm that repeats a label of an existing arm adds its other labels to that arm.
        let repeated = again.next().map(|(_, known)| known.arm);
        arm.labels.retain(|label| !known.contains_key(&*text::value(label)));
        for label in &arm.labels {
            let name = text::value(label).into_owned();
            added.push(name.clone());
            let arm = repeated.unwrap_or(base.arms.len());
            known.insert(name, KnownLabel { span: label.span(), declared: declared.clone(), arm });
        }
        match repeated.and_then(|at| base.arms.get_mut(at)) {
            Some(extended) => extended.labels.append(&mut arm.labels),
            None => {
                arm.declaration.docs.push(format!("Added by {by}."));
                base.arms.push(arm);
            }
        }
    }
    if let Some(default) = more.default {
        match &base.default {
            Some(first) if text::declaration(first) == text::declaration(&default) => {}
            Some(first) => {
                found.push(MeaningKind::AddedDefault { first: first.span }.at(default.span));
            }
            None => base.default = Some(default),
        }
    }
    added
}
