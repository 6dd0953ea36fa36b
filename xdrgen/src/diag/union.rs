//! Findings about unions.

use super::{Excerpt, Text, text};
use crate::hir::Selector;
use crate::source::Span;

/// The help for an invalid or nonportable discriminant.
pub(super) const DISCRIMINANTS: &str =
    "a discriminant is an int, an unsigned int, a bool or an enum (RFC 4506 section 4.15)";

kinds! {
    Union UnionKind {
    /// two arms have the same label
    X212 Error SecondLabel { label: String, first: Span, written: String } => {
        let text = text(format!("two arms have the same label {label}")).label("the second").and(*first, "the first");
        if label == written { text } else { text.help(format!("{written} and {label} are sent as the same number")) }
    };
    /// a label is not a member of the discriminant's enum
    X213 Error NoMember { name: String, of: String, place: Span, near: Option<String>, values: Excerpt<(String, i32)> } => {
        let text = no_value(text(format!("`{of}` has no member `{name}`")), *place, values);
        if near.is_some() { text.like(near) } else { text }
    };
    /// A label that is a number, but not a value of the discriminant's enum.
    X213 Error NoValueOf { number: i128, of: String, place: Span, values: Excerpt<(String, i32)> } =>
        no_value(text(format!("{number} is not a value of `{of}`")), *place, values);
    /// A misspelled label, treated as an erratum and interpreted as `near`.
    X213 Warning MemberTakenFor { name: String, of: String, near: String } =>
        text(format!("`{of}` has no member `{name}`")).label(format!("interpreted as `{near}`"));
    /// a value has no arm
    X214 Warning NoArm { values: Excerpt<String> } => text(format!("no arm for {}", values.shown(String::clone)))
        .label("a message with such a value cannot be decoded")
        .help("add the arms, or `default: void;`");
    /// not a valid discriminant
    X215 Error NoDiscriminant => text("this type cannot be the discriminant of a union")
        .label("not an int, an unsigned int, a bool or an enum")
        .help(DISCRIMINANTS);
    /// a label is not a value of the discriminant
    X216 Error LabelRange { number: i128, of: Selector } => {
        let (of, help) = match of {
            Selector::Int | Selector::Enum(_) => ("an int", "an int has 32 bits"),
            Selector::Unsigned => ("an unsigned int", "an unsigned int has 32 bits and no sign"),
            Selector::Hyper => ("a hyper", "a hyper has 64 bits and is at most 2^63-1"),
            Selector::UnsignedHyper => ("an unsigned hyper", "an unsigned hyper has 64 bits and no sign"),
            Selector::Bool => ("a bool", "a bool is TRUE or FALSE"),
        };
        text(format!("{number} is not {of}")).label("a label must be a value of the discriminant").help(help)
    };
    /// no value selects the default arm
    X226 Warning UnusedDefault => text("no value selects the default arm")
        .label("`TRUE` and `FALSE` already have arms")
        .help("remove the default arm");
    }
}

/// Adds that a label is not a value of the discriminant's enum, and lists the values.
fn no_value(text: Text, place: Span, values: &Excerpt<(String, i32)>) -> Text {
    let values = values.shown(|(name, value)| format!("{name} = {value}"));
    text.label("a label must be a value of the discriminant")
        .and(place, "the discriminant's type")
        .help(format!("its values are {values}"))
}
