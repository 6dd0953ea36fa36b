//! Omits invalid definitions of published documents, which cannot be corrected. With `--keep-going`, omits
//! invalid definitions of any document.

use super::scope::{Document, Scope};
use super::supply::Known;
use super::unresolved::{Reason, Space, Unresolved};
use super::uses::{Defined, Uses};
use crate::ast::{Definition, DefinitionKind, Identifier};
use crate::diag::{Diagnostic, Found, Note, OmittedPart, Severity, has_errors};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Hir, TypeDef, TypeId};
use crate::source::{SourceId, Span, Trust};

type Name = (Space, String);

type Use<'a> = (&'a Document, &'a Definition, Span);

struct Omission<'a> {
    scope: &'a Scope<'a>,
    documents: &'a [Document],
    known: &'a Known<'a>,
    omitted: HashSet<*const Definition>,
    /// Findings about the omitted definitions.
    found: Vec<Diagnostic>,
    /// Findings about other definitions.
    kept: Vec<Diagnostic>,
    omitted_names: HashSet<Name>,
    /// Omitted names whose uses have not been processed yet.
    pending: Vec<Name>,
    uses: HashMap<Name, Vec<Use<'a>>>,
    /// The definitions of each document, sorted by position.
    places: HashMap<SourceId, Vec<&'a Definition>>,
}

/// Omits definitions with tolerated errors, then their dependents. A program keeps its valid procedures. Adds
/// findings about undefined names, and returns true if the remaining definitions can be emitted.
pub(super) fn omit(
    hir: &mut Hir,
    scope: &Scope<'_>,
    documents: &[Document],
    known: &Known<'_>,
    unresolved: Vec<Unresolved>,
    found: &mut Found,
) -> bool {
    let mut missing: HashMap<usize, Name> = HashMap::default();
    let mut errata = Vec::new();
    for one in unresolved {
        let place = found.kept.len();
        found.push(one.clone().into());
        match one.reason {
            Reason::Erratum(near) => errata.push(((one.space, near), one.span, one.within)),
            _ if found.kept.len() > place => {
                missing.insert(place, (one.space, one.name));
            }
            _ => {}
        }
    }
    if !found.has_errors() {
        return true;
    }
    let mut omission = Omission::new(scope, documents, known);
    for (name, span, within) in errata {
        let within = within.as_deref();
        if let Some((document, definition)) = omission.definition(span, within) {
            omission.uses.entry(name).or_default().push((document, definition, span));
        }
    }
    // Definitions that could not be parsed are omitted from the start.
    let unread = documents.iter().flat_map(|document| &document.specification.omitted);
    omission
        .pending
        .extend(unread.flat_map(|name| [(Space::Type, name.clone()), (Space::Value, name.clone())]));
    omission.spread();
    for (place, error) in std::mem::take(&mut found.kept).into_iter().enumerate() {
        let name = missing.remove(&place);
        match omission.definition(error.span, error.within.as_deref()) {
            Some((document, definition))
                if error.is_error()
                    && (known.options.keep_going || omission.is_erratum(document.trust, name.as_ref())) =>
            {
                omission.pending.extend(name.clone());
                omission.leave_out(document, definition, error, name.as_ref());
            }
            _ => omission.kept.push(error),
        }
    }
    omission.spread();
    omission.remove_from(hir);
    let Omission { found: about_omitted, kept, .. } = omission;
    found.kept = kept;
    let is_complete = !found.has_errors() && (known.options.keep_going || !has_errors(&about_omitted));
    found.kept.extend(about_omitted);
    is_complete
}

impl<'a> Omission<'a> {
    fn new(scope: &'a Scope<'a>, documents: &'a [Document], known: &'a Known<'a>) -> Self {
        let mut uses: HashMap<Name, Vec<Use<'a>>> = HashMap::default();
        let mut places = HashMap::default();
        let nothing = Defined::default();
        for document in documents {
            for definition in &document.specification.definitions {
                let mut used = Uses::beyond(&nothing);
                used.add(definition);
                let mut add = |space, Identifier { name, span }: Identifier| {
                    uses.entry((space, name)).or_default().push((document, definition, span));
                };
                used.types.into_iter().for_each(|name| add(Space::Type, name));
                used.values.into_iter().for_each(|name| add(Space::Value, name));
            }
            let mut sorted: Vec<&Definition> = document.specification.definitions.iter().collect();
            // A supplied definition can lie inside the definition that uses it. If both start at the same
            // position, the outer definition sorts first.
            sorted.sort_by_key(|definition| (definition.span.start, std::cmp::Reverse(definition.span.end)));
            places.insert(document.id, sorted);
        }
        Omission {
            scope,
            documents,
            known,
            omitted: HashSet::default(),
            found: Vec::new(),
            kept: Vec::new(),
            omitted_names: HashSet::default(),
            pending: Vec::new(),
            uses,
            places,
        }
    }

    /// Returns true if an error is tolerated by omitting the definition, because the document is published
    /// and cannot be corrected.
    fn is_erratum(&self, trust: Trust, missing: Option<&Name>) -> bool {
        match trust {
            Trust::Example => true,
            Trust::Published => missing.is_none_or(|name| self.omitted_names.contains(name)),
            Trust::Own => false,
        }
    }

