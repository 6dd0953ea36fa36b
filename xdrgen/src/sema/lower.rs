//! From what was written to what is emitted: types resolved, constants evaluated, names chosen.
//!
//! The rules of the language are checked on the way. What needs all types at once (recursion, lists, sizes) is left
//! to [`super::layout`], what the binding says to [`super::ddp`].

use std::collections::BTreeMap;

use super::consts::{self, Consts};
use super::scope::{Scope, declared_name, defined_name};
use super::supply::Known;
use super::{prelude, suggest, text};
use crate::ast::{
    Declaration, DeclarationKind, Definition, DefinitionKind, Identifier, StructBody, TypeSpecifier,
    TypeSpecifierKind, Value,
};
use crate::diag::{Diagnostic, Found};
use crate::hash::{HashMap, HashSet};
use crate::ir::{
    Body, Bound, Const, ConstType, Data, Derives, Docs, Field, Item, Module, Scalar, Type, TypeDef, TypeId,
};
use crate::names::{HIDDEN_BY_VERBATIM, Names, Taken};
use crate::source::Span;

/// Names that emitted code means something else by.
const RESERVED: &[&str] = &[
    "Box",
    "Char",
    "Err",
    "None",
    "Ok",
    "Opaque",
    "Option",
    "Quadruple",
    "Result",
    "SmallOpaque",
    "Some",
    "String",
    "UnsignedChar",
    "Vec",
    "Xdr",
    "XdrString",
];

/// The names that are taken from the start.
pub(crate) fn taken(names: Names) -> Taken {
    match names {
        Names::Rust => Taken::default(),
        Names::Verbatim => Taken::with(HIDDEN_BY_VERBATIM),
    }
}

/// Names that borrowed output means something else by, besides those.
const RESERVED_BORROWED: &[&str] = &["ArrayRef", "BoxRef", "ListRef", "OpaqueRef", "StringRef"];

/// The state of lowering.
pub(crate) struct Lower<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) consts: Consts,
    pub(crate) externs: &'a BTreeMap<String, String>,
    pub(crate) names: Names,
    /// Whether the usual names of integers are known.
    prelude: bool,
    pub(crate) found: Found,
    pub(crate) module: Module,
    /// Where each type of the module stands.
    pub(crate) spans: Vec<Span>,
    pub(crate) type_idents: Taken,
    /// The members of the enums that unions have asked for.
    pub(crate) places: HashMap<TypeId, super::unions::Places>,
    /// The names of the modules of versions.
    pub(crate) version_modules: Taken,
    /// Where each item of the module stands: the index of its definition.
    order: Vec<(usize, Item)>,
    current: usize,
    ids: HashMap<&'a str, TypeId>,
    /// The names of the types that arguments become, where a procedure takes several.
    tuples: HashSet<String>,
    const_idents: HashMap<&'a str, String>,
    undefined: HashSet<String>,
    /// Constants that were used as bounds and cannot be.
    bad_bounds: HashSet<String>,
    /// The numbers of programs and their versions, and where the program has its number.
    pub(crate) programs: HashMap<(u32, u32), Span>,
}

impl<'a> Lower<'a> {
    pub(crate) fn new(scope: Scope<'a>, known: &Known<'a>, names: Names, found: Found) -> Self {
        let mut scope = scope;
        let (externs, prelude) = (known.externs, known.prelude);
        scope.externs = Some(externs);
        let data = known.data;
        let borrowed = if data == Data::Borrowed { RESERVED_BORROWED } else { &[] };
        Lower {
            scope,
            consts: Consts::default(),
            externs,
            names,
            prelude,
            found,
            module: Module { data, ..Module::default() },
            spans: Vec::new(),
            type_idents: taken(names).and(RESERVED).and(borrowed),
            places: HashMap::default(),
            version_modules: Taken::default(),
            order: Vec::new(),
            current: 0,
            ids: HashMap::default(),
            tuples: HashSet::default(),
            const_idents: HashMap::default(),
            undefined: HashSet::default(),
            bad_bounds: HashSet::default(),
            programs: HashMap::default(),
        }
    }

