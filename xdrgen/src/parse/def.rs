//! Definitions (RFC 4506 section 6.3) and complete texts.

use std::ops::Range;

use nom::combinator::{cut, map};
use nom::{Input, Parser};

use super::Dialect;
use super::decl::{declaration, enum_body, is_zcopaque, struct_body, union_body, value};
use super::docs::clean;
use super::program::program_def;
use super::recover;
use super::token::{Comment, Kind, OtherLine};
use super::tokens::{
    Context, Parse, Reason, Syntax, Tokens, end_of_declaration, fail, identifier, path, refuse, semicolon,
    token, warn,
};
use crate::ast::{
    ConstDef, Declaration, Definition, DefinitionKind, Identifier, Multiplicity, Namespace, Specification,
    TypeSpecifier, TypeSpecifierKind,
};
use crate::diag::{self, Diagnostic, Expected, Open, PortabilityKind, PreprocessorKind, SyntaxKind};
use crate::extract::Extract;
use crate::keywords::DEFINITIONS;
use crate::namespace::join;
use crate::source::Span;

/// Parses all definitions of a text. After an error, parsing continues at the next definition.
pub(crate) fn specification(context: &Context<'_>, extract: &Extract) -> Specification {
    let mut input = Tokens::new(context);
    let mut c_lines = context.lexed.c_lines.iter().peekable();
    let mut definitions = Vec::new();
    // True after a broken definition. Its remaining tokens are skipped without a report.
    let mut broken = false;
    // True after text that does not begin a definition. Further text of this kind is not reported.
    let mut is_lost = false;
    let mut omitted = Vec::new();
    let gaps = gaps(context);
    let mut unread = Unread::default();
    let mut namespaces = Namespaces::default();
    while input.input_len() > 0 {
        while let Some(line) = c_lines.next_if(|line| line.before <= input.at) {
            definitions.push(other_line(context, extract, line));
        }
        if let Some(rest) = namespaces.step(input, broken) {
            (input, broken, is_lost) = (rest, false, false);
            continue;
        }
        if input.word(0) == ";" || broken && recover::is_rest_of_broken(context, input.at) {
            unread.add(input.at, input.at + 1);
            input = input.take_from(1);
            continue;
        }
        let mark = context.found.borrow().mark();
        match definition(input) {
            Ok((rest, (kind, last))) => {
                definitions.push(finish(context, extract, kind, input.at, last));
                (input, broken, is_lost) = (rest, false, false);
            }
            Err(error) => {
                let syntax = syntax_of(error, input);
                // Warnings about an invalid definition are dropped.
                context.found.borrow_mut().roll_back(mark);
                let found = recover::diagnostic(context, input.at, syntax);
                let resume = recover::resume(context, input.at, syntax).at.max(input.at + 1);
                let names = recover::names(context, input.at, resume).into_iter();
                let names: Vec<String> = names.map(|name| join(namespaces.path(), &name)).collect();
                let name = names.first().map_or("", String::as_str);
                // Text that does not begin like a definition may be a program with a misspelled keyword.
                let is_program = input.word(0) == "program" || !DEFINITIONS.contains(&input.word(0));
                let found = found.with_omitted(name, is_program);
                let begins = matches!(
                    found.kind,
                    diag::Kind::Syntax(SyntaxKind::Unexpected { .. } | SyntaxKind::Missing { .. })
                );
                let was_lost = std::mem::replace(&mut is_lost, syntax.at == input.at && begins);
                let is_reported = was_lost && is_lost || is_text_missing(context, &gaps, input.at, syntax.at);
                if !is_reported {
                    context.report(found);
                }
                omitted.extend(names);
                unread.add(input.at, resume);
                input = input.from(resume);
                broken = true;
            }
        }
    }
    definitions.extend(c_lines.map(|line| other_line(context, extract, line)));
    let unread = unread.spans(context);
    let namespaces = namespaces.finish(context);
    Specification { definitions, omitted, unread, namespaces, ..Specification::default() }
}

