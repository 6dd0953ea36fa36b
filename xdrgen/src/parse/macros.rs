//! Expands macros of four kinds:
//!
//! - macros with parameters
//! - macros whose body is neither a value nor a type (`#define HDR int h;`)
//! - macros that replace keywords (`#define long hyper`)
//! - macros that stand for types and change within a text
//!
//! A use is replaced by the tokens of the macro's body. These tokens have the position of the use, so that
//! findings point to the use. The expansions in a document process at most [`MAX_WORK`] tokens, and macros
//! nest at most [`MAX_DEPTH`] levels deep.

use std::cell::{Cell, OnceCell};

use super::token::{comment, joined_length, one_token};
use crate::ast::Expansion;
use crate::diag::{Diagnostic, Fault, Note};
use crate::hash::{HashMap, HashSet};
use crate::keywords::{is_keyword, is_word, word};
use crate::source::Span;

/// Maximum number of tokens that the expansions in a document may process.
const MAX_WORK: usize = 1 << 18;

/// Maximum nesting of macros in the bodies and arguments of macros.
const MAX_DEPTH: usize = 64;

/// Maximum number of tokens that `##` may create in a document.
const MAX_PASTED: usize = 1 << 14;

/// Maximum length in bytes of a token that `##` creates.
const MAX_TOKEN: usize = 1 << 10;

/// Maximum number of parameters of a macro: the minimum limit that the C standard permits for a compiler. The
/// limit bounds the cost of comparing each token of the body with the parameters.
const MAX_PARAMETERS: usize = 127;

/// The macros that are defined at the lexer's current position.
pub(super) struct Macros<'a> {
    known: HashMap<&'a str, Macro<'a>>,
    /// The bodies that may be types, by macro name.
    types: HashMap<&'a str, Vec<&'a str>>,
    /// The macros that stand for types and that an `#undef` removes or another `#define` replaces.
    pub(super) changing: HashSet<&'a str>,
    pasted: &'a Pasted,
    work: usize,
}

struct Macro<'a> {
    /// `None` for a macro without a parameter list.
    parameters: Option<Vec<&'a str>>,
    body: Vec<&'a str>,
    /// The position of the macro's name in the `#define`, in the extracted text.
    place: usize,
}

pub(super) struct Expanded<'a> {
    pub(super) tokens: Result<Vec<&'a str>, Fault>,
    /// The length in bytes of the arguments after the macro's name.
    pub(super) length: usize,
    /// The position of the macro's name in its `#define`, not in the use.
    pub(super) place: usize,
}

impl<'a> Macros<'a> {
    /// Creates an empty set of macros. The macros in `changing` are expanded even if they stand for types.
    pub(super) fn new(pasted: &'a Pasted, changing: HashSet<&'a str>) -> Self {
        Macros { known: HashMap::default(), types: HashMap::default(), changing, pasted, work: 0 }
    }

    /// Defines a macro, unless its parameter list is invalid or too long. A macro without a list is defined
    /// only if its body is neither a value nor a type, or if its name is a keyword. `after` is the text after
    /// the macro's name.
    pub(super) fn define(&mut self, name: &'a str, after: &'a str, place: usize) {
        self.known.remove(name);
        let (parameters, body) = match after.strip_prefix('(') {
            Some(list) => {
                let Some((list, body)) = list.split_once(')') else { return };
                let named: Vec<&str> = list.split(',').map(str::trim).collect();
                let parameters = if list.trim().is_empty() { Vec::new() } else { named };
                if parameters.len() > MAX_PARAMETERS || !parameters.iter().all(|name| is_word(name)) {
                    return;
                }
                (Some(parameters), body)
            }
            None => (None, after),
        };
        let body: Vec<&str> = Body(body).take(MAX_WORK).collect();
        if parameters.is_some() || is_keyword(name) || is_text(&body) {
            self.known.insert(name, Macro { parameters, body, place });
        }
    }

    /// Records a `#define` whose body may be a type. If the macro's meaning changes within the text, defines
    /// the macro and returns true. Without an `#undef`, a second body changes the meaning only if one of the
    /// bodies begins with a keyword. If neither does, both may be constants, and a conflict between their
    /// values is reported later.
    pub(super) fn define_type(&mut self, name: &'a str, after: &'a str, place: usize) -> bool {
        let body: Vec<&str> = Body(after).take(MAX_WORK).collect();
        if is_text(&body) || !body.iter().all(|token| word(token).is_some()) {
            return false;
        }
        let begins_type = |body: &[&str]| body.first().is_some_and(|first| is_keyword(first));
        if let Some(other) = self.types.insert(name, body.clone()).filter(|other| *other != body)
            && (begins_type(&other) || begins_type(&body))
        {
            self.changing.insert(name);
        }
        let changes = self.changing.contains(name);
        if changes {
            self.known.insert(name, Macro { parameters: None, body, place });
        }
        changes
    }

