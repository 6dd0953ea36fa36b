//! Import cycles between the files of a crate.
//!
//! File A imports file B if code in A names an item that B defines. The name is in a private `use`, or in a
//! path that begins with `crate`, `super`, `self`, a child module or an imported name. A `pub use` is a
//! re-export, not an import: a file that names a re-exported item imports the file that defines the item.
//! Uses of the items of any ancestor module do not count, because a module belongs to its ancestors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use xtask::files::{self, relative};

/// A path of names, such as `crate::wire::header` without `crate`.
type Names = Vec<String>;

/// A module in a separate file.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The names that `use` items import or re-export, with their paths.
    uses: BTreeMap<String, Names>,
    /// The modules from which this module re-exports all public items by `pub use path::*`.
    globs: Vec<Names>,
    /// The paths in private `use` items and in other code, relative to the crate root.
    paths: BTreeSet<Names>,
}

/// The modules of a crate by their paths. The root has the empty path.
type Modules = BTreeMap<Names, Module>;

/// Returns every import cycle below a package's source directory. A program with a directory `bin/NAME` is
/// checked as a separate crate.
pub(crate) fn find(root: &Path, source: &Path) -> Result<Vec<String>, String> {
    let mut found = in_crate(root, source)?;
    let bin = source.join("bin");
    let programs = files::below(&bin)?.into_iter().filter_map(|file| Some(file.parent()?.to_owned()));
    for program in programs.filter(|folder| folder.parent() == Some(&bin)).collect::<BTreeSet<_>>() {
        found.append(&mut in_crate(root, &program)?);
    }
    Ok(found)
}

fn in_crate(root: &Path, source: &Path) -> Result<Vec<String>, String> {
    let modules = read(source)?;
    let imports: BTreeMap<&Names, BTreeSet<Names>> = modules
        .iter()
        .map(|(at, module)| {
            let imported = module.paths.iter().filter_map(|path| definer(&modules, path, DEPTH));
            (at, imported.filter(|of| !at.starts_with(of)).collect())
        })
        .collect();
    let reached: BTreeMap<&Names, BTreeSet<&Names>> =
        imports.keys().map(|from| (*from, reachable(&imports, from))).collect();
    let mut cycles = BTreeSet::new();
    for (from, to) in &reached {
        let cycle: BTreeSet<&Names> = to
            .iter()
            .copied()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(*from)))
            .collect();
        if !cycle.is_empty() {
            cycles.insert(cycle);
        }
    }
    let file = |at: &Names| modules.get(at).map_or_else(String::new, |module| relative(root, &module.file));
    let describe = |cycle: &BTreeSet<&Names>| {
        let arrows: Vec<String> = imports
            .iter()
            .filter(|(from, _)| cycle.contains(*from))
            .flat_map(|(from, to)| to.iter().filter(|to| cycle.contains(to)).map(|to| (*from, to)))
            .map(|(from, to)| format!("    {} -> {}", file(from), file(to)))
            .collect();
        format!("an import cycle of {} files:\n{}", cycle.len(), arrows.join("\n"))
    };
    Ok(cycles.iter().map(describe).collect())
}

/// Maximum number of imports and re-exports that [`definer`] follows.
const DEPTH: usize = 8;

/// Returns the module that defines the item at a path, or `None` if neither the path nor a prefix of it is a
/// module.
fn definer(modules: &Modules, path: &[String], depth: usize) -> Option<Names> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let (at, rest) = path.split_at(length);
    let module = modules.get(at)?;
    let Some((name, rest)) = rest.split_first().filter(|_| depth > 0) else { return Some(at.to_vec()) };
    let target = |to: &Names| [to.as_slice(), rest].concat();
    if let Some(to) = module.uses.get(name).filter(|to| to.as_slice() != path) {
        return definer(modules, &target(to), depth - 1);
    }
    let by_glob = module.globs.iter().find(|glob| defines(modules, glob, name));
    Some(by_glob.map_or_else(|| at.to_vec(), Clone::clone))
}

/// Returns true if a module's file defines, imports or re-exports a name.
fn defines(modules: &Modules, at: &Names, name: &str) -> bool {
    let Some(module) = modules.get(at) else { return false };
    module.uses.contains_key(name)
        || fs::read_to_string(&module.file).is_ok_and(|text| {
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let is_item = |keyword: &str| {
                matches!(keyword, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union")
            };
            words.windows(2).any(|pair| matches!(pair, [keyword, word] if is_item(keyword) && *word == name))
        })
}

fn reachable<'a>(imports: &'a BTreeMap<&'a Names, BTreeSet<Names>>, from: &Names) -> BTreeSet<&'a Names> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&Names> = imports.get(from).into_iter().flatten().collect();
    while let Some(next) = pending.pop() {
        if reached.insert(next) {
            pending.extend(imports.get(next).into_iter().flatten());
        }
    }
    reached
}

