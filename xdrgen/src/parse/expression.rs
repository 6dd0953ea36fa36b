//! The subset of the C preprocessor's arithmetic that `#if` and the values of `#define` use.

use super::token::number;
use crate::keywords::first_word;

/// Maximum nesting depth of operands. An operand that has no sign and is not in parentheses has depth 1.
const MAX_DEPTH: usize = 64;

/// Evaluates an expression. `value` returns the value of a name, if it has one. `is_defined` evaluates
/// `defined`, if this kind of expression supports it.
///
/// Returns `None` if the expression is malformed or nests too deeply. Also returns `None` on overflow,
/// division by zero, a shift distance outside 0 to 63, or a name without a value. An operand that C does not
/// evaluate, such as `x` in `0 && x`, only has to be well-formed.
pub(crate) fn evaluate(
    text: &str,
    value: &dyn Fn(&str) -> Value,
    is_defined: Option<&dyn Fn(&str) -> bool>,
) -> Option<i128> {
    let mut reader = Reader { rest: text, value, is_defined, depth: 0 };
    let value = reader.binary(0)?;
    if reader.next().is_none() { value } else { None }
}

/// The value of a name or of a well-formed expression; `None` if the name has no value, or the expression's
/// value cannot be computed.
type Value = Option<i128>;

struct Reader<'a> {
    rest: &'a str,
    value: &'a dyn Fn(&str) -> Value,
    is_defined: Option<&'a dyn Fn(&str) -> bool>,
    depth: usize,
}

/// Binary operators and their precedence. Operators of two characters come first, since the first match is
/// used.
const OPERATORS: &[(&str, u8)] = &[
    ("||", 1),
    ("&&", 2),
    ("==", 6),
    ("!=", 6),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("<", 7),
    (">", 7),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl<'a> Reader<'a> {
    /// Skips white space and `\`. Returns the remaining text, or `None` at the end.
    fn next(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
        (!self.rest.is_empty()).then_some(self.rest)
    }

    fn take(&mut self, mark: &str) -> Option<()> {
        self.rest = self.next()?.strip_prefix(mark)?;
        Some(())
    }

    /// Evaluates an operand and the operators that follow, up to an operator whose precedence is at most
    /// `level`. Returns `None` if the expression is malformed or nests too deeply.
    fn binary(&mut self, level: u8) -> Option<Value> {
        let mut left = self.unary()?;
        while let Some(rest) = self.next() {
            let Some((mark, tight)) = OPERATORS.iter().find(|(mark, _)| rest.starts_with(mark)) else {
                break;
            };
            if *tight <= level {
                break;
            }
            self.take(mark)?;
            let right = self.binary(*tight)?;
            left = apply(mark, left, right);
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Value> {
        self.depth += 1;
        let value = if self.depth > MAX_DEPTH { None } else { self.primary() };
        self.depth -= 1;
        value
    }

    fn primary(&mut self) -> Option<Value> {
        let rest = self.next()?;
        match rest.chars().next()? {
            '(' => {
                self.take("(")?;
                let value = self.binary(0)?;
                self.take(")")?;
                Some(value)
            }
            '!' => self.sign("!", |value| Some(i128::from(value == 0))),
            '-' => self.sign("-", i128::checked_neg),
            '+' => self.sign("+", Some),
            '~' => self.sign("~", |value| Some(!value)),
            c if c.is_ascii_digit() => number(self.word().trim_end_matches(['u', 'U', 'l', 'L'])).map(Some),
            _ => self.name(),
        }
    }

    fn sign(&mut self, mark: &str, apply: impl FnOnce(i128) -> Value) -> Option<Value> {
        self.take(mark)?;
        Some(self.unary()?.and_then(apply))
    }

    /// Evaluates a name, `defined NAME` or `defined(NAME)`.
    fn name(&mut self) -> Option<Value> {
        let name = self.word();
        if name.is_empty() {
            return None;
        }
        if name != "defined" {
            return Some((self.value)(name));
        }
        let inside = self.next()?.starts_with('(');
        if inside {
            self.take("(")?;
        }
        self.next()?;
        let name = self.word();
        if inside {
            self.take(")")?;
        }
        if name.is_empty() { None } else { Some(self.is_defined.map(|of| i128::from(of(name)))) }
    }

    fn word(&mut self) -> &'a str {
        let word = first_word(self.rest);
        self.rest = self.rest.trim_start().get(word.len()..).unwrap_or("");
        word
    }
}

fn apply(mark: &str, left: Value, right: Value) -> Value {
    // As in C, a left operand that determines the result makes the right operand irrelevant.
    let left = left?;
    match mark {
        "&&" if left == 0 => return Some(0),
        "||" if left != 0 => return Some(1),
        _ => {}
    }
    let right = right?;
    let shift = || u32::try_from(right).ok().filter(|bits| *bits < 64);
    match mark {
        // The left operand did not determine the result.
        "||" | "&&" => Some(i128::from(right != 0)),
        "==" => Some(i128::from(left == right)),
        "!=" => Some(i128::from(left != right)),
        "<=" => Some(i128::from(left <= right)),
        ">=" => Some(i128::from(left >= right)),
        "<" => Some(i128::from(left < right)),
        ">" => Some(i128::from(left > right)),
        "<<" => left.checked_mul(1_i128.checked_shl(shift()?)?),
        ">>" => left.checked_shr(shift()?),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    fn evaluate(text: &str) -> Option<i128> {
        super::evaluate(text, &|name| (name == "N").then_some(1500), Some(&|name| name == "N"))
    }

    #[test]
    fn operators_bind_as_they_do_in_c() {
        for (text, value) in [
            ("1 + 2 * 3", 7),
            ("(N - 28 - 8)", 1464),
            ("1 << 4 | 3", 19),
            ("10 - 4 - 3", 3),
            ("0x10 % 6", 4),
            ("-1", -1),
            ("!0 && ~0 == -1", 1),
            ("defined(N) && !defined M", 1),
            ("1UL", 1),
            ("017", 15),
            ("2 > 1 == 1", 1),
            ("defined(M) && 10 / M > 2", 0),
            ("defined(N) || 1 / 0", 1),
        ] {
            assert_eq!(evaluate(text), Some(value), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_have_no_value() {
        for text in [
            "",
            "1 +",
            "(1",
            "1 2",
            "M",
            "1 / 0",
            "1 && 1 / 0",
            "0 && (1",
            "0 && 09",
            "0 && defined()",
            "\"x\"",
            "defined()",
            "1 << 64",
            "09",
            "a.b",
            "#",
        ] {
            assert_eq!(evaluate(text), None, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
        assert_eq!(evaluate(&"-".repeat(100_000)), None);
    }
}
