//! Rust names, idiomatic and unique in each scope.

use crate::hash::{HashMap, HashSet};
use crate::source::narrow;

/// The style of the Rust names of a document's definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Names {
    /// Rust's conventions: `Read3Args`, `obj_attributes`, `Nfsstat3::Nfs3Ok`.
    #[default]
    Rust,
    /// The names of the document: `READ3args`, `nfsstat3::NFS3_OK`. Modules follow Rust's conventions.
    Verbatim,
}

impl Names {
    /// Returns the name of a type, or of the type that represents a version or a procedure. For an inline
    /// body, `name` contains the names on the path to the body, joined by `.`.
    #[must_use]
    pub fn of_type(self, name: &str) -> String {
        match self {
            // A `.` separates words as `_` does.
            Names::Rust => camel(name),
            Names::Verbatim => ident(name.replace('.', "_")),
        }
    }

    /// Returns the name of a struct's field, or of a procedure's method.
    #[must_use]
    pub fn of_field(self, name: &str) -> String {
        match self {
            Names::Rust => snake(name),
            Names::Verbatim => ident(name.to_owned()),
        }
    }

    /// Returns the name of a constant.
    #[must_use]
    pub fn of_const(self, name: &str) -> String {
        match self {
            Names::Rust => upper(name),
            Names::Verbatim => ident(name.to_owned()),
        }
    }

    /// Returns a name that emission adds, such as the variant `Default`, in the naming style.
    #[must_use]
    pub fn own(self, rust: &str, verbatim: &str) -> String {
        match self {
            Names::Rust => rust.to_owned(),
            Names::Verbatim => verbatim.to_owned(),
        }
    }

    /// Returns the prefix that all names share and that Rust names omit; empty for `Verbatim`.
    #[must_use]
    pub fn prefix<'a>(self, names: &[&'a str]) -> &'a str {
        match self {
            Names::Rust => common_prefix(names),
            Names::Verbatim => "",
        }
    }
}

/// Lower-case names that emitted code uses and that names of the document could shadow: built-in types,
/// crates, modules, functions, parameters and variables.
pub(crate) const HIDDEN_BY_VERBATIM: &str = "\
    _args alloc answer arbitrary args bool borrowed call char context core f32 f64 i8 i16 i32 i64 i128 \
    isize proc program reply std str u u8 u16 u32 u64 u128 usize value";

/// Passes each word of a name to `word`. Words are separated by `_`, by `.` or, as in `READ3args` and
/// `fooBar`, by case.
fn words<'a>(name: &'a str, mut word: impl FnMut(&'a str)) {
    for part in name.split(['_', '.']).filter(|part| !part.is_empty()) {
        let mut begin = 0;
        // The previous character, and the last character before `this` that is not a digit.
        let (mut before, mut head) = (None, '_');
        let mut chars = part.char_indices().peekable();
        while let Some((at, this)) = chars.next() {
            let next = chars.peek().map_or('_', |(_, next)| *next);
            if before.is_some_and(|before| is_boundary(before, this, next, head)) {
                word(part.get(begin..at).unwrap_or(""));
                begin = at;
            }
            before = Some(this);
            head = if this.is_ascii_digit() { head } else { this };
        }
        word(part.get(begin..).unwrap_or(""));
    }
}

/// Returns true if a word begins at `this`. `head` is the last character before `this` that is not a digit.
fn is_boundary(before: char, this: char, next: char, head: char) -> bool {
    if this.is_uppercase() {
        // `fooBar` and `XDRInput`. After digits, a capital begins a word only if a lower-case letter follows
        // the capital or precedes the digits: `foo3Bar`, but not `NFS3ERR`.
        return before.is_lowercase()
            || before.is_uppercase() && next.is_lowercase()
            || before.is_ascii_digit() && (next.is_lowercase() || head.is_lowercase());
    }
    // `READ3args`: lower case after capitals and digits.
    this.is_lowercase() && before.is_ascii_digit() && head.is_uppercase()
}

/// Returns the name of a type or a variant: `Read3Args` for `READ3args`, `NfsFh3` for `nfs_fh3`.
#[must_use]
pub fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len() + 1);
    words(name, |word| {
        let mut chars = word.chars();
        chars.next().into_iter().for_each(|first| push_upper(first, &mut camel));
        chars.for_each(|other| push_lower(other, &mut camel));
    });
    ident(camel)
}

/// Returns the name of a field, a method or a module: `rdma_xid` for `rdmaXid`.
#[must_use]
pub fn snake(name: &str) -> String {
    ident(joined(name, |word, out| word.chars().for_each(|c| push_lower(c, out))))
}

/// Returns the name of a constant: `MAX_SIZE` for `maxSize`. A name without lower-case letters is unchanged.
#[must_use]
pub fn upper(name: &str) -> String {
    if name.chars().any(char::is_lowercase) {
        ident(joined(name, |word, out| word.chars().for_each(|c| push_upper(c, out))))
    } else {
        ident(name.to_owned())
    }
}

