//! Definitions that are left out: what is wrong in published documents, which nobody can mend, and, where a run is to
//! keep going, what is wrong in any.

use super::scope::{Document, Trust, defined_name};
use super::supply::Known;
use super::uses::{Defined, Uses};
use super::{consts, prelude};
use crate::ast::{Definition, DefinitionKind, Identifier};
use crate::diag::{Diagnostic, Severity};
use crate::hash::{HashMap, HashSet};
use crate::source::{SourceId, Span};

/// A kind of name: types and values have name spaces of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Space {
    Type,
    Value,
}

/// What is left out of a run, and what was said of it.
pub(crate) struct Forgiven<'a> {
    documents: &'a [Document<'a>],
    known: &'a Known<'a>,
    /// The definitions that are left out.
    pub(crate) left_out: HashSet<Span>,
    /// What was said of them.
    pub(crate) said: Vec<Diagnostic>,
    /// Names that nothing has any more.
    gone: HashSet<(Space, String)>,
    /// Where names are used: found when it is asked for first.
    users: Option<Users<'a>>,
}

/// Where a name is used: the document, the definition, and the place.
type Use<'a> = (&'a Document<'a>, &'a Definition, Span);

/// The uses of names, and how many definitions a name has.
struct Users<'a> {
    uses: HashMap<(Space, String), Vec<Use<'a>>>,
    defined: HashMap<(Space, String), usize>,
    /// Each document's definitions by their places.
    places: HashMap<SourceId, Vec<&'a Definition>>,
}

impl<'a> Forgiven<'a> {
    pub(crate) fn new(documents: &'a [Document<'a>], known: &'a Known<'a>) -> Self {
        Forgiven {
            documents,
            known,
            left_out: HashSet::default(),
            said: Vec::new(),
            gone: HashSet::default(),
            users: None,
        }
    }

    /// Takes the errors that can be forgiven out of `found`, and leaves out the definitions in which they are with all
    /// that needs them. A program stays: it lacks the procedures that are wrong. Gives what is left, and whether
    /// something was left out.
    pub(crate) fn forgive(&mut self, found: Vec<Diagnostic>) -> (Vec<Diagnostic>, bool) {
        let (errors, mut kept): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
        if errors.is_empty() {
            return (kept, false);
        }
        let before = self.left_out.len();
        let mut users = self.users.take().unwrap_or_else(|| Users::new(self.documents));
        // What could not be read is missing from the beginning.
        let documents = self.documents;
        let unread = documents.iter().flat_map(|document| &document.specification.left_out);
        let mut queue: Vec<(Space, String)> =
            unread.flat_map(|name| [(Space::Type, name.clone()), (Space::Value, name.clone())]).collect();
        self.spread(&mut queue, &mut users);
        for error in errors {
            let span = error.primary.span;
            let document = documents.iter().find(|document| document.id == span.source);
            let definition = users.definition(span);
            match (document, definition) {
                (Some(document), Some(definition)) if self.may_forgive(document.trust, &error) => {
                    queue.extend(missing(&error));
                    self.leave_out(document, definition, error, &mut queue, &mut users);
                }
                _ => kept.push(error),
            }
        }
        self.spread(&mut queue, &mut users);
        self.users = Some(users);
        (kept, self.left_out.len() > before)
    }

    fn may_forgive(&self, trust: Trust, error: &Diagnostic) -> bool {
        self.known.keep_going || self.is_mended(trust, error)
    }

    /// Whether an error of a published document is none, as nobody can mend that.
    fn is_mended(&self, trust: Trust, error: &Diagnostic) -> bool {
        match trust {
            Trust::Example => true,
            Trust::Published => missing(error).is_none_or(|name| self.gone.contains(&name)),
            Trust::Own => false,
        }
    }

    fn leave_out(
        &mut self,
        document: &Document<'_>,
        definition: &'a Definition,
        error: Diagnostic,
        queue: &mut Vec<(Space, String)>,
        users: &mut Users<'a>,
    ) {
        let is_program = matches!(definition.kind, DefinitionKind::Program(_));
        let follows = missing(&error).is_some_and(|name| self.gone.contains(&name));
        let what = if is_program { "procedure" } else { "definition" };
        let before = match document.trust {
            Trust::Own => error.help.as_ref().map_or(String::new(), |help| format!("{help}; ")),
            Trust::Published => "nobody can mend a published document: ".to_owned(),
            Trust::Example => "an example between prose: ".to_owned(),
        };
        let help = Some(format!("{before}this {what} is left out"));
        // What only the wish to keep going forgives is an error still.
        let severity = if self.is_mended(document.trust, &error) || follows {
            Severity::Warning
        } else {
            Severity::Error
        };
        let name = defined_name(definition).map_or("", |name| name.name.as_str());
        self.said.push(Diagnostic { severity, help, ..error }.with_left_out(name, is_program));
        if !is_program && self.left_out.insert(definition.span) {
            queue.extend(users.without(definition));
        }
    }

    /// Leaves out what uses a name that nothing has any more.
    fn spread(&mut self, queue: &mut Vec<(Space, String)>, users: &mut Users<'a>) {
        while let Some(name) = queue.pop() {
            if users.defined.get(&name).is_some_and(|count| *count > 0)
                || self.is_supplied(&name)
                || !self.gone.insert(name.clone())
            {
                continue;
            }
            for (document, definition, span) in users.uses.remove(&name).unwrap_or_default() {
                if self.left_out.contains(&definition.span)
                    || document.trust == Trust::Own && !self.known.keep_going
                {
                    continue;
                }
                let what = if name.0 == Space::Type { "type" } else { "constant" };
                let error = Diagnostic::error(
                    if name.0 == Space::Type { "X200" } else { "X202" },
                    span,
                    format!("no {what} is called `{}`", name.1),
                );
                let error = error.with_label("what it would be is left out");
                self.leave_out(document, definition, error, queue, users);
            }
        }
    }

    /// Whether a name means something without a definition.
    fn is_supplied(&self, name: &(Space, String)) -> bool {
        match name.0 {
            Space::Type => {
                self.known.externs.contains_key(&name.1)
                    || self.known.prelude && prelude::scalar(&name.1).is_some()
            }
            Space::Value => consts::built_in(&name.1).is_some(),
        }
    }
}

