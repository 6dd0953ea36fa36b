//! The C preprocessor's conditions, as far as files for rpcgen have them.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::diag::Diagnostic;
use crate::extract::Map;

/// One `#if` that is open.
#[derive(Clone, Debug)]
struct Open {
    /// Whether the text around it counts.
    outer: bool,
    /// Whether the present branch counts.
    active: bool,
    /// Whether a branch has counted already.
    taken: bool,
    /// Where the `#if` stands.
    place: Range<u32>,
}

/// Which names are defined, and which conditions are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    defined: BTreeSet<String>,
    open: Vec<Open>,
    found: Vec<(Range<u32>, &'static str, &'static str)>,
}

impl Conditions {
    pub(crate) fn new(defined: &BTreeSet<String>) -> Self {
        Conditions { defined: defined.clone(), ..Conditions::default() }
    }

    /// Whether the text counts here.
    pub(crate) fn active(&self) -> bool {
        self.open.last().is_none_or(|open| open.active)
    }

    pub(crate) fn define(&mut self, name: &str) {
        self.defined.insert(name.to_owned());
    }

    /// One directive; those without a condition (`include`, `pragma`) say nothing to XDR.
    pub(crate) fn directive(&mut self, word: &str, argument: &str, place: Range<u32>) {
        match word {
            "ifdef" | "ifndef" | "if" => {
                let outer = self.active();
                let active = outer && self.holds(word, argument, &place);
                self.open.push(Open { outer, active, taken: active, place });
            }
            "elif" => {
                let holds = self.holds("if", argument, &place);
                self.branch(&place, holds);
            }
            "else" => self.branch(&place, true),
            "endif" => self.close(place),
            "undef" if self.active() => {
                self.defined.remove(argument.trim());
            }
            _ => {}
        }
    }

    fn branch(&mut self, place: &Range<u32>, holds: bool) {
        let Some(open) = self.open.last_mut() else {
            return self.found.push((place.clone(), "an `#else` without its `#if`", "remove it"));
        };
        open.active = open.outer && !open.taken && holds;
        open.taken |= open.active;
    }

    fn close(&mut self, place: Range<u32>) {
        if self.open.pop().is_none() {
            self.found.push((place, "an `#endif` without its `#if`", "remove it"));
        }
    }

    fn holds(&mut self, word: &str, argument: &str, place: &Range<u32>) -> bool {
        let argument = argument.split("/*").next().unwrap_or("").trim();
        match word {
            "ifdef" => self.defined.contains(argument),
            "ifndef" => !self.defined.contains(argument),
            _ => self.expression(argument).unwrap_or_else(|| {
                let help = "write it with `defined(NAME)`, `!`, `&&` and `||`";
                self.found.push((place.clone(), "a condition is not understood, and taken as true", help));
                true
            }),
        }
    }

    /// `a || b && !c`, without parentheses but those of `defined(NAME)`.
    fn expression(&self, text: &str) -> Option<bool> {
        let mut any = false;
        for alternative in text.split("||") {
            let mut all = true;
            for term in alternative.split("&&") {
                all &= self.term(term)?;
            }
            any |= all;
        }
        Some(any)
    }

    fn term(&self, text: &str) -> Option<bool> {
        let inner = text.trim().trim_start_matches(['!', ' ']);
        let negated = text.len() - text.replace('!', "").len();
        let name = inner.strip_prefix("defined").map_or(inner, |rest| {
            let rest = rest.trim();
            rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest).trim()
        });
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let value = match name.bytes().next().filter(|_| is_name)? {
            b'0'..=b'9' => name.parse::<u64>().ok()? != 0,
            _ => self.defined.contains(name),
        };
        Some(value != (negated % 2 == 1))
    }

    /// What was wrong with the conditions of a whole text.
    pub(crate) fn finish(self, map: &Map) -> Vec<Diagnostic> {
        let warning = |place: Range<u32>, message, help| {
            Diagnostic::warning("X105", map.span(place), message).with_help(help)
        };
        let unclosed = self.open.into_iter().map(|open| {
            let found = Diagnostic::error("X106", map.span(open.place), "a condition is never closed");
            found.with_label("it begins here").with_help("end it with `#endif`")
        });
        let found = self.found.into_iter().map(|(place, message, help)| warning(place, message, help));
        found.chain(unclosed).collect()
    }
}
