//! Findings of name resolution, and violations of the language rules.

use super::{BreachKind, Diagnostic, Part, Text, text};
use crate::ast::Hidden;
use crate::resolve::unresolved::{Origin, Reason, Space, Unresolved};
use crate::source::Span;

kinds! {
    /// X2: names and rules
    Meaning MeaningKind {
    /// no type has this name
    X200 Error NoType { name: Unresolved } => unresolved(name);
    /// a name has two different definitions
    X201 Error Redefinition { name: String, first: Span, how: Redefinition } => {
        let text = text(match how {
            Redefinition::Differently => format!("`{name}` has two different definitions"),
            Redefinition::ConstantAndType => format!("`{name}` is a constant and a type"),
        });
        again(text, *first).help(match how {
            Redefinition::Differently => "remove or rename one of them; equal definitions are allowed",
            Redefinition::ConstantAndType => {
                "constants and types share one name space (RFC 4506 section 6.4): rename one of them"
            }
        })
    };
    /// A redefinition in a published document.
    X201 Warning Superseded { name: String, by: Span } => text(format!("`{name}` has two different definitions"))
        .label("omitted")
        .and(*by, "this definition is used")
        .help("if a published document defines a name again, the last complete and valid definition is used");
    /// A later document's redefinition that breaks the rules for extensions.
    X201 Error NoExtension { breach: Box<BreachKind> } => {
        let text = breach.text();
        let message = format!("the second definition is not an extension of the first: {}", text.message);
        let help = "a later document may add values with their arms; otherwise remove one of the definitions or \
            give it another name";
        Text { message, ..text }.help(help)
    };
    /// A name of several versions or procedures with different numbers, used as a constant.
    X201 Error TwoNumbers { name: String, first: Span, second: Span } =>
        text(format!("`{name}` has two different numbers"))
        .label("used here")
        .and(*first, "the first")
        .and(*second, "the second")
        .help("write the number in place of the name, or rename one of the versions or procedures");
    /// no constant has this name
    X202 Error NoValue { name: Unresolved } => unresolved(name);
    /// a constant depends on itself
    X203 Error CyclicConstant { name: String, used: Span } => text(format!("the value of `{name}` depends on itself"))
        .label("defined in terms of itself")
        .and(*used, "used here to define its own value")
        .help("give one of the constants a number");
    /// a constant does not fit in 64 bits
    X204 Error WideConstant { number: i128 } => text(format!("{number} does not fit in 64 bits"))
        .label("the value")
        .help("numbers range from -2^63 to 2^64-1");
    /// a value does not fit in an enum
    X205 Error WideMember { number: i128 } => text(format!("{number} is not a valid enum value"))
        .label("does not fit in 32 bits")
        .help(ENUM_VALUES);
    /// two members of an enum have the same name
    X206 Error SecondMember { name: String, first: Span } => second("members", name, *first);
    /// two members of an enum have the same value
    X207 Warning SameValue { first: String, place: Span, second: String, value: i32 } =>
        text(format!("`{first}` and `{second}` are both {value}"))
        .label("the same value again")
        .and(*place, "the first")
        .help("in Rust, the later name is a constant that equals the earlier name");
    /// a member's name is taken
    X208 Warning MemberAgain { name: String, first: Span } => again(text(format!("`{name}` is defined twice")), *first)
        .label("defined again; where a constant is required, the name refers to the first definition")
        .help("constants and the members of all enums share one name space (RFC 4506 section 6.4)");
    /// A member with the name of a type.
    X208 Warning MemberAndType { name: String, first: Span } =>
        again(text(format!("`{name}` is the name of an enum member and of a type")), *first)
        .help("members of enums share the name space of types (RFC 4506 section 6.4)");
    /// a value is sent as a negative number
    X209 Warning SentNegative { number: u32 } => text(format!("{number} is sent as {}", number.cast_signed()))
        .label("above 2147483647")
        .help(ENUM_VALUES);
    /// two fields have the same name
    X210 Error SecondField { name: String, first: Span } => second("fields", name, *first);
    /// Two arguments of one procedure have the same name.
    X210 Error SecondArgument { name: String, first: Span } => second("arguments", name, *first);
    /// the value of a Rust constant is unknown
    X211 Error NumberInRust { name: String } => text(format!("the value of `{name}` is unknown to the compiler"))
        .label("only Rust defines this constant")
        .help(format!("also define its value: `-D {name}=NUMBER`"));
    /// an argument or result of an unnamed type
    X217 Error BodyInProcedure => text("a procedure's argument or result must be a type name")
        .label("a body in place of a name")
        .help("define the type before the program and name it here");
    /// a definition is repeated
    X218 Warning Repeated { name: String, first: Span } =>
        again(text(format!("`{name}` has two equal definitions")), *first)
        .help("remove one of the definitions; if it is an unedited copy, rename it");
    /// a bound is out of range
    X220 Error Bound { number: i128, constant: Option<Span> } => {
        let what = if *number < 0 { "is negative" } else { "is above 4294967295" };
        let text = text(format!("the bound {number} {what}"))
            .label("a length or a bound")
            .help("counts are unsigned and have 32 bits (RFC 4506 section 4.13)");
        constant.iter().fold(text, |text, constant| text.and(*constant, "the constant"))
    };
    /// a field cannot be `void`
    X224 Error VoidField => text("a struct's field cannot be `void`").label("nothing is declared here").help("remove it");
    /// two numbers are the same
    X230 Error SecondNumber { of: Part, number: u32, first: Span } =>
        text(format!("two {}s have the same number {number}", of.name())).label("the second").and(*first, "the first");
    /// two versions or procedures have the same name
    X231 Error SecondName { of: Part, name: String, first: Span } => second(&format!("{}s", of.name()), name, *first);
    /// two programs with the same number define the same version
    X232 Error SecondProgram { number: u32, version: u32, first: Span } =>
        text(format!("two programs with the number {number:#x} define version {version}"))
        .label("the second")
        .and(*first, "the first")
        .help("use another number: a call identifies a program and a version only by their numbers");
    /// a number is not an unsigned int
    X234 Error NoUnsigned { number: i128 } => text(format!("{number} is not an unsigned int"))
        .label("programs, versions and procedures have unsigned 32-bit numbers");
    /// an addition to an undefined type
    X240 Warning NothingToAddTo { name: String } =>
        text(format!("additions to `{name}`, which no document of this run defines"))
        .label("these lines are omitted")
        .help("add the document that defines the type to the run");
    /// an addition conflicts with an existing definition
    X241 Error AddedToOther { name: String, base: Span } =>
        text(format!("the added lines are not valid in `{name}`"))
        .label("an enum accepts members, and a union accepts arms")
        .and(*base, "defined here");
    /// An added member whose name already belongs to a member with another value.
    X241 Error AddedMember { name: String, first: Span } =>
        conflict(format!("`{name}` already exists with another value"), *first);
    /// An added member whose value already belongs to a member with another name.
    X241 Error AddedNumber { name: String, number: i128, other: String, first: Span } =>
        conflict(format!("`{other}` and `{name}` would both be {number}"), *first);
    /// An added arm with a label of an existing arm, but with another declaration.
    X241 Error AddedArm { label: String, first: Span } => conflict(format!("an arm for {label} already exists"), *first);
    /// A second default arm.
    X241 Error AddedDefault { first: Span } => conflict("a default arm already exists".to_owned(), *first);
    }
}

