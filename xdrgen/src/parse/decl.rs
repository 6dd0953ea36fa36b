//! Declarations and types (RFC 4506 section 6.3).

use nom::branch::alt;
use nom::combinator::{cut, map, opt};
use nom::multi::{many0, many1};
use nom::sequence::{delimited, preceded};
use nom::{Input, Parser};

use super::Dialect;
use super::token::Kind;
use super::tokens::{
    Parse, Reason, Tokens, end_of_declaration, fail, identifier, path, refuse, shown, token, warn,
};
use crate::ast::{
    CaseSpec, Declaration, EnumBody, EnumMember, Identifier, Multiplicity, Scalar, StructBody, TypeSpecifier,
    TypeSpecifierKind, UnionBody, Value,
};
use crate::diag::{Expected, PortabilityKind, SyntaxKind};
use crate::keywords::{BEGIN_DECLARATION, is_keyword};

/// Returns true if the next word is `zcopaque` in xdrzcc's dialect. In RFCs, the word is an ordinary name.
pub(super) fn is_zcopaque(input: Tokens<'_>) -> bool {
    input.word(0) == "zcopaque" && input.context.dialect == Dialect::Xdrzcc
}

/// Parses a declaration, without the surrounding comments.
pub(crate) fn declaration(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let first = input.at;
    let is_item = is_zcopaque(input);
    let (rest, specifier) = match input.word(0) {
        _ if is_item => one_word(input, TypeSpecifierKind::Opaque),
        "void" => one_word(input, TypeSpecifierKind::Void),
        "opaque" => one_word(input, TypeSpecifierKind::Opaque),
        "string" => one_word(input, TypeSpecifierKind::String),
        word if !is_keyword(word) || BEGIN_DECLARATION.contains(&word) => type_specifier(input)?,
        _ => return Err(refuse(input, Reason::Expected(Expected::Declaration, BEGIN_DECLARATION))),
    };
    let (rest, (name, multiplicity)) = match specifier.kind {
        TypeSpecifierKind::Void => (rest, (None, Multiplicity::One)),
        TypeSpecifierKind::Opaque => cut(|rest| bytes(rest, false)).parse(rest)?,
        TypeSpecifierKind::String => cut(|rest| bytes(rest, true)).parse(rest)?,
        _ => named(rest, &specifier)?,
    };
    let span = input.context.span(first, rest.at.saturating_sub(1));
    let eligible = is_item && matches!(multiplicity, Multiplicity::Variable(_));
    Ok((rest, Declaration { specifier, name, multiplicity, span, docs: Vec::new(), eligible }))
}

pub(crate) fn one_word(input: Tokens<'_>, kind: TypeSpecifierKind) -> (Tokens<'_>, TypeSpecifier) {
    let span = input.context.span(input.at, input.at);
    (input.take_from(1), TypeSpecifier { kind, span })
}

/// Parses the name and the size of opaque data or a string. As in rpcgen, a string needs no size.
fn bytes(input: Tokens<'_>, is_string: bool) -> Parse<'_, (Option<Identifier>, Multiplicity)> {
    if input.word(0) == "*" {
        return Err(fail(input, Reason::Kind(&SyntaxKind::PointerToBytes)));
    }
    let (input, name) = identifier(input)?;
    let context = input.context;
    match input.word(0) {
        "[" if is_string => return Err(fail(input, Reason::Kind(&SyntaxKind::StringSize))),
        "[" | "<" => {}
        ";" if is_string => {
            context.report(PortabilityKind::StringWithoutBound.at(context.position_after(input.at)))
        }
        _ if is_string || context.dialect == Dialect::Xdrzcc => {}
        _ => return Err(fail(input, Reason::Kind(&SyntaxKind::OpaqueSize))),
    }
    let (rest, size) = multiplicity(input)?;
    let size = if size == Multiplicity::One { Multiplicity::Variable(None) } else { size };
    Ok((rest, (Some(name), size)))
}

/// Parses the name after a type, with an optional `*` before the name or a size after it.
fn named<'a>(input: Tokens<'a>, of: &TypeSpecifier) -> Parse<'a, (Option<Identifier>, Multiplicity)> {
    if input.word(0) == "*" {
        if input.word(1) == "*" {
            return Err(fail(input.take_from(1), Reason::Kind(&SyntaxKind::SecondSize)));
        }
        if matches!(of.kind, TypeSpecifierKind::Scalar(Scalar::Char | Scalar::UnsignedChar)) {
            // `char *` is text in C, but one optional character in XDR.
            let span = input.context.span(input.at.saturating_sub(1), input.at);
            input.context.report(PortabilityKind::CharPointer.at(span));
        }
        let (rest, name) = cut(identifier).parse(input.take_from(1))?;
        return Ok((rest, (Some(name), Multiplicity::Optional)));
    }
    let (input, name) = cut(identifier).parse(input)?;
    let (rest, size) = multiplicity(input)?;
    Ok((rest, (Some(name), size)))
}