fn push_upper(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c.to_ascii_uppercase());
    } else {
        out.extend(c.to_uppercase());
    }
}

fn push_lower(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase());
    } else {
        out.extend(c.to_lowercase());
    }
}

fn joined(name: &str, change: fn(&str, &mut String)) -> String {
    let mut joined = String::with_capacity(name.len() + 4);
    words(name, |word| {
        if !joined.is_empty() {
            joined.push('_');
        }
        change(word, &mut joined);
    });
    joined
}

/// Returns the name of a document's module, derived from the file name without directories or extension.
pub(crate) fn module(path: &std::path::Path) -> String {
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = stem.chars().map(part).collect();
    if name.trim_matches('_').is_empty() {
        return "generated".to_owned();
    }
    let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("x_{name}") } else { name };
    // A keyword would become a raw identifier, which is not a usual file name.
    let name = ident(name);
    name.strip_prefix("r#").map_or(name.clone(), |keyword| format!("{keyword}_"))
}

/// Rust's keywords by length, including reserved ones. `concat!` splits one keyword, so that a search of the
/// repository for this keyword finds only code that uses it.
const KEYWORDS: [&[&str]; 9] = [
    &[],
    &[],
    &["as", "do", "fn", "if", "in"],
    &["box", "dyn", "for", "gen", "let", "mod", "mut", "pub", "ref", "try", "use"],
    &["Self", "else", "enum", "impl", "loop", "move", "priv", "self", "true", "type"],
    &[
        "async", "await", "break", "const", "crate", "false", "final", "macro", "match", "super", "trait",
        "where", "while", "yield",
    ],
    &["become", "extern", "return", "static", "struct", "typeof", concat!("un", "safe")],
    &["unsized", "virtual"],
    &["abstract", "continue", "override"],
];

pub(crate) fn is_ident(name: &str) -> bool {
    let word = name.strip_prefix("r#").unwrap_or(name);
    if word == "_" || word.starts_with(char::is_numeric) || end_of_word(word) != word.len() || word.is_empty()
    {
        return false;
    }
    if word.len() < name.len() {
        return !OF_PATHS.contains(&word);
    }
    KEYWORDS.get(word.len()).is_none_or(|keywords| !keywords.contains(&word))
}

/// Keywords that a path may contain in place of a name.
const OF_PATHS: [&str; 4] = ["crate", "self", "super", "Self"];

/// Returns true if `text` is a Rust path: names joined by `::`, each with optional generic arguments.
pub(crate) fn is_path(text: &str) -> bool {
    path(text).is_some_and(|rest| rest.trim().is_empty())
}

fn end_of_word(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// Skips leading whitespace, then returns the text after `mark`. Returns `None` if `mark` is missing.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.trim_start().strip_prefix(mark)
}

/// Returns the text after a path; `None` if the text does not begin with a valid path.
fn path(text: &str) -> Option<&str> {
    let mut rest = after(text, "::").unwrap_or(text);
    loop {
        let raw = after(rest, "r#");
        let word = raw.unwrap_or(rest).trim_start();
        let (word, after_word) = word.split_at(end_of_word(word));
        let is_name = if raw.is_some() { is_ident(&format!("r#{word}")) } else { is_ident(word) };
        if !is_name && (raw.is_some() || !OF_PATHS.contains(&word)) {
            return None;
        }
        rest = after_word;
        let open = after(rest, "::").and_then(|rest| after(rest, "<")).or_else(|| after(rest, "<"));
        if let Some(inner) = open {
            rest = arguments(inner)?;
        }
        match after(rest, "::") {
            Some(more) => rest = more,
            None => return Some(rest),
        }
    }
}

/// Returns the text after generic arguments and their `>`.
fn arguments(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        if let Some(after_word) = after(rest, ">") {
            return Some(after_word);
        }
        rest = argument(rest.trim_start())?;
        match after(rest, ",") {
            Some(more) => rest = more,
            None => return after(rest, ">"),
        }
    }
}

/// Returns the text after a generic argument: a path, a lifetime, a number, or a type or block in brackets.
fn argument(text: &str) -> Option<&str> {
    match text.chars().next()? {
        '\'' => {
            let word = text.get(1..)?;
            Some(end_of_word(word)).filter(|end| *end > 0).and_then(|end| word.get(end..))
        }
        '0'..='9' => text.get(end_of_word(text)..),
        '(' | '[' | '{' => bracketed(text),
        _ => path(text),
    }
}

