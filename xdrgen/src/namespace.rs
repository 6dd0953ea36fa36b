//! Namespaces (xdrpp, goxdr): `namespace a { ... }` and names such as `a::b`.
//!
//! A name is looked up in the namespace that uses it, then in the enclosing namespaces. After this stage, a
//! definition's name begins with its namespace (`a::b`). A plain name contains no `::`, so it never matches a
//! qualified name.

use crate::ast::{
    Declaration, Definition, DefinitionKind, EnumBody, Identifier, Multiplicity, Namespace, Specification,
    StructBody, TypeSpecifier, TypeSpecifierKind, UnionBody, Value,
};
use crate::hash::{HashMap, HashSet};
use crate::ir::Module;
use crate::source::{SourceId, Span, narrow};

/// Splits a name into the namespace (empty for a name without `::`) and the rest.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once("::").unwrap_or(("", name))
}

pub(crate) fn last(name: &str) -> &str {
    split(name).1
}

pub(crate) fn join(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}::{name}") }
}

/// Qualifies the names in all documents, if any document has namespaces.
pub(crate) fn resolve(documents: &mut [&mut Specification]) {
    if documents.iter().all(|document| document.namespaces.is_empty()) {
        return;
    }
    // The name of a definition that could not be parsed also hides the same name of an enclosing namespace.
    let mut names: HashSet<String> =
        documents.iter().flat_map(|document| document.omitted.iter().cloned()).collect();
    for defines in [true, false] {
        documents.iter_mut().for_each(|document| each(document, &mut names, defines));
    }
}

fn each(document: &mut Specification, names: &mut HashSet<String>, defines: bool) {
    let Specification { definitions, namespaces, .. } = document;
    for definition in definitions {
        let within = crate::ast::namespace(namespaces, definition.span).map_or("", |of| &of.path);
        Pass { names, within, defines }.definition(definition);
    }
}

/// A walk over definitions that either collects their names or qualifies all names.
struct Pass<'p> {
    /// The defined names, qualified by their namespaces.
    names: &'p mut HashSet<String>,
    within: &'p str,
    defines: bool,
}

impl Pass<'_> {
    fn defined(&mut self, name: &mut Identifier) {
        let full = join(self.within, &name.name);
        if self.defines {
            self.names.insert(full);
        } else {
            name.name = full;
        }
    }

    /// Qualifies a name. A name that neither this namespace nor an enclosing namespace defines is unchanged.
    fn used(&self, name: &mut Identifier) {
        let mut around = if self.defines { "" } else { self.within };
        while !around.is_empty() {
            let full = join(around, &name.name);
            if self.names.contains(&full) {
                name.name = full;
                return;
            }
            around = split(around).0;
        }
    }

    fn definition(&mut self, definition: &mut Definition) {
        // `typedef x x` defines no name: both occurrences of `x` are uses.
        let is_own_name = definition.is_own_name();
        match &mut definition.kind {
            DefinitionKind::Const(constant) => {
                // The name of a `#define` is not qualified, since the preprocessor has no namespaces.
                if !definition.text.starts_with('#') {
                    self.defined(&mut constant.name);
                }
                self.value(&mut constant.value);
            }
            DefinitionKind::Typedef(declaration) => {
                let name = &mut declaration.name;
                name.iter_mut()
                    .for_each(|name| if is_own_name { self.used(name) } else { self.defined(name) });
                self.declaration(declaration);
            }
            DefinitionKind::Enum(name, body) => {
                self.defined(name);
                self.enumeration(body);
            }
            DefinitionKind::Struct(name, body) => {
                self.defined(name);
                self.structure(body);
            }
            DefinitionKind::Union(name, body) => {
                self.defined(name);
                self.union(body);
            }
            DefinitionKind::Program(program) => {
                self.defined(&mut program.name);
                self.value(&mut program.number);
                for version in &mut program.versions {
                    self.value(&mut version.number);
                    for procedure in &mut version.procedures {
                        self.value(&mut procedure.number);
                        let types = procedure.result.iter_mut().chain(&mut procedure.arguments);
                        types.for_each(|ty| self.declaration(ty));
                    }
                }
            }
            DefinitionKind::PassThrough(_) => {}
        }
    }

    fn value(&mut self, value: &mut Value) {
        if let Value::Name(name) = value {
            self.used(name);
        }
    }

    fn enumeration(&mut self, body: &mut EnumBody) {
        for member in &mut body.members {
            self.defined(&mut member.name);
            member.value.iter_mut().for_each(|value| self.value(value));
        }
    }

    fn structure(&mut self, body: &mut StructBody) {
        body.fields.iter_mut().for_each(|field| self.declaration(field));
    }

    fn union(&mut self, body: &mut UnionBody) {
        self.declaration(&mut body.discriminant);
        for arm in &mut body.arms {
            arm.labels.iter_mut().for_each(|label| self.value(label));
            self.declaration(&mut arm.declaration);
        }
        body.default.iter_mut().for_each(|declaration| self.declaration(declaration));
    }

    fn declaration(&mut self, declaration: &mut Declaration) {
        self.specifier(&mut declaration.specifier);
        if let Multiplicity::Fixed(bound) | Multiplicity::Variable(Some(bound)) =
            &mut declaration.multiplicity
        {
            self.value(bound);
        }
    }

    fn specifier(&mut self, of: &mut TypeSpecifier) {
        match &mut of.kind {
            TypeSpecifierKind::Named(name) => self.used(name),
            TypeSpecifierKind::Enum(body) => self.enumeration(body),
            TypeSpecifierKind::Struct(body) => self.structure(body),
            TypeSpecifierKind::Union(body) => self.union(body),
            _ => {}
        }
    }
}

/// Assigns a separate source ID, from `first` on, to the items of each namespace. Returns these IDs with
/// their namespaces.
pub(crate) fn separate<'a>(
    module: &mut Module,
    documents: impl Iterator<Item = (SourceId, &'a Specification)>,
    first: SourceId,
) -> Vec<(SourceId, &'a Namespace)> {
    let documents: HashMap<SourceId, &Specification> =
        documents.filter(|(_, specification)| !specification.namespaces.is_empty()).collect();
    let mut spaces: Vec<(SourceId, &Namespace)> = Vec::new();
    let mut known: HashMap<&str, SourceId> = HashMap::default();
    let mut place = |source: &mut SourceId, span: Span| {
        let namespaces = documents.get(&span.source).map(|specification| &specification.namespaces);
        let Some(space) = namespaces.and_then(|namespaces| crate::ast::namespace(namespaces, span)) else {
            return;
        };
        *source = *known.entry(&space.path).or_insert_with(|| {
            let added = SourceId(first.0 + narrow(spaces.len()));
            spaces.push((added, space));
            added
        });
    };
    module.types.iter_mut().for_each(|ty| place(&mut ty.source, ty.docs.span));
    module.consts.iter_mut().for_each(|one| place(&mut one.source, one.docs.span));
    module.programs.iter_mut().for_each(|program| place(&mut program.source, program.docs.span));
    spaces
}
