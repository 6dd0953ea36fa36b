//! The modules of documents and namespaces.

use super::Emitter;
use crate::hash::HashMap;
use crate::ir::{Item, Module};
use crate::source::SourceId;

#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: SourceId,
    pub(crate) ident: String,
    /// The name of the document or namespace, as shown in the comments of emitted files.
    pub(crate) name: String,
    pub(crate) items: Vec<Item>,
}

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

impl Emitter<'_> {
    pub(super) fn home(&self, source: SourceId) -> Option<&Document> {
        self.homes.get(&source).and_then(|at| self.documents.get(*at))
    }
}
