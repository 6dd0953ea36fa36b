//! Undefined names that a document uses, and their probable causes.

use crate::ast::{Hidden, Identifier};
use crate::source::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Space {
    Type,
    Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) space: Space,
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) reason: Reason,
    /// A possible origin of the definition, for the help message.
    pub(crate) origin: Option<Origin>,
    pub(crate) within: Option<String>,
}

impl Unresolved {
    pub(crate) fn new(space: Space, name: Identifier, reason: Reason) -> Self {
        let Identifier { name, span } = name;
        Unresolved { space, name, span, reason, origin: None, within: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No definition has this name or a similar name.
    Unknown,
    /// An erratum of a published document, with the intended name.
    Erratum(String),
    /// The definition of the name is omitted.
    Omitted,
    /// A value's name where a type is expected, with the position of the value.
    IsValue(Span),
    /// A type of another language, with its equivalent in XDR.
    ForeignType(&'static str),
    /// A defined name is similar.
    Like(String),
    /// A built-in type has a similar name.
    LikeBuiltIn(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A definition in an inactive branch of a preprocessor condition.
    Hidden(Hidden),
    /// The position of a macro with this name.
    Macro(Span),
    /// Files that the document includes and that may define the name.
    Included(Vec<String>),
}

/// Types that need no definition, for suggestions.
pub(crate) const BUILT_IN: &[&str] = &[
    "bool",
    "char",
    "double",
    "float",
    "hyper",
    "int",
    "int32_t",
    "int64_t",
    "long",
    "opaque",
    "quadruple",
    "short",
    "string",
    "uint32_t",
    "uint64_t",
    "unsigned",
];

pub(crate) const FOREIGN_TYPES: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("byte", "opaque name[1]"),
    ("bytes", "opaque name<>"),
    ("f32", "float"),
    ("f64", "double"),
    ("i32", "int"),
    ("i64", "hyper"),
    ("integer", "int"),
    ("size_t", "unsigned hyper"),
    ("ssize_t", "hyper"),
    ("str", "string name<>"),
    ("text", "string name<>"),
    ("u32", "unsigned int"),
    ("u64", "unsigned hyper"),
];
