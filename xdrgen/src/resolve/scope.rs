//! The names that the documents of a run define: their meanings and duplicates.

use std::cell::Cell;

use super::c_lines::CLines;
use super::repeats::{Repeats, same_value};
use super::supply::Known;
use super::unresolved::{BUILT_IN, FOREIGN_TYPES, Reason, Space, Unresolved};
use super::uses::{Defined, Uses, enums, parts};
use crate::ast::{
    ConstDef, Definition, DefinitionKind, EnumBody, Identifier, ProgramDef, Specification, Value,
};
use crate::diag::{Diagnostic, Found, MeaningKind, Redefinition};
use crate::hash::{HashMap, HashSet};
use crate::namespace::split;
use crate::similarity::{distance, is_slip, near, nearest};
use crate::source::{SourceId, Span, Trust, narrow};

/// A named value: a constant, a member of an enum, or the number of a program, a version or a procedure.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) span: Span,
    pub(crate) source: ValueSource<'a>,
    pub(crate) of_program: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum ValueSource<'a> {
    Const(&'a Value),
    Member(&'a EnumBody, u32),
}

/// The meanings of names in a run. The first definition of a name takes effect, unless a later document
/// extends the definition, or a published document contains several definitions of the name.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    /// The effective definitions, in the order of the documents.
    pub(crate) definitions: Vec<&'a Definition>,
    types: HashMap<&'a str, &'a Definition>,
    values: HashMap<&'a str, Named<'a>>,
    /// By name: the position of the first program, version or procedure with this name whose number conflicts
    /// with an earlier one.
    second_numbers: HashMap<&'a str, Span>,
    /// The programs. Their names also denote their numbers, which are in `values`.
    programs: HashMap<&'a str, &'a Definition>,
    /// The names of unparsable definitions, which are never corrected to similar names.
    omitted: HashSet<&'a str>,
    trust: HashMap<SourceId, Trust>,
    pub(crate) c_lines: CLines<'a>,
    /// Redefinitions in later documents, in order.
    again: HashMap<&'a str, Vec<&'a Definition>>,
    repeats: Repeats,
    looked: Cell<usize>,
}

/// Maximum number of similarity searches, each of which compares a name to many others.
const LIKENESSES: usize = 100;

/// Maximum number of extensions of one definition. Each extension is checked separately.
const EXTENSIONS: usize = 16;

pub(crate) struct Document {
    pub(crate) id: SourceId,
    pub(crate) specification: Specification,
    pub(crate) trust: Trust,
}

impl<'a> Scope<'a> {
    /// Collects the definitions of all documents. A definition that later documents extend is replaced by
    /// its form after `stage` extensions.
    pub(crate) fn new(documents: &'a [Document], known: &Known<'a>, stage: usize, found: &mut Found) -> Self {
        let trust = documents.iter().map(|document| (document.id, document.trust));
        let mut scope = Scope { trust: trust.collect(), ..Scope::default() };
        documents.iter().for_each(|document| scope.c_lines.hide(&document.specification.hidden));
        let better = better(documents, known, &mut scope.repeats);
        for definition in documents.iter().flat_map(|document| &document.specification.definitions) {
            match better.get(&std::ptr::from_ref(definition)) {
                Some(better) if !scope.repeats.same(better, definition) => {
                    let named = definition.name().zip(better.name());
                    found.extend(named.map(|(Identifier { name, span }, by)| {
                        MeaningKind::Superseded { name: name.clone(), by: by.span }.at(*span)
                    }));
                }
                Some(_) => {}
                None => scope.define(definition, found),
            }
        }
        scope.extend(stage, found);
        let unread = documents.iter().flat_map(|document| &document.specification.omitted);
        scope.omitted.extend(unread.map(String::as_str));
        scope
    }

