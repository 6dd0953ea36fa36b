//! Files: what stands around the items, and how they are laid out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use askama::Template;

use super::documents::{Document, Part};
use super::print::Printer;
use super::{Emitter, Known, scalar_type};
use crate::generate::{Manifest, Package};
use crate::ir::{Body, Item, Type};

/// What the head of a file says.
pub(crate) struct Head {
    /// The documents' names.
    pub(crate) documents: String,
    /// How the file is made again.
    pub(crate) command: String,
}

#[derive(Template)]
#[template(path = "module.rs.txt", escape = "none")]
struct ModuleHead<'a> {
    head: &'a [String],
    imports: &'a [String],
}

#[derive(Template)]
#[template(path = "lib.rs.txt", escape = "none")]
struct LibFile<'a> {
    docs: &'a [String],
    /// The features that need the standard library.
    std_features: &'a [&'a str],
    imports: &'a [String],
    body: &'a str,
}

#[derive(Template)]
#[template(path = "Cargo.toml.txt", escape = "none")]
struct ManifestFile<'a> {
    head: &'a [String],
    package: &'a Package,
    rust_version: &'a str,
    /// Features, each the dependency of its name.
    features: &'a [(&'static str, &'static str)],
    /// The line that names the runtime.
    runtime: &'a str,
}

/// No line of a head or of a `use` is longer, if its words allow it.
const WIDTH: usize = 100;

/// A template's text. They put strings together, and memory takes these: nothing can fail.
fn rendered(template: &impl Template) -> String {
    template.render().unwrap_or_default()
}

/// The files of a run, and what stands at their heads.
pub(crate) struct Files<'e> {
    pub(crate) emitter: &'e Emitter<'e>,
    pub(crate) head: Head,
}

impl Files<'_> {
    /// One file of items, to be included or to be a module. Documents are modules in it.
    pub(crate) fn module(&self) -> String {
        if self.emitter.documents.is_empty() {
            return self.file(
                &self.head.documents,
                &imports(self.emitter, &self.emitter.module.order),
                self.body(),
            );
        }
        let mut modules = Vec::new();
        for part in self.emitter.parts() {
            let (imports, body) = self.part(&part);
            let head: String = imports.iter().map(|line| format!("{line}\n")).collect();
            let Document { ident, name, .. } = part.document;
            modules
                .push(format!("/// From `{name}`.\npub mod {ident} {{\n{}}}\n", indented(&(head + &body))));
        }
        self.file(&self.head.documents, &[], modules.join("\n"))
    }

    /// A file for each document that has a module, and the text that declares the modules.
    pub(crate) fn modules(&self) -> (String, Vec<(PathBuf, String)>) {
        let (mut declared, mut files) = (Vec::new(), Vec::new());
        for part in self.emitter.parts() {
            let (imports, body) = self.part(&part);
            let Document { ident, name, .. } = part.document;
            declared.push(format!("/// From `{name}`.\n#[rustfmt::skip]\npub mod {ident};\n"));
            let text = self.file(&format!("`{name}`"), &imports, body);
            files.push((PathBuf::from(format!("{ident}.rs")), text));
        }
        (declared.join("\n"), files)
    }

    /// `mod.rs` and a file for each document.
    pub(crate) fn directory(&self) -> Vec<(PathBuf, String)> {
        let (declared, mut files) = self.modules();
        files.insert(0, (PathBuf::from("mod.rs"), self.file(&self.head.documents, &[], declared)));
        files
    }

    /// The manifest and the source files of a crate.
    pub(crate) fn package(&self, package: &Package) -> Vec<(PathBuf, String)> {
        let (imports, body, files) = if self.emitter.documents.is_empty() {
            (imports(self.emitter, &self.emitter.module.order), self.body(), Vec::new())
        } else {
            let (declared, files) = self.modules();
            (Vec::new(), declared, files)
        };
        let head = self.lines("# ", &self.head.documents);
        let (features, runtime) = (self.features(package), runtime(package));
        let rust_version = env!("CARGO_PKG_RUST_VERSION");
        let manifest =
            ManifestFile { head: &head, package, rust_version, features: &features, runtime: &runtime };
        let docs = self.overview(package);
        let std_features: Vec<&str> =
            features.iter().map(|(name, _)| *name).filter(|name| needs_std(name)).collect();
        let lib = LibFile { docs: &docs, std_features: &std_features, imports: &imports, body: &body };
        let mut all = vec![
            (PathBuf::from("Cargo.toml"), rendered(&manifest)),
            (PathBuf::from("src/lib.rs"), rendered(&lib)),
        ];
        all.extend(files.into_iter().map(|(path, text)| (Path::new("src").join(path), text)));
        all
    }

    /// The head goes before the text that there is: most of a file is never copied.
    fn file(&self, documents: &str, imports: &[String], body: String) -> String {
        let head = self.lines("// ", documents);
        let head = rendered(&ModuleHead { head: &head, imports });
        let mut file = body;
        file.insert_str(0, &head);
        file
    }

    /// What a file was made of, and how it is made again.
    fn lines(&self, mark: &str, documents: &str) -> Vec<String> {
        let mut lines = filled(mark, &format!("Generated by rpcrdma-xdrgen from {documents}. Do not edit."));
        lines.extend(filled(mark, &format!("Regenerate with `{}`.", self.head.command)));
        lines
    }

    /// The features of a crate, and the dependencies that they bring.
    fn features(&self, package: &Package) -> Vec<(&'static str, &'static str)> {
        let known = self.emitter.derives.iter().filter_map(|derive| Known::named(derive));
        let dependency = |known: Known| match package.is_member() {
            true => "{ workspace = true, features = [\"derive\"], optional = true }",
            false => known.dependency(),
        };
        known.map(|known| (known.name(), dependency(known))).collect()
    }

    /// Every item as text.
    fn body(&self) -> String {
        body(self.emitter, &self.emitter.module.order)
    }

    /// The `use` lines and the items of a document's module.
    fn part(&self, part: &Part<'_>) -> (Vec<String>, String) {
        let mut lines = imports(self.emitter, &part.items);
        lines.pop_if(|line| line.is_empty());
        for (module, names) in &part.uses {
            let names: Vec<&str> = names.iter().copied().collect();
            lines.extend(use_line(&format!("super::{module}"), &names));
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        (lines, body(self.emitter, &part.items))
    }
}