    fn leave_out(
        &mut self,
        document: &Document,
        definition: &'a Definition,
        error: Diagnostic,
        missing: Option<&Name>,
    ) {
        let is_program = matches!(definition.kind, DefinitionKind::Program(_));
        let breaks_program = is_program && self.known.complete_programs && document.trust != Trust::Own;
        let what = match (breaks_program && !self.known.options.keep_going, is_program) {
            (true, _) => OmittedPart::Needed,
            (_, true) => OmittedPart::Procedure,
            (_, false) => OmittedPart::Definition,
        };
        // If only `--keep-going` tolerates an error, the finding stays an error, unless it reports the use of
        // an omitted name.
        let follows = missing.is_some_and(|name| self.omitted_names.contains(name));
        let severity = if !breaks_program && (self.is_erratum(document.trust, missing) || follows) {
            Severity::Warning
        } else {
            Severity::Error
        };
        let name = definition.name().map_or("", |name| name.name.as_str());
        let error = Diagnostic { severity, ..error }.with_note(Note::Omitted { trust: document.trust, what });
        self.found.push(error.with_omitted(name, is_program));
        if !is_program && self.omitted.insert(definition) {
            self.pending.extend(self.names_of(definition));
        }
    }

    /// Returns the names that a definition defines, in a deterministic order.
    fn names_of(&self, definition: &Definition) -> Vec<Name> {
        let mut defined = Defined::default();
        defined.add(definition);
        let types = defined.types.into_iter().map(|name| (Space::Type, name));
        let values = defined.values.into_iter().map(|name| (Space::Value, name));
        let is_own = |(space, name): &Name| self.scope.means(*space, name, definition);
        let mut names: Vec<Name> = types.chain(values).filter(is_own).collect();
        names.sort_unstable();
        names
    }

    /// Omits the definitions that use an omitted name. In a document that can be corrected, reports the first
    /// use instead, unless `--keep-going` is set.
    fn spread(&mut self) {
        while let Some(name) = self.pending.pop() {
            let is_known = match name.0 {
                Space::Type => self.known.is_type(&name.1),
                Space::Value => self.known.is_value(&name.1),
            };
            if is_known || self.is_defined(&name) || !self.omitted_names.insert(name.clone()) {
                continue;
            }
            let mut is_reported = false;
            for (document, definition, span) in self.uses.remove(&name).unwrap_or_default() {
                if self.is_omitted(definition) {
                    continue;
                }
                let used = Identifier { name: name.1.clone(), span };
                let missing = Unresolved::new(name.0, used, Reason::Omitted);
                if document.trust != Trust::Own || self.known.options.keep_going {
                    self.leave_out(document, definition, missing.into(), Some(&name));
                } else if !std::mem::replace(&mut is_reported, true) {
                    self.kept.push(missing.into());
                }
            }
        }
    }

    fn is_defined(&self, (space, name): &Name) -> bool {
        self.scope
            .definition_of(*space, name)
            .and_then(|span| self.holding(span, Some(name)))
            .is_some_and(|definition| !self.is_omitted(definition))
    }

    fn definition(&self, span: Span, within: Option<&str>) -> Option<(&'a Document, &'a Definition)> {
        let document = self.documents.iter().find(|document| document.id == span.source)?;
        Some((document, self.holding(span, within)?))
    }

    /// Returns the definition at a position. If several definitions share a position because they come
    /// from one use of a macro, returns the definition of `name`, or else the last of them.
    fn holding(&self, span: Span, name: Option<&str>) -> Option<&'a Definition> {
        let places = self.places.get(&span.source)?;
        let after = places.partition_point(|definition| definition.span.start <= span.start);
        // A few supplied definitions and lines for C may be inside the definition at the position.
        let before = places.get(..after)?.iter().rev().take(NEAR);
        let mut holding = before.copied().skip_while(|definition| {
            definition.span.end < span.end || matches!(definition.kind, DefinitionKind::PassThrough(_))
        });
        let first = holding.next()?;
        let mut others = holding.take_while(|other| other.span == first.span).peekable();
        let Some(name) = name.filter(|_| others.peek().is_some()) else { return Some(first) };
        let defines = |definition: &&Definition| {
            let mut defined = Defined::default();
            defined.add(definition);
            defined.types.contains(name) || defined.values.contains(name)
        };
        std::iter::once(first).chain(others).find(defines).or(Some(first))
    }

    /// Removes omitted definitions from the protocol, and drops the warnings about them.
    fn remove_from(&mut self, hir: &mut Hir) {
        let mut kept = std::mem::take(&mut self.kept);
        let is_omitted =
            |span: Span, name: Option<&str>| self.holding(span, name).is_some_and(|one| self.is_omitted(one));
        let is_type_omitted = |ty: &TypeDef| is_omitted(ty.docs.span, ty.name.split('.').next());
        let mut types: HashSet<TypeId> =
            hir.typed().filter(|(_, ty)| is_type_omitted(ty)).map(|(id, _)| id).collect();
        // Types for the arguments and results of procedures have no definition of their own, but can depend
        // on omitted types.
        let mut more = true;
        while more {
            let lacks = |id: &TypeId| types.contains(id);
            let needs = hir.typed().filter(|(id, ty)| {
                !lacks(id) && ty.body.types().filter_map(|ty| ty.named()).any(|id| lacks(&id))
            });
            let needs: Vec<TypeId> = needs.map(|(id, _)| id).collect();
            more = !needs.is_empty();
            types.extend(needs);
        }
        let consts = hir
            .consts
            .iter()
            .filter(|one| is_omitted(one.docs.span, Some(&one.name)))
            .map(|one| one.name.clone());
        let consts: HashSet<String> = consts.collect();
        hir.remove(&types, &consts);
        kept.retain(|found| found.is_error() || !is_omitted(found.span, found.within.as_deref()));
        self.kept = kept;
    }

    fn is_omitted(&self, definition: &Definition) -> bool {
        self.omitted.contains(&std::ptr::from_ref(definition))
    }
}

/// Maximum number of definitions examined for one position.
const NEAR: usize = 1000;
