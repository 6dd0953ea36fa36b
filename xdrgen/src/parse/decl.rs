//! Declarations and types (RFC 4506 section 6.3).

use nom::branch::alt;
use nom::combinator::{cut, map, opt};
use nom::multi::{many0, many1};
use nom::sequence::{delimited, preceded, terminated};
use nom::{Input, Parser};

use super::Dialect;
use super::token::Kind;
use super::tokens::{
    Parse, Reason, Tokens, end_of_declaration, fail, identifier, path, refuse, shown, token, warn,
};
use crate::ast::{
    CaseSpec, Declaration, DeclarationKind, EnumBody, EnumMember, Identifier, Scalar, StructBody,
    TypeSpecifier, TypeSpecifierKind, UnionBody, Value,
};
use crate::diag::{Expected, PortabilityKind, SyntaxKind};
use crate::keywords::{BEGIN_DECLARATION, is_keyword};

/// declaration, without the comments around it.
pub(crate) fn declaration(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let first = input.at;
    let is_item = input.word(0) == "zcopaque" && input.context.dialect == Dialect::Xdrzcc;
    let (rest, kind) = match input.word(0) {
        _ if is_item => cut(opaque_declaration).parse(input.take_from(1))?,
        "void" => (input.take_from(1), DeclarationKind::Void),
        "opaque" => cut(opaque_declaration).parse(input.take_from(1))?,
        "string" => cut(string_declaration).parse(input.take_from(1))?,
        word if !is_keyword(word) || BEGIN_DECLARATION.contains(&word) => typed_declaration(input)?,
        _ => return Err(refuse(input, Reason::Expected(Expected::Declaration, BEGIN_DECLARATION))),
    };
    let span = input.context.span(first, rest.at.saturating_sub(1));
    let eligible = is_item && matches!(kind, DeclarationKind::VariableOpaque(..));
    Ok((rest, Declaration { kind, span, docs: Vec::new(), eligible }))
}

