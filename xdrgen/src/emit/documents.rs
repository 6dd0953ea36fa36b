//! Several documents: a module for each.

use std::collections::{BTreeMap, BTreeSet};

use super::Emitter;
use super::code::Used;
use crate::hash::HashMap;
use crate::ir::{Item, Module};
use crate::source::SourceId;

/// A document that has a module of its own.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: SourceId,
    /// The module's name.
    pub(crate) ident: String,
    /// The document's name, as files show it.
    pub(crate) name: String,
    /// Its items in order.
    pub(crate) items: Vec<Item>,
}

/// Returns the items of each document in order.
pub(crate) fn items_by_source(module: &Module) -> HashMap<SourceId, Vec<Item>> {
    let mut items: HashMap<SourceId, Vec<Item>> = HashMap::default();
    for item in &module.order {
        let source = match item {
            Item::Const(index) => module.consts.get(*index).map(|one| one.source),
            Item::Type(id) => module.get(*id).map(|ty| ty.source),
            Item::Program(index) => module.programs.get(*index).map(|program| program.source),
        };
        source.into_iter().for_each(|source| items.entry(source).or_default().push(*item));
    }
    items
}

/// Returns the documents of constants by their names in Rust.
pub(crate) fn const_sources(module: &Module) -> HashMap<&str, SourceId> {
    module.consts.iter().map(|one| (one.ident.as_str(), one.source)).collect()
}

impl Emitter<'_> {
    /// Returns the document of a source.
    pub(super) fn home(&self, source: SourceId) -> Option<&Document> {
        self.homes.get(&source).and_then(|at| self.documents.get(*at))
    }

    /// Returns the names among those used that other documents define, by module.
    pub(super) fn foreign<'u>(
        &'u self,
        used: &'u Used,
        own: SourceId,
    ) -> BTreeMap<&'u str, BTreeSet<&'u str>> {
        let types = used.types.iter().filter_map(|id| self.module.get(*id));
        let types = types.map(|ty| (ty.source, ty.ident.as_str()));
        let consts = used.consts.iter().map(String::as_str);
        let consts = consts.filter_map(|name| Some((*self.const_sources.get(name)?, name)));
        let mut foreign: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (source, name) in types.chain(consts).filter(|(source, _)| *source != own) {
            let home = self.home(source).map_or("", |home| &home.ident);
            foreign.entry(home).or_default().insert(name);
        }
        foreign
    }
}