    pub(crate) fn missing_type(&self, name: &Identifier) -> Unresolved {
        let text = name.name.as_str();
        let elsewhere = || FOREIGN_TYPES.iter().find(|(other, _)| text.eq_ignore_ascii_case(other));
        let built_in = || nearest(text, BUILT_IN.iter().copied()).filter(|_| text.len() > 2);
        let reason = if let Some(value) = self.value_named(text) {
            Reason::IsValue(value.span)
        } else if let Some((_, xdr)) = elsewhere() {
            Reason::ForeignType(xdr)
        } else if let Some(near) = self.type_like(name) {
            Reason::Like(near.to_owned())
        } else {
            built_in().map_or(Reason::Unknown, Reason::LikeBuiltIn)
        };
        self.missing(Space::Type, name, reason)
    }

    pub(crate) fn missing_value(&self, name: &Identifier) -> Unresolved {
        let near = self.value_like(&name.name).map(str::to_owned);
        self.missing(Space::Value, name, near.map_or(Reason::Unknown, Reason::Like))
    }

    fn missing(&self, space: Space, name: &Identifier, reason: Reason) -> Unresolved {
        let origin = self.c_lines.origin(name);
        Unresolved { origin, ..Unresolved::new(space, name.clone(), reason) }
    }

    pub(crate) fn definition_of(&self, space: Space, name: &str) -> Option<Span> {
        match space {
            Space::Type => self.types.get(name).map(|ty| place(ty)),
            Space::Value => self.values.get(name).map(|value| value.span),
        }
    }

    /// Returns true if `name` refers to `definition` or to a part of it, such as an enum member.
    pub(crate) fn means(&self, space: Space, name: &str, definition: &Definition) -> bool {
        self.definition_of(space, name).is_some_and(|place| is_within(place, definition.span))
    }

