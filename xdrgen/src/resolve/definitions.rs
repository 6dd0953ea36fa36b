//! Resolves types, evaluates the constants of definitions, and checks the rules that concern a single
//! definition.

use super::scope::Scope;
use super::supply::Known;
use super::text;
use super::unresolved::{Reason, Space, Unresolved};
use crate::ast::{
    Declaration, Definition, DefinitionKind, EnumBody, Identifier, Multiplicity, StructBody, TypeSpecifier,
    TypeSpecifierKind, Value,
};
use crate::diag::{Found, MeaningKind};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Bound, Const, Docs, Field, Hir, Item, Type, TypeDef, TypeId};
use crate::source::Span;

/// The indices of an enum's members, by name and by value.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) names: HashMap<String, usize>,
    pub(crate) values: HashMap<i128, usize>,
}

/// The state of the evaluation of constants.
#[derive(Default)]
pub(crate) struct Consts {
    /// The names whose errors have been reported. Each error is reported once.
    pub(crate) reported: HashSet<String>,
    /// The evaluated constants by name; `None` if invalid.
    pub(crate) known: HashMap<String, Option<i128>>,
    /// For each member of an enum, the index of the last member that has an explicit value and is not after
    /// this member. `None` if no such member exists.
    pub(crate) explicit: HashMap<*const EnumBody, Vec<Option<usize>>>,
}