    /// Processes an `#undef`.
    pub(super) fn end(&mut self, name: &'a str) {
        if self.types.remove(name).is_some() {
            self.changing.insert(name);
        }
        self.undefine(name);
    }

    pub(super) fn undefine(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Expands a macro with the arguments at the start of `rest`. Returns `None` if `name` is not a macro, or
    /// if its arguments are missing.
    pub(super) fn expand(&mut self, name: &'a str, rest: &'a str) -> Option<Expanded<'a>> {
        let found = self.known.get(name)?;
        let place = found.place;
        let mut scan = Body(rest);
        let (mut written, mut open) = (vec![name], 0_usize);
        while found.parameters.is_some() && (open > 0 || written.len() == 1) {
            let token = scan.next().unwrap_or("");
            match token {
                "(" => open += 1,
                _ if open == 0 => return None,
                ")" => open -= 1,
                "" => return Some(Expanded { tokens: Err(Fault::Open), length: 0, place }),
                _ => {}
            }
            written.push(token);
            // Arguments that the body discards also count toward `MAX_WORK`.
            self.work += 1;
            if self.work > MAX_WORK {
                return Some(Expanded { tokens: Err(self.stop()), length: 0, place });
            }
        }
        let length = rest.len() - scan.0.len();
        let mut tokens = Vec::new();
        let done = self.replace(&written, &mut Vec::new(), 0, &mut tokens);
        if let Err(Fault::TooLong(_)) = done {
            self.stop();
        }
        Some(Expanded { tokens: done.map(|()| tokens), length, place })
    }

    /// Stops the expansion of all further macros.
    fn stop(&mut self) -> Fault {
        self.known.clear();
        Fault::TooLong(MAX_WORK)
    }

    /// Appends tokens to `out`, with macros replaced. `open` contains the macros that are being expanded.
    fn replace(
        &mut self,
        tokens: &[&'a str],
        open: &mut Vec<&'a str>,
        depth: usize,
        out: &mut Vec<&'a str>,
    ) -> Result<(), Fault> {
        let mut rest = tokens;
        while let Some((token, after)) = rest.split_first() {
            rest = after;
            self.work += 1;
            if self.work > MAX_WORK {
                return Err(Fault::TooLong(MAX_WORK));
            }
            // As in C, a macro's own name is not expanded within its expansion.
            let Some(found) = self.known.get(token).filter(|_| !open.contains(token)) else {
                out.push(token);
                continue;
            };
            let arguments = match &found.parameters {
                Some(_) if rest.first() != Some(&"(") => {
                    out.push(token);
                    continue;
                }
                Some(parameters) => {
                    let (arguments, after) = arguments(rest)?;
                    let none = arguments.len() == 1 && arguments.first().is_some_and(|one| one.is_empty());
                    let found = if none && parameters.is_empty() { 0 } else { arguments.len() };
                    if found != parameters.len() {
                        return Err(Fault::Count { expected: parameters.len(), found });
                    }
                    rest = after;
                    arguments
                }
                None => Vec::new(),
            };
            if depth == MAX_DEPTH {
                return Err(Fault::TooDeep(MAX_DEPTH));
            }
            let mut expanded = Vec::with_capacity(arguments.len());
            for argument in &arguments {
                let mut one = Vec::new();
                self.replace(argument, open, depth + 1, &mut one)?;
                expanded.push(one);
            }
            let body = self.substitute(token, &arguments, &expanded)?;
            open.push(token);
            self.replace(&body, open, depth + 1, out)?;
            open.pop();
        }
        Ok(())
    }

    /// Returns a macro's body with the arguments in place of the parameters. Arguments next to `##` are not
    /// expanded.
    fn substitute(
        &mut self,
        name: &str,
        arguments: &[&[&'a str]],
        expanded: &[Vec<&'a str>],
    ) -> Result<Vec<&'a str>, Fault> {
        let Some(Macro { parameters, body, .. }) = self.known.get(name) else { return Ok(Vec::new()) };
        let mut out: Vec<&str> = Vec::new();
        let mut pastes = false;
        for (at, token) in body.iter().enumerate() {
            if *token == "##" {
                pastes = true;
                continue;
            }
            let parameter = parameters.as_ref().and_then(|names| names.iter().position(|name| name == token));
            let written = pastes || body.get(at + 1) == Some(&"##");
            let one = std::slice::from_ref(token);
            let tokens = match parameter {
                Some(index) if written => arguments.get(index).copied().unwrap_or_default(),
                Some(index) => expanded.get(index).map_or(&[][..], Vec::as_slice),
                None => one,
            };
            self.work += tokens.len();
            if self.work > MAX_WORK {
                return Err(Fault::TooLong(MAX_WORK));
            }
            match (out.last_mut().filter(|_| pastes), tokens.split_first()) {
                (Some(last), Some((first, rest))) => {
                    if last.len() + first.len() > MAX_TOKEN {
                        return Err(Fault::LongToken(MAX_TOKEN));
                    }
                    *last =
                        self.pasted.add(format!("{last}{first}")).ok_or(Fault::TooManyPasted(MAX_PASTED))?;
                    out.extend(rest);
                }
                _ => out.extend(tokens),
            }
            pastes = false;
        }
        Ok(out)
    }
}

/// Arguments, and the tokens after their `)`.
type Arguments<'t, 'a> = (Vec<&'t [&'a str]>, &'t [&'a str]);

/// Splits the argument list at the start of `tokens`, from `(` to the matching `)`, at its outermost commas.
fn arguments<'t, 'a>(tokens: &'t [&'a str]) -> Result<Arguments<'t, 'a>, Fault> {
    let mut arguments = Vec::new();
    let (mut open, mut start) = (0_usize, 1);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" => open += 1,
            ")" => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 || open == 1 && *token == "," {
            arguments.push(tokens.get(start..at).unwrap_or_default());
            start = at + 1;
        }
        if open == 0 {
            return Ok((arguments, tokens.get(start..).unwrap_or_default()));
        }
    }
    Err(Fault::Open)
}