    /// Returns the correction of an undefined name in a published document, if exactly one name qualifies. In
    /// an example in prose, names that differ by one letter qualify. Otherwise, another document may define
    /// the undefined name, so only names of the same document that differ by a short prefix qualify.
    pub(crate) fn intended_name<'c>(
        &self,
        name: &Identifier,
        candidates: impl Iterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let trust = self.trust.get(&name.span.source).copied().unwrap_or(Trust::Own);
        if trust == Trust::Own || self.omitted.contains(name.name.as_str()) || !self.may_look() {
            return None;
        }
        let is_like = |candidate: &&str| match trust {
            Trust::Example => distance(&name.name, candidate) <= 1,
            _ => self.stands_in(candidate, name.span.source) && is_slip(&name.name, candidate),
        };
        let is_beside = |candidate: &&str| split(candidate).0 == split(&name.name).0;
        let mut near = candidates.filter(|candidate| is_beside(candidate) && is_like(candidate));
        let first = near.next()?;
        near.all(|other| other == first).then_some(first)
    }

    fn stands_in(&self, name: &str, document: SourceId) -> bool {
        let ty = self.types.get(name).map(|definition| definition.span.source);
        ty == Some(document) || self.values.get(name).is_some_and(|value| value.span.source == document)
    }

    fn define(&mut self, definition: &'a Definition, found: &mut Found) {
        let Some(name) = definition.name() else { return self.c_lines.add(definition) };
        let table = match definition.kind {
            DefinitionKind::Const(_) => {
                return self.define_const(name, definition, found);
            }
            DefinitionKind::Program(_) => &mut self.programs,
            _ => &mut self.types,
        };
        if let Some(&first) = table.get(name.name.as_str()) {
            let again = self.again.get(name.name.as_str());
            let last = again.and_then(|again| again.last()).copied().unwrap_or(first);
            if self.repeats.same(last, definition) || self.repeats.same(first, definition) {
                return self.report_repeated(name, first, definition, found);
            }
            if may_extend(last, definition) && again.map_or(0, Vec::len) < EXTENSIONS {
                self.again.entry(&name.name).or_default().push(definition);
            } else {
                found.push(redefinition(name, place(last), Redefinition::Differently));
            }
            return;
        }
        // `typedef struct foo foo;` defines a short name in C and nothing in XDR.
        if definition.is_own_name() {
            return;
        }
        table.insert(&name.name, definition);
        self.definitions.push(definition);
        self.report_value(name, definition, found);
        if let DefinitionKind::Program(program) = &definition.kind {
            self.define_numbers(program);
        }
        self.define_all_members(definition, found);
    }

    fn define_all_members(&mut self, definition: &'a Definition, found: &mut Found) {
        enums(definition).into_iter().for_each(|body| self.define_members(body, found));
    }

    /// Replaces each definition with its redefinition after at most `stage` extensions in later documents.
    fn extend(&mut self, stage: usize, found: &mut Found) {
        if stage == 0 || self.again.is_empty() {
            return;
        }
        let mut definitions = std::mem::take(&mut self.definitions);
        for slot in &mut definitions {
            let Some(name) = slot.name().map(|name| name.name.as_str()) else { continue };
            let Some(again) = self.again.get(name) else { continue };
            let Some(&by) = again.get(stage.min(again.len()) - 1) else { continue };
            // A constant or a program may have the name of an extended type.
            if self.types.get(name).is_none_or(|first| first.span != slot.span) {
                continue;
            }
            self.types.insert(name, by);
            self.forget_members(slot);
            self.define_all_members(by, found);
            *slot = by;
        }
        self.definitions = definitions;
    }

    fn forget_members(&mut self, definition: &'a Definition) {
        for body in enums(definition) {
            for member in &body.members {
                let own = |named: &Named<'_>| matches!(named.source, ValueSource::Member(of, _) if std::ptr::eq(of, body));
                if self.values.get(member.name.name.as_str()).is_some_and(own) {
                    self.values.remove(member.name.name.as_str());
                }
            }
        }
    }

    pub(crate) fn stages(&self) -> usize {
        self.again.values().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns true if the definition of a type replaces a definition of an earlier document.
    pub(crate) fn is_extension(&self, name: &Identifier) -> bool {
        self.again.get(name.name.as_str()).is_some_and(|again| again.iter().any(|by| by.name() == Some(name)))
    }

    fn define_const(&mut self, name: &'a Identifier, definition: &'a Definition, found: &mut Found) {
        let DefinitionKind::Const(ConstDef { value, .. }) = &definition.kind else { return };
        match self.values.get(name.name.as_str()) {
            Some(Named { source: ValueSource::Const(first), span, of_program })
                if same_value(first, value) =>
            {
                // C accepts an identical repetition of a `#define`.
                let is_macro = definition.text.starts_with('#');
                if !is_macro && !of_program && span.source == name.span.source && self.is_own(name.span) {
                    found.push(MeaningKind::Repeated { name: name.name.clone(), first: *span }.at(name.span));
                }
            }
            Some(first) => found.push(redefinition(name, first.span, Redefinition::Differently)),
            None => {
                if let Some(ty) = self.types.get(name.name.as_str()).filter(|_| self.is_own(name.span)) {
                    found.push(redefinition(name, place(ty), Redefinition::ConstantAndType));
                }
                let source = ValueSource::Const(value);
                self.values.insert(&name.name, Named { span: name.span, source, of_program: false });
                self.definitions.push(definition);
            }
        }
    }

    fn is_own(&self, place: Span) -> bool {
        self.trust.get(&place.source) == Some(&Trust::Own)
    }

    /// Reports a definition that occurs twice in a document that can be corrected, since the second is
    /// probably an unedited copy.
    fn report_repeated(&self, name: &Identifier, first: &Definition, again: &Definition, found: &mut Found) {
        let in_one = first.span.source == again.span.source && self.is_own(again.span);
        if in_one && !again.is_own_name() {
            let repeated = MeaningKind::Repeated { name: name.name.clone(), first: place(first) };
            found.push(repeated.at(name.span));
        }
    }

    /// Reports a type with the name of a constant or an enum member, in a document that can be corrected.
    /// Programs may have such names, since they define no type in C.
    fn report_value(&self, name: &Identifier, definition: &Definition, found: &mut Found) {
        let is_type = !matches!(definition.kind, DefinitionKind::Program(_)) && self.is_own(name.span);
        match self.values.get(name.name.as_str()).filter(|value| is_type && !value.of_program) {
            Some(Named { source: ValueSource::Const(_), span, .. }) => {
                found.push(redefinition(name, *span, Redefinition::ConstantAndType))
            }
            Some(Named { source: ValueSource::Member(..), span, .. }) => {
                found
                    .push(MeaningKind::MemberAndType { name: name.name.clone(), first: *span }.at(name.span));
            }
            None => {}
        }
    }

    /// Defines the names of programs, versions and procedures as constants, as rpcgen does. RFC 5531 section
    /// 12.3 includes only the names of programs in the name space of constants.
    fn define_numbers(&mut self, program: &'a ProgramDef) {
        let mut define = |name: &'a Identifier, number: &'a Value| {
            let named = Named { span: name.span, source: ValueSource::Const(number), of_program: true };
            let first = self.values.entry(&name.name).or_insert(named);
            if let Named { source: ValueSource::Const(first), of_program: true, .. } = *first
                && !same_value(first, number)
            {
                self.second_numbers.entry(&name.name).or_insert(name.span);
            }
        };
        define(&program.name, &program.number);
        for version in &program.versions {
            define(&version.name, &version.number);
            version.procedures.iter().for_each(|procedure| define(&procedure.name, &procedure.number));
        }
    }

    fn define_members(&mut self, body: &'a EnumBody, found: &mut Found) {
        for (index, member) in body.members.iter().enumerate() {
            let name = &member.name;
            match self.values.get(name.name.as_str()) {
                // `Resolver::enumeration` reports a duplicate within one enum.
                Some(Named { source: ValueSource::Member(first, _), .. }) if std::ptr::eq(*first, body) => {}
                Some(first) => {
                    let again = MeaningKind::MemberAgain { name: name.name.clone(), first: first.span };
                    found.push(again.at(name.span));
                }
                None => {
                    if let Some(ty) = self.types.get(name.name.as_str()).filter(|_| self.is_own(name.span)) {
                        let also = MeaningKind::MemberAndType { name: name.name.clone(), first: place(ty) };
                        found.push(also.at(name.span));
                    }
                    let source = ValueSource::Member(body, narrow(index));
                    self.values.insert(&name.name, Named { span: name.span, source, of_program: false });
                }
            }
        }
    }

    pub(crate) fn value_named(&self, name: &str) -> Option<Named<'a>> {
        self.values.get(name).copied()
    }

    /// Returns the position of the first program, version or procedure with this name whose number conflicts
    /// with an earlier one, if there is one.
    pub(crate) fn second_number(&self, name: &str) -> Option<Span> {
        self.second_numbers.get(name).copied()
    }

    pub(crate) fn type_names(&self) -> impl Iterator<Item = &'a str> {
        self.types.keys().copied()
    }

    pub(crate) fn value_names(&self) -> impl Iterator<Item = &'a str> {
        self.values.keys().copied()
    }

    /// Returns the type name most similar to `name`, if any. Requires a closer match if the candidate's
    /// definition contains `name`, or if another document may define `name`.
    pub(crate) fn type_like(&self, name: &Identifier) -> Option<&'a str> {
        let length = name.name.len();
        let is_around = |span: Span| is_within(name.span, span);
        let one_off = |candidate: &str| length > 3 && distance(&name.name, candidate) <= 1;
        let others = self.trust.len() > 1 || self.c_lines.includes_files(name.span.source);
        let near = self.may_look().then(|| {
            let types = self.types.iter().filter(|(near, ty)| !is_around(ty.span) || one_off(near));
            nearest(&name.name, types.map(|(near, _)| *near))
        });
        near.flatten().filter(|near| !others || distance(&name.name, near) * 5 <= length)
    }

    pub(crate) fn value_like(&self, name: &str) -> Option<&'a str> {
        let constants = ["TRUE", "FALSE"].into_iter().filter(|_| name.len() > 2);
        let like = || nearest(name, self.values.keys().copied()).or_else(|| near(name, 1, constants));
        self.may_look().then(like).flatten()
    }

    pub(crate) fn like<'c>(&self, name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
        self.may_look().then(|| nearest(name, candidates)).flatten()
    }

    /// Counts a similarity search. Returns true if the count does not exceed [`LIKENESSES`].
    fn may_look(&self) -> bool {
        self.looked.set(self.looked.get().saturating_add(1));
        self.looked.get() <= LIKENESSES
    }
}