    /// Lowers every definition. Constants, enums and typedefs go first: unions look at what they are.
    pub(crate) fn run(&mut self) {
        let definitions = self.scope.definitions.clone();
        // Derives call these without their paths, and a constant would hide them.
        let mut const_names = taken(self.names).and(&["Err", "None", "Ok", "Some"]);
        // Constants go first: some types must not be called like one.
        let (constants, others): (Vec<_>, Vec<_>) =
            definitions.iter().partition(|definition| matches!(definition.kind, DefinitionKind::Const(_)));
        for definition in constants.into_iter().chain(others) {
            self.declare(definition, &mut const_names);
        }
        for phase in 0..4 {
            for (index, definition) in definitions.iter().enumerate() {
                self.current = index;
                if phase_of(definition) == phase {
                    self.definition(definition);
                }
            }
        }
        self.order.sort_by_key(|(index, _)| *index);
        self.module.order = self.order.iter().map(|(_, item)| *item).collect();
    }

    /// Gives a definition its name in Rust, before anything can refer to it.
    fn declare(&mut self, definition: &'a Definition, const_names: &mut Taken) {
        let Some(name) = defined_name(definition) else { return };
        match definition.kind {
            DefinitionKind::Const(_) => {
                let (ident, clash) = const_names.take(self.names.of_const(&name.name), &name.name);
                self.say_clash(name, &ident, clash);
                self.const_idents.insert(&name.name, ident);
            }
            DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => {}
            _ if self.externs.contains_key(&name.name) => {}
            _ => {
                let mut docs = Docs {
                    comments: definition.docs.clone(),
                    section: definition.section.clone(),
                    declaration: definition.text.clone(),
                    span: name.span,
                };
                if self.scope.is_extension(name) {
                    docs.comments
                        .push("Extends the definition of an earlier document and stands for it.".to_owned());
                }
                // A tuple struct is a function too, and functions share a name space with constants.
                let ident = self.names.of_type(&name.name);
                if may_be_tuple(definition) && const_names.has(&ident) {
                    self.type_idents.take(ident.clone(), &ident);
                }
                let id = self.new_type(&name.name, name, docs);
                self.ids.insert(&name.name, id);
            }
        }
    }

    /// A new type without a body yet.
    pub(crate) fn new_type(&mut self, path: &str, name: &Identifier, docs: Docs) -> TypeId {
        let (ident, clash) = self.type_idents.take(self.names.of_type(path), path);
        self.say_clash(name, &ident, clash);
        self.module.types.push(TypeDef {
            name: path.to_owned(),
            ident,
            body: Body::Struct(Vec::new()),
            borrows: false,
            items: None,
            derives: Derives::default(),
            source: name.span.source,
            docs,
        });
        self.spans.push(name.span);
        TypeId(self.module.types.len() - 1)
    }

    pub(crate) fn say_clash(&mut self, name: &Identifier, ident: &str, clash: Option<String>) {
        let Some(other) = clash else { return };
        let message = format!("`{}` and `{other}` would have one name in Rust", name.name);
        self.found.push(
            Diagnostic::warning("X400", name.span, message)
                .with_label(format!("called `{ident}` in Rust"))
                .with_help(
                    "the later one has an underscore added; a name of its own in the document would avoid it",
                ),
        );
    }

    fn definition(&mut self, definition: &'a Definition) {
        let Some(name) = defined_name(definition) else { return };
        match &definition.kind {
            DefinitionKind::Const(constant) => return self.constant(definition, name, &constant.value),
            DefinitionKind::Program(program) => return self.program(definition, program),
            DefinitionKind::PassThrough(_) => return,
            _ => {}
        }
        let Some(&id) = self.ids.get(name.name.as_str()) else { return };
        let body = match &definition.kind {
            DefinitionKind::Typedef(declaration) => self.typedef(declaration, &name.name),
            DefinitionKind::Enum(_, body) => self.enumeration(body),
            DefinitionKind::Struct(_, body) => self.structure(body, &name.name),
            DefinitionKind::Union(_, body) => self.union(body, &name.name, name.span),
            _ => None,
        };
        self.place(id, body);
    }

