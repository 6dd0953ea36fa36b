//! The sizes of a program's messages, and the chunks that the messages need over RPC-over-RDMA version 1 for
//! a given inline threshold.
//!
//! A type's sizes are the minimum and maximum encoded lengths, the maximum length without eligible items, and
//! the eligible items (RFC 8166 section 3.4.1). They equal the sizes of the generated type, except that
//! xdrgen does not know the sizes of existing Rust types.

pub(crate) mod layout;
pub(crate) mod messages;

use crate::diag::{self, Diagnostic};
use crate::generate::{self, Options};
use crate::ir::TypeId;
use crate::source::Sources;

use layout::Layouts;
use messages::versions;

pub use layout::TypeSizes;
pub use messages::{Assumed, Bound, MessageSizes, Needs, ProcedureSizes, VersionSizes};
pub use rpcrdma_layout::{Items, Lengths, Size};

/// The result of [`sizes()`].
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// The findings about the documents. Documents with errors have no sizes.
    pub diagnostics: Vec<Diagnostic>,
    /// The sizes of each type by its name in the document, in source order. Types without a name in the
    /// document follow, under derived names.
    pub types: Vec<(String, TypeSizes)>,
    /// The message sizes of each version of each program.
    pub versions: Vec<VersionSizes>,
}

/// Computes the sizes of all types and messages of documents that are compiled together, with their
/// bindings.
#[must_use]
pub fn sizes(sources: &Sources, options: &Options, assumed: &Assumed) -> Sizes {
    let (module, diagnostics) = generate::lower(sources, options);
    if diag::has_errors(&diagnostics) {
        return Sizes { diagnostics, ..Sizes::default() };
    }
    let layouts = Layouts::of(&module);
    let named = module.types.iter().enumerate();
    let types = named.map(|(index, ty)| (ty.name.clone(), layouts.named(TypeId(index)))).collect();
    let versions = versions(&module, &layouts, *assumed);
    Sizes { diagnostics, types, versions }
}
