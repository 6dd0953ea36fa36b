//! Several documents: a module for each.

use std::collections::{BTreeMap, BTreeSet};

use super::Emitter;
use super::code::Used;
use crate::ir::Item;
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

impl Emitter<'_> {
    /// Returns the items of a document in order.
    pub(super) fn items_of(&self, document: &Document) -> Vec<Item> {
        let module = self.module;
        let source = |item: &Item| match item {
            Item::Const(index) => module.consts.get(*index).map(|one| one.source),
            Item::Type(id) => module.get(*id).map(|ty| ty.source),
            Item::Program(index) => module.programs.get(*index).map(|program| program.source),
        };
        module.order.iter().filter(|item| source(item) == Some(document.source)).copied().collect()
    }

    /// Returns the names among those used that other documents define, by module.
    pub(super) fn foreign(&self, used: &Used, own: SourceId) -> BTreeMap<&str, BTreeSet<&str>> {
        let types = used.types.iter().filter_map(|id| self.module.get(*id));
        let types = types.map(|ty| (ty.source, ty.ident.as_str()));
        let consts = self.module.consts.iter().filter(|one| used.consts.contains(&one.ident));
        let consts = consts.map(|one| (one.source, one.ident.as_str()));
        let mut foreign: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (source, name) in types.chain(consts).filter(|(source, _)| *source != own) {
            let home = self.documents.iter().find(|document| document.source == source);
            foreign.entry(home.map_or("", |home| &home.ident)).or_default().insert(name);
        }
        foreign
    }
}
