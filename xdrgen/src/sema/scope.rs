//! Names over all documents of a run: what each stands for, and what is defined twice.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::asides::Asides;
use super::repeats::{Repeats, also_a_type, member_again, no_second_name, repeated, same_value, twice};
use crate::ast::{
    CaseSpec, ConstDef, Declaration, DeclarationKind, Definition, DefinitionKind, EnumBody, Identifier,
    ProgramDef, Specification, StructBody, TypeSpecifier, TypeSpecifierKind, UnionBody, Value,
};
use crate::diag::Found;
use crate::hash::{HashMap, HashSet};
use crate::source::{SourceId, Span};

/// A named value: a constant, or a member of an enum.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) span: Span,
    pub(crate) source: ValueSource<'a>,
    /// Whether it is the number of a program, of a version or of a procedure.
    pub(crate) of_program: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum ValueSource<'a> {
    Const(&'a Value),
    Member(&'a EnumBody, usize),
}

/// What the names of a run stand for. The first definition of a name counts.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    /// The definitions that count, in the documents' order.
    pub(crate) definitions: Vec<&'a Definition>,
    types: HashMap<&'a str, &'a Definition>,
    values: HashMap<&'a str, Named<'a>>,
    /// Programs share C's name space with constants, but nothing of XDR can mean them.
    programs: HashMap<&'a str, &'a Definition>,
    /// The names of what is left out: nothing else is meant by them.
    gone: HashSet<&'a str>,
    /// Whose documents these are: a slip of the pen in a published one is forgiven.
    trust: HashMap<SourceId, Trust>,
    /// Names that exist in Rust.
    pub(crate) externs: Option<&'a BTreeMap<String, String>>,
    /// What the documents say to C alone.
    pub(crate) asides: Asides<'a>,
    /// What later documents define again, and by which definitions, in their order.
    again: HashMap<&'a str, Vec<&'a Definition>>,
    /// What is defined more than once, to compare it.
    repeats: Repeats,
    /// How many names have been looked for by likeness.
    looked: Cell<usize>,
}

/// How many names are looked for by likeness: each is compared to all that are defined.
const LIKENESSES: usize = 100;

/// How often one definition may be extended. Each time is checked by itself.
const EXTENSIONS: usize = 16;

/// A document of a run.
pub(crate) struct Document<'a> {
    pub(crate) id: SourceId,
    pub(crate) specification: &'a Specification,
    /// How far its text is taken as it stands.
    pub(crate) trust: Trust,
}

/// Whose a document is, and what follows from it for what is wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It can be mended: what is wrong is an error.
    Own,
    /// A published RFC with marked XDR, which nobody can mend. What is wrong is left out with a warning; but a name that
    /// it does not define is of another document, which must be there.
    Published,
    /// Examples between prose in a published RFC, which nobody ever compiled: what is wrong is left out with a warning.
    Example,
}

impl<'a> Scope<'a> {
    /// The definitions of all documents but those that are left out, by their spans. Of those that later documents
    /// extend, the one after `stage` extensions counts.
    pub(crate) fn new(
        documents: &[Document<'a>],
        left_out: &HashSet<Span>,
        stage: usize,
        found: &mut Found,
    ) -> Self {
        let trust = documents.iter().map(|document| (document.id, document.trust));
        let mut scope = Scope { trust: trust.collect(), ..Scope::default() };
        documents.iter().for_each(|document| scope.asides.hide(&document.specification.hidden));
        let definitions = documents.iter().flat_map(|document| &document.specification.definitions);
        for definition in definitions {
            if left_out.contains(&definition.span) {
                scope.gone.extend(defined_name(definition).map(|name| name.name.as_str()));
            } else {
                scope.define(definition, found);
            }
        }
        scope.extend(stage, found);
        let unread = documents.iter().flat_map(|document| &document.specification.left_out);
        scope.gone.extend(unread.map(String::as_str));
        scope
    }

    /// What a name that nothing has is taken for in a published document: the one name that differs by a letter, or,
    /// in a document that other documents may have to stand beside, the one name of its own that is most of it.
    pub(crate) fn taken_for<'c>(
        &self,
        name: &Identifier,
        candidates: impl Iterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let trust = self.trust.get(&name.span.source).copied().unwrap_or(Trust::Own);
        if trust == Trust::Own || self.gone.contains(name.name.as_str()) || !self.may_look() {
            return None;
        }
        let is_like = |candidate: &&str| match trust {
            Trust::Example => distance(&name.name, candidate) <= 1,
            _ => self.stands_in(candidate, name.span.source) && is_slip(&name.name, candidate),
        };
        let mut near = candidates.filter(is_like);
        let first = near.next()?;
        near.all(|other| other == first).then_some(first)
    }

