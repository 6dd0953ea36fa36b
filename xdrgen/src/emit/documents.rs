//! Several documents: a module for each, and the names that each uses of the others.

use std::collections::{BTreeMap, BTreeSet};

use super::Emitter;
use crate::hash::HashMap;
use crate::ir::{Body, Bound, Field, Item, Label, Type, TypeDef};
use crate::source::SourceId;

/// A document that has a module of its own.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: SourceId,
    /// The module's name.
    pub(crate) ident: String,
    /// The document's name, as files show it.
    pub(crate) name: String,
}

/// What the module of a document holds.
pub(super) struct Part<'e> {
    pub(super) document: &'e Document,
    pub(super) items: Vec<Item>,
    /// The names that it uses of other documents, by module.
    pub(super) uses: BTreeMap<&'e str, BTreeSet<&'e str>>,
}

impl Emitter<'_> {
    /// Returns the documents' modules in order.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let places: HashMap<SourceId, usize> =
            self.documents.iter().zip(0..).map(|(document, place)| (document.source, place)).collect();
        let empty = |document| Part { document, items: Vec::new(), uses: BTreeMap::new() };
        let mut parts: Vec<Part<'_>> = self.documents.iter().map(empty).collect();
        let constants: HashMap<&str, SourceId> =
            self.module.consts.iter().map(|one| (one.ident.as_str(), one.source)).collect();
        for item in &self.module.order {
            let source = self.source(*item);
            let Some(part) = places.get(&source).and_then(|place| parts.get_mut(*place)) else { continue };
            part.items.push(*item);
            let mut names = Names { emitter: self, constants: &constants, found: Vec::new() };
            names.of_item(*item);
            for (home, name) in names.found.into_iter().filter(|(home, _)| *home != source) {
                let home = places.get(&home).and_then(|place| self.documents.get(*place));
                part.uses.entry(home.map_or("", |home| &home.ident)).or_default().insert(name);
            }
        }
        parts
    }

    fn source(&self, item: Item) -> SourceId {
        let module = self.module;
        match item {
            Item::Const(index) => module.consts.get(index).map(|one| one.source),
            Item::Type(id) => module.get(id).map(|ty| ty.source),
            Item::Program(index) => module.programs.get(index).map(|program| program.source),
        }
        .unwrap_or_default()
    }
}

/// The names that an item uses, and where they are defined.
struct Names<'e, 'c> {
    emitter: &'e Emitter<'e>,
    constants: &'c HashMap<&'e str, SourceId>,
    found: Vec<(SourceId, &'e str)>,
}

impl<'e> Names<'e, '_> {
    fn of_item(&mut self, item: Item) {
        let module = self.emitter.module;
        match item {
            Item::Const(_) => {}
            Item::Type(id) => module.get(id).into_iter().for_each(|ty| self.of_type_def(ty)),
            Item::Program(index) => {
                let versions = module.programs.get(index).into_iter().flat_map(|program| &program.versions);
                for procedure in versions.flat_map(|version| &version.procedures) {
                    self.of_type(&procedure.arguments);
                    self.of_type(&procedure.result);
                }
            }
        }
    }

    fn of_type_def(&mut self, ty: &'e TypeDef) {
        match &ty.body {
            Body::Alias(of) => self.of_type(of),
            Body::Newtype(field) => self.of_field(field),
            Body::Enum(_) => {}
            Body::Struct(fields) | Body::Tuple(fields) => {
                fields.iter().for_each(|field| self.of_field(field))
            }
            Body::Union(union) => {
                self.of_type(&union.discriminant);
                for arm in &union.arms {
                    arm.payload.iter().for_each(|field| self.of_field(field));
                    for label in &arm.labels {
                        if let Label::Member { of, .. } = label {
                            self.of_type(&Type::Named(*of));
                        }
                    }
                }
            }
        }
    }

    fn of_field(&mut self, field: &'e Field) {
        self.of_type(&field.ty);
        self.of_bound(field.max.as_ref());
    }

    fn of_type(&mut self, ty: &Type) {
        match ty {
            Type::Void | Type::Scalar(_) | Type::Extern(_) => {}
            Type::Named(id) => {
                self.found.extend(self.emitter.module.get(*id).map(|ty| (ty.source, ty.ident.as_str())));
            }
            Type::FixedOpaque(bound) | Type::SmallOpaque(bound) => self.of_bound(Some(bound)),
            Type::Opaque(bound) | Type::String(bound) => self.of_bound(bound.as_ref()),
            Type::FixedArray(of, bound) => {
                self.of_type(of);
                self.of_bound(Some(bound));
            }
            Type::Array(of) | Type::Optional(of) | Type::Boxed(of) => self.of_type(of),
        }
    }

    fn of_bound(&mut self, bound: Option<&Bound>) {
        let constant = bound.and_then(|bound| bound.constant.as_deref());
        let found = constant.and_then(|name| self.constants.get_key_value(name));
        self.found.extend(found.map(|(name, source)| (*source, *name)));
    }
}