    /// Whether a definition or the prelude has a type of this name.
    pub(crate) fn is_type(&self, name: &str) -> bool {
        self.ids.contains_key(name) || self.prelude && prelude::scalar(name).is_some()
    }

    /// Takes a name for the type that a procedure's arguments become. Says whether it was free.
    pub(crate) fn name_tuple(&mut self, name: &str) -> bool {
        !self.ids.contains_key(name) && self.tuples.insert(name.to_owned())
    }

    /// Gives a type its body and its place in the order.
    pub(crate) fn place(&mut self, id: TypeId, body: Option<Body>) {
        self.order.push((self.current, Item::Type(id)));
        if let (Some(ty), Some(body)) = (self.module.types.get_mut(id.0), body) {
            ty.body = body;
        }
    }

    pub(crate) fn place_program(&mut self, program: crate::ir::Program) {
        self.order.push((self.current, Item::Program(self.module.programs.len())));
        self.module.programs.push(program);
    }

    fn constant(&mut self, definition: &Definition, name: &Identifier, value: &Value) {
        let Some(number) = self.eval(value) else { return };
        let Some(ty) = const_type(number) else {
            let error =
                Diagnostic::error("X204", consts::span(value), format!("{number} does not fit 64 bits"));
            let error = error.with_label("the value").with_help("numbers reach from -2^63 to 2^64-1");
            return self.found.push(error);
        };
        self.order.push((self.current, Item::Const(self.module.consts.len())));
        self.module.consts.push(Const {
            name: name.name.clone(),
            ident: self.const_idents.get(name.name.as_str()).cloned().unwrap_or_default(),
            value: number,
            ty,
            source: definition.span.source,
            docs: Docs {
                comments: definition.docs.clone(),
                section: definition.section.clone(),
                declaration: definition.text.clone(),
                span: name.span,
            },
        });
    }

    pub(crate) fn eval(&mut self, value: &Value) -> Option<i128> {
        self.consts.eval(value, &self.scope, &mut self.found)
    }

    fn typedef(&mut self, declaration: &'a Declaration, name: &str) -> Option<Body> {
        if let DeclarationKind::Plain(of, declared) = &declaration.kind {
            match &of.kind {
                TypeSpecifierKind::Enum(body) => return self.enumeration(body),
                TypeSpecifierKind::Struct(body) => return self.structure(body, name),
                TypeSpecifierKind::Union(body) => return self.union(body, name, declared.span),
                _ => {}
            }
        }
        let field = self.field(declaration, name)?;
        Some(if field.max.is_some() { Body::Newtype(field) } else { Body::Alias(field.ty) })
    }

    fn structure(&mut self, body: &'a StructBody, path: &str) -> Option<Body> {
        let count = body.fields.len();
        let mut idents = Taken::with_room(count);
        let mut seen: HashMap<&str, Span> = crate::hash::with_room(count);
        let mut fields = Vec::with_capacity(count);
        for declaration in &body.fields {
            let Some(name) = declared_name(declaration) else {
                let error = Diagnostic::error("X224", declaration.span, "a struct's field cannot be `void`");
                self.found.push(error.with_label("nothing is declared here").with_help("remove it"));
                continue;
            };
            if let Some(first) = seen.insert(&name.name, name.span) {
                self.found.push(
                    Diagnostic::error("X210", name.span, format!("two fields are called `{}`", name.name))
                        .with_label("the second")
                        .with_related(first, "the first"),
                );
                continue;
            }
            let Some(mut field) = self.field(declaration, path) else { continue };
            let (ident, clash) = idents.take(self.names.of_field(&name.name), &name.name);
            self.say_clash(name, &ident, clash);
            field.ident = ident;
            fields.push(field);
        }
        Some(Body::Struct(fields))
    }