    /// Whether a document defines a name.
    fn stands_in(&self, name: &str, document: SourceId) -> bool {
        let ty = self.types.get(name).map(|definition| definition.span.source);
        ty == Some(document) || self.values.get(name).is_some_and(|value| value.span.source == document)
    }

    fn define(&mut self, definition: &'a Definition, found: &mut Found) {
        let Some(name) = defined_name(definition) else { return self.asides.add(definition) };
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
                return self.say_repeated(name, first, definition, found);
            }
            if may_extend(last, definition) && again.map_or(0, Vec::len) < EXTENSIONS {
                self.again.entry(&name.name).or_default().push(definition);
            } else {
                found.push(twice(name, defined_name(last).map_or(last.span, |name| name.span)));
            }
            return;
        }
        // `typedef struct foo foo;` gives C a short name and XDR nothing.
        if is_own_name(definition) {
            return;
        }
        table.insert(&name.name, definition);
        self.definitions.push(definition);
        self.say_value(name, definition, found);
        if let DefinitionKind::Program(program) = &definition.kind {
            self.define_numbers(program);
        }
        self.define_all_members(definition, found);
    }

    fn define_all_members(&mut self, definition: &'a Definition, found: &mut Found) {
        let mut bodies = Vec::new();
        enums_of_definition(definition, &mut bodies);
        bodies.into_iter().for_each(|body| self.define_members(body, found));
    }

    /// Lets what later documents define again stand for what they extend, each after at most `stage` extensions.
    fn extend(&mut self, stage: usize, found: &mut Found) {
        if stage == 0 || self.again.is_empty() {
            return;
        }
        let mut definitions = std::mem::take(&mut self.definitions);
        for slot in &mut definitions {
            let Some(name) = defined_name(slot).map(|name| name.name.as_str()) else { continue };
            let Some(again) = self.again.get(name) else { continue };
            let Some(&by) = again.get(stage.min(again.len()) - 1) else { continue };
            // A constant or a program may have the name too.
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

    /// Forgets the values that a definition's members name: another definition takes its place.
    fn forget_members(&mut self, definition: &'a Definition) {
        let mut bodies = Vec::new();
        enums_of_definition(definition, &mut bodies);
        for body in bodies {
            for member in &body.members {
                let own = |named: &Named<'_>| matches!(named.source, ValueSource::Member(of, _) if std::ptr::eq(of, body));
                if self.values.get(member.name.name.as_str()).is_some_and(own) {
                    self.values.remove(member.name.name.as_str());
                }
            }
        }
    }

    /// What is defined again by later documents, and how often.
    pub(crate) fn extended(&self) -> HashMap<String, usize> {
        self.again.iter().map(|(name, again)| ((*name).to_owned(), again.len())).collect()
    }

    /// Whether a type's definition stands for one of an earlier document too.
    pub(crate) fn is_extension(&self, name: &Identifier) -> bool {
        self.again
            .get(name.name.as_str())
            .is_some_and(|again| again.iter().any(|by| defined_name(by) == Some(name)))
    }

    fn define_const(&mut self, name: &'a Identifier, definition: &'a Definition, found: &mut Found) {
        let DefinitionKind::Const(ConstDef { value, .. }) = &definition.kind else { return };
        match self.values.get(name.name.as_str()) {
            Some(Named { source: ValueSource::Const(first), span, of_program })
                if same_value(first, value) =>
            {
                // C takes the same `#define` twice without a word.
                let is_macro = definition.text.starts_with('#');
                if !is_macro && !of_program && span.source == name.span.source && self.is_own(name.span) {
                    found.push(repeated(name, *span));
                }
            }
            Some(first) => found.push(twice(name, first.span)),
            None => {
                if let Some(ty) = self.types.get(name.name.as_str()).filter(|_| self.is_own(name.span)) {
                    found.push(no_second_name(name, defined_name(ty).map_or(ty.span, |name| name.span)));
                }
                let source = ValueSource::Const(value);
                self.values.insert(&name.name, Named { span: name.span, source, of_program: false });
                self.definitions.push(definition);
            }
        }
    }

    /// Whether a place is in a document that can be mended.
    fn is_own(&self, place: Span) -> bool {
        self.trust.get(&place.source) == Some(&Trust::Own)
    }

    /// A definition that stands twice in a document was copied, and one of the two was to become another.
    fn say_repeated(&self, name: &Identifier, first: &Definition, again: &Definition, found: &mut Found) {
        let in_one = first.span.source == again.span.source && self.is_own(again.span);
        if in_one && !is_own_name(again) {
            found.push(repeated(name, defined_name(first).map_or(first.span, |name| name.span)));
        }
    }

    /// A type cannot be called like a constant or a member of an enum. Programs can, since in C nothing of them is in
    /// the way.
    fn say_value(&self, name: &Identifier, definition: &Definition, found: &mut Found) {
        let is_type = !matches!(definition.kind, DefinitionKind::Program(_)) && self.is_own(name.span);
        match self.values.get(name.name.as_str()).filter(|value| is_type && !value.of_program) {
            Some(Named { source: ValueSource::Const(_), span, .. }) => {
                found.push(no_second_name(name, *span))
            }
            Some(Named { source: ValueSource::Member(..), span, .. }) => found.push(also_a_type(name, *span)),
            None => {}
        }
    }

    /// The names of programs, versions and procedures are constants too (RFC 5531 section 12.3).
    fn define_numbers(&mut self, program: &'a ProgramDef) {
        let mut define = |name: &'a Identifier, number: &'a Value| {
            self.values.entry(&name.name).or_insert(Named {
                span: name.span,
                source: ValueSource::Const(number),
                of_program: true,
            });
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
                // Within one enum the checks of enums say so.
                Some(Named { source: ValueSource::Member(first, _), .. }) if std::ptr::eq(*first, body) => {}
                Some(first) => found.push(member_again(name, first.span)),
                None => {
                    if let Some(ty) = self.types.get(name.name.as_str()).filter(|_| self.is_own(name.span)) {
                        found.push(also_a_type(name, defined_name(ty).map_or(ty.span, |name| name.span)));
                    }
                    let source = ValueSource::Member(body, index);
                    self.values.insert(&name.name, Named { span: name.span, source, of_program: false });
                }
            }
        }
    }

    pub(crate) fn value_named(&self, name: &str) -> Option<Named<'a>> {
        self.values.get(name).copied()
    }

    /// The names of all types.
    pub(crate) fn type_names(&self) -> impl Iterator<Item = &'a str> {
        self.types.keys().copied()
    }

    /// The names of all constants and members.
    pub(crate) fn value_names(&self) -> impl Iterator<Item = &'a str> {
        self.values.keys().copied()
    }

    /// The type's name that is most like `name`. Of the definition that `name` stands in only a slip is expected, and
    /// where another document may define it, only a slip of any.
    pub(crate) fn type_like(&self, name: &Identifier) -> Option<&'a str> {
        let length = name.name.len();
        let is_around = |span: Span| {
            span.source == name.span.source && span.start <= name.span.start && name.span.end <= span.end
        };
        let one_off = |candidate: &str| length > 3 && distance(&name.name, candidate) <= 1;
        let others = self.trust.len() > 1 || self.asides.includes_files(name.span.source);
        let near = self.may_look().then(|| {
            let types = self.types.iter().filter(|(near, ty)| !is_around(ty.span) || one_off(near));
            nearest(&name.name, types.map(|(near, _)| *near))
        });
        near.flatten().filter(|near| !others || distance(&name.name, near) * 5 <= length)
    }

    /// The constant's or member's name that is most like `name`.
    pub(crate) fn value_like(&self, name: &str) -> Option<&'a str> {
        let constants = ["TRUE", "FALSE"].into_iter().filter(|_| name.len() > 2);
        let like = || nearest(name, self.values.keys().copied()).or_else(|| near(name, 1, constants));
        self.may_look().then(like).flatten()
    }

    /// The candidate that is most like `name`.
    pub(crate) fn like<'c>(&self, name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
        self.may_look().then(|| nearest(name, candidates)).flatten()
    }

    /// Whether one more name may be compared to all others.
    fn may_look(&self) -> bool {
        self.looked.set(self.looked.get().saturating_add(1));
        self.looked.get() <= LIKENESSES
    }
}

