//! Lays tokens out as text, as rustfmt would: a line for each field, statement and item, and brackets opened up
//! where a line would be too long.
//!
//! It knows what this compiler emits and no more. Tokens that it was not made for come out as the same tokens, in lines
//! that may be long. Going through a syntax tree would give the same text and take most of a run's time.

mod source;
mod tape;

use proc_macro2::TokenStream;

use super::docs::Text;
use tape::{Kind, Role, Tape};

/// How long a line may be.
pub(super) const WIDTH: usize = 89;
/// By how much the insides of brackets are moved to the right.
pub(super) const INDENT: usize = 4;

/// The text of items, one behind the other with an empty line between any two.
#[derive(Debug, Default)]
pub(super) struct Printer {
    tape: Tape,
    out: String,
    indent: usize,
    /// Where the line begins in `out`.
    line: usize,
    /// Whether the line has nothing but its indentation yet.
    fresh: bool,
    /// Whether an attribute is being laid out: its macro may take one more comma for something else.
    in_attribute: bool,
}

impl Printer {
    /// Adds items. `3u128` in them stands for the text with that index.
    pub(super) fn print(&mut self, tokens: TokenStream, texts: Vec<Text>) {
        self.tape.load(tokens, texts);
        self.loaded();
    }

    /// Adds items that are text. In it lines of documentation and attributes with a line of their own begin at the line's
    /// start.
    pub(super) fn print_source(&mut self, text: &str) {
        self.tape.load_source(text);
        self.loaded();
    }

    fn loaded(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        (self.line, self.fresh) = (self.out.len(), true);
        self.items(0, self.tape.len());
    }

    /// All that was added.
    pub(super) fn finish(self) -> String {
        visible(self.out)
    }

    fn column(&self) -> usize {
        if self.out.len() == self.line { self.indent } else { self.out.len() - self.line }
    }

    fn begin_line(&mut self) {
        if self.out.len() == self.line {
            self.blanks();
        }
    }

    /// The indentation, which is a number of whole indents.
    fn blanks(&mut self) {
        (0..self.indent / INDENT).for_each(|_| self.out.push_str("    "));
    }

    fn write(&mut self, text: &str) {
        self.begin_line();
        self.fresh = false;
        self.out.push_str(text);
    }

    fn newline(&mut self) {
        self.out.push('\n');
        (self.line, self.fresh) = (self.out.len(), true);
    }

    /// Pieces in one line. The first has a blank before it if it stands behind something.
    fn flat(&mut self, from: usize, to: usize) {
        for index in from..to {
            self.piece(index);
        }
    }

    fn piece(&mut self, index: usize) {
        self.begin_line();
        if !self.fresh && self.tape.get(index).is_some_and(|piece| piece.spaced) {
            self.out.push(' ');
        }
        self.fresh = false;
        self.out.push_str(self.tape.text(index));
    }