const ENUM_VALUES: &str = "an enum's value is signed and has 32 bits (RFC 4506 section 4.3)";

/// The conflict between two definitions of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redefinition {
    Differently,
    ConstantAndType,
}

impl From<Unresolved> for Diagnostic {
    fn from(name: Unresolved) -> Self {
        let (span, is_erratum) = (name.span, matches!(name.reason, Reason::Erratum(_)));
        let within = name.within.clone();
        let kind = match name.space {
            Space::Type => MeaningKind::NoType { name },
            Space::Value => MeaningKind::NoValue { name },
        };
        Diagnostic { within, ..kind.at(span).weakened_if(is_erratum) }
    }
}

fn again(text: Text, first: Span) -> Text {
    text.label("defined again").and(first, "first defined here")
}

/// Returns the text for two items with the same name. `what` is the plural of their kind, such as `fields`.
fn second(what: &str, name: &str, first: Span) -> Text {
    text(format!("two {what} are named `{name}`")).label("the second").and(first, "the first")
}

fn conflict(message: String, first: Span) -> Text {
    text(message)
        .label("added here")
        .and(first, "already defined here")
        .help("an addition needs new names and values")
}

fn unresolved(of: &Unresolved) -> Text {
    let what = if of.space == Space::Type { "type" } else { "constant" };
    let text = text(format!("no {what} named `{}`", of.name));
    match &of.reason {
        Reason::Erratum(near) => return text.label(format!("interpreted as `{near}`")),
        Reason::Omitted => return text.label("its definition is omitted"),
        _ => {}
    }
    let text = text.label("not defined in any document of this run");
    let text = match &of.reason {
        Reason::IsValue(place) => text.and(*place, "this is a value, not a type"),
        _ => text,
    };
    match (&of.origin, advice(of)) {
        (Some(Origin::Hidden(hidden)), _) => hides(text, hidden),
        (Some(Origin::Macro(place)), _) => text
            .and(*place, "this macro has a meaning only in C")
            .help("write a number as `const NAME = value;`, and a type as `typedef type NAME;`"),
        (Some(Origin::Included(files)), advice) => {
            let files = files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
            let includes = format!("this document includes {files}, which may define it");
            text.help(match advice {
                None => includes,
                Some(help) => format!("{help}; {includes}"),
            })
        }
        (None, Some(advice)) => text.help(advice),
        (None, None) => text,
    }
}

/// Adds the labels and the help for a name whose definition is in an inactive branch of a condition.
fn hides(text: Text, Hidden { name, condition, is_else }: &Hidden) -> Text {
    let wanted = condition.strip_prefix("#ifdef").map(str::trim).filter(|_| !is_else);
    let branch = if *is_else { "a later branch of " } else { "" };
    text.label("not defined under the conditions of this run")
        .and(name.span, format!("defined here under {branch}`{condition}`"))
        .help(match wanted {
            Some(wanted) => format!("try `-D {wanted}`"),
            None => "the condition excludes this definition: change the names that `-D` defines".to_owned(),
        })
}

fn advice(of: &Unresolved) -> Option<String> {
    Some(match (&of.reason, of.space) {
        (Reason::IsValue(_) | Reason::Omitted | Reason::Erratum(_), _) => return None,
        (Reason::ForeignType(xdr), _) => format!("in XDR, write `{xdr}`"),
        (Reason::Like(near), _) => format!("a similar name is defined: `{near}`"),
        (Reason::LikeBuiltIn(near), _) => format!("XDR has a type with a similar name: `{near}`"),
        (Reason::Unknown, Space::Type) => format!(
            "add the document that defines the type to the run, or map the name to Rust: \
             `--extern {}=path::to::Type`",
            of.name
        ),
        (Reason::Unknown, Space::Value) => {
            "define the name with `const`, or add the document that defines it to the run".to_owned()
        }
    })
}