/// The name that a definition defines.
pub(crate) fn defined_name(definition: &Definition) -> Option<&Identifier> {
    match &definition.kind {
        DefinitionKind::Const(constant) => Some(&constant.name),
        DefinitionKind::Typedef(declaration) => declared_name(declaration),
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            Some(name)
        }
        DefinitionKind::Program(program) => Some(&program.name),
        DefinitionKind::PassThrough(_) => None,
    }
}

/// The name that a declaration declares; `void` declares none.
pub(crate) fn declared_name(declaration: &Declaration) -> Option<&Identifier> {
    match &declaration.kind {
        DeclarationKind::Void => None,
        DeclarationKind::Plain(_, name)
        | DeclarationKind::FixedArray(_, name, _)
        | DeclarationKind::VariableArray(_, name, _)
        | DeclarationKind::Optional(_, name)
        | DeclarationKind::FixedOpaque(name, _)
        | DeclarationKind::VariableOpaque(name, _)
        | DeclarationKind::String(name, _) => Some(name),
    }
}

pub(super) fn is_own_name(definition: &Definition) -> bool {
    let DefinitionKind::Typedef(Declaration { kind: DeclarationKind::Plain(of, name), .. }) =
        &definition.kind
    else {
        return false;
    };
    matches!(&of.kind, TypeSpecifierKind::Named(named) if named.name == name.name)
}

