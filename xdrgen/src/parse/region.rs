//! Recognizes one definition at the start of a text that continues as prose.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::condition::Conditions;
use super::lex::lex;
use super::macros::Pasted;
use super::token::Kind;
use super::tokens::{Context, Tokens};
use super::{Dialect, def, recover};
use crate::extract::{Map, Region};
use crate::source::narrow;

pub(crate) fn region(text: &str, map: &Map, published: bool) -> Region {
    let pasted = Pasted::default();
    let lexed = lex(text, map, Conditions::default(), &pasted);
    let context = Context {
        text,
        map,
        lexed: &lexed,
        prose: true,
        published,
        dialect: Dialect::Rfc,
        found: RefCell::default(),
    };
    let input = Tokens::new(&context);
    let last = match def::definition(input) {
        Ok((_, (_, last))) => last,
        Err(error) => {
            let syntax = def::syntax_of(error, input);
            return Region::Broken(recover::diagnostic(&context, 0, syntax));
        }
    };
    let tokens = lexed.tokens.get(..=last).unwrap_or_default();
    let comment_end = context.after(last).last().map(|comment| comment.start as usize + comment.text.len());
    let end = comment_end.unwrap_or(0).max(tokens.last().map_or(0, |token| token.end() as usize));
    let limit = map.document(narrow(end));
    let words = |pick: fn(&str, &str) -> bool| {
        let windows = tokens.windows(3);
        let picked = windows.filter_map(|window| match window {
            [before, word, after] if word.kind == Kind::Word && pick(before.text, after.text) => {
                Some(word.text)
            }
            _ => None,
        });
        picked.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let sizes = words(|before, after| matches!((before, after), ("[", "]") | ("<", ">")));
    let constants =
        words(|before, after| matches!(before, "const" | "{" | ",") && matches!(after, "=" | "," | "}"));
    let key = tokens.iter().map(|token| token.text).collect::<Vec<_>>().join(" ");
    let found = context.found.into_inner().kept.into_iter().chain(lexed.diagnostics.kept.iter().cloned());
    let found = found.filter(|found| found.span.start <= limit).collect();
    Region::Definition { end, key, sizes, constants, found }
}
