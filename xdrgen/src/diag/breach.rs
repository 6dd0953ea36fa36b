//! Findings of `compat`: reasons why a protocol is not an extension of another.

use std::fmt;

use super::{Diagnostic, Part, Text, text};
use crate::hir::Scalar;
use crate::source::Span;

kinds! {
    /// X5: extensions
    Breach BreachKind {
    /// a message was removed
    X500 Error Removed { name: String } => text(format!("`{name}` was removed"))
        .label("defined in the base; no new type replaces it")
        .help("keep the definition: valid messages must stay valid");
    /// fields were added or removed
    X501 Error NewField { of: String, field: String, base: Span } => both(format!("`{of}` has a new field `{field}`"), *base);
    /// A removed field.
    X501 Error NoField { of: String, field: String, base: Span } => both(format!("the field `{field}` of `{of}` was removed"), *base);
    X501 Error Parts { of: String, was: usize, is: usize, base: Span } =>
        both(format!("the number of fields of `{of}` changed from {was} to {is}"), *base);
    /// a type changed
    X502 Error OtherType { of: String, was: Form, is: Form, base: Span } => both(format!("`{of}` changed from {was} to {is}"), *base);
    /// The comparison reached its limit.
    X502 Error TooDifferent { base: Span } =>
        both("the two protocols share too little to be compared further".to_owned(), *base);
    /// a bound or a length changed
    X503 Error Size { what: &'static str, of: String, was: u32, is: u32, base: Span } => {
        let shown = |bound: u32| if bound == u32::MAX { "none".to_owned() } else { bound.to_string() };
        both(format!("the {what} of `{of}` changed from {} to {}", shown(*was), shown(*is)), *base)
    };
    /// a value was removed or changed
    X504 Error ValueChanged { name: String, of: String, was: i32, is: i32, base: Span } =>
        both(format!("`{name}` of `{of}` changed from {was} to {is}"), *base);
    /// A value without a member in the new protocol.
    X504 Error ValueRemoved { name: String, of: String, value: i32, base: Span } =>
        both(format!("the value {value} (`{name}`) of `{of}` was removed"), *base);
    /// A renamed or removed member.
    X504 Error MemberRemoved { name: String, of: String, base: Span } =>
        both(format!("the member `{name}` of `{of}` was removed"), *base);
    /// A removed flag.
    X504 Error FlagRemoved { name: String } => text(format!("the flag `{name}` was removed"))
        .label("no flag of the new protocol has its bit")
        .help("keep the flag: RFC 8178 forbids the removal of flags");
    /// a new value that does not select an arm
    X505 Error PlainValue { name: String, of: String, base: Span } =>
        text(format!("`{of}` may have the new value `{name}`, which does not select an arm of a union"))
        .label("the new value")
        .and(*base, "used here in the base")
        .help("an old peer recognizes an extension only by a value that selects an arm of a union");
    /// a new value without an arm
    X506 Error ValueWithoutArm { name: String, of: String, new: Span, base: Span, more: usize } =>
        text(format!("`{name}` is a new value without an arm in `{of}`{}", more_places(*more)))
        .label("the new value")
        .and(*new, "this union has no arm for the value")
        .and(*base, "in the base")
        .help("add a `case` with the body of the message, or `void`");
    /// a new arm in a union with a default arm
    X507 Error ArmOfDefault { of: String, value: i128, default: Span } =>
        text(format!("`{of}` has a new arm for {value}, which its default arm covered"))
        .label("the new arm")
        .and(*default, "the base's default arm");
    /// A new value that selects the default arm.
    X507 Error ValueForDefault { name: String, of: String, default: Span, more: usize } =>
        text(format!("`{name}` is a new value for the default arm in `{of}`{}", more_places(*more)))
        .label("the new value")
        .and(*default, "the base's default arm");
    /// an arm was removed
    X508 Error ArmRemoved { of: String, value: i128, arm: String, base: Span } =>
        both(format!("the arm for {value} of `{of}` was removed ({arm})"), *base);
    /// a new arm for an existing value
    X509 Error ArmForOld { of: String, value: i128, base: Span } =>
        text(format!("`{of}` has a new arm for the existing value {value}"))
        .label("the new arm")
        .and(*base, "the union in the base")
        .help("use a new value: the base has no arm for the existing value, so an old peer rejects the message as malformed");
    /// a default arm was added or removed
    X510 Error DefaultRemoved { of: String, base: Span } => both(format!("the default arm of `{of}` was removed"), *base);
    /// A new default arm.
    X510 Error NewDefault { of: String, base: Span } => both(format!("`{of}` has a new default arm"), *base);
    /// the value of a constant changed
    X511 Error Constant { name: String, was: i128, is: i128, base: Span } =>
        both(format!("`{name}` changed from {was} to {is}"), *base).label("the new value");
    /// two flags share a bit
    X512 Error Flag { name: String, other: String, base: Span } => text(format!("the flags `{name}` and `{other}` share a bit"))
        .label("the same bit")
        .and(*base, "the flag in the base");
    /// a program, a version or a procedure was removed
    X513 Error NumberRemoved { part: Part, name: String, base: Option<Span> } => {
        let text = text(format!("the {} `{name}` was removed", part.name()));
        match base {
            Some(base) => text.label("missing here").and(*base, "in the base"),
            None => text.label("defined in the base"),
        }
    };
    /// a version or a procedure is new
    X514 Error NewNumber { part: Part, name: String } =>
        text(format!("the {} `{name}` is new, which RFC 8178 does not allow", part.name()))
        .label("not in the base")
        .help("add an operation instead: a new member of the enum of operations, and its union arms");
    }
}