fn read(source: &Path) -> Result<Modules, String> {
    let mut modules = Modules::new();
    let rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    // Programs next to a library are separate crates.
    let is_program = |file: &PathBuf| {
        let is_main = *file == source.join("main.rs") && source.join("lib.rs").exists();
        is_main || file.starts_with(source.join("bin"))
    };
    let files = files::below(source)?.into_iter().filter(rust).filter(|file| !is_program(file));
    let files: Vec<(Names, PathBuf)> = files.map(|file| (module_path(source, &file), file)).collect();
    let known: BTreeSet<Names> = files.iter().map(|(at, _)| at.clone()).collect();
    for (at, file) in files {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        let mut module = Module { file, ..Module::default() };
        Reader { known: &known, at: at.clone(), module: &mut module }.items(tokens);
        modules.insert(at, module);
    }
    Ok(modules)
}

fn module_path(source: &Path, file: &Path) -> Names {
    let path = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut names: Names = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let is_root = names.len() == 1 && matches!(names.first().map(String::as_str), Some("lib" | "main"));
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// The kind of code that contains a path.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A private `use`.
    Use,
    /// A public `use`.
    Reexport,
    /// Other code.
    Path,
}

struct Reader<'a> {
    known: &'a BTreeSet<Names>,
    /// The path of the current module, which is the module of the file or a module within the file.
    at: Names,
    module: &'a mut Module,
}

impl Reader<'_> {
    fn items(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            place += 1;
            match token {
                TokenTree::Group(group) => self.items(group.stream()),
                TokenTree::Ident(word) if word == "mod" => place += self.inline_module(&tokens[place..]),
                // Not the `use<'a>` of `impl Trait + use<'a>`.
                TokenTree::Ident(word)
                    if word == "use" && !tokens.get(place).is_some_and(|next| is_punct(next, '<')) =>
                {
                    let end = tokens[place..].iter().position(|token| is_punct(token, ';')).unwrap_or(0);
                    // `pub use` or `pub(crate) use`.
                    let is_public = before(&tokens, place).is_some_and(|token| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
                        other => other.to_string() == "pub",
                    });
                    let kind = if is_public { Kind::Reexport } else { Kind::Use };
                    self.tree(&tokens[place..place + end], &[], kind);
                    place += end;
                }
                TokenTree::Ident(_) => {
                    let length = path_length(&tokens[place - 1..]);
                    if !is_after_dot(&tokens, place) {
                        self.tree(&tokens[place - 1..place - 1 + length], &[], Kind::Path);
                    }
                    place += length - 1;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads a module within the file, and returns the number of its tokens after `mod`. Skips the module
    /// `tests`, because unit tests may import anything.
    fn inline_module(&mut self, tokens: &[TokenTree]) -> usize {
        let [TokenTree::Ident(name), TokenTree::Group(group), ..] = tokens else { return 0 };
        if name != "tests" {
            self.at.push(name.to_string());
            self.items(group.stream());
            self.at.pop();
        }
        2
    }

    /// Reads a path, or the tree of a `use`.
    fn tree(&mut self, tokens: &[TokenTree], before: &[String], kind: Kind) {
        let mut path = before.to_vec();
        let mut renamed = None;
        let mut tokens = tokens.iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => renamed = tokens.next().map(ToString::to_string),
                TokenTree::Ident(word) => path.push(word.to_string().trim_start_matches("r#").to_owned()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    inner
                        .split(|token| is_punct(token, ','))
                        .filter(|part| !part.is_empty())
                        .for_each(|part| self.tree(part, &path, kind));
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    if let Some(to) = self.absolute(&path, kind) {
                        match kind {
                            Kind::Reexport => self.module.globs.push(to),
                            Kind::Use | Kind::Path => _ = self.module.paths.insert(to),
                        }
                    }
                    return;
                }
                _ => {}
            }
        }
        if path.last().is_some_and(|name| name == "self") && path.len() > 1 {
            path.pop();
        }
        let Some(to) = self.absolute(&path, kind) else { return };
        if kind != Kind::Path {
            let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
            self.module.uses.insert(name, to.clone());
        }
        if kind != Kind::Reexport {
            self.module.paths.insert(to);
        }
    }

    /// Returns a path relative to the crate root. Returns `None` if the path leads to another crate or may be
    /// a variable.
    fn absolute(&self, path: &[String], kind: Kind) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        let mut base = self.at.clone();
        let mut rest = rest;
        match first.as_str() {
            "crate" => base.clear(),
            "self" if !rest.is_empty() => {}
            "super" => {
                base.pop();
                while let Some((_, more)) = rest.split_first().filter(|(name, _)| *name == "super") {
                    base.pop();
                    rest = more;
                }
            }
            // A name that a `use` of this file imports, or a child module.
            name => {
                if let Some(to) = self.module.uses.get(name) {
                    return Some([to.as_slice(), rest].concat());
                }
                base.push(name.to_owned());
                // A single name may be a variable.
                if !self.known.contains(&base) || kind == Kind::Path && rest.is_empty() {
                    return None;
                }
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }
}

/// Returns the number of tokens in a path: names separated by `::`.
fn path_length(tokens: &[TokenTree]) -> usize {
    let mut length = 1;
    while let [first, second, TokenTree::Ident(_), ..] = &tokens[length..]
        && is_punct(first, ':')
        && is_punct(second, ':')
    {
        length += 3;
    }
    length
}

