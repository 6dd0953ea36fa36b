//! Findings of `compat`: reasons why a protocol is not an extension of another.

use std::fmt;

use super::{Diagnostic, Part, Text, text};
use crate::hir::Scalar;
use crate::source::Span;

kinds! {
    /// X5: extensions
    ///
    /// The findings of `rpcrdma-xdrgen compat`. Under section 9.1 of draft-ietf-nfsv4-rfc5666bis-04, a
    /// protocol may grow without a new version number. Valid messages must keep their meaning, and an old
    /// peer must recognize new messages. An extension may add flag bits and message types. A message type is
    /// an enum value with its arm in a union without a default. Programs may have new versions and
    /// procedures. Most findings have a position in the new protocol and another in the base. Names,
    /// typedefs, comments and the grouping of fields in structs and fixed-length arrays are not sent, so
    /// they may change.
    ///
    /// Extensions of NFS version 4 follow section 4.2 of RFC 8178 (`--rules 8178`). Enums may have new
    /// values wherever they are used, and unions without a default arm may have new arms for any value.
    /// X505, X506 and X509 are therefore not reported, and X507 only for new arms. Programs may not have new
    /// versions or procedures (X514). Enum values and flags may not be removed (X504), even if no message
    /// contains them.
    ///
    /// In the examples, `-` marks lines of the base, and `+` lines of the new protocol.
    Breach BreachKind {
    /// a message was removed
    ///
    /// No type of the new protocol has the same layout, under this or another name.
    ///
    /// ```diff
    /// -struct hello { unsigned int version; };
    /// +const VERSION = 1;
    /// ```
    ///
    /// ```diff
    /// -struct hello { unsigned int version; };
    /// +struct greeting { unsigned int version; };
    /// ```
    X500 Error Removed { name: String } => text(format!("`{name}` was removed"))
        .label("defined in the base; no type of the new protocol has its layout")
        .help("keep the definition: valid messages must stay valid");
    /// fields were added or removed
    ///
    /// An old peer would misread the data that follows. Define a new message type instead.
    ///
    /// ```diff
    /// -struct hello { unsigned int version; };
    /// +struct hello { unsigned int version; unsigned int flags; };
    /// ```
    ///
    /// ```diff
    ///  struct hello { unsigned int version; };
    /// +struct hello_again { unsigned int version; unsigned int flags; };
    /// ```
    X501 Error NewField { of: String, field: String, base: Span } => both(format!("`{of}` has a new field `{field}`"), *base);
    /// A removed field.
    X501 Error NoField { of: String, field: String, base: Span } => both(format!("the field `{field}` of `{of}` was removed"), *base);
    X501 Error Parts { of: String, was: usize, is: usize, base: Span } =>
        both(format!("the number of fields of `{of}` changed from {was} to {is}"), *base);
    /// a type changed
    ///
    /// The encoding differs. The names of types may change, since typedefs are followed. Optional data may
    /// be written as a union over a bool or as an array of at most one element. Fields may be moved into a
    /// nested struct. This code is also reported if two large protocols have too little in common to be
    /// compared.
    ///
    /// ```diff
    /// -struct hello { unsigned int version; };
    /// +struct hello { unsigned hyper version; };
    /// ```
    ///
    /// ```diff
    /// +typedef unsigned int version_number;
    /// -struct hello { unsigned int version; };
    /// +struct hello { version_number version; };
    /// ```
    X502 Error OtherType { of: String, was: Form, is: Form, base: Span } => both(format!("`{of}` changed from {was} to {is}"), *base);
    /// The comparison reached its limit.
    X502 Error TooDifferent { base: Span } =>
        both("the two protocols share too little to be compared further".to_owned(), *base);
    /// a bound or a length changed
    ///
    /// A smaller bound makes valid messages invalid. With a larger bound, an old peer may reject a
    /// message as malformed.
    ///
    /// ```diff
    /// -struct hello { string name<64>; };
    /// +struct hello { string name<128>; };
    /// ```
    ///
    /// ```diff
    /// +const LONGEST = 64;
    /// -struct hello { string name<64>; };
    /// +struct hello { string name<LONGEST>; };
    /// ```
    X503 Error Size { what: &'static str, of: String, was: u32, is: u32, base: Span } => {
        let shown = |bound: u32| if bound == u32::MAX { "none".to_owned() } else { bound.to_string() };
        both(format!("the {what} of `{of}` changed from {} to {}", shown(*was), shown(*is)), *base)
    };
    /// a value was removed or changed
    ///
    /// The values of an enum are sent; their names are not. Names matter only if documents are compiled
    /// together: a later definition of an enum must keep the names of the members. A name that exists in
    /// both versions must keep its value.
    ///
    /// ```diff
    /// -enum kind { ASK = 0, TELL = 1 };
    /// +enum kind { ASK = 0, TELL = 2 };
    ///  struct hello { kind is; };
    /// ```
    ///
    /// ```diff
    /// -enum kind { ASK = 0, TELL = 1 };
    /// +enum kind { QUESTION = 0, ANSWER = 1 };
    ///  struct hello { kind is; };
    /// ```
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
    ///
    /// An old peer cannot distinguish the value from a malformed message. An old peer recognizes an extension
    /// only by a value that selects an arm of a union.
    ///
    /// ```diff
    /// -enum kind { ASK = 0 };
    /// +enum kind { ASK = 0, TELL = 1 };
    ///  struct hello { kind is; };
    /// ```
    ///
    /// ```diff
    /// -enum kind { ASK = 0 };
    /// +enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    /// +   case TELL: int what;
    ///  };
    /// ```
    X505 Error PlainValue { name: String, of: String, base: Span } =>
        text(format!("`{of}` may have the new value `{name}`, which does not select an arm of a union"))
        .label("the new value")
        .and(*base, "used here in the base")
        .help("an old peer recognizes an extension only by a value that selects an arm of a union");
    /// a new value without an arm
    ///
    /// In a union without a default arm, each new value of the discriminant needs an arm, which may be
    /// `void`.
    ///
    /// ```diff
    /// -enum kind { ASK = 0 };
    /// +enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    ///  };
    /// ```
    ///
    /// ```diff
    /// -enum kind { ASK = 0 };
    /// +enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    /// +   case TELL: void;
    ///  };
    /// ```
    X506 Error ValueWithoutArm { name: String, of: String, new: Span, base: Span, more: usize } =>
        text(format!("`{name}` is a new value without an arm in `{of}`{}", more_places(*more)))
        .label("the new value")
        .and(*new, "this union has no arm for the value")
        .and(*base, "in the base")
        .help("add a `case` with the body of the message, or `void`");
    /// a new arm in a union with a default arm
    ///
    /// The default arm covered the value, so an old peer decodes the default arm's body in place of the new
    /// arm's body. A new value of the discriminant that the default arm covers is also reported.
    ///
    /// ```diff
    ///  union hello switch (unsigned int version) {
    ///     case 1: int what;
    /// +   case 2: hyper what_2;
    ///     default: void;
    ///  };
    /// ```
    ///
    /// ```diff
    ///  union hello switch (unsigned int version) {
    ///     case 1: int what;
    /// +   case 2: hyper what_2;
    ///  };
    /// ```
    X507 Error ArmOfDefault { of: String, value: i128, default: Span } =>
        text(format!("`{of}` has a new arm for {value}, which its default arm covered"))
        .label("the new arm")
        .and(*default, "the base's default arm");
    /// A new value that selects the default arm.
    X507 Error ValueForDefault { name: String, of: String, default: Span, more: usize } =>
        text(format!("`{name}` is a new value for the default arm of `{of}`{}", more_places(*more)))
        .label("the new value")
        .and(*default, "the base's default arm");
    /// an arm was removed
    ///
    /// Valid messages become invalid. Keep an obsolete arm, and mark it as obsolete in the document.
    ///
    /// ```diff
    ///  enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    /// -   case TELL: int what;
    ///  };
    /// ```
    ///
    /// ```diff
    ///  enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    ///     case TELL: int what;
    ///  };
    /// ```
    X508 Error ArmRemoved { of: String, value: i128, arm: String, base: Span } =>
        both(format!("the arm for {value} of `{of}` was removed ({arm})"), *base);
    /// a new arm for an existing value
    ///
    /// The base defines the value but has no arm for it, so an old peer rejects the message as malformed. A
    /// new arm is an extension only if its value is new.
    ///
    /// ```diff
    ///  enum kind { ASK = 0, TELL = 1 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    /// +   case TELL: int what;
    ///  };
    /// ```
    ///
    /// ```diff
    /// -enum kind { ASK = 0, TELL = 1 };
    /// +enum kind { ASK = 0, TELL = 1, SAY = 2 };
    ///  union hello switch (kind is) {
    ///     case ASK: void;
    /// +   case SAY: int what;
    ///  };
    /// ```
    X509 Error ArmForOld { of: String, value: i128, base: Span } =>
        text(format!("`{of}` has a new arm for the existing value {value}"))
        .label("the new arm")
        .and(*base, "the union in the base")
        .help("use a new value: the base has no arm for this value, so an old peer rejects the message as malformed");
    /// a default arm was added or removed
    ///
    /// A default arm makes all values without an arm valid, so old and new peers would disagree about such
    /// values.
    ///
    /// ```diff
    ///  union hello switch (unsigned int version) {
    ///     case 1: int what;
    /// +   default: void;
    ///  };
    /// ```
    ///
    /// ```diff
    ///  union hello switch (unsigned int version) {
    ///     case 1: int what;
    /// +   case 2: void;
    ///  };
    /// ```
    X510 Error DefaultRemoved { of: String, base: Span } => both(format!("the default arm of `{of}` was removed"), *base);
    /// A new default arm.
    X510 Error NewDefault { of: String, base: Span } => both(format!("`{of}` has a new default arm"), *base);
    /// the value of a constant changed
    ///
    /// Constants define the meaning of numbers in messages. Define a new name for the new number.
    ///
    /// ```diff
    /// -const VERSION = 1;
    /// +const VERSION = 2;
    /// ```
    ///
    /// ```diff
    ///  const VERSION = 1;
    /// +const VERSION_2 = 2;
    /// ```
    X511 Error Constant { name: String, was: i128, is: i128, base: Span } =>
        both(format!("`{name}` changed from {was} to {is}"), *base).label("the new value");
    /// two flags share a bit
    ///
    /// Flags belong to the same word if they are members of one enum that no message contains, or constants
    /// whose names are equal up to `FLAG`. A new flag needs an unused bit, or several unused bits if its name
    /// contains `FLAG`.
    ///
    /// ```diff
    ///  const HELLO_FLAG_FAST = 1;
    /// +const HELLO_FLAG_SAFE = 1;
    /// ```
    ///
    /// ```diff
    ///  const HELLO_FLAG_FAST = 1;
    /// +const HELLO_FLAG_SAFE = 2;
    /// ```
    X512 Error Flag { name: String, other: String, base: Span } => text(format!("the flags `{name}` and `{other}` share a bit"))
        .label("the same bit")
        .and(*base, "the flag in the base");
    /// a program, a version or a procedure was removed
    ///
    /// Messages contain only the numbers of programs, versions and procedures; names may change.
    ///
    /// ```diff
    ///  program GREETER {
    ///     version GREETER_V1 {
    ///        void GREETER_NULL(void) = 0;
    /// -      int GREETER_ASK(int) = 1;
    ///     } = 1;
    ///  } = 536870913;
    /// ```
    ///
    /// ```diff
    ///  program GREETER {
    ///     version GREETER_V1 {
    ///        void GREETER_NULL(void) = 0;
    /// -      int GREETER_ASK(int) = 1;
    /// +      int GREETER_QUESTION(int) = 1;
    ///     } = 1;
    ///  } = 536870913;
    /// ```
    X513 Error NumberRemoved { part: Part, name: String, base: Option<Span> } => {
        let text = text(format!("the {} `{name}` was removed", part.name()));
        match base {
            Some(base) => text.label("missing here").and(*base, "in the base"),
            None => text.label("defined in the base"),
        }
    };
    /// a version or a procedure is new
    ///
    /// With `--rules 8178`, a program may have no new versions or procedures, since COMPOUND carries every
    /// operation: add an operation instead. Under the other rules, new versions and procedures are
    /// extensions.
    ///
    /// ```diff 8178
    ///  program GREETER {
    ///     version GREETER_V1 {
    ///        int GREETER_ASK(int) = 1;
    /// +      int GREETER_TELL(int) = 2;
    ///     } = 1;
    ///  } = 536870913;
    /// ```
    ///
    /// ```diff 8178
    /// +enum operation { ASK = 1, TELL = 2 };
    /// -enum operation { ASK = 1 };
    ///  union request switch (operation what) {
    ///     case ASK: int question;
    /// +   case TELL: int answer;
    ///  };
    /// ```
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
