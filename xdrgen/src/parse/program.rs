//! Programs (RFC 5531 section 12.2).

use nom::combinator::{cut, map, opt};
use nom::multi::{many1, separated_list1};
use nom::{Input, Parser};

use super::decl::{multiplicity, one_word, type_specifier, value};
use super::tokens::{Parse, Reason, Tokens, fail, identifier, refuse, semicolon, token, warn};
use crate::ast::{
    Declaration, Multiplicity, ProcedureDef, ProgramDef, TypeSpecifier, TypeSpecifierKind, Value, VersionDef,
};
use crate::diag::{Expected, PortabilityKind, SyntaxKind};

pub(crate) fn program_def(input: Tokens<'_>) -> Parse<'_, ProgramDef> {
    let (rest, _) = token("program")(input)?;
    let (rest, name) = cut(identifier).parse(rest)?;
    let (rest, _) = cut(token("{")).parse(rest)?;
    let (rest, versions) = many1(version_def).parse(rest).map_err(finalize)?;
    if rest.word(0) != "}" {
        return Err(fail(rest, Reason::Expected(Expected::Version, &["version"])));
    }
    let (rest, number) = number(rest.take_from(1))?;
    Ok((rest, ProgramDef { name, versions, number }))
}

/// Converts the error of a required first item to a [`nom::Err::Failure`], so that the error is reported.
fn finalize<E>(error: nom::Err<E>) -> nom::Err<E> {
    match error {
        nom::Err::Error(error) => nom::Err::Failure(error),
        other => other,
    }
}

fn number(input: Tokens<'_>) -> Parse<'_, Value> {
    let (rest, _) = cut(token("=")).parse(input)?;
    cut(value).parse(rest)
}

fn version_def(input: Tokens<'_>) -> Parse<'_, VersionDef> {
    let context = input.context;
    if input.word(0) != "version" {
        return Err(refuse(input, Reason::Expected(Expected::Token("version"), &["version"])));
    }
    let (rest, name) = cut(identifier).parse(input.take_from(1))?;
    let (rest, open) = cut(token("{")).parse(rest)?;
    let (rest, procedures) = many1(procedure_def).parse(rest).map_err(finalize)?;
    if rest.word(0) != "}" {
        return Err(fail(rest, Reason::Expected(Expected::Procedure, &["void"])));
    }
    let (rest, number) = number(rest.take_from(1))?;
    let (rest, last) = semicolon(rest)?;
    let docs = context.before(input.at).chain(context.after(open)).chain(context.after(last));
    let docs = docs.filter_map(|comment| super::docs::clean(comment.text)).collect();
    Ok((rest, VersionDef { name, procedures, number, docs }))
}

fn procedure_def(input: Tokens<'_>) -> Parse<'_, ProcedureDef> {
    let (rest, result) = proc_return(input)?;
    let (rest, name) = cut(identifier).parse(rest)?;
    let (rest, _) = cut(token("(")).parse(rest)?;
    let (rest, arguments) = arguments(rest)?;
    let (rest, _) = cut(token(")")).parse(rest)?;
    let (rest, number) = number(rest)?;
    let (rest, last) = semicolon(rest)?;
    let docs = input.context.docs(input.at, last);
    Ok((rest, ProcedureDef { name, result, arguments, number, docs }))
}

fn proc_return(input: Tokens<'_>) -> Parse<'_, Option<Declaration>> {
    if input.word(0) == "void" && input.word(1) != "*" {
        return Ok((input.take_from(1), None));
    }
    map(procedure_type, Some).parse(input)
}

/// Parses the arguments of a procedure. `()` means `(void)`.
fn arguments(input: Tokens<'_>) -> Parse<'_, Vec<Declaration>> {
    if input.word(0) == ")" {
        return Ok((input, Vec::new()));
    }
    if input.word(0) == "void" {
        return Ok((input.take_from(1), Vec::new()));
    }
    cut(separated_list1(token(","), cut(argument))).parse(input)
}

/// Parses an argument: a type and, in rpcgen files, a name. A size may follow the type or the name.
fn argument(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let (rest, mut declaration) = procedure_type(input)?;
    let (mut rest, name) = opt(identifier).parse(rest)?;
    if name.is_some() && declaration.multiplicity == Multiplicity::One {
        (rest, declaration.multiplicity) = array_size(rest, &declaration.specifier)?;
    }
    Ok((rest, Declaration { name, ..declaration }))
}

/// Parses a type, rpcgen's `string`, `type *`, or an array.
fn procedure_type(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let is_sized = |at| matches!(input.word(at), "[" | "<");
    let (rest, specifier) = match input.word(0) {
        "string" => one_word(input, TypeSpecifierKind::String),
        "opaque" if is_sized(1) || is_sized(2) => one_word(input, TypeSpecifierKind::Opaque),
        _ => type_specifier(input)?,
    };
    let is_bytes = matches!(specifier.kind, TypeSpecifierKind::String | TypeSpecifierKind::Opaque);
    let (rest, multiplicity) = match rest.word(0) {
        "*" if is_bytes => return Err(fail(rest, Reason::Kind(&SyntaxKind::PointerToBytes))),
        "*" => (rest.take_from(1), Multiplicity::Optional),
        _ => array_size(rest, &specifier)?,
    };
    let span = specifier.span;
    Ok((rest, Declaration { specifier, name: None, multiplicity, span, docs: Vec::new(), eligible: false }))
}

/// Parses `[n]`, `<n>`, `<>` or nothing. rpcgen accepts a size only after `string`.
fn array_size<'a>(input: Tokens<'a>, of: &TypeSpecifier) -> Parse<'a, Multiplicity> {
    let is_string = of.kind == TypeSpecifierKind::String;
    if is_string && input.word(0) == "[" {
        return Err(fail(input, Reason::Kind(&SyntaxKind::StringSize)));
    }
    let (rest, size) = multiplicity(input)?;
    if !is_string && size != Multiplicity::One {
        warn(input, |span| PortabilityKind::ArrayArgument.at(span));
    }
    // `string<>` means `string`.
    let is_plain = is_string && size == Multiplicity::Variable(None);
    Ok((rest, if is_plain { Multiplicity::One } else { size }))
}