/// Whether a definition could extend one of an earlier document. Whether it does is checked once all names are known.
fn may_extend(first: &Definition, second: &Definition) -> bool {
    use DefinitionKind::{Enum, Union};
    let both = (&first.kind, &second.kind);
    matches!(both, (Enum(..), Enum(..)) | (Union(..), Union(..))) && first.span.source < second.span.source
}

fn enums_of_definition<'a>(definition: &'a Definition, bodies: &mut Vec<&'a EnumBody>) {
    match &definition.kind {
        DefinitionKind::Enum(_, body) => bodies.push(body),
        DefinitionKind::Struct(_, body) => enums_of_struct(body, bodies),
        DefinitionKind::Union(_, body) => enums_of_union(body, bodies),
        DefinitionKind::Typedef(declaration) => enums_of_declaration(declaration, bodies),
        DefinitionKind::Const(_) | DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => {}
    }
}

fn enums_of_struct<'a>(body: &'a StructBody, bodies: &mut Vec<&'a EnumBody>) {
    body.fields.iter().for_each(|field| enums_of_declaration(field, bodies));
}

fn enums_of_union<'a>(body: &'a UnionBody, bodies: &mut Vec<&'a EnumBody>) {
    enums_of_declaration(&body.discriminant, bodies);
    for CaseSpec { declaration, .. } in &body.arms {
        enums_of_declaration(declaration, bodies);
    }
    body.default.iter().for_each(|declaration| enums_of_declaration(declaration, bodies));
}