/// Returns the positions of unclosed comments, and of macros that cannot be expanded.
fn gaps(context: &Context<'_>) -> Vec<u32> {
    let lacks = |found: &&Diagnostic| {
        matches!(
            found.kind,
            diag::Kind::Syntax(SyntaxKind::OpenComment)
                | diag::Kind::Preprocessor(PreprocessorKind::Macro { .. })
        )
    };
    let found = context.lexed.diagnostics.kept.iter().filter(lacks);
    found.map(|found| found.span.start).collect()
}

/// Maximum length in bytes of the qualified name of a namespace.
const MAX_PATH: usize = 255;

#[derive(Default)]
struct Namespaces {
    all: Vec<Namespace>,
    /// The open namespaces: their indices in `all`, and the token indices of their `{`.
    open: Vec<(usize, usize)>,
}

impl Namespaces {
    fn path(&self) -> &str {
        self.open.last().and_then(|(open, _)| self.all.get(*open)).map_or("", |around| &around.path)
    }

    /// Parses `namespace a {`, or the `}` of a namespace. After a broken definition, a `}` belongs to that
    /// definition, unless the `}` begins a line and is the next token after the definition's `};`.
    fn step<'a>(&mut self, input: Tokens<'a>, broken: bool) -> Option<Tokens<'a>> {
        let context = input.context;
        if input.word(0) == "}" && (!broken || is_after_body(input)) {
            let (closed, _) = self.open.pop()?;
            let namespace = self.all.get_mut(closed)?;
            namespace.span = namespace.span.to(context.span(input.at, input.at));
            return Some(input.take_from(1));
        }
        let (rest, name) = path(input.take_from(1)).ok().filter(|_| input.word(0) == "namespace")?;
        let (rest, open) = token("{")(rest).ok()?;
        let outer = self.open.last().map(|(outer, _)| *outer);
        let around = self.path();
        let mut path = join(around, &name.name);
        if path.len() > MAX_PATH {
            context.report(SyntaxKind::LongPath { max: MAX_PATH }.at(name.span));
            path = around.to_owned();
        }
        let end = context.lexed.tokens.len().saturating_sub(1);
        self.open.push((self.all.len(), open));
        self.all.push(Namespace { path, span: context.span(input.at + 1, end), outer });
        Some(rest)
    }

    /// Returns all namespaces. Reports an unclosed namespace, unless an error may have hidden its end.
    fn finish(self, context: &Context<'_>) -> Vec<Namespace> {
        let has_errors = context.found.borrow().has_errors();
        if let Some((_, open)) = self.open.last().filter(|_| !has_errors) {
            let end = context.lexed.tokens.len();
            let open = Some(context.span(*open, *open));
            let found = SyntaxKind::NoCloseBrace { open, of: Open::Namespace };
            context.report(found.at(context.position_after(end)));
        }
        self.all
    }
}

/// Returns true if a `}` begins a line, is the next token after a `};`, and is not part of another `};`.
fn is_after_body(input: Tokens<'_>) -> bool {
    let before = |back: usize| input.at.checked_sub(back).map_or("", |at| input.context.word(at));
    input.peek(0).is_some_and(|token| token.first)
        && input.word(1) != ";"
        && before(1) == ";"
        && before(2) == "}"
}

#[derive(Default)]
struct Unread(Vec<Range<usize>>);

impl Unread {
    fn add(&mut self, start: usize, end: usize) {
        match self.0.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.0.push(start..end),
        }
    }

    /// Returns the positions of the unread tokens, and of text that the lexer skipped.
    fn spans(self, context: &Context<'_>) -> Vec<Span> {
        let tokens = self.0.into_iter().map(|run| context.span(run.start, run.end.saturating_sub(1)));
        let bytes = context.lexed.unread.iter().map(|bytes| context.map.span(bytes.clone()));
        tokens.chain(bytes).collect()
    }
}

/// Returns true if text is missing at one of `places`, between the start of a definition and its error. The
/// finding about the missing text has already been reported, and explains the error.
fn is_text_missing(context: &Context<'_>, places: &[u32], start: usize, failed: usize) -> bool {
    let begins = |at: usize| context.span(at, at).start;
    let place = places.get(places.partition_point(|place| *place <= begins(start)));
    place.is_some_and(|place| context.token(failed).is_none() || *place < begins(failed))
}