/// Parses `[n]`, `<n>`, `<>` or nothing.
pub(crate) fn multiplicity(input: Tokens<'_>) -> Parse<'_, Multiplicity> {
    match input.word(0) {
        "[" => map(delimited(token("["), cut(value), cut(token("]"))), Multiplicity::Fixed).parse(input),
        "<" if input.word(1) == ">" => Ok((input.take_from(2), Multiplicity::Variable(None))),
        "<" => {
            let max = delimited(token("<"), cut(value), cut(token(">")));
            map(max, |max| Multiplicity::Variable(Some(max))).parse(input)
        }
        _ => Ok((input, Multiplicity::One)),
    }
}

pub(crate) fn value(input: Tokens<'_>) -> Parse<'_, Value> {
    if matches!(input.word(0), "(" | "-" | "+" | "~" | "!") {
        return Err(fail(input, Reason::Kind(&SyntaxKind::Arithmetic)));
    }
    let (rest, value) = match input.peek(0).map(|found| found.kind) {
        Some(Kind::Word) => map(path, Value::Name).parse(input)?,
        _ => constant(input)?,
    };
    if is_operator(rest) { Err(fail(rest, Reason::Kind(&SyntaxKind::Arithmetic))) } else { Ok((rest, value)) }
}

/// Returns true if the token after a value is a C operator or a `(`, so that the value is an expression.
fn is_operator(input: Tokens<'_>) -> bool {
    match input.word(0) {
        "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "(" => true,
        "<" => input.word(1) == "<",
        ">" => input.word(1) == ">",
        // In `A -1`, the lexer reads the `-` as part of the number.
        word => word.starts_with('-') && input.peek(0).is_some_and(|found| found.kind == Kind::Number),
    }
}

pub(crate) fn constant(input: Tokens<'_>) -> Parse<'_, Value> {
    match input.peek(0).map(|found| found.kind) {
        Some(Kind::Number) => {
            let value = input.context.lexed.number(input.at).unwrap_or(i128::MAX);
            if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
                return Err(fail(input, Reason::Kind(&SyntaxKind::TooWide)));
            }
            if input.word(0).starts_with('\'') {
                warn(input, |span| PortabilityKind::CharacterValue { value }.at(span));
            }
            let span = input.context.span(input.at, input.at);
            Ok((input.take_from(1), Value::Literal { value, span }))
        }
        Some(Kind::Malformed) => Err(fail(input, Reason::Malformed)),
        _ => Err(refuse(input, Reason::Expected(Expected::Value, &[]))),
    }
}

/// Parses a type specifier, including rpcgen's `unsigned`, `char`, `short`, `long` and `struct name`.
pub(crate) fn type_specifier(input: Tokens<'_>) -> Parse<'_, TypeSpecifier> {
    let first = input.at;
    let next = input.take_from(1);
    let (rest, kind) = if let Some((rest, scalar)) = scalar(input) {
        (rest, TypeSpecifierKind::Scalar(scalar))
    } else {
        match input.word(0) {
            "enum" => cut(alt((map(enum_body, TypeSpecifierKind::Enum), reference))).parse(next)?,
            "struct" => cut(alt((map(struct_body, TypeSpecifierKind::Struct), reference))).parse(next)?,
            "union" => {
                let in_place = map(union_body, |body| TypeSpecifierKind::Union(Box::new(body)));
                cut(alt((in_place, reference))).parse(next)?
            }
            "opaque" => return Err(fail(input, Reason::Kind(&SyntaxKind::OpaqueType))),
            word if is_keyword(word) => {
                return Err(refuse(input, Reason::Expected(Expected::Type, BEGIN_DECLARATION)));
            }
            _ => map(expected_type, TypeSpecifierKind::Named).parse(input)?,
        }
    };
    let span = input.context.span(first, rest.at.saturating_sub(1));
    Ok((rest, TypeSpecifier { kind, span }))
}

fn expected_type(input: Tokens<'_>) -> Parse<'_, Identifier> {
    path(input).map_err(|_| refuse(input, Reason::Expected(Expected::Type, BEGIN_DECLARATION)))
}

/// Parses the name of a scalar type. In rpcgen files, `int` may follow `short` and `long`, and `long long`
/// is `hyper`.
fn scalar(input: Tokens<'_>) -> Option<(Tokens<'_>, Scalar)> {
    let next = input.take_from(1);
    Some(match (input.word(0), next.word(0)) {
        ("unsigned", "int" | "hyper" | "char" | "short" | "long") => {
            let (rest, signed) = scalar(next)?;
            (rest, unsigned(signed))
        }
        ("unsigned", _) => (next, Scalar::UnsignedInt),
        ("long", "long") => {
            warn(input, |span| PortabilityKind::LongLong.at(span));
            (without_int(next.take_from(1)), Scalar::Hyper)
        }
        ("long", _) => (without_int(next), Scalar::Int),
        ("short", _) => (without_int(next), Scalar::Short),
        ("int", _) => (next, Scalar::Int),
        ("char", _) => (next, Scalar::Char),
        ("hyper", _) => (next, Scalar::Hyper),
        ("float", _) => (next, Scalar::Float),
        ("double", _) => (next, Scalar::Double),
        ("quadruple", _) => (next, Scalar::Quadruple),
        ("bool", _) => (next, Scalar::Bool),
        _ => return None,
    })
}

fn without_int(rest: Tokens<'_>) -> Tokens<'_> {
    if rest.word(0) == "int" { rest.take_from(1) } else { rest }
}

fn unsigned(signed: Scalar) -> Scalar {
    match signed {
        Scalar::Hyper => Scalar::UnsignedHyper,
        Scalar::Char => Scalar::UnsignedChar,
        Scalar::Short => Scalar::UnsignedShort,
        _ => Scalar::UnsignedInt,
    }
}

/// Parses the name after `struct`, `union` or `enum`, which refers to a separate definition.
fn reference(input: Tokens<'_>) -> Parse<'_, TypeSpecifierKind> {
    let (rest, name) = path(input)?;
    if matches!(rest.word(0), "{" | "switch") {
        return Err(fail(rest, Reason::Kind(&SyntaxKind::NamedInside)));
    }
    Ok((rest, TypeSpecifierKind::Named(name)))
}

pub(crate) fn enum_body(input: Tokens<'_>) -> Parse<'_, EnumBody> {
    let (rest, _) = token("{")(input)?;
    if rest.word(0) == "}" {
        return Err(fail(rest, Reason::Kind(&SyntaxKind::EmptyEnum)));
    }
    let mut rest = rest.deeper()?;
    // An enum can have many members, so the vector is allocated without spare capacity.
    let commas = (0..).map(|ahead| rest.word(ahead)).take_while(|word| !matches!(*word, "}" | ""));
    let mut members = Vec::with_capacity(1 + commas.filter(|word| *word == ",").count());
    loop {
        let (next, member) = cut(enum_member).parse(rest)?;
        members.push(member);
        match next.word(0) {
            "," if next.word(1) == "}" => {
                warn(next, |span| PortabilityKind::LastComma.at(span));
                return Ok((next.take_from(2).level(input), EnumBody { members }));
            }
            "," => rest = next.take_from(1),
            "}" => return Ok((next.take_from(1).level(input), EnumBody { members })),
            // All members have values, but this word has none, so the word is probably a leftover.
            _ if next.word(1) == "}"
                && next.peek(1).is_some_and(|brace| !brace.first)
                && members.iter().all(|member| member.value.is_some())
                && identifier(next).is_ok() =>
            {
                warn(next, |span| SyntaxKind::StrayWord { word: shown(next.word(0)) }.at(span));
                return Ok((next.take_from(2).level(input), EnumBody { members }));
            }
            // The word is clearly another member, and the `,` before it is missing.
            _ if matches!(next.word(1), "=" | "," | "}") && identifier(next).is_ok() => {
                next.context.report(SyntaxKind::NoComma.at(next.context.position_after(next.at)));
                rest = next;
            }
            _ => return Err(fail(next, Reason::Expected(Expected::MemberEnd, &[]))),
        }
    }
}

/// Parses `NAME = value`, or `NAME` alone (rpcgen).
fn enum_member(input: Tokens<'_>) -> Parse<'_, EnumMember> {
    let (rest, name) = identifier(input)?;
    let (rest, value) = opt(preceded(token("="), cut(value))).parse(rest)?;
    let last = if rest.word(0) == "," { rest.at } else { rest.at - 1 };
    Ok((rest, EnumMember { name, value, docs: input.context.docs(input.at, last) }))
}

pub(crate) fn struct_body(input: Tokens<'_>) -> Parse<'_, StructBody> {
    let (rest, _) = token("{")(input)?;
    let (rest, fields) = many0(field).parse(rest.deeper()?)?;
    if rest.word(0) != "}" {
        return Err(fail(rest, Reason::Expected(Expected::Field, BEGIN_DECLARATION)));
    }
    Ok((rest.take_from(1).level(input), StructBody { fields }))
}

fn field(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, mut declaration) = declaration(input)?;
    let (rest, last) = end_of_declaration(rest)?;
    declaration.docs = input.context.docs(input.at, last);
    Ok((rest, declaration))
}

/// Parses a union's discriminant and arms. As in rpcgen, the default arm may precede other arms.
pub(crate) fn union_body(input: Tokens<'_>) -> Parse<'_, UnionBody> {
    let (rest, _) = token("switch")(input)?;
    let (rest, _) = cut(token("(")).parse(rest)?;
    let (rest, discriminant) = cut(declaration).parse(rest)?;
    let (rest, _) = cut(token(")")).parse(rest)?;
    let (rest, _) = cut(token("{")).parse(rest)?;
    let mut rest = rest.deeper()?;
    let mut body = UnionBody { discriminant, arms: Vec::new(), default: None };
    let mut default_at = 0;
    let mut warned = false;
    loop {
        match rest.word(0) {
            "case" => {
                if body.default.is_some() && !std::mem::replace(&mut warned, true) {
                    let default = rest.context.span(default_at, default_at);
                    warn(rest, |span| PortabilityKind::CaseAfterDefault { default }.at(span));
                }
                let (next, arm) = cut(case_spec).parse(rest)?;
                body.arms.push(arm);
                rest = next;
            }
            "default" if body.default.is_some() => return Err(fail(rest, Reason::SecondDefault(default_at))),
            "default" => {
                default_at = rest.at;
                let (next, arm) = cut(default_arm).parse(rest)?;
                body.default = Some(arm);
                rest = next;
            }
            "}" if body.arms.is_empty() && body.default.is_none() => {
                return Err(fail(rest, Reason::Kind(&SyntaxKind::NoArms)));
            }
            "}" => return Ok((rest.take_from(1).level(input), body)),
            _ => return Err(fail(rest, after_arm(rest, &body))),
        }
    }
}

fn after_arm(input: Tokens<'_>, body: &UnionBody) -> Reason {
    let any = !body.arms.is_empty() || body.default.is_some();
    let mark = input.context.found.borrow().mark();
    let again = any && declaration(input).is_ok_and(|(rest, _)| rest.word(0) == ";");
    // Warnings about a misplaced declaration are dropped.
    input.context.found.borrow_mut().roll_back(mark);
    if again {
        return Reason::Kind(&SyntaxKind::SecondDeclaration);
    }
    Reason::Expected(Expected::Arm, &["case", "default"])
}

fn case_spec(input: Tokens<'_>) -> Parse<'_, CaseSpec> {
    let label = delimited(token("case"), cut(value), cut(token(":")));
    let (rest, labels) = many1(label).parse(input)?;
    let (rest, declaration) = arm(input.at, rest)?;
    Ok((rest, CaseSpec { labels, declaration }))
}

fn default_arm(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, _) = (token("default"), cut(token(":"))).parse(input)?;
    arm(input.at, rest)
}

/// Parses an arm's declaration. Its comments include those before, between and after the arm's labels.
fn arm(first: usize, input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, mut declaration) = cut(declaration).parse(input)?;
    let (mut rest, mut last) = end_of_declaration(rest)?;
    let context = input.context;
    let mut more = Vec::new();
    while let Some((next, field)) = another(rest).filter(|_| declaration.name.is_some()) {
        more.push((rest.at, field));
        (rest, last) = (next, next.at.saturating_sub(1));
    }
    if !more.is_empty() {
        return Ok((rest, several(first, input, last, declaration, more)));
    }
    declaration.docs = context.docs(first, last);
    if (input.at..last).any(|at| context.word(at) == "{") {
        // For an arm with an inline body, `docs` omits the comments inside the arm. The comments at the
        // labels are inserted after the comments that precede the arm.
        let labels = (first + 1..=input.at).flat_map(|at| context.after(at - 1).chain(context.before(at)));
        let labels: Vec<String> = labels.filter_map(|comment| super::docs::clean(comment.text)).collect();
        let place =
            context.before(first).filter(|comment| super::docs::clean(comment.text).is_some()).count();
        declaration.docs.splice(place..place, labels);
    }
    Ok((rest, declaration))
}

/// Parses a further declaration of the same arm in a published document, if any. RFC 1094 and RFC 5666 have
/// arms with several declarations.
fn another(input: Tokens<'_>) -> Option<(Tokens<'_>, Declaration)> {
    if !input.context.published || matches!(input.word(0), "case" | "default" | "void" | "}") {
        return None;
    }
    let mark = input.context.found.borrow().mark();
    let read = field(input).ok();
    if read.is_none() {
        input.context.found.borrow_mut().roll_back(mark);
    }
    read
}

/// Reads several declarations of an arm as one struct, which has the same encoding.
fn several(
    first: usize,
    input: Tokens<'_>,
    last: usize,
    mut declaration: Declaration,
    more: Vec<(usize, Declaration)>,
) -> Declaration {
    let context = input.context;
    let second = more.first().map_or(last, |(at, _)| *at);
    context.report(SyntaxKind::SeveralDeclarations.at(context.span(second, second)));
    let span = context.span(input.at, last);
    declaration.docs = context.docs(input.at, second.saturating_sub(1));
    let fields = std::iter::once(declaration).chain(more.into_iter().map(|(_, field)| field)).collect();
    // The struct is named after the first label, if the label is a name.
    let label = context.token(first + 1).filter(|token| token.kind == Kind::Word);
    let name = label.map_or_else(|| "fields".to_owned(), |label| label.text.to_ascii_lowercase());
    let specifier = TypeSpecifier { kind: TypeSpecifierKind::Struct(StructBody { fields }), span };
    Declaration {
        specifier,
        name: Some(Identifier { name, span: context.span(first, first) }),
        multiplicity: Multiplicity::One,
        span,
        docs: context.docs(first, input.at.saturating_sub(1)),
        eligible: false,
    }
}
