//! Lines that are only for C (`#include` and `#define`), but may define a name that a document leaves
//! undefined.

use super::unresolved::Origin;
use crate::ast::{Definition, DefinitionKind, Hidden, Identifier};
use crate::hash::HashMap;
use crate::keywords::first_word;
use crate::source::{SourceId, Span};

/// Maximum number of files named in a help message.
const NAMED: usize = 4;

#[derive(Default)]
pub(crate) struct CLines<'a> {
    macros: HashMap<&'a str, Span>,
    /// The included files: first those that may be XDR, then the others.
    includes: HashMap<SourceId, [Vec<&'a str>; 2]>,
    hidden: HashMap<&'a str, &'a Hidden>,
}

impl<'a> CLines<'a> {
    pub(crate) fn add(&mut self, definition: &'a Definition) {
        let DefinitionKind::PassThrough(text) = &definition.kind else { return };
        let Some(rest) = text.trim_start().strip_prefix('#') else { return };
        let rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix("define") {
            let name = first_word(rest);
            if !name.is_empty() {
                self.macros.entry(name).or_insert(definition.span);
            }
        } else if let Some(rest) = rest.strip_prefix("include") {
            let file = rest.trim().trim_matches(['"', '<', '>']);
            let is_xdr = file.ends_with(".x") || definition.text.starts_with('#');
            let [xdr, others] = self.includes.entry(definition.span.source).or_default();
            let files = if is_xdr { xdr } else { others };
            if files.len() < NAMED {
                files.push(file);
            }
        }
    }

    pub(crate) fn hide(&mut self, hidden: &'a [Hidden]) {
        for one in hidden {
            self.hidden.entry(&one.name.name).or_insert(one);
        }
    }

    pub(crate) fn includes_files(&self, document: SourceId) -> bool {
        self.includes.contains_key(&document)
    }

    pub(crate) fn origin(&self, name: &Identifier) -> Option<Origin> {
        if let Some(hidden) = self.hidden.get(name.name.as_str()) {
            return Some(Origin::Hidden((*hidden).clone()));
        }
        if let Some(place) = self.macros.get(name.name.as_str()) {
            return Some(Origin::Macro(*place));
        }
        let files = self.includes.get(&name.span.source).into_iter().flatten().flatten();
        let files: Vec<String> = files.take(NAMED).map(|file| (*file).to_owned()).collect();
        (!files.is_empty()).then_some(Origin::Included(files))
    }
}