/// Returns true if a body is neither a value nor a type. Values and types are handled separately.
fn is_text(body: &[&str]) -> bool {
    let is_word = |token: &&str| word(token).is_some();
    let begins_type = |token: &&str| matches!(*token, "struct" | "union" | "enum");
    if body.iter().all(is_word) {
        // True for `int h`, but not for `unsigned int` or `struct s`.
        let names = body.iter().filter(|token| !is_keyword(token)).count();
        return body.is_empty()
            || names > 0 && body.len() > 1 && !(body.len() == 2 && body.first().is_some_and(begins_type));
    }
    body.first() == Some(&"<")
        || body.iter().any(|token| matches!(*token, ";" | "{" | "}" | "," | ":" | "[" | "]" | "="))
}

/// The tokens of a text, without spaces, comments and the `\` of continued lines.
struct Body<'a>(&'a str);

impl<'a> Iterator for Body<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
            if let Ok((rest, _)) = comment(self.0) {
                self.0 = rest;
            } else if self.0.starts_with("//") {
                self.0 = self.0.get(joined_length(self.0)..).unwrap_or("");
            } else {
                break;
            }
        }
        if self.0.is_empty() {
            return None;
        }
        let length = if self.0.starts_with("##") { 2 } else { one_token(self.0).1.len() };
        let (token, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(token)
    }
}

/// Adds notes about the expansion to findings at uses of macros. The uses are in source order.
pub(crate) fn explain(found: &mut [Diagnostic], expansions: &[Expansion]) {
    let place = |span: Span| (span.source, span.start);
    for found in found {
        let span = found.span;
        // A finding about a missing token after a use is at the end of the use.
        let after = expansions.partition_point(|one| place(one.span) <= place(span));
        let Some(one) = after.checked_sub(1).and_then(|at| expansions.get(at)) else { continue };
        if span.source != one.span.source || span.start > one.span.end {
            continue;
        }
        found.notes.push(Note::Expansion(one.clone()));
    }
}

/// The texts of tokens that `##` creates, which occur in no document.
#[derive(Default)]
pub(crate) struct Pasted {
    texts: OnceCell<Box<[OnceCell<String>]>>,
    count: Cell<usize>,
}

impl Pasted {
    fn add(&self, text: String) -> Option<&str> {
        let texts = self.texts.get_or_init(|| (0..MAX_PASTED).map(|_| OnceCell::new()).collect());
        let at = self.count.replace(self.count.get() + 1);
        texts.get(at).map(|slot| slot.get_or_init(|| text).as_str())
    }
}