    /// A declaration as a field that has no name in Rust yet; `void` is none. A body in place becomes a type named after `path`.
    pub(crate) fn field(&mut self, declaration: &'a Declaration, path: &str) -> Option<Field> {
        let name = declared_name(declaration)?;
        // A body within a typedef is what the typedef's name is many of, or points to.
        let part = if path == name.name { "item" } else { name.name.as_str() };
        let path = format!("{path}.{part}");
        let mut max = None;
        let ty = match &declaration.kind {
            DeclarationKind::Void => return None,
            DeclarationKind::Plain(of, _) => self.specifier(of, &path, name, declaration)?,
            DeclarationKind::FixedArray(of, _, len) => {
                let element = self.specifier(of, &path, name, declaration);
                let len = self.bound(len);
                Type::FixedArray(Box::new(element?), len?)
            }
            DeclarationKind::VariableArray(of, _, bound) => {
                max = bound.as_ref().and_then(|bound| self.bound(bound));
                Type::Array(Box::new(self.specifier(of, &path, name, declaration)?))
            }
            DeclarationKind::Optional(of, _) => {
                Type::Optional(Box::new(self.specifier(of, &path, name, declaration)?))
            }
            DeclarationKind::FixedOpaque(_, len) => Type::FixedOpaque(self.bound(len)?),
            DeclarationKind::VariableOpaque(_, bound) => {
                Type::Opaque(bound.as_ref().and_then(|bound| self.bound(bound)))
            }
            DeclarationKind::String(_, bound) => {
                Type::String(bound.as_ref().and_then(|bound| self.bound(bound)))
            }
        };
        Some(Field {
            name: name.name.clone(),
            ident: String::new(),
            ty,
            max,
            recursive: false,
            list: false,
            eligible: false,
            docs: Docs {
                comments: declaration.docs.clone(),
                section: None,
                declaration: text::declaration(declaration),
                span: declaration.span,
            },
        })
    }

    fn specifier(
        &mut self,
        of: &'a TypeSpecifier,
        path: &str,
        name: &Identifier,
        declaration: &Declaration,
    ) -> Option<Type> {
        let docs = || Docs {
            comments: declaration.docs.clone(),
            section: None,
            declaration: text::declaration(declaration),
            span: name.span,
        };
        match &of.kind {
            TypeSpecifierKind::Enum(body) => {
                let id = self.new_type(path, name, docs());
                let body = self.enumeration(body);
                self.place(id, body);
                Some(Type::Named(id))
            }
            TypeSpecifierKind::Struct(body) => {
                let id = self.new_type(path, name, docs());
                let body = self.structure(body, path);
                self.place(id, body);
                Some(Type::Named(id))
            }
            TypeSpecifierKind::Union(body) => {
                let id = self.new_type(path, name, docs());
                let body = self.union(body, path, of.span);
                self.place(id, body);
                Some(Type::Named(id))
            }
            _ => self.plain_specifier(of),
        }
    }

    /// A specifier without a body.
    pub(crate) fn plain_specifier(&mut self, of: &TypeSpecifier) -> Option<Type> {
        let scalar = match &of.kind {
            TypeSpecifierKind::Int => Scalar::Int,
            TypeSpecifierKind::UnsignedInt => Scalar::UnsignedInt,
            TypeSpecifierKind::Hyper => Scalar::Hyper,
            TypeSpecifierKind::UnsignedHyper => Scalar::UnsignedHyper,
            TypeSpecifierKind::Float => Scalar::Float,
            TypeSpecifierKind::Double => Scalar::Double,
            TypeSpecifierKind::Quadruple => Scalar::Quadruple,
            TypeSpecifierKind::Bool => Scalar::Bool,
            TypeSpecifierKind::Char => Scalar::Char,
            TypeSpecifierKind::UnsignedChar => Scalar::UnsignedChar,
            TypeSpecifierKind::Short => Scalar::Short,
            TypeSpecifierKind::UnsignedShort => Scalar::UnsignedShort,
            TypeSpecifierKind::String => return Some(Type::String(None)),
            TypeSpecifierKind::Named(name) => return self.named(name),
            TypeSpecifierKind::Opaque
            | TypeSpecifierKind::Enum(_)
            | TypeSpecifierKind::Struct(_)
            | TypeSpecifierKind::Union(_) => return None,
        };
        Some(Type::Scalar(scalar))
    }