    /// Items or statements.
    fn items(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let begin = at;
            let end = self.end_of_item(self.behind_attributes(at, to), to);
            if begin > from && self.stands_apart(begin, end) {
                self.newline();
            }
            at = self.attributes(begin, to);
            self.item(at, end);
            self.newline();
            at = end;
        }
    }

    /// Whether an empty line stands before an item that is not the first.
    fn stands_apart(&self, from: usize, to: usize) -> bool {
        let first = |word: &str| self.tape.is(from, word);
        let tells = matches!(self.tape.kind(from), Some(Kind::Doc | Kind::Text)) || first("#");
        let is_fn = first("fn") || first("async") && from + 1 < to && self.tape.is(from + 1, "fn");
        tells || is_fn || first("pub") || first("impl")
    }

    /// Behind documentation and attributes.
    fn behind_attributes(&self, from: usize, to: usize) -> usize {
        let mut at = from;
        while at < to {
            if matches!(self.tape.kind(at), Some(Kind::Doc | Kind::Text)) {
                at += 1;
            } else if self.tape.is(at, "#") {
                at = self.tape.after(at + 1);
            } else {
                break;
            }
        }
        at
    }

    /// Documentation and attributes, a line each. Says where they end.
    fn attributes(&mut self, from: usize, to: usize) -> usize {
        let end = self.behind_attributes(from, to);
        let mut at = from;
        while at < end {
            match self.tape.kind(at) {
                Some(Kind::Text) => {
                    self.text(at);
                    at += 1;
                }
                Some(Kind::Doc) => {
                    self.write("///");
                    self.out.push_str(self.tape.text(at));
                    self.newline();
                    at += 1;
                }
                _ => {
                    let next = self.tape.after(at + 1);
                    self.flat(at, at + 2);
                    self.in_attribute = true;
                    self.run(at + 2, next, 0);
                    self.in_attribute = false;
                    self.newline();
                    at = next;
                }
            }
        }
        end
    }

    /// Lines as they are, but for their indentation.
    fn text(&mut self, index: usize) {
        let text = self.tape.text(index);
        if self.indent == 0 {
            self.out.push_str(text);
        } else {
            for line in text.split_inclusive('\n') {
                (0..self.indent / INDENT).for_each(|_| self.out.push_str("    "));
                self.out.push_str(line);
            }
        }
        (self.line, self.fresh) = (self.out.len(), true);
    }

    /// Where an item or a statement ends: behind its semicolon or its body.
    fn end_of_item(&self, from: usize, to: usize) -> usize {
        let has_body = self.has_body(from, to);
        let mut at = from;
        while at < to {
            let next = self.tape.after(at);
            let ends = self.tape.is(at, ";") || has_body && self.tape.is(at, "{");
            if ends && !self.tape.is(next, "else") {
                return next;
            }
            at = next;
        }
        to
    }

    /// Whether the item or statement that begins here ends with the brace of its body.
    fn has_body(&self, from: usize, to: usize) -> bool {
        (from..to).find_map(|index| match self.tape.text(index) {
            "fn" | "impl" | "mod" | "trait" | "struct" | "enum" | "match" | "if" | "for" | "while"
            | "loop" => Some(true),
            "pub" | "async" | "(" | ")" | "crate" | "super" | "in" => None,
            "const" if self.tape.is(index + 1, "fn") => Some(true),
            _ => Some(false),
        }) == Some(true)
    }

    /// An item or a statement, behind its attributes.
    fn item(&mut self, from: usize, to: usize) {
        let words = ["fn", "impl", "mod", "trait", "struct", "enum", "const", "static", "let", "type", "use"];
        let keyword = (from..to.min(from + 8)).find_map(|index| {
            let found = words.iter().find(|word| self.tape.is(index, word))?;
            (*found != "const" || !self.tape.is(index + 1, "fn")).then_some(*found)
        });
        let body = self.body(from, to);
        match (keyword, body) {
            (Some("fn"), _) => self.function(from, body.unwrap_or(to), to),
            (Some("struct" | "enum"), Some(open)) => {
                self.run(from, open, 2);
                self.lines(open, Printer::fields);
            }
            (Some("impl"), Some(open)) => {
                self.implementation(from, open);
                self.lines(open, Printer::items);
            }
            (Some("mod" | "trait"), Some(open)) => {
                self.run(from, open, 2);
                self.lines(open, Printer::items);
            }
            (Some("const" | "static" | "let" | "type"), _) => match self.tape.find("=", from, to) {
                Some(equals) => {
                    self.run(from, equals + 1, 0);
                    self.expression(equals + 1, to, 0);
                }
                None => self.run(from, to, 0),
            },
            (Some(_), _) => self.run(from, to, 0),
            (None, _) => self.expression(from, to, 0),
        }
    }

    /// The head of an `impl`. The type stands in a line of its own if it does not fit behind the trait.
    fn implementation(&mut self, from: usize, body: usize) {
        let tail = " {".len();
        let Some(at) = self.tape.find("for", from, body) else { return self.run(from, body, tail) };
        self.run(from, at, 0);
        if !self.fits(at, body, tail + " ".len()) {
            self.newline();
        }
        self.run(at, body, tail);
    }

    /// The brace of an item's body, if that is its end.
    fn body(&self, from: usize, to: usize) -> Option<usize> {
        let close = self.tape.get(to.checked_sub(1)?)?;
        let is_body = close.kind == Kind::Close && close.mate > from && self.tape.is(close.mate, "{");
        is_body.then_some(close.mate)
    }

    /// A function. Its parameters have lines of their own if its head does not fit one.
    fn function(&mut self, from: usize, body: usize, to: usize) {
        let tail = if body < to { " {".len() } else { 0 };
        let parameters = self.tape.find("(", from, body).filter(|open| !self.tape.is(open - 1, "pub"));
        let parameters = parameters.or_else(|| {
            let name = self.tape.find("fn", from, body)?;
            self.tape.find("(", name, body)
        });
        match parameters {
            Some(open) if !self.fits(from, body, tail) => {
                self.flat(from, open);
                self.opened(open, true);
                self.run(self.tape.after(open), body, tail);
            }
            _ => self.flat(from, body),
        }
        if body < to {
            self.lines(body, Printer::items);
        }
    }

    /// What stands between braces, each part with lines of its own.
    fn lines(&mut self, open: usize, parts: fn(&mut Printer, usize, usize)) {
        let close = self.tape.after(open) - 1;
        self.piece(open);
        if close > open + 1 {
            self.newline();
            self.indent += INDENT;
            parts(self, open + 1, close);
            self.indent -= INDENT;
        }
        self.write(self.tape.text(close).to_owned().as_str());
    }

    /// Fields or variants.
    fn fields(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let comma = self.tape.find(",", at, to).unwrap_or(to);
            let begin = self.attributes(at, comma);
            self.run(begin, comma, 1);
            self.write(",");
            self.newline();
            at = comma + 1;
        }
    }

    /// The arms of a `match`.
    fn arms(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let begin = self.attributes(at, to);
            let arrow = self.tape.find("=>", begin, to).unwrap_or(to);
            let body = arrow + 1;
            let braced = self.tape.is(body, "{");
            let end =
                if braced { self.tape.after(body) } else { self.tape.find(",", body, to).unwrap_or(to) };
            self.flat(begin, body.min(to));
            if braced {
                self.lines(body, Printer::items);
            } else if self.tape.has_block(body, end) {
                self.expression(body, end, 1);
                self.write(",");
            } else if self.fits(body, end, " ".len()) {
                self.flat(body, end);
                self.write(",");
            } else {
                self.write(" {");
                self.newline();
                self.indent += INDENT;
                self.expression(body, end, 0);
                self.newline();
                self.indent -= INDENT;
                self.write("}");
            }
            self.newline();
            at = if self.tape.is(end, ",") { end + 1 } else { end };
        }
    }

    /// Whether pieces fit the line, and `tail` bytes behind them.
    fn fits(&self, from: usize, to: usize, tail: usize) -> bool {
        !self.tape.has_block(from, to) && self.column() + self.tape.width(from, to) + tail <= WIDTH
    }

    /// An expression, with `tail` bytes to come behind it in the same line.
    fn expression(&mut self, from: usize, to: usize, tail: usize) {
        let blank = self.tape.get(from).is_some_and(|piece| piece.spaced && !self.fresh);
        if self.fits(from, to, tail + usize::from(blank)) {
            return self.flat(from, to);
        }
        let dots: Vec<usize> = self.links(from, to);
        if dots.is_empty() || self.tape.has_block(from, to) {
            return self.run(from, to, tail);
        }
        let mut at = from;
        let outer = self.indent;
        self.begin_line();
        self.indent = outer + INDENT;
        for (dot, next) in dots.iter().zip(dots.iter().skip(1).chain([&to])) {
            self.run(at, *dot, 0);
            self.newline();
            at = *dot;
            let last = *next == to;
            self.run(at, *next, if last { tail } else { 0 });
            at = *next;
        }
        self.indent = outer;
    }

    /// The dots before which a chain of calls is broken. None stands behind a name as short as an indent.
    fn links(&self, from: usize, to: usize) -> Vec<usize> {
        let mut links = Vec::new();
        let mut at = from;
        while at < to {
            let short = at == from + 1 && self.tape.text(from).len() <= INDENT;
            if self.tape.is(at, ".") && at > from && !short {
                links.push(at);
            }
            at = self.tape.after(at);
        }
        links
    }

    /// Pieces in a line. A bracket that does not fit it, with what follows up to the next place where the line may be
    /// broken, is opened up.
    fn run(&mut self, from: usize, to: usize, tail: usize) {
        let mut at = from;
        while at < to {
            let next = self.tape.after(at);
            if next == at + 1 || next == at + 2 {
                self.flat(at, next);
            } else if self.tape.get(at).is_some_and(|piece| piece.role != Role::Plain) {
                self.block(at);
            } else {
                let (until, tail) = match (next..to).find(|&index| self.may_break(index)) {
                    Some(index) => (index + 1, 0),
                    None => (to, tail),
                };
                if self.tape.has_block(at, next) {
                    self.around_block(at);
                } else if self.fits(at, until, tail) {
                    self.flat(at, next);
                } else {
                    self.opened(at, !self.in_attribute && self.takes_comma(at));
                }
            }
            at = next;
        }
    }

    /// Whether a comma may stand behind the last part in this bracket: not in `[T; N]`, `<T as Trait>` and `{ N }`, nor where
    /// it would make a tuple of an expression, or a list of where something is visible.
    fn takes_comma(&self, open: usize) -> bool {
        let close = self.tape.after(open) - 1;
        let has = |text| self.tape.find(text, open + 1, close).is_some();
        match self.tape.text(open) {
            "[" => !has(";"),
            "<" => !has("as"),
            "{" => has(","),
            _ => has(",") || open.checked_sub(1).is_some_and(|before| self.is_called(before)),
        }
    }

    /// Whether parentheses behind this piece are of a call, of parameters, or of the fields of a tuple struct.
    fn is_called(&self, index: usize) -> bool {
        match self.tape.kind(index) {
            Some(Kind::Word | Kind::Close) => true,
            Some(Kind::Mark) => self.tape.is(index, "!"),
            _ => false,
        }
    }

    /// Whether a line may be broken behind this piece: a bracket with something in it.
    fn may_break(&self, index: usize) -> bool {
        self.tape.kind(index) == Some(Kind::Open) && self.tape.after(index) > index + 2
    }

    fn block(&mut self, open: usize) {
        match self.tape.get(open).map(|piece| piece.role) {
            Some(Role::Arms) => self.lines(open, Printer::arms),
            _ => self.lines(open, Printer::items),
        }
    }

    /// A bracket with a block in it: the block stands in the line if it is alone.
    fn around_block(&mut self, open: usize) {
        let close = self.tape.after(open) - 1;
        if self.tape.find(",", open + 1, close).is_some() {
            return self.opened(open, true);
        }
        self.piece(open);
        self.expression(open + 1, close, 0);
        self.piece(close);
    }

    /// A bracket, with a line for each of the parts in it.
    fn opened(&mut self, open: usize, trailing: bool) {
        let close = self.tape.after(open) - 1;
        self.piece(open);
        self.newline();
        self.indent += INDENT;
        let mut at = open + 1;
        while at < close {
            let comma = self.tape.find(",", at, close).unwrap_or(close);
            let begin = self.attributes(at, comma);
            // The comma that stands there only since lines were broken may stand behind the limit.
            self.expression(begin, comma, usize::from(comma < close));
            if comma < close || trailing {
                self.write(",");
            }
            self.newline();
            at = comma + 1;
        }
        self.indent -= INDENT;
        self.write(self.tape.text(close).to_owned().as_str());
    }
}