/// The name that an error says nothing has.
fn missing(error: &Diagnostic) -> Option<(Space, String)> {
    let space = match error.code {
        "X200" => Space::Type,
        "X202" => Space::Value,
        _ => return None,
    };
    Some((space, error.message.split('`').nth(1)?.to_owned()))
}

/// The names that a definition defines, in an order that is the same in every run.
fn names_of(definition: &Definition) -> impl Iterator<Item = (Space, String)> {
    let mut defined = Defined::default();
    defined.add(definition);
    let in_order = |names: HashSet<String>| {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.into_iter()
    };
    let types = in_order(defined.types).map(|name| (Space::Type, name));
    types.chain(in_order(defined.values).map(|name| (Space::Value, name)))
}

impl<'a> Users<'a> {
    fn new(documents: &'a [Document<'a>]) -> Self {
        let mut users =
            Users { uses: HashMap::default(), defined: HashMap::default(), places: HashMap::default() };
        for document in documents {
            for definition in &document.specification.definitions {
                names_of(definition).for_each(|name| *users.defined.entry(name).or_default() += 1);
                let mut uses = Uses::default();
                uses.add(definition);
                let mut add = |space, Identifier { name, span }: Identifier| {
                    users.uses.entry((space, name)).or_default().push((document, definition, span));
                };
                uses.types.into_iter().for_each(|name| add(Space::Type, name));
                uses.values.into_iter().for_each(|name| add(Space::Value, name));
            }
            let mut places: Vec<&Definition> = document.specification.definitions.iter().collect();
            // What was supplied has the place where it is used, within the definition that uses it.
            places.sort_by_key(|definition| (definition.span.start, std::cmp::Reverse(definition.span.end)));
            users.places.insert(document.id, places);
        }
        users
    }

    /// The definition that holds a place.
    fn definition(&self, span: Span) -> Option<&'a Definition> {
        let places = self.places.get(&span.source)?;
        let behind = places.partition_point(|definition| definition.span.start <= span.start);
        // Supplied definitions and lines for C may stand within the one that holds the place: a few at most.
        let before = places.get(..behind)?.iter().rev().take(NEAR);
        before.copied().find(|definition| {
            definition.span.end >= span.end && !matches!(definition.kind, DefinitionKind::PassThrough(_))
        })
    }

    /// Takes a definition away. Gives the names that it alone had.
    fn without(&mut self, definition: &Definition) -> Vec<(Space, String)> {
        let mut alone = Vec::new();
        for name in names_of(definition) {
            if let Some(count) = self.defined.get_mut(&name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    alone.push(name);
                }
            }
        }
        alone
    }
}

/// How many definitions that end before a place are looked at.
const NEAR: usize = 1000;