/// Returns a text with the positions in both protocols.
fn both(message: String, base: Span) -> Text {
    text(message).label("here").and(base, "in the base")
}

fn more_places(more: usize) -> String {
    match more {
        0 => String::new(),
        1 => ", and in 1 more place".to_owned(),
        more => format!(", and in {more} more places"),
    }
}

/// The wire form of a type, with its name or bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Void,
    Scalar(Scalar),
    Enum(String),
    Struct(String),
    Union(String),
    FixedOpaque(u32),
    Opaque(u32),
    String(u32),
    FixedArray(u32),
    Array(u32),
    Optional,
    Extern(String),
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |f: &mut fmt::Formatter<'_>, what: &str, unit: &str, max: &u32| match *max {
            u32::MAX => f.write_str(what),
            max => write!(f, "{what} of at most {max} {unit}"),
        };
        match self {
            Form::Void => f.write_str("nothing"),
            Form::Scalar(scalar) => f.write_str(scalar.name()),
            Form::Enum(name) => write!(f, "the enum `{name}`"),
            Form::Struct(name) => write!(f, "the struct `{name}`"),
            Form::Union(name) => write!(f, "the union `{name}`"),
            Form::FixedOpaque(length) => write!(f, "{length} opaque bytes"),
            Form::Opaque(max) => counted(f, "variable-length opaque data", "bytes", max),
            Form::String(max) => counted(f, "a string", "bytes", max),
            Form::FixedArray(length) => write!(f, "an array of {length} elements"),
            Form::Array(max) => counted(f, "a counted array", "elements", max),
            Form::Optional => f.write_str("optional data"),
            Form::Extern(path) => write!(f, "`{path}`"),
        }
    }
}

/// The reason why a definition was not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The definition was omitted because of this finding.
    Omitted(Box<Diagnostic>),
    /// An omitted definition of the new protocol may have the same name or layout.
    Type,
    /// An omitted definition of the new protocol may have the same number.
    Number(Part),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Omitted(found) => f.write_str(&found.text().message),
            Gap::Type => f.write_str("no valid definition of the new protocol has this name or layout"),
            Gap::Number(part) => {
                write!(f, "no valid {} of the new protocol has this number", part.name())
            }
        }
    }
}