/// Text without the signs that have a part of it shown elsewhere than where it stands: a compiler refuses them, and a reader
/// should see them.
fn visible(text: String) -> String {
    let is_hidden = |sign: char| matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // The first byte of each of them, which little else has.
    if !text.as_bytes().contains(&0xe2) || !text.contains(is_hidden) {
        return text;
    }
    let mut seen = String::with_capacity(text.len());
    for sign in text.chars() {
        if is_hidden(sign) { seen.extend(sign.escape_unicode()) } else { seen.push(sign) }
    }
    seen
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn laid_out(tokens: TokenStream) -> String {
        let mut printer = Printer::default();
        printer.print(tokens, Vec::new());
        printer.finish()
    }

    #[test]
    fn parts_have_lines_of_their_own() {
        let text = laid_out(quote! {
            #[doc = " It's \"so\", \\ and \u{e9}.  "]
            #[derive(Clone, Debug)]
            pub struct Pair<'a, T: Copy> { #[xdr(max = 4)] pub r#type: &'a [T], pub one: (u8,), pub none: () }
        });
        let expected = "/// It's \"so\", \\ and \u{e9}.\n#[derive(Clone, Debug)]\npub struct Pair<'a, T: Copy> {\n    \
                        #[xdr(max = 4)]\n    pub r#type: &'a [T],\n    pub one: (u8,),\n    pub none: (),\n}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn documentation_that_is_no_comment_stays_an_attribute() {
        assert_eq!(
            laid_out(quote!(
                #[doc = "/ x"]
                struct A;
            )),
            "#[doc = \"/ x\"]\nstruct A;\n"
        );
        assert_eq!(
            laid_out(quote!(
                #[doc = "a\nb"]
                struct A;
            )),
            "#[doc = \"a\\nb\"]\nstruct A;\n"
        );
        assert_eq!(
            laid_out(quote!(
                #[doc(alias = "b")]
                struct A;
            )),
            "#[doc(alias = \"b\")]\nstruct A;\n"
        );
    }

    #[test]
    fn what_is_too_long_is_broken_as_a_formatter_breaks_it() {
        for tokens in [
            quote! {
                impl<C: program::Caller<SomeProgramOfAVersion>, D: program::Caller<Other>> Client<C, D> {
                    const NAMES: &'static [(u32, &'static str)] =
                        &[(1, "a name that is long"), (-2, "another name that is long"), (3, "third")];
                    pub fn first(&self, context: &'static program::CallContext, args: super::Arguments) -> u32 { 0 }
                    pub async fn second(&self) -> Result<super::SomethingWithALongName, C::ErrorWithALongName> {
                        let _ = context;
                        self.0.call::<proc::SomethingWithALongName>(arguments, more_arguments, others).await
                    }
                    fn third<'a>(&'a self, reply: &'a mut Reducer) -> Pin<Box<dyn Future<Output = Result<(), Reject>>>> {
                        Box::pin(async move {
                            match context.procedure {
                                0 => answer(args, reply, |args| self.0.method(context, args)).await,
                                1 => answer(args, reply, |args| self.0.method_of_a_longer_name(context, args)).await,
                                2 => { none(); }
                                _ => Err(Reject),
                            }
                        })
                    }
                }
            },
            quote! {
                #[xdr(case = "nfsstat4::an_error", case = "nfsstat4::another_error", case = "nfsstat4::one_more")]
                pub struct Name(#[xdr(list)] #[xdr(max = A_CONSTANT_WITH_A_LONG_NAME)] pub Vec<SomeTypeThatHasALongName>);
            },
            quote! {
                impl<'a> ::core::convert::From<ListOfReferences<'a, SomethingWithALongName<'a>>> for SomethingElse<'a> {}
            },
            quote! {
                pub trait Handler: Send + Sync + 'static {
                    fn one(&self) -> impl Future<Output = Result<super::SomethingWithALongNameIndeed, Reject>> + Send;
                }
            },
        ] {
            let file = syn::parse2(tokens.clone()).expect("items");
            let text = laid_out(tokens);
            let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
            let formatted = prettyplease::unparse(&file);
            assert_eq!(lines, formatted.lines().collect::<Vec<_>>(), "\n{text}");
        }
    }

    /// What a macro reads to the end of its brackets must not end in a comma that nobody wrote.
    #[test]
    fn attributes_keep_their_tokens() {
        let text = laid_out(quote! {
            pub enum A {
                #[cfg_attr(feature = "arbitrary", arbitrary(with = ::some::path::one_of(&[First::Label, Second::Label])))]
                B(#[cfg_attr(feature = "arbitrary", arbitrary(with = ::some::path::of_a_function::one_of(&[First::Label])))] u8),
            }
        });
        let tokens: TokenStream = text.parse().expect("tokens");
        assert!(!tokens.to_string().replace(' ', "").contains("),)"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn text_is_laid_out_as_its_tokens_are() {
        for tokens in [
            quote! {
                #[xdr(case = "a::b", case = "a \"quoted\\\" text")] #[derive(Clone, Debug)]
                pub struct Pair<'a, T: Copy>(#[xdr(max = 4)] pub &'a [T], pub r#type::Name<{ A }>, pub [u8; B as usize]);
            },
            quote! {
                impl<'a> ::core::convert::From<Vec<Option<Box<Name<'a>>>>> for Another<'a> {
                    fn from(value: Vec<Option<Box<Name<'a>>>>) -> Self { Another(value, -5, 'c', '\'', 0x10) }
                }
            },
            quote! { pub enum E { A = -1, B = 2147483647, C(super::super::Name, u32), } pub const D: u64 = 1; },
        ] {
            let mut printer = Printer::default();
            printer.print_source(&tokens.to_string());
            assert_eq!(printer.finish(), laid_out(tokens));
        }
    }

    #[test]
    fn lines_of_their_own_stay_lines() {
        let mut printer = Printer::default();
        let long = "#[xdr(case = \"First::Label\", case = \"First::Other\", case = \"First::AndAThirdOfAllOfThem\")]";
        printer.print_source(&format!("/// A.\n///\n#[repr(i32)]\npub enum A {{\n/// `b`\n{long}\nB,\n}}\n"));
        let (first, others) = long.split_at("#[xdr(".len());
        let others = others.trim_end_matches(")]").replace(", ", ",\n        ");
        let expected = format!(
            "/// A.\n///\n#[repr(i32)]\npub enum A {{\n    /// `b`\n    {first}\n        {others}\n    )]\n    B,\n}}\n"
        );
        assert_eq!(printer.finish(), expected);
    }

    #[test]
    fn items_stand_apart_and_constants_and_imports_together() {
        let text = laid_out(quote! {
            pub mod a { use b::{self, c}; use d::e; pub struct A; impl B for A { const C: u8 = 1; const D: u8 = 2; fn e() {} } }
        });
        let expected = "pub mod a {\n    use b::{self, c};\n    use d::e;\n\n    pub struct A;\n\n    impl B for A {\n        \
                        const C: u8 = 1;\n        const D: u8 = 2;\n\n        fn e() {}\n    }\n}\n";
        assert_eq!(text, expected);
    }
}