fn enums_of_declaration<'a>(declaration: &'a Declaration, bodies: &mut Vec<&'a EnumBody>) {
    let Some(TypeSpecifier { kind, .. }) = specifier(declaration) else { return };
    match kind {
        TypeSpecifierKind::Enum(body) => bodies.push(body),
        TypeSpecifierKind::Struct(body) => enums_of_struct(body, bodies),
        TypeSpecifierKind::Union(body) => enums_of_union(body, bodies),
        _ => {}
    }
}

fn specifier(declaration: &Declaration) -> Option<&TypeSpecifier> {
    match &declaration.kind {
        DeclarationKind::Plain(of, _)
        | DeclarationKind::FixedArray(of, _, _)
        | DeclarationKind::VariableArray(of, _, _)
        | DeclarationKind::Optional(of, _) => Some(of),
        _ => None,
    }
}

/// The candidate that differs least from `name`, if it differs little; of several the first in the alphabet.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    // A letter more or less makes another word of a short one.
    let most = if name.len() < 3 { 0 } else { name.len().div_ceil(3).min(3) };
    near(name, most, candidates)
}

/// The candidate that differs least from `name`, in `most` letters at most.
fn near<'c>(name: &str, most: usize, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= most)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Whether one name is the other with some letters more before it: `rpcrdma_htype` for `rdma_htype`. Short names are too
/// much alike, and a word of its own before a name makes it another.
fn is_slip(name: &str, candidate: &str) -> bool {
    let (short, long) = if name.len() < candidate.len() { (name, candidate) } else { (candidate, name) };
    let more = long.strip_suffix(short).filter(|more| !more.contains('_'));
    short.len() >= 8 && more.is_some_and(|more| more.len() <= short.len())
}

/// How many letters must be put in, taken out, changed or swapped with the next; case counts nothing. Names are compared
/// by the thousand, so that the rows of counts stand on the stack; what does not fit them is like nothing.
fn distance(a: &str, b: &str) -> usize {
    let mut row = [0; LONGEST_COMPARED + 1];
    let Some(row) = row.get_mut(..=b.len()) else { return usize::MAX };
    for (count, place) in row.iter_mut().enumerate() {
        *place = count;
    }
    let Some((before, counts)) = row.split_first_mut() else { return a.len() };
    // The row above that of `counts`; a swap goes on from there.
    let mut above_that = [0; LONGEST_COMPARED];
    let mut last_x = None;
    for x in a.bytes() {
        // The counts to the left of this one, in the line above and in this line; and the two above the first.
        let (mut diagonal, mut last) = (*before, *before + 1);
        let (mut two_up, mut swapped) = (before.saturating_sub(1), 0);
        let mut last_y: Option<u8> = None;
        *before = last;
        for ((place, old), y) in counts.iter_mut().zip(&mut above_that).zip(b.bytes()) {
            let above = *place;
            last = (diagonal + usize::from(!x.eq_ignore_ascii_case(&y))).min(above + 1).min(last + 1);
            let is_swap = last_x.zip(last_y).is_some_and(|(last_x, last_y): (u8, u8)| {
                last_x.eq_ignore_ascii_case(&y) && last_y.eq_ignore_ascii_case(&x)
            });
            if is_swap {
                last = last.min(swapped + 1);
            }
            (swapped, two_up, *old) = (two_up, *old, above);
            (diagonal, *place, last_y) = (above, last, Some(y));
        }
        last_x = Some(x);
    }
    counts.last().copied().unwrap_or(*before)
}

/// Longer names are not compared.
const LONGEST_COMPARED: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["fattr3", "fattr4", "nfs_fh3"];
        for (a, b, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "ABC", 0),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("MXA", "MAX", 1),
            ("xab", "xba", 1),
            ("xxab", "yyba", 3),
            ("unsinged", "unsigned", 1),
            ("abcd", "badc", 2),
        ] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
        }
        assert_eq!(nearest("fatr3", names.into_iter()), Some("fattr3"));
        assert_eq!(nearest("NFS_FH3", names.into_iter()), Some("nfs_fh3"));
        assert_eq!(nearest("verifier", names.into_iter()), None);
    }
}
