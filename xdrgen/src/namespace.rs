//! Namespaces (xdrpp, goxdr): `namespace a { ... }` and names such as `a::b`.
//!
//! A name is looked for in the namespace that uses it, then in those around that. Behind this stage all names are plain: one that
//! several namespaces define has its namespace before it.

use std::collections::BTreeSet;

use crate::ast::{
    ArraySize, Declaration, DeclarationKind, Definition, DefinitionKind, EnumBody, Identifier, ProcedureType,
    Specification, StructBody, TypeSpecifier, TypeSpecifierKind, UnionBody, Value,
};
use crate::hash::HashMap;
use crate::ir::Module;
use crate::source::{SourceId, Span};

/// Resolves the names of documents that have namespaces.
pub(crate) fn resolve(documents: &mut [&mut Specification]) {
    if documents.iter().all(|document| document.namespaces.is_empty()) {
        return;
    }
    let mut names = Names::default();
    for document in documents.iter_mut() {
        each(document, &mut Pass { names: &mut names, within: "", defines: true });
    }
    for document in documents.iter_mut() {
        each(document, &mut Pass { names: &mut names, within: "", defines: false });
    }
}

/// Visits the definitions of a document with their namespaces.
fn each(document: &mut Specification, pass: &mut Pass<'_>) {
    let Specification { definitions, namespaces, .. } = document;
    for definition in definitions {
        let within = crate::ast::namespace(namespaces, definition.span).unwrap_or("");
        Pass { names: pass.names, within, defines: pass.defines }.definition(definition);
    }
}

/// The namespaces that define each name.
#[derive(Default)]
struct Names(HashMap<String, BTreeSet<String>>);

impl Names {
    /// The plain name of a namespace's name.
    fn plain(&self, within: &str, name: &str) -> String {
        let several = self.0.get(name).is_some_and(|namespaces| namespaces.len() > 1);
        if several && !within.is_empty() {
            format!("{}_{name}", within.replace("::", "_"))
        } else {
            name.to_owned()
        }
    }

    /// What a name stands for that is used in a namespace.
    fn used(&self, within: &str, path: &str) -> Option<String> {
        let (space, name) = path.rsplit_once("::").unwrap_or(("", path));
        let defined = self.0.get(name)?;
        let mut around = Some(within);
        while let Some(outer) = around {
            let both = if outer.is_empty() || space.is_empty() { "" } else { "::" };
            let full = format!("{outer}{both}{space}");
            if defined.contains(&full) {
                return Some(self.plain(&full, name));
            }
            around = (!outer.is_empty()).then(|| outer.rsplit_once("::").map_or("", |(outer, _)| outer));
        }
        None
    }
}

/// One walk over definitions: to learn their names, or to make all names plain.
struct Pass<'p> {
    names: &'p mut Names,
    within: &'p str,
    defines: bool,
}

impl Pass<'_> {
    fn defined(&mut self, name: &mut Identifier) {
        if self.defines {
            self.names.0.entry(name.name.clone()).or_default().insert(self.within.to_owned());
        } else {
            name.name = self.names.plain(self.within, &name.name);
        }
    }

    fn used(&mut self, name: &mut Identifier) {
        if !self.defines
            && let Some(plain) = self.names.used(self.within, &name.name)
        {
            name.name = plain;
        }
    }

    fn definition(&mut self, definition: &mut Definition) {
        match &mut definition.kind {
            DefinitionKind::Const(constant) => {
                self.defined(&mut constant.name);
                self.value(&mut constant.value);
            }
            DefinitionKind::Typedef(declaration) => {
                declared_name(declaration).into_iter().for_each(|name| self.defined(name));
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
                        types.for_each(|ty| self.procedure_type(ty));
                    }
                }
            }
            DefinitionKind::PassThrough(_) => {}
        }
    }

    fn procedure_type(&mut self, ty: &mut ProcedureType) {
        self.specifier(&mut ty.specifier);
        if let Some(ArraySize::Fixed(size) | ArraySize::Variable(Some(size))) = &mut ty.size {
            self.value(size);
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
        let (of, bound) = match &mut declaration.kind {
            DeclarationKind::Void => (None, None),
            DeclarationKind::Plain(of, _) | DeclarationKind::Optional(of, _) => (Some(of), None),
            DeclarationKind::FixedArray(of, _, len) => (Some(of), Some(len)),
            DeclarationKind::VariableArray(of, _, max) => (Some(of), max.as_mut()),
            DeclarationKind::FixedOpaque(_, len) => (None, Some(len)),
            DeclarationKind::VariableOpaque(_, max) | DeclarationKind::String(_, max) => (None, max.as_mut()),
        };
        of.into_iter().for_each(|of| self.specifier(of));
        bound.into_iter().for_each(|bound| self.value(bound));
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

fn declared_name(declaration: &mut Declaration) -> Option<&mut Identifier> {
    match &mut declaration.kind {
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

/// Gives the items of each namespace a source of their own, from `first` on. Returns these sources with the namespaces.
pub(crate) fn separate<'a>(
    module: &mut Module,
    documents: impl Iterator<Item = (SourceId, &'a Specification)>,
    first: SourceId,
) -> Vec<(SourceId, &'a str)> {
    let documents: HashMap<SourceId, &Specification> =
        documents.filter(|(_, specification)| !specification.namespaces.is_empty()).collect();
    let mut spaces: Vec<(SourceId, &str)> = Vec::new();
    let mut place = |source: &mut SourceId, span: Span| {
        let namespaces = documents.get(&span.source).map(|specification| &specification.namespaces);
        let Some(path) = namespaces.and_then(|namespaces| crate::ast::namespace(namespaces, span)) else {
            return;
        };
        let known = spaces.iter().find(|(_, other)| *other == path).map(|(id, _)| *id);
        *source = known.unwrap_or_else(|| {
            let added = SourceId(first.0 + u32::try_from(spaces.len()).unwrap_or(u32::MAX));
            spaces.push((added, path));
            added
        });
    };
    module.types.iter_mut().for_each(|ty| place(&mut ty.source, ty.docs.span));
    module.consts.iter_mut().for_each(|one| place(&mut one.source, one.docs.span));
    module.programs.iter_mut().for_each(|program| place(&mut program.source, program.docs.span));
    spaces
}
