//! Findings about types that contain themselves, or that nest too deeply.

use super::{Text, text};
use crate::source::Span;

kinds! {
    Cycle CycleKind {
    /// an infinitely large type
    X222 Error Infinite { name: String, via: Vec<(Span, String)> } =>
        with_path(text(format!("`{name}` is infinitely large")), via)
        .label(format!("contains `{name}` again"))
        .help("make the field optional (`*`) or a counted array (`<>`)");
    /// type alias cycle
    X223 Error AliasCycle { name: String, via: Vec<(Span, String)> } =>
        with_path(text(format!("type alias cycle: `{name}` is defined as itself")), via)
        .label("leads back to itself through typedefs alone")
        .help("make one of the typedefs name another type, or put a struct in between");
    /// definitions are nested too deeply
    X225 Error TooDeep { name: String, max: usize, deepest: usize } =>
        text(format!("`{name}` nests more than {max} definitions deep"))
        .label(format!("the deepest type of this run is {deepest} definitions deep"))
        .help("rustc limits the nesting of types: remove typedefs that only rename another type");
    }
}

fn with_path(text: Text, via: &[(Span, String)]) -> Text {
    via.iter().fold(text, |text, (place, name)| text.and(*place, format!("through `{name}`")))
}