/// What arbitrary's derive writes names the standard library.
fn needs_std(feature: &str) -> bool {
    feature == Known::Arbitrary.name()
}

/// The dependency on the runtime.
fn runtime(package: &Package) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match &package.manifest {
        Manifest::Member => "rpcrdma-runtime.workspace = true".to_owned(),
        Manifest::Alone { runtime: None } => {
            format!("rpcrdma-runtime = {{ version = \"{version}\", default-features = false }}")
        }
        Manifest::Alone { runtime: Some(path) } => {
            format!(
                "rpcrdma-runtime = {{ version = \"{version}\", path = '{path}', default-features = false }}"
            )
        }
    }
}

/// Words in lines of at most [`WIDTH`], each behind a mark.
pub(super) fn filled(mark: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{mark}{word}")),
        }
    }
    lines
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }).collect()
}

/// A `use` of names of one module.
fn use_line(module: &str, names: &[&str]) -> Vec<String> {
    match names {
        [] => Vec::new(),
        [one] => vec![format!("use {module}::{one};")],
        several => {
            let line = format!("use {module}::{{{}}};", several.join(", "));
            if line.len() <= WIDTH {
                return vec![line];
            }
            let mut lines = vec![format!("use {module}::{{")];
            lines.extend(filled("    ", &format!("{},", several.join(", "))));
            lines.push("};".to_owned());
            lines
        }
    }
}