fn place(definition: &Definition) -> Span {
    definition.name().map_or(definition.span, |name| name.span)
}

fn redefinition(Identifier { name, span }: &Identifier, first: Span, how: Redefinition) -> Diagnostic {
    MeaningKind::Redefinition { name: name.clone(), first, how }.at(*span)
}

fn is_within(place: Span, around: Span) -> bool {
    around.source == place.source && around.start <= place.start && place.end <= around.end
}

/// If one published document defines a type several times, maps the other definitions to the preferred
/// definition. The criteria, in order: no undefined names, the most parts (if all definitions of the name
/// are of one kind), the last position.
fn better<'a>(
    documents: &'a [Document],
    known: &Known<'_>,
    repeats: &mut Repeats,
) -> HashMap<*const Definition, &'a Definition> {
    let mut better = HashMap::default();
    let types = || {
        let published = documents.iter().filter(|document| document.trust != Trust::Own);
        let all = published.flat_map(|document| &document.specification.definitions);
        let named = all.filter(|one| is_type(one)).filter_map(|one| Some((one.name()?, one)));
        named.map(|(name, one)| ((name.span.source, name.name.as_str()), one))
    };
    // Most documents have no repeated definitions.
    let mut seen = HashSet::default();
    let twice: HashSet<_> = types().map(|(name, _)| name).filter(|name| !seen.insert(*name)).collect();
    if twice.is_empty() {
        return better;
    }
    let mut again: HashMap<(SourceId, &str), Vec<&Definition>> = HashMap::default();
    for (name, definition) in types().filter(|(name, _)| twice.contains(name)) {
        again.entry(name).or_default().push(definition);
    }
    let mut defined = Defined::default();
    let all = documents.iter().flat_map(|document| &document.specification.definitions);
    all.for_each(|definition| defined.add(definition));
    let is_resolved = |definition: &Definition| {
        let mut uses = Uses::beyond(&defined);
        uses.add(definition);
        uses.types.iter().all(|name| known.is_type(&name.name))
            && uses.values.iter().all(|name| known.is_value(&name.name))
    };
    for all in again.into_values() {
        let kind = |definition: &Definition| std::mem::discriminant(&definition.kind);
        let one_kind = all.iter().all(|one| all.first().is_some_and(|first| kind(one) == kind(first)));
        let rank = |one: &&&'a Definition| (is_resolved(one), if one_kind { parts(one) } else { 0 });
        let Some(&last) = all.iter().max_by_key(rank) else { continue };
        // If several definitions are equal, the first takes effect.
        let best = all.iter().find(|one| repeats.same(one, last)).copied().unwrap_or(last);
        let others = all.iter().filter(|one| !std::ptr::eq(**one, best));
        better.extend(others.map(|one| (std::ptr::from_ref::<Definition>(one), best)));
    }
    better
}

fn is_type(definition: &Definition) -> bool {
    use DefinitionKind::{Const, PassThrough, Program};
    !matches!(definition.kind, Const(_) | Program(_) | PassThrough(_)) && !definition.is_own_name()
}

/// Returns true if a definition may extend a definition of an earlier document. The extension rules are
/// checked after all names are resolved.
fn may_extend(first: &Definition, second: &Definition) -> bool {
    use DefinitionKind::{Enum, Union};
    let both = (&first.kind, &second.kind);
    matches!(both, (Enum(..), Enum(..)) | (Union(..), Union(..))) && first.span.source < second.span.source
}