/// `opaque` identifier, then `[n]` or `<n>`
fn opaque_declaration(input: Tokens<'_>) -> Parse<'_, DeclarationKind> {
    if input.word(0) == "*" {
        return Err(fail(input, Reason::PointerToBytes));
    }
    let (input, name) = identifier(input)?;
    match input.word(0) {
        "[" => map(fixed, |size| DeclarationKind::FixedOpaque(name.clone(), size)).parse(input),
        "<" => map(variable, |max| DeclarationKind::VariableOpaque(name.clone(), max)).parse(input),
        _ if input.context.dialect == Dialect::Xdrzcc => {
            Ok((input, DeclarationKind::VariableOpaque(name, None)))
        }
        _ => Err(fail(input, Reason::OpaqueSize)),
    }
}

/// `string` identifier, then `<n>`; rpcgen lets that be left out.
fn string_declaration(input: Tokens<'_>) -> Parse<'_, DeclarationKind> {
    if input.word(0) == "*" {
        return Err(fail(input, Reason::PointerToBytes));
    }
    let (input, name) = identifier(input)?;
    match input.word(0) {
        "<" => map(variable, |max| DeclarationKind::String(name.clone(), max)).parse(input),
        "[" => Err(fail(input, Reason::StringSize)),
        ";" => {
            input.context.report(PortabilityKind::StringWithoutBound.at(input.context.behind(input.at)));
            Ok((input, DeclarationKind::String(name, None)))
        }
        _ => Ok((input, DeclarationKind::String(name, None))),
    }
}

/// type-specifier identifier, with `*` before it, or `[n]` or `<n>` behind it
fn typed_declaration(input: Tokens<'_>) -> Parse<'_, DeclarationKind> {
    let (input, kind) = type_specifier(input)?;
    if input.word(0) == "*" {
        if input.word(1) == "*" {
            return Err(fail(input.take_from(1), Reason::SecondSize));
        }
        if matches!(kind.kind, TypeSpecifierKind::Scalar(Scalar::Char | Scalar::UnsignedChar)) {
            // In C it is a text, and here one optional character.
            let span = input.context.span(input.at.saturating_sub(1), input.at);
            input.context.report(PortabilityKind::CharPointer.at(span));
        }
        let (input, name) = cut(identifier).parse(input.take_from(1))?;
        return Ok((input, DeclarationKind::Optional(kind, name)));
    }
    let (input, name) = cut(identifier).parse(input)?;
    match input.word(0) {
        "[" => map(fixed, |size| DeclarationKind::FixedArray(kind.clone(), name.clone(), size)).parse(input),
        "<" => {
            map(variable, |max| DeclarationKind::VariableArray(kind.clone(), name.clone(), max)).parse(input)
        }
        _ => Ok((input, DeclarationKind::Plain(kind, name))),
    }
}

/// `[` value `]`
pub(crate) fn fixed(input: Tokens<'_>) -> Parse<'_, Value> {
    delimited(token("["), cut(value), cut(token("]"))).parse(input)
}

/// `<` \[ value \] `>`
pub(crate) fn variable(input: Tokens<'_>) -> Parse<'_, Option<Value>> {
    let (input, _) = token("<")(input)?;
    if input.word(0) == ">" {
        return Ok((input.take_from(1), None));
    }
    map(terminated(cut(value), cut(token(">"))), Some).parse(input)
}

/// value: a constant, or the name of one
pub(crate) fn value(input: Tokens<'_>) -> Parse<'_, Value> {
    if matches!(input.word(0), "(" | "-" | "+" | "~" | "!") {
        return Err(fail(input, Reason::Arithmetic));
    }
    let (rest, value) = match input.peek(0).map(|found| found.kind) {
        Some(Kind::Word) => map(path, Value::Name).parse(input)?,
        _ => constant(input)?,
    };
    if is_operator(rest) { Err(fail(rest, Reason::Arithmetic)) } else { Ok((rest, value)) }
}

/// Whether what follows a value would compute with it in C.
fn is_operator(input: Tokens<'_>) -> bool {
    match input.word(0) {
        "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "(" => true,
        "<" => input.word(1) == "<",
        ">" => input.word(1) == ">",
        // `A -1`: the sign goes with the number.
        word => {
            word.starts_with('-') && input.peek(0).is_some_and(|found| matches!(found.kind, Kind::Number(_)))
        }
    }
}

/// constant
pub(crate) fn constant(input: Tokens<'_>) -> Parse<'_, Value> {
    match input.peek(0).map(|found| found.kind) {
        Some(kind @ Kind::Number(_)) => {
            let value = input.context.lexed.number(kind).unwrap_or(i128::MAX);
            if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
                return Err(fail(input, Reason::TooWide));
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

/// type-specifier, and rpcgen's shorter and additional ones
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
            "opaque" => return Err(fail(input, Reason::OpaqueType)),
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

/// The name of a scalar type. In files for rpcgen, `int` may follow `short` and `long`, and `long long` is `hyper`.
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

/// `struct name`, `union name`, `enum name`: the name of something defined elsewhere.
fn reference(input: Tokens<'_>) -> Parse<'_, TypeSpecifierKind> {
    let (rest, name) = path(input)?;
    if matches!(rest.word(0), "{" | "switch") {
        return Err(fail(rest, Reason::NamedInside));
    }
    Ok((rest, TypeSpecifierKind::Named(name)))
}

/// enum-body
pub(crate) fn enum_body(input: Tokens<'_>) -> Parse<'_, EnumBody> {
    let (rest, _) = token("{")(input)?;
    if rest.word(0) == "}" {
        return Err(fail(rest, Reason::EmptyEnum));
    }
    let mut rest = rest.deeper()?;
    let mut members = Vec::new();
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
            // The members have values, and this is one word: it got there by a slip.
            _ if next.word(1) == "}"
                && next.peek(1).is_some_and(|brace| !brace.first)
                && members.iter().all(|member| member.value.is_some())
                && identifier(next).is_ok() =>
            {
                warn(next, |span| SyntaxKind::StrayWord { word: shown(next.word(0)) }.at(span));
                return Ok((next.take_from(2).level(input), EnumBody { members }));
            }
            // What is meant is plain: the enum has this member, too.
            _ if matches!(next.word(1), "=" | "," | "}") && identifier(next).is_ok() => {
                next.context.report(SyntaxKind::NoComma.at(next.context.behind(next.at)));
                rest = next;
            }
            _ => return Err(fail(next, Reason::Expected(Expected::MemberEnd, &[]))),
        }
    }
}

/// identifier `=` value; without a value it is the one before plus one.
fn enum_member(input: Tokens<'_>) -> Parse<'_, EnumMember> {
    let (rest, name) = identifier(input)?;
    let (rest, value) = opt(preceded(token("="), cut(value))).parse(rest)?;
    let last = if rest.word(0) == "," { rest.at } else { rest.at - 1 };
    Ok((rest, EnumMember { name, value, docs: input.context.docs(input.at, last) }))
}

/// struct-body
pub(crate) fn struct_body(input: Tokens<'_>) -> Parse<'_, StructBody> {
    let (rest, _) = token("{")(input)?;
    let (rest, fields) = many0(field).parse(rest.deeper()?)?;
    if rest.word(0) != "}" {
        return Err(fail(rest, Reason::Expected(Expected::Field, BEGIN_DECLARATION)));
    }
    Ok((rest.take_from(1).level(input), StructBody { fields }))
}

/// declaration `;`
fn field(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, mut declaration) = declaration(input)?;
    let (rest, last) = end_of_declaration(rest)?;
    declaration.docs = input.context.docs(input.at, last);
    Ok((rest, declaration))
}

/// union-body. The default arm may stand anywhere among the others, as rpcgen has it.
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
                    warn(rest, |span| PortabilityKind::BehindDefault { default }.at(span));
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
            "}" if body.arms.is_empty() && body.default.is_none() => return Err(fail(rest, Reason::NoArms)),
            "}" => return Ok((rest.take_from(1).level(input), body)),
            _ => return Err(fail(rest, after_arm(rest, &body))),
        }
    }
}

/// What is wrong with what stands where an arm or the end must stand.
fn after_arm(input: Tokens<'_>, body: &UnionBody) -> Reason {
    let any = !body.arms.is_empty() || body.default.is_some();
    let said = input.context.found.borrow().mark();
    let again = any && declaration(input).is_ok_and(|(rest, _)| rest.word(0) == ";");
    // What is odd about a declaration that has no place here does not matter.
    input.context.found.borrow_mut().back_to(said);
    if again {
        return Reason::SecondDeclaration;
    }
    Reason::Expected(Expected::Arm, &["case", "default"])
}

/// case-spec
fn case_spec(input: Tokens<'_>) -> Parse<'_, CaseSpec> {
    let label = delimited(token("case"), cut(value), cut(token(":")));
    let (rest, labels) = many1(label).parse(input)?;
    let (rest, declaration) = arm(input.at, rest)?;
    Ok((rest, CaseSpec { labels, declaration }))
}

/// `default` `:` declaration `;`
fn default_arm(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, _) = (token("default"), cut(token(":"))).parse(input)?;
    arm(input.at, rest)
}

/// An arm's declaration; its comments are those from its first label on.
fn arm(first: usize, input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, mut declaration) = cut(declaration).parse(input)?;
    let (mut rest, mut last) = end_of_declaration(rest)?;
    let context = input.context;
    let mut more = Vec::new();
    while let Some((next, field)) = another(rest).filter(|_| declaration.kind != DeclarationKind::Void) {
        more.push((rest.at, field));
        (rest, last) = (next, next.at.saturating_sub(1));
    }
    if !more.is_empty() {
        return Ok((rest, several(first, input, last, declaration, more)));
    }
    declaration.docs = context.docs(first, last);
    if (input.at..last).any(|at| context.token(at).is_some_and(|token| token.text == "{")) {
        // With a body of its own, the arm's comments are those before the body.
        let labels = (first + 1..=input.at).flat_map(|at| context.after(at - 1).chain(context.before(at)));
        let labels: Vec<String> = labels.filter_map(|comment| super::docs::clean(comment.text)).collect();
        let place =
            context.before(first).filter(|comment| super::docs::clean(comment.text).is_some()).count();
        declaration.docs.splice(place..place, labels);
    }
    Ok((rest, declaration))
}

/// One more declaration where the next label must stand, in a document that nobody can mend. (RFC 1094 and RFC 5666 have
/// such arms.)
fn another(input: Tokens<'_>) -> Option<(Tokens<'_>, Declaration)> {
    if !input.context.published || matches!(input.word(0), "case" | "default" | "void" | "}") {
        return None;
    }
    let said = input.context.found.borrow().mark();
    let read = field(input).ok();
    if read.is_none() {
        input.context.found.borrow_mut().back_to(said);
    }
    read
}

/// Several declarations of an arm are sent one behind the other, as a struct's are: so they are read as one.
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
    // Nothing gives it a name but what chooses it.
    let label = context.token(first + 1).filter(|token| token.kind == Kind::Word);
    let name = label.map_or_else(|| "fields".to_owned(), |label| label.text.to_ascii_lowercase());
    let specifier = TypeSpecifier { kind: TypeSpecifierKind::Struct(StructBody { fields }), span };
    let kind = DeclarationKind::Plain(specifier, Identifier { name, span: context.span(first, first) });
    Declaration { kind, span, docs: context.docs(first, input.at.saturating_sub(1)), eligible: false }
}