pub(crate) fn syntax_of(error: nom::Err<Syntax>, input: Tokens<'_>) -> Syntax {
    match error {
        nom::Err::Error(syntax) | nom::Err::Failure(syntax) => syntax,
        nom::Err::Incomplete(_) => Syntax { at: input.at, reason: Reason::Expected(Expected::Other, &[]) },
    }
}

/// Parses a definition. Also returns the index of the definition's last token.
pub(crate) fn definition(input: Tokens<'_>) -> Parse<'_, (DefinitionKind, usize)> {
    let (rest, kind) = match input.word(0) {
        "const" => constant_def(input)?,
        "program" => map(program_def, DefinitionKind::Program).parse(input)?,
        "opaque_union" if input.context.dialect == Dialect::Xdrzcc => type_def(input)?,
        word if DEFINITIONS.contains(&word) => type_def(input)?,
        _ => return Err(refuse(input, Reason::Expected(Expected::Definition, DEFINITIONS))),
    };
    let (rest, last) = end_of_definition(rest, &kind)?;
    Ok((rest, (kind.without_typedef_of_body(), last)))
}

/// Parses a constant. A string constant (rpcgen) is only for C and is passed through.
fn constant_def(input: Tokens<'_>) -> Parse<'_, DefinitionKind> {
    let (rest, _) = token("const")(input)?;
    let (rest, name) = cut(identifier).parse(rest)?;
    let (rest, _) = cut(token("=")).parse(rest)?;
    if let Some(found) = rest.peek(0).filter(|found| found.kind == Kind::Text) {
        warn(rest, |span| PortabilityKind::TextConstant.at(span));
        let line = format!("#define {} {}", name.name, found.text);
        return Ok((rest.take_from(1), DefinitionKind::PassThrough(line)));
    }
    let (rest, value) = cut(value).parse(rest)?;
    Ok((rest, DefinitionKind::Const(ConstDef { name, value })))
}

fn type_def(input: Tokens<'_>) -> Parse<'_, DefinitionKind> {
    let next = input.take_from(1);
    match input.word(0) {
        // The type in a typedef cannot be `void` or xdrzcc's `zcopaque`.
        "typedef" if next.word(0) == "void" || is_zcopaque(next) => {
            Err(fail(next, Reason::Expected(Expected::Type, &[])))
        }
        "typedef" => cut(map(declaration, DefinitionKind::Typedef)).parse(next),
        "enum" => {
            cut(map((identifier, enum_body), |(name, body)| DefinitionKind::Enum(name, body))).parse(next)
        }
        "struct" if next.word(0) == "*" => cut(linked_struct).parse(input),
        "struct" => {
            cut(map((identifier, struct_body), |(name, body)| DefinitionKind::Struct(name, body))).parse(next)
        }
        word => {
            let (rest, (name, mut body)) = cut((identifier, union_body)).parse(next)?;
            if word == "opaque_union" {
                let arms = body.arms.iter_mut().map(|arm| &mut arm.declaration);
                arms.chain(&mut body.default).for_each(sized);
            }
            Ok((rest, DefinitionKind::Union(name, Box::new(body))))
        }
    }
}

/// Converts an arm of xdrzcc's `opaque_union` to opaque data that contains the encoded arm. On the wire, the
/// length of the arm precedes the arm.
fn sized(arm: &mut Declaration) {
    match (&arm.specifier.kind, &arm.multiplicity) {
        // Variable-length opaque data stays unchanged: its own length is the arm's length.
        (TypeSpecifierKind::Opaque, Multiplicity::Variable(_)) => return,
        (TypeSpecifierKind::Named(of), Multiplicity::One) => {
            arm.docs.push(format!("Contains an encoded {}.", of.name));
        }
        _ => {}
    }
    let span = arm.span;
    arm.name.get_or_insert_with(|| Identifier { name: "body".to_owned(), span });
    arm.specifier.kind = TypeSpecifierKind::Opaque;
    arm.multiplicity = Multiplicity::Variable(None);
}

/// Parses `struct *name { ... }`, defined in RFC 1014 and used in RFC 1094 and RFC 1833. The name denotes
/// optional data of that structure, which modern XDR writes as `typedef struct { ... } *name`.
fn linked_struct(input: Tokens<'_>) -> Parse<'_, DefinitionKind> {
    let (rest, name) = identifier(input.take_from(2))?;
    let (rest, body) = struct_body(rest)?;
    let span = input.context.span(input.at, rest.at.saturating_sub(1));
    let specifier = TypeSpecifier { kind: TypeSpecifierKind::Struct(body), span };
    let declaration = Declaration {
        specifier,
        name: Some(name),
        multiplicity: Multiplicity::Optional,
        span,
        docs: Vec::new(),
        eligible: false,
    };
    Ok((rest, DefinitionKind::Typedef(declaration)))
}

/// Parses the `;` of a definition. A name between a body's `}` and the `;`, as in RFC 5531, is ignored.
fn end_of_definition<'a>(input: Tokens<'a>, kind: &DefinitionKind) -> Parse<'a, usize> {
    let context = input.context;
    let body =
        matches!(kind, DefinitionKind::Enum(..) | DefinitionKind::Struct(..) | DefinitionKind::Union(..));
    if body && input.word(1) == ";" && identifier(input).is_ok() {
        warn(input, |span| PortabilityKind::NameAfterBody.at(span));
        return Ok((input.take_from(2), input.at + 1));
    }
    let elsewhere = input.peek(0).is_none_or(|found| found.first && context.prose)
        || input.peek(0).is_some() && recover::begins_definition(context, input.at);
    if input.word(0) != ";" && elsewhere {
        context.report(SyntaxKind::NoSemicolon.at(context.position_after(input.at)));
        return Ok((input, input.at.saturating_sub(1)));
    }
    if matches!(kind, DefinitionKind::Typedef(_)) { end_of_declaration(input) } else { semicolon(input) }
}

pub(crate) fn finish(
    context: &Context<'_>,
    extract: &Extract,
    kind: DefinitionKind,
    first: usize,
    last: usize,
) -> Definition {
    let span = context.span(first, last);
    let start = context.token(first).map_or(0, |token| token.start as usize);
    let end = context.token(last).map_or(start, |token| context.lexed.end(token) as usize);
    let column = context.token(first).map_or(0, |token| token.column as usize);
    let text = dedent(context.text.get(start..end).unwrap_or(""), column);
    let section = extract.section(span.start).map(str::to_owned);
    Definition { kind, span, docs: docs(context, first, last), section, text }
}

/// Returns the comments directly before a definition, after its first `{`, and after its end. Excludes
/// copyright notices, and comments above such a notice.
fn docs(context: &Context<'_>, first: usize, last: usize) -> Vec<String> {
    let before: Vec<&Comment<'_>> = context.before(first).collect();
    let mut next = context.token(first).map_or(0, |token| token.start as usize);
    let mut kept = Vec::new();
    for comment in before.into_iter().rev() {
        let end = comment.start as usize + comment.text.len();
        let lines = context.text.get(end..next).unwrap_or("").matches('\n').count();
        // One blank line may separate a definition from its comment. Comments of one block are adjacent.
        let max = if kept.is_empty() { 2 } else { 1 };
        if lines > max || comment.text.contains("Copyright") {
            break;
        }
        kept.push(comment);
        next = comment.start as usize;
    }
    let open = (first..last).find(|at| context.word(*at) == "{");
    let inside = open.into_iter().flat_map(|open| context.after(open));
    let all = kept.into_iter().rev().chain(inside).chain(context.after(last));
    all.filter_map(|comment| clean(comment.text)).collect()
}

/// Removes the indentation of the first line from all lines.
fn dedent(text: &str, column: usize) -> String {
    let mut lines = text.lines();
    let mut dedented = String::with_capacity(text.len());
    dedented.push_str(lines.next().unwrap_or("").trim_end());
    for line in lines {
        let blanks = line.bytes().take(column).take_while(|byte| *byte == b' ').count();
        dedented.push('\n');
        dedented.push_str(line.get(blanks..).unwrap_or("").trim_end());
    }
    dedented
}

fn other_line(context: &Context<'_>, extract: &Extract, line: &OtherLine) -> Definition {
    let span = context.map.span(line.start..line.end);
    let text = context.text.get(line.start as usize..line.end as usize).unwrap_or("").to_owned();
    let section = extract.section(span.start).map(str::to_owned);
    Definition { kind: line.kind.clone(), span, docs: Vec::new(), section, text }
}