    /// What a type's name stands for: a type that exists in Rust, a definition, or one of the usual typedefs.
    fn named(&mut self, name: &Identifier) -> Option<Type> {
        if let Some(path) = self.externs.get(&name.name) {
            return Some(Type::Extern(path.clone()));
        }
        if let Some(id) = self.ids.get(name.name.as_str()) {
            return Some(Type::Named(*id));
        }
        if let Some(scalar) = prelude::scalar(&name.name).filter(|_| self.prelude) {
            return Some(Type::Scalar(scalar));
        }
        if let Some(near) = self.scope.taken_for(name, self.scope.type_names())
            && let Some(&id) = self.ids.get(near)
        {
            let warning =
                Diagnostic::warning("X200", name.span, format!("no type is called `{}`", name.name));
            self.found.push(warning.with_label(format!("taken for `{near}`")));
            return Some(Type::Named(id));
        }
        if self.undefined.insert(name.name.clone()) {
            let error = Diagnostic::error("X200", name.span, format!("no type is called `{}`", name.name))
                .with_label("not defined in any document of this run");
            let error = suggest::for_type(name, &self.scope, error);
            self.found.push(self.scope.asides.explain(name, error));
        }
        None
    }

    /// A bound or a length: 0 to 2^32-1.
    pub(super) fn bound(&mut self, value: &Value) -> Option<Bound> {
        let number = self.eval(value)?;
        let Ok(bounded) = u32::try_from(number) else {
            self.bad_bound(value, number);
            return None;
        };
        let constant = match value {
            Value::Name(name) => self.const_idents.get(name.name.as_str()).cloned(),
            Value::Literal { .. } => None,
        };
        Some(Bound { value: bounded, constant })
    }

    /// Says that a bound is out of range; of a constant once, with the place of its number.
    fn bad_bound(&mut self, value: &Value, number: i128) {
        let what = if number < 0 { "is negative" } else { "is above 4294967295" };
        let error = Diagnostic::error("X220", consts::span(value), format!("the bound {number} {what}"))
            .with_label("a length or a bound")
            .with_help("counts are unsigned and have 32 bits (RFC 4506 section 4.13)");
        self.found.push(match value {
            Value::Name(name) if !self.bad_bounds.insert(name.name.clone()) => return,
            Value::Name(name) => match self.scope.value_named(&name.name) {
                Some(constant) => error.with_related(constant.span, "the constant"),
                None => error,
            },
            Value::Literal { .. } => error,
        });
    }
}

/// Whether a definition may become a struct without names for its fields.
fn may_be_tuple(definition: &Definition) -> bool {
    let DefinitionKind::Typedef(declaration) = &definition.kind else { return false };
    matches!(declaration.kind, DeclarationKind::VariableArray(..) | DeclarationKind::Optional(..))
}

/// When a definition is lowered.
fn phase_of(definition: &Definition) -> usize {
    match &definition.kind {
        DefinitionKind::Const(_) | DefinitionKind::Enum(..) => 0,
        DefinitionKind::Typedef(declaration) => match &declaration.kind {
            DeclarationKind::Plain(of, _) if matches!(of.kind, TypeSpecifierKind::Enum(_)) => 0,
            DeclarationKind::Plain(of, _)
            | DeclarationKind::FixedArray(of, _, _)
            | DeclarationKind::VariableArray(of, _, _)
            | DeclarationKind::Optional(of, _)
                if matches!(of.kind, TypeSpecifierKind::Struct(_) | TypeSpecifierKind::Union(_)) =>
            {
                2
            }
            _ => 1,
        },
        DefinitionKind::Struct(..) | DefinitionKind::Union(..) => 2,
        DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => 3,
    }
}

fn const_type(value: i128) -> Option<ConstType> {
    if u32::try_from(value).is_ok() {
        Some(ConstType::U32)
    } else if i32::try_from(value).is_ok() {
        Some(ConstType::I32)
    } else if u64::try_from(value).is_ok() {
        Some(ConstType::U64)
    } else if i64::try_from(value).is_ok() {
        Some(ConstType::I64)
    } else {
        None
    }
}