pub(crate) struct Resolver<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) consts: Consts,
    pub(crate) known: &'a Known<'a>,
    pub(crate) found: Found,
    /// Undefined names with their first use, and errata.
    pub(crate) unresolved: Vec<Unresolved>,
    pub(crate) hir: Hir,
    /// The indices of the members of each enum that is the type of a discriminant.
    pub(crate) places: HashMap<TypeId, Places>,
    /// The items with the indices of their definitions, for sorting.
    order: Vec<(usize, Item)>,
    current: usize,
    ids: HashMap<&'a str, TypeId>,
    /// The names of types for arguments and results of procedures.
    tuples: HashSet<String>,
    const_names: HashSet<&'a str>,
    undefined: HashSet<String>,
    /// The names of values that have been reported as out of range for a bound.
    bad_bounds: HashSet<String>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(scope: Scope<'a>, known: &'a Known<'a>, found: Found) -> Self {
        Resolver {
            scope,
            consts: Consts::default(),
            known,
            found,
            unresolved: Vec::new(),
            hir: Hir::default(),
            places: HashMap::default(),
            order: Vec::new(),
            current: 0,
            ids: HashMap::default(),
            tuples: HashSet::default(),
            const_names: HashSet::default(),
            undefined: HashSet::default(),
            bad_bounds: HashSet::default(),
        }
    }

    /// Resolves every definition. Constants, enums, and typedefs without a struct or union body come first,
    /// since unions depend on them.
    pub(crate) fn run(&mut self) {
        let definitions = self.scope.definitions.clone();
        definitions.iter().for_each(|definition| self.declare(definition));
        for phase in 0..4 {
            for (index, definition) in definitions.iter().enumerate() {
                self.current = index;
                if phase_of(definition) == phase {
                    let found = (self.found.kept.len(), self.unresolved.len());
                    self.definition(definition);
                    self.report_within(definition, found);
                }
            }
        }
        self.order.sort_by_key(|(index, _)| *index);
        self.hir.order = self.order.iter().map(|(_, item)| *item).collect();
    }

    /// Records the name of a definition in the findings that its resolution added.
    fn report_within(&mut self, definition: &Definition, (found, unresolved): (usize, usize)) {
        let name = || definition.name().map(|name| name.name.clone());
        let found = self.found.kept.iter_mut().skip(found).map(|one| &mut one.within);
        let unresolved = self.unresolved.iter_mut().skip(unresolved).map(|one| &mut one.within);
        found.chain(unresolved).for_each(|within| *within = name());
    }

    fn declare(&mut self, definition: &'a Definition) {
        let Some(name) = definition.name() else { return };
        match definition.kind {
            DefinitionKind::Const(_) => {
                self.const_names.insert(&name.name);
            }
            DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => {}
            _ if self.known.options.externs.contains_key(&name.name) => {}
            _ => {
                let mut docs = docs(definition, name);
                if self.scope.is_extension(name) {
                    docs.comments
                        .push("Extends and replaces the definition of an earlier document.".to_owned());
                }
                let id = self.new_type(&name.name, docs);
                self.ids.insert(&name.name, id);
            }
        }
    }

    pub(crate) fn new_type(&mut self, path: &str, docs: Docs) -> TypeId {
        self.hir.types.push(TypeDef { name: path.to_owned(), body: Body::Struct(Vec::new()), docs });
        TypeId(self.hir.types.len() - 1)
    }

    fn definition(&mut self, definition: &'a Definition) {
        let Some(name) = definition.name() else { return };
        match &definition.kind {
            DefinitionKind::Const(constant) => return self.constant(definition, name, &constant.value),
            DefinitionKind::Program(program) => return self.program(definition, program),
            DefinitionKind::PassThrough(_) => return,
            _ => {}
        }
        let Some(&id) = self.ids.get(name.name.as_str()) else { return };
        let body = match &definition.kind {
            DefinitionKind::Typedef(declaration) => self.field(declaration, &name.name).map(Body::Alias),
            DefinitionKind::Enum(_, body) => self.enumeration(body),
            DefinitionKind::Struct(_, body) => self.structure(body, &name.name),
            DefinitionKind::Union(_, body) => self.union(body, &name.name, name.span),
            _ => None,
        };
        self.place(id, body);
    }

    pub(crate) fn is_type(&self, name: &str) -> bool {
        self.ids.contains_key(name) || self.known.scalar(name).is_some()
    }

    /// Reserves a name for the argument or result type of a procedure. Returns true if the name was free.
    pub(crate) fn name_tuple(&mut self, name: &str) -> bool {
        !self.ids.contains_key(name) && self.tuples.insert(name.to_owned())
    }

    pub(crate) fn place(&mut self, id: TypeId, body: Option<Body>) {
        self.order.push((self.current, Item::Type(id)));
        if let (Some(ty), Some(body)) = (self.hir.types.get_mut(id.0), body) {
            ty.body = body;
        }
    }

    pub(crate) fn place_program(&mut self, program: crate::hir::Program) {
        self.order.push((self.current, Item::Program(self.hir.programs.len())));
        self.hir.programs.push(program);
    }

    fn constant(&mut self, definition: &Definition, name: &Identifier, value: &Value) {
        let Some(number) = self.eval(value) else { return };
        if i64::try_from(number).is_err() && u64::try_from(number).is_err() {
            return self.found.push(MeaningKind::WideConstant { number }.at(value.span()));
        }
        self.order.push((self.current, Item::Const(self.hir.consts.len())));
        let docs = docs(definition, name);
        self.hir.consts.push(Const { name: name.name.clone(), value: number, docs });
    }

    fn structure(&mut self, body: &'a StructBody, path: &str) -> Option<Body> {
        let count = body.fields.len();
        let mut seen: HashMap<&str, Span> = crate::hash::with_room(count);
        let mut fields = Vec::with_capacity(count);
        for declaration in &body.fields {
            let Some(name) = &declaration.name else {
                self.found.push(MeaningKind::VoidField.at(declaration.span));
                continue;
            };
            if let Some(first) = seen.insert(&name.name, name.span) {
                self.found.push(MeaningKind::SecondField { name: name.name.clone(), first }.at(name.span));
                continue;
            }
            fields.extend(self.field(declaration, path));
        }
        Some(Body::Struct(fields))
    }

    /// Resolves a declaration to a field; `None` for `void` and for an invalid type. An inline body becomes
    /// a type named `path.field`, or `path.item` if the declaration's name is `path`.
    pub(crate) fn field(&mut self, declaration: &'a Declaration, path: &str) -> Option<Field> {
        let name = declaration.name.as_ref()?;
        // In a typedef, `path` is the name of the declaration.
        let part = if path == name.name { "item" } else { name.name.as_str() };
        let path = format!("{path}.{part}");
        let of = &declaration.specifier;
        let ty =
            self.declared_type(declaration, |resolver| resolver.specifier(of, &path, name, declaration))?;
        let docs = declared(declaration, declaration.span);
        Some(Field { name: name.name.clone(), at: name.span, ty, eligible: declaration.eligible, docs })
    }

    /// Returns the type of a declaration. `element` resolves its type specifier.
    pub(crate) fn declared_type(
        &mut self,
        declaration: &Declaration,
        element: impl FnOnce(&mut Self) -> Option<Type>,
    ) -> Option<Type> {
        let bound = declaration.multiplicity.bound().map(|bound| self.bound(bound));
        let element = element(self).map(Box::new);
        let bound = match bound {
            Some(bound) => Some(bound?),
            None => None,
        };
        Some(match (&declaration.specifier.kind, &declaration.multiplicity) {
            (TypeSpecifierKind::Opaque, Multiplicity::Fixed(_)) => Type::FixedOpaque(bound?),
            (TypeSpecifierKind::Opaque, _) => Type::Opaque(bound),
            (TypeSpecifierKind::String, _) => Type::String(bound),
            (_, Multiplicity::One) => *element?,
            (_, Multiplicity::Optional) => Type::Optional(element?),
            (_, Multiplicity::Fixed(_)) => Type::FixedArray(element?, bound?),
            (_, Multiplicity::Variable(_)) => Type::Array(element?, bound),
        })
    }

    fn specifier(
        &mut self,
        of: &'a TypeSpecifier,
        path: &str,
        name: &Identifier,
        declaration: &Declaration,
    ) -> Option<Type> {
        if !of.kind.is_body() {
            return self.plain_specifier(of);
        }
        let id = self.new_type(path, declared(declaration, name.span));
        let body = match &of.kind {
            TypeSpecifierKind::Enum(body) => self.enumeration(body),
            TypeSpecifierKind::Struct(body) => self.structure(body, path),
            TypeSpecifierKind::Union(body) => self.union(body, path, of.span),
            _ => None,
        };
        self.place(id, body);
        Some(Type::Named(id))
    }

    pub(crate) fn plain_specifier(&mut self, of: &TypeSpecifier) -> Option<Type> {
        match &of.kind {
            TypeSpecifierKind::Scalar(scalar) => Some(Type::Scalar(*scalar)),
            TypeSpecifierKind::Named(name) => self.named(name),
            _ => None,
        }
    }

    fn named(&mut self, name: &Identifier) -> Option<Type> {
        if self.known.options.externs.contains_key(&name.name) {
            return Some(Type::Extern(name.name.clone()));
        }
        if let Some(id) = self.ids.get(name.name.as_str()) {
            return Some(Type::Named(*id));
        }
        if let Some(scalar) = self.known.scalar(&name.name) {
            return Some(Type::Scalar(scalar));
        }
        if let Some(near) = self.scope.intended_name(name, self.scope.type_names())
            && let Some(&id) = self.ids.get(near)
        {
            let reason = Reason::Erratum(near.to_owned());
            self.unresolved.push(Unresolved::new(Space::Type, name.clone(), reason));
            return Some(Type::Named(id));
        }
        if self.undefined.insert(name.name.clone()) {
            self.unresolved.push(self.scope.missing_type(name));
        }
        None
    }

    /// Resolves a bound or a length from 0 to 2^32-1.
    pub(super) fn bound(&mut self, value: &Value) -> Option<Bound> {
        let number = self.eval(value)?;
        let Ok(bounded) = u32::try_from(number) else {
            self.bad_bound(value, number);
            return None;
        };
        let constant = match value {
            Value::Name(name) => Some(&name.name).filter(|name| self.const_names.contains(name.as_str())),
            Value::Literal { .. } => None,
        };
        Some(Bound { value: bounded, constant: constant.cloned() })
    }

    /// Reports a bound that is out of range. A named value is reported once, with the position of its
    /// definition.
    fn bad_bound(&mut self, value: &Value, number: i128) {
        let constant = match value {
            Value::Name(name) if !self.bad_bounds.insert(name.name.clone()) => return,
            Value::Name(name) => self.scope.value_named(&name.name).map(|constant| constant.span),
            Value::Literal { .. } => None,
        };
        self.found.push(MeaningKind::Bound { number, constant }.at(value.span()));
    }
}

pub(crate) fn docs(definition: &Definition, name: &Identifier) -> Docs {
    Docs {
        comments: definition.docs.clone(),
        section: definition.section.clone(),
        declaration: definition.text.clone(),
        span: name.span,
    }
}

fn declared(declaration: &Declaration, span: Span) -> Docs {
    let (comments, text) = (declaration.docs.clone(), text::declaration(declaration));
    Docs { comments, section: None, declaration: text, span }
}

fn phase_of(definition: &Definition) -> usize {
    match &definition.kind {
        DefinitionKind::Const(_) | DefinitionKind::Enum(..) => 0,
        DefinitionKind::Typedef(of) => match of.specifier.kind {
            TypeSpecifierKind::Struct(_) | TypeSpecifierKind::Union(_) => 2,
            _ => 1,
        },
        DefinitionKind::Struct(..) | DefinitionKind::Union(..) => 2,
        DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => 3,
    }
}