fn bracketed(text: &str) -> Option<&str> {
    let close = match text.chars().next()? {
        '(' => ')',
        '[' => ']',
        _ => '}',
    };
    let mut rest = text.get(1..)?;
    loop {
        let at = rest.find(['(', '[', '{', ')', ']', '}'])?;
        let (inner, bracket) = rest.split_at(at);
        if !inner.chars().all(|c| c.is_alphanumeric() || " _:;,<>&'*+-".contains(c)) {
            return None;
        }
        if bracket.starts_with([')', ']', '}']) {
            return bracket.strip_prefix(close);
        }
        rest = bracketed(bracket)?;
    }
}

/// Returns a name as a Rust identifier. A keyword becomes a raw identifier or, if the raw identifier is
/// invalid, gets an underscore. Other invalid names get an underscore or a prefix.
fn ident(name: String) -> String {
    if is_ident(&name) {
        return name;
    }
    [format!("r#{name}"), format!("{name}_"), format!("X{name}"), format!("x_{name}")]
        .into_iter()
        .find(|candidate| is_ident(candidate))
        .unwrap_or_else(|| "x_".to_owned())
}

/// Returns the longest common prefix that ends with an underscore and whose removal leaves valid, distinct
/// names. Returns an empty prefix for a single name, or if no such prefix exists.
#[must_use]
pub fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, rest)) = names.split_first() else { return "" };
    if rest.is_empty() {
        return "";
    }
    let shared = rest.iter().fold(first.len(), |len, name| {
        first.bytes().zip(name.bytes()).take(len).take_while(|(a, b)| a == b).count()
    });
    let mut prefix = first.get(..shared).unwrap_or("");
    while let Some(end) = prefix.rfind('_') {
        prefix = prefix.get(..=end).unwrap_or("");
        if good_without(names, prefix) {
            return prefix;
        }
        prefix = prefix.get(..end).unwrap_or("");
    }
    ""
}

fn good_without(names: &[&str], prefix: &str) -> bool {
    let mut seen = HashSet::default();
    names.iter().all(|name| {
        let rest = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('_');
        rest.starts_with(char::is_alphabetic) && seen.insert(camel(rest))
    })
}

/// The names in use in one scope. The owner of a name is the argument `name` of [`Taken::take`], or an empty
/// string for a reserved name.
#[derive(Debug, Default)]
pub struct Taken {
    /// The owner of each name, as a range of `owners`. One buffer saves memory for large enums.
    names: HashMap<Box<str>, (u32, u32)>,
    owners: String,
    /// The number of substitutes tried for each wanted name, without its `r#`.
    conflicts: HashMap<String, usize>,
}

/// A wanted name that is in use gets at most this many underscores. After further conflicts, it gets a number
/// instead.
const UNDERSCORES: usize = 3;

impl Taken {
    /// Creates a scope in which these names are reserved.
    #[must_use]
    pub fn with(reserved: &[&str]) -> Self {
        Taken::default().and(reserved)
    }

    #[must_use]
    pub(crate) fn with_room(names: usize) -> Self {
        Taken { names: crate::hash::with_room(names), ..Taken::default() }
    }

    /// Adds reserved names.
    #[must_use]
    pub fn and(mut self, reserved: &[&str]) -> Self {
        reserved.iter().for_each(|name| self.insert(name, ""));
        self
    }

    #[must_use]
    pub fn has(&self, ident: &str) -> bool {
        self.names.contains_key(ident)
    }

    /// Reserves `wanted` for `name`. If `wanted` is in use, appends underscores or a number, and also returns
    /// the `name` for which `wanted` is reserved, if any.
    pub fn take(&mut self, wanted: String, name: &str) -> (String, Option<String>) {
        let Some((start, end)) = self.names.get(wanted.as_str()) else {
            self.insert(&wanted, name);
            return (wanted, None);
        };
        let first = self.owners.get(*start as usize..*end as usize);
        let clash = first.filter(|first| !first.is_empty()).map(str::to_owned);
        let base = wanted.strip_prefix("r#").unwrap_or(&wanted);
        let conflicts = self.conflicts.entry(base.to_owned()).or_default();
        let ident = loop {
            *conflicts += 1;
            let ident = match *conflicts {
                few @ ..=UNDERSCORES => format!("{base}{}", "_".repeat(few)),
                many => format!("{base}_{many}"),
            };
            if !self.names.contains_key(ident.as_str()) {
                break ident;
            }
        };
        self.insert(&ident, name);
        (ident, clash)
    }