/// `use` lines for what the items need of the runtime and of `alloc`, and nothing else.
fn imports(emitter: &Emitter<'_>, items: &[Item]) -> Vec<String> {
    let names = imported(emitter, items);
    let mut lines = Vec::new();
    if !emitter.std {
        let heap = ["boxed::Box", "vec::Vec"];
        lines.extend(
            heap.iter().filter(|path| names.contains(last(path))).map(|path| format!("use alloc::{path};")),
        );
    }
    let runtime = &emitter.runtime_path;
    let own: Vec<&str> = names.iter().copied().filter(|name| !matches!(*name, "Box" | "Vec")).collect();
    lines.extend(use_line(&format!("{runtime}::xdr"), &own));
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn imported(emitter: &Emitter<'_>, items: &[Item]) -> BTreeSet<&'static str> {
    let borrowed = emitter.is_borrowed();
    let mut names = BTreeSet::new();
    let types = items.iter().filter_map(|item| match item {
        Item::Type(id) => emitter.module.get(*id),
        Item::Const(_) | Item::Program(_) => None,
    });
    for ty in types {
        match &ty.body {
            Body::Alias(of) => collect(of, borrowed, &mut names),
            body => {
                names.insert("Xdr");
                body.fields().for_each(|field| {
                    if field.list && borrowed {
                        names.insert("ListRef");
                        collect_element(&field.ty, borrowed, &mut names);
                    } else {
                        collect(&field.ty, borrowed, &mut names);
                    }
                });
            }
        }
    }
    names
}

fn collect(ty: &Type, borrowed: bool, names: &mut BTreeSet<&'static str>) {
    let name = match ty {
        Type::Scalar(scalar) => scalar_type(*scalar).err(),
        Type::Opaque(_) => Some(if borrowed { "OpaqueRef" } else { "Opaque" }),
        Type::SmallOpaque(_) => Some("SmallOpaque"),
        Type::String(_) => Some(if borrowed { "StringRef" } else { "XdrString" }),
        Type::Array(_) => Some(if borrowed { "ArrayRef" } else { "Vec" }),
        Type::Boxed(_) => Some(if borrowed { "BoxRef" } else { "Box" }),
        Type::FixedArray(..) | Type::Optional(_) => None,
        Type::Void | Type::Named(_) | Type::Extern(_) | Type::FixedOpaque(_) => None,
    };
    names.extend(name);
    collect_element(ty, borrowed, names);
}

fn collect_element(ty: &Type, borrowed: bool, names: &mut BTreeSet<&'static str>) {
    if let Type::Array(of) | Type::Boxed(of) | Type::FixedArray(of, _) | Type::Optional(of) = ty {
        collect(of, borrowed, names);
    }
}

/// Items that have fewer lines are not worth a thread.
const WORTH_A_THREAD: usize = 1000;

/// What a file's head takes, but for long lists of documents or imports.
const ROOM_FOR_HEAD: usize = 1024;

/// The items as text, an empty line between any two. Of many, two threads emit one part each: it is the same text.
fn body(emitter: &Emitter<'_>, items: &[Item]) -> String {
    let lines: Vec<usize> = items.iter().map(|item| lines_of(emitter, *item)).collect();
    let all: usize = lines.iter().sum();
    if all < WORTH_A_THREAD {
        return text(emitter, items);
    }
    let mut before = 0;
    let half = lines.iter().position(|lines| {
        before += lines;
        before > all / 2
    });
    let (first, second) = items.split_at(half.unwrap_or(0));
    let elsewhere = emitter.elsewhere();
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || text(&elsewhere(), second));
        let mut body = text(emitter, first);
        let rest = other.ok().and_then(|other| other.join().ok()).unwrap_or_else(|| text(emitter, second));
        if !body.is_empty() && !rest.is_empty() {
            body.push('\n');
        }
        body.reserve_exact(rest.len() + ROOM_FOR_HEAD);
        body + &rest
    })
}

/// About how many lines an item has.
fn lines_of(emitter: &Emitter<'_>, item: Item) -> usize {
    match item {
        Item::Const(_) => 1,
        Item::Type(id) => emitter.module.get(id).map_or(1, |ty| {
            1 + match &ty.body {
                Body::Enum(members) => members.len(),
                Body::Union(union) => union.arms.len(),
                Body::Struct(fields) | Body::Tuple(fields) => fields.len(),
                Body::Alias(_) | Body::Newtype(_) => 1,
            }
        }),
        Item::Program(index) => emitter.module.programs.get(index).map_or(1, |program| {
            // A type, two methods, an arm.
            program.versions.iter().map(|version| 4 * version.procedures.len() + 4).sum()
        }),
    }
}

fn text(emitter: &Emitter<'_>, items: &[Item]) -> String {
    let mut printer = Printer::default();
    let mut source = String::new();
    for item in items {
        source.clear();
        match item {
            Item::Const(index) => {
                let constant = emitter.module.consts.get(*index);
                constant.into_iter().for_each(|constant| emitter.constant(constant, &mut source));
            }
            Item::Type(id) => {
                emitter.module.get(*id).into_iter().for_each(|ty| emitter.type_def(ty, &mut source));
            }
            Item::Program(index) => {
                let Some(program) = emitter.module.programs.get(*index) else { continue };
                for version in &program.versions {
                    let tokens = emitter.version(program, version);
                    printer.print(tokens, emitter.texts.take());
                }
                continue;
            }
        }
        printer.print_source(&source);
    }
    printer.finish()
}