/// Returns true if the token is a field or a method: it follows a single dot, not the two dots of a range.
fn is_after_dot(tokens: &[TokenTree], place: usize) -> bool {
    let is_dot = |place| before(tokens, place).is_some_and(|token| is_punct(token, '.'));
    is_dot(place) && !is_dot(place - 1)
}

/// Returns the token before the current token. `place` is the index after the current token.
fn before(tokens: &[TokenTree], place: usize) -> Option<&TokenTree> {
    tokens.get(place.checked_sub(2)?)
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        find(folder.path(), folder.path()).unwrap()
    }

    #[test]
    fn files_that_import_one_another_are_a_cycle() {
        let b = ("b.rs", "use crate::a::A; pub struct B(A);");
        let direct =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A; fn f() -> crate::b::B { g() }"), b];
        assert_eq!(cycles(&direct), ["an import cycle of 2 files:\n    a.rs -> b.rs\n    b.rs -> a.rs"]);
        let by_module = [("lib.rs", "mod a; mod b;"), ("a.rs", "use super::b; fn f() { b::g() }"), b];
        assert_eq!(cycles(&by_module).len(), 1);
        let one_way = [("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A;"), b];
        assert_eq!(cycles(&one_way), [""; 0]);
    }

    #[test]
    fn a_private_use_may_follow_an_attribute_or_a_block() {
        for before in ["#[cfg(unix)]", "fn f() {}", "fn f() -> impl Copy + use<> {}"] {
            let a = format!("{before} use crate::b::*; pub struct A;");
            let b = ("b.rs", "use crate::a::A; pub struct B(A);");
            assert_eq!(cycles(&[("lib.rs", "mod a; mod b;"), ("a.rs", &a), b]).len(), 1, "{before}");
        }
    }

    #[test]
    fn reexports_are_followed_and_parents_do_not_count() {
        let child = ("a/child.rs", "use super::Parent; pub struct Child(Parent);");
        let only_reexported =
            [("lib.rs", "mod a;"), ("a.rs", "mod child; pub use child::Child; pub struct Parent;"), child];
        assert_eq!(cycles(&only_reexported), [""; 0]);
        let sibling = ("a/other.rs", "use super::Child; pub struct Other;");
        let child_of_sibling = ("a/child.rs", "use super::other::Other; pub struct Child(Other);");
        let parent = ("a.rs", "mod child; mod other; pub use child::Child;");
        let cycle = cycles(&[("lib.rs", "mod a;"), parent, child_of_sibling, sibling]);
        assert_eq!(
            cycle,
            ["an import cycle of 2 files:\n    a/child.rs -> a/other.rs\n    a/other.rs -> a/child.rs"]
        );
        let through = ("b.rs", "use crate::a::Child; pub struct B(Child);");
        let sibling = ("a/child.rs", "use crate::b::B; pub struct Child(B);");
        let parent = ("a.rs", "mod child; pub use child::*;");
        let cycle = cycles(&[("lib.rs", "mod a; mod b;"), parent, through, sibling]);
        assert_eq!(cycle, ["an import cycle of 2 files:\n    a/child.rs -> b.rs\n    b.rs -> a/child.rs"]);
    }

    #[test]
    fn ranges_raw_names_and_programs_next_to_the_library_count() {
        let b = ("b.rs", "use crate::r#type::A; pub const N: A = A;");
        let range = ("type.rs", "pub struct A; fn f() { 0..crate::b::N }");
        assert_eq!(cycles(&[("lib.rs", "mod r#type; mod b;"), range, b]).len(), 1);
        let root = ("lib.rs", "mod a; mod b; pub use b::B;");
        let a = ("a.rs", "pub struct A; fn f() -> crate::B { crate::B::new() }");
        let files = [root, a, ("b.rs", "use crate::a::A; pub struct B(A);"), ("main.rs", "fn main() {}")];
        assert_eq!(cycles(&files).len(), 1);
    }

    #[test]
    fn a_program_with_files_is_a_separate_crate() {
        let library = ("lib.rs", "pub mod a;");
        let a = ("a.rs", "pub struct A;");
        let main = ("bin/p/main.rs", "mod a; mod b;");
        let of_program = ("bin/p/a.rs", "use crate::b::B; pub struct A(B);");
        let one_way = ("bin/p/b.rs", "pub struct B;");
        assert_eq!(cycles(&[library, a, main, of_program, one_way]), [""; 0]);
        let back = ("bin/p/b.rs", "use crate::a::A; pub struct B(A);");
        let expected =
            "an import cycle of 2 files:\n    bin/p/a.rs -> bin/p/b.rs\n    bin/p/b.rs -> bin/p/a.rs";
        assert_eq!(cycles(&[library, a, main, of_program, back]), [expected]);
    }

    #[test]
    fn unit_tests_may_import_anything() {
        let a = ("a.rs", "pub struct A; mod tests { use crate::b::B; fn f(b: B) {} }");
        assert_eq!(
            cycles(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", "use crate::a::A; pub struct B(A);")]),
            [""; 0]
        );
    }
}
