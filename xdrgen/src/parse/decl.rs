//! Declarations and types (RFC 4506 section 6.3).

use nom::branch::alt;
use nom::combinator::{cut, map, opt, value as give};
use nom::multi::{many0, many1};
use nom::sequence::{delimited, preceded, terminated};
use nom::{Input, Parser};

use super::token::Kind;
use super::tokens::{
    BEGIN_DECLARATION, Parse, Reason, Tokens, end_of_declaration, fail, identifier, is_keyword, path,
    portability, refuse, token,
};
use crate::ast::{
    CaseSpec, Declaration, DeclarationKind, EnumBody, EnumMember, Identifier, StructBody, TypeSpecifier,
    TypeSpecifierKind, UnionBody, Value,
};
use crate::diag::Diagnostic;

/// declaration, without the comments around it.
pub(crate) fn declaration(input: Tokens<'_>) -> Parse<'_, Declaration> {
    let first = input.at;
    let (rest, kind) = match input.word(0) {
        "void" => (input.take_from(1), DeclarationKind::Void),
        "opaque" => cut(opaque_declaration).parse(input.take_from(1))?,
        "string" => cut(string_declaration).parse(input.take_from(1))?,
        word if !is_keyword(word) || BEGIN_DECLARATION.contains(&word) => typed_declaration(input)?,
        _ => return Err(refuse(input, Reason::Expected("a declaration", BEGIN_DECLARATION))),
    };
    let span = input.context.span(first, rest.at.saturating_sub(1));
    Ok((rest, Declaration { kind, span, docs: Vec::new() }))
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
            let found = Diagnostic::warning("X134", input.context.behind(input.at), "a string without `<>`");
            let found = found.with_label("RFC 4506 has the bound here");
            input.context.report(found.with_help("write `<n>` for up to n bytes, `<>` for any number"));
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
        if matches!(kind.kind, TypeSpecifierKind::Char | TypeSpecifierKind::UnsignedChar) {
            warn_of_pointer(input);
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

/// `char *` is a text in C, and one optional character here.
fn warn_of_pointer(input: Tokens<'_>) {
    let span = input.context.span(input.at.saturating_sub(1), input.at);
    let found = Diagnostic::warning("X135", span, "`char *` is one character or none");
    let found = found.with_label("optional data (RFC 4506 section 4.19)");
    input.context.report(found.with_help("a text is `string name<>`, bytes are `opaque name<>`"));
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
                portability(input, "a character as a number", &format!("write it as `{value}`"));
            }
            let span = input.context.span(input.at, input.at);
            Ok((input.take_from(1), Value::Literal { value, span }))
        }
        Some(Kind::Malformed) => Err(fail(input, Reason::Malformed)),
        _ => Err(refuse(input, Reason::Expected("a number or the name of one", &[]))),
    }
}