    fn insert(&mut self, ident: &str, owner: &str) {
        let start = narrow(self.owners.len());
        self.owners.push_str(owner);
        self.names.insert(ident.into(), (start, narrow(self.owners.len())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_are_in_camel_case() {
        for (name, rust) in [
            ("READ3args", "Read3Args"),
            ("nfs_fh3", "NfsFh3"),
            ("xdr_rdma_segment", "XdrRdmaSegment"),
            ("nfsstat3", "Nfsstat3"),
            ("NFS3ERR_PERM", "Nfs3errPerm"),
            ("mountres3_ok", "Mountres3Ok"),
            ("CB_COMPOUND4args", "CbCompound4Args"),
            ("rp__list", "RpList"),
            ("SCPBallot", "ScpBallot"),
            ("LedgerEntryV2", "LedgerEntryV2"),
            ("foo3Bar", "Foo3Bar"),
            ("_private", "Private"),
            ("self", "Self_"),
        ] {
            assert_eq!(camel(name), rust, "{name}");
        }
    }

    #[test]
    fn fields_and_constants() {
        for (name, rust) in [
            ("rdma_xid", "rdma_xid"),
            ("type", "r#type"),
            ("where", "r#where"),
            ("gen", "r#gen"),
            ("self", "self_"),
            ("LENGTH", "length"),
            ("maxCount", "max_count"),
            ("specdata1", "specdata1"),
        ] {
            assert_eq!(snake(name), rust, "{name}");
        }
        assert_eq!(upper("NFS3_FHSIZE"), "NFS3_FHSIZE");
        assert_eq!(upper("rpcb_highproc_2"), "RPCB_HIGHPROC_2");
        assert_eq!(upper("maxSize"), "MAX_SIZE");
    }

    /// `syn` ignores the edition, and therefore accepts the keyword `gen` as an identifier.
    #[test]
    fn keywords_match_syn() {
        for keyword in KEYWORDS.concat() {
            assert!(keyword == "gen" || syn::parse_str::<syn::Ident>(keyword).is_err(), "{keyword}");
            assert!(!is_ident(keyword), "{keyword}");
        }
        let letters = || ('a'..='z').map(String::from);
        let short = letters().chain(letters().flat_map(|one| letters().map(move |two| one.clone() + &two)));
        for word in short.chain(["union", "auto", "raw", "safe", "dynamic", "selfish"].map(String::from)) {
            assert_eq!(is_ident(&word), syn::parse_str::<syn::Ident>(&word).is_ok(), "{word}");
        }
    }

    #[test]
    fn paths_match_syn() {
        let paths = concat!(
            "a|::a|a::b|crate::a|super::super::A|Self::A|r#type::a| a :: b |_a|\u{e9}|A<B>|A::<B>|",
            "A<'a, b::C<D>, 4>|A<B, >|A<[u8; 4], (B, C), { N }>::D|A<>|A<B<C>>::d",
        );
        let others = concat!(
            "|::|a::|a:|a:b|a: :b|a b|a-b|my-crate::A|1|_|type|fn::a|a.b|a<b|a>|a<,>|a<B C>|a<'>|a(|",
            "r#crate|a;|\"a\"|a<::>|a<B>c|<a>",
        );
        let all =
            paths.split('|').map(|text| (text, true)).chain(others.split('|').map(|text| (text, false)));
        for (text, expected) in all {
            assert_eq!(syn::parse_str::<syn::Path>(text).is_ok(), expected, "syn on {text:?}");
            assert_eq!(is_path(text), expected, "{text:?}");
        }
        for word in
            ["_", "_a", "__", "r#type", "r#self", "r#", "\u{e9}", "a\u{e9}", "1a", "", "a b", "a-b", "'a"]
        {
            assert_eq!(is_ident(word), syn::parse_str::<syn::Ident>(word).is_ok(), "{word:?}");
        }
    }

    #[test]
    fn a_prefix_is_removed_only_if_names_stay_valid() {
        assert_eq!(common_prefix(&["RDMA_MSG", "RDMA_NOMSG", "RDMA_ERROR"]), "RDMA_");
        assert_eq!(common_prefix(&["NFS3_OK", "NFS3ERR_PERM"]), "");
        assert_eq!(common_prefix(&["A_B_1", "A_B_2"]), "A_");
        assert_eq!(common_prefix(&["ONE_ALONE"]), "");
        assert_eq!(common_prefix(&["X_1", "X_2"]), "");
        assert_eq!(common_prefix(&["X_a_b", "X_aB"]), "");
        assert_eq!(common_prefix(&["NFSPROC3_NULL", "NFSPROC3_GETATTR"]), "NFSPROC3_");
    }

    #[test]
    fn conflicting_names_get_underscores() {
        let mut taken = Taken::with(&["Vec"]);
        assert_eq!(taken.take("FooBar".into(), "foo_bar"), ("FooBar".into(), None));
        assert_eq!(taken.take("FooBar".into(), "FooBar"), ("FooBar_".into(), Some("foo_bar".into())));
        assert_eq!(taken.take("Vec".into(), "vec"), ("Vec_".into(), None));
        for ident in ["FooBar__", "FooBar___", "FooBar_4", "FooBar_5"] {
            assert_eq!(taken.take("FooBar".into(), "fooBar"), (ident.into(), Some("foo_bar".into())));
        }
    }
}