/// type-specifier, and rpcgen's shorter and additional ones
pub(crate) fn type_specifier(input: Tokens<'_>) -> Parse<'_, TypeSpecifier> {
    let first = input.at;
    let next = input.take_from(1);
    let (rest, kind) = match input.word(0) {
        "unsigned" => unsigned(next)?,
        "int" => (next, TypeSpecifierKind::Int),
        "long" => (opt(token("int")).parse(next)?.0, TypeSpecifierKind::Int),
        "short" => (opt(token("int")).parse(next)?.0, TypeSpecifierKind::Short),
        "char" => (next, TypeSpecifierKind::Char),
        "hyper" => (next, TypeSpecifierKind::Hyper),
        "float" => (next, TypeSpecifierKind::Float),
        "double" => (next, TypeSpecifierKind::Double),
        "quadruple" => (next, TypeSpecifierKind::Quadruple),
        "bool" => (next, TypeSpecifierKind::Bool),
        "enum" => cut(alt((map(enum_body, TypeSpecifierKind::Enum), reference))).parse(next)?,
        "struct" => cut(alt((map(struct_body, TypeSpecifierKind::Struct), reference))).parse(next)?,
        "union" => {
            let in_place = map(union_body, |body| TypeSpecifierKind::Union(Box::new(body)));
            cut(alt((in_place, reference))).parse(next)?
        }
        "opaque" => return Err(fail(input, Reason::OpaqueType)),
        word if is_keyword(word) => return Err(refuse(input, Reason::Expected("a type", BEGIN_DECLARATION))),
        _ => map(expected_type, TypeSpecifierKind::Named).parse(input)?,
    };
    let span = input.context.span(first, rest.at.saturating_sub(1));
    Ok((rest, TypeSpecifier { kind, span }))
}

fn expected_type(input: Tokens<'_>) -> Parse<'_, Identifier> {
    path(input).map_err(|_| refuse(input, Reason::Expected("a type", BEGIN_DECLARATION)))
}

/// What stands behind `unsigned`.
fn unsigned(input: Tokens<'_>) -> Parse<'_, TypeSpecifierKind> {
    alt((
        give(TypeSpecifierKind::UnsignedInt, token("int")),
        give(TypeSpecifierKind::UnsignedHyper, token("hyper")),
        give(TypeSpecifierKind::UnsignedChar, token("char")),
        give(TypeSpecifierKind::UnsignedShort, terminated(token("short"), opt(token("int")))),
        give(TypeSpecifierKind::UnsignedInt, terminated(token("long"), opt(token("int")))),
        |input| Ok((input, TypeSpecifierKind::UnsignedInt)),
    ))
    .parse(input)
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
                let span = next.context.span(next.at, next.at);
                let found = Diagnostic::warning("X131", span, "a `,` behind the last member");
                next.context.report(found.with_label("RFC 4506 has none here").with_help("remove the `,`"));
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
                next.context.report(super::recover::stray_word(next.context, next.at));
                return Ok((next.take_from(2).level(input), EnumBody { members }));
            }
            // What is meant is plain: the enum has this member, too.
            _ if matches!(next.word(1), "=" | "," | "}") && identifier(next).is_ok() => {
                next.context.report(super::recover::missing_comma(next.context, next.at));
                rest = next;
            }
            _ => return Err(fail(next, Reason::Expected("`,` or `}`", &[]))),
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
        return Err(fail(rest, Reason::Expected("a declaration or `}`", BEGIN_DECLARATION)));
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
                    warn_of_order(rest, default_at);
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

/// RFC 4506 has the default arm last.
fn warn_of_order(input: Tokens<'_>, default: usize) {
    let context = input.context;
    let found =
        Diagnostic::warning("X136", context.span(input.at, input.at), "a case behind the default arm");
    let found = found
        .with_label("RFC 4506 has none here")
        .with_related(context.span(default, default), "the default arm");
    context.report(found.with_help("let the default arm be the last"));
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
    Reason::Expected("`case`, `default` or `}`", &["case", "default"])
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
    let found = Diagnostic::warning("X116", context.span(second, second), "an arm holds one declaration");
    let help = "nobody can mend a published document: what stands here is read as a struct of all of them";
    context.report(found.with_label("this is another").with_help(help));
    let span = context.span(input.at, last);
    declaration.docs = context.docs(input.at, second.saturating_sub(1));
    let fields = std::iter::once(declaration).chain(more.into_iter().map(|(_, field)| field)).collect();
    // Nothing gives it a name but what chooses it.
    let label = context.token(first + 1).filter(|token| token.kind == Kind::Word);
    let name = label.map_or_else(|| "fields".to_owned(), |label| label.text.to_ascii_lowercase());
    let specifier = TypeSpecifier { kind: TypeSpecifierKind::Struct(StructBody { fields }), span };
    let kind = DeclarationKind::Plain(specifier, Identifier { name, span: context.span(first, first) });
    Declaration { kind, span, docs: context.docs(first, input.at.saturating_sub(1)) }
}
