//! Generates Rust files from documents. Performs no I/O.

use std::path::{Path, PathBuf};

use crate::ast::{Expansion, Namespace};
use crate::binding;
use crate::diag::{self, Count, Diagnostic, DocumentKind, Found, OutputKind, Severity};
use crate::emit::{self, Emitter, Head};
use crate::extract::Form;
use crate::hir::Hir;
use crate::include;
use crate::ir::{Data, Module};
use crate::lower;
use crate::names::{self, Taken};
use crate::namespace;
use crate::relative;
use crate::resolve::{self, Document, Known, Resolved};
use crate::sizes::layout::Layouts;
use crate::source::{Kind, STDIN, Source, SourceId, Sources, Span, Trust, narrow};
use crate::unread::Unread;

pub use crate::options::{Manifest, Options, Output, Package};

/// The numbers of documents and definitions in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Documents, excluding binding files.
    pub documents: usize,
    /// Definitions in the documents, including repetitions.
    pub definitions: usize,
    /// Types to emit, excluding types added for lists.
    pub types: usize,
    /// Constants to emit.
    pub consts: usize,
    /// Programs to emit.
    pub programs: usize,
    /// Procedures to emit, in all programs and versions.
    pub procedures: usize,
}

/// The result of [`generate`]: the emitted files and the findings.
#[derive(Clone, Debug, Default)]
pub struct Generated {
    /// The files: their paths below an output directory, and their contents. Empty if there is an error. With
    /// `keep_going`, errors in bindings, in `#include` lines and in omitted definitions do not count.
    pub files: Vec<(PathBuf, String)>,
    /// The numbers of documents and definitions.
    pub summary: Summary,
    /// The findings in source order, except that findings about the names of modules come last.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of further findings, which are counted but not stored.
    pub more: Count,
    /// True if files can be emitted.
    is_complete: bool,
}

impl Generated {
    /// Returns true if a finding is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.more.errors > 0 || diag::has_errors(&self.diagnostics)
    }
}

/// Compiles documents together. The documents may use each other's names. Each source is a document or a
/// binding file. The run does not stop at the first error.
#[must_use]
pub fn generate(sources: &Sources, options: &Options) -> Generated {
    let (mut module, mut generated, documents) = analyzed(sources, options);
    if generated.is_complete {
        let first = SourceId(narrow(sources.iter().count()));
        let specifications = documents.iter().map(|document| (document.id, &document.specification));
        let namespaces = namespace::separate(&mut module, specifications, first);
        let modules = modules(sources, &namespaces, &module, options, &mut generated.diagnostics);
        generated.files = emitted(&module, modules, sources, options);
    }
    generated
}

/// Checks documents without emitting files. Returns the findings and the summary.
#[must_use]
pub fn check(sources: &Sources, options: &Options) -> Generated {
    analyzed(sources, options).1
}

/// Compiles documents to the Rust IR, which is complete if no diagnostic is an error.
#[must_use]
pub fn lower(sources: &Sources, options: &Options) -> (Module, Vec<Diagnostic>) {
    let (module, generated, _) = analyzed(sources, options);
    (module, generated.diagnostics)
}

/// Returns the definitions of the documents in `which`, the sorted findings, and the uses of macros in source
/// order. If `all` is set, all extensions of definitions apply, including those that break the extension
/// rules.
pub(crate) fn resolved(
    sources: &Sources,
    which: &[SourceId],
    options: &Options,
    all: bool,
) -> (Hir, Vec<Diagnostic>, Vec<Expansion>) {
    let mut found = Vec::new();
    let mut documents: Vec<_> = which
        .iter()
        .filter_map(|id| Some((*id, sources.get(*id)?)))
        .filter(|(_, source)| source.kind() != Kind::Binding)
        .map(|(id, source)| read(id, source, options, &mut found, &mut Count::default()))
        .collect();
    let known = Known { complete_programs: false, ..known(&mut documents, sources, options, &mut found) };
    let unread = Unread::of(&documents, sources, &found);
    let Resolved { hir, found: mut more, .. } =
        if all { resolve::latest(&documents, &known) } else { resolve::resolve(&documents, &known) };
    let expansions = expansions(&documents);
    crate::parse::explain(&mut more.kept, &expansions);
    found.extend(more.kept.into_iter().filter(|found| !unread.may_have(found)));
    include::report(sources, |id| which.contains(&id), true, &mut found);
    include::unseen::report(sources, |id| which.contains(&id), &options.defined, &mut found);
    diag::sort(&mut found);
    (hir, found, expansions)
}

fn expansions(documents: &[Document]) -> Vec<Expansion> {
    let mut all: Vec<Expansion> =
        documents.iter().flat_map(|document| document.specification.expansions.clone()).collect();
    all.sort_by_key(|one| (one.span.source, one.span.start));
    all
}

fn read(
    id: SourceId,
    source: &Source,
    options: &Options,
    found: &mut Vec<Diagnostic>,
    more: &mut Count,
) -> Document {
    let extract = crate::parse::extract(id, source);
    let parse_options = crate::parse::ParseOptions {
        defined: options.defined.clone(),
        dialect: options.dialect,
        ..crate::parse::ParseOptions::default()
    };
    let (specification, read) = crate::parse::read(&extract, &parse_options);
    found.extend(read.kept);
    *more = more.and(read.more);
    let trust = match extract.form {
        Form::Indented if extract.published => Trust::Example,
        _ if extract.published => Trust::Published,
        _ => Trust::Own,
    };
    Document { id, specification, trust }
}

/// Qualifies names by namespaces, merges additions into the definitions that they extend, and supplies
/// missing definitions from macros, the command line and the prelude. Returns the settings for
/// `resolve::resolve`.
fn known<'a>(
    documents: &mut [Document],
    sources: &Sources,
    options: &'a Options,
    found: &mut Vec<Diagnostic>,
) -> Known<'a> {
    let known = Known { options, complete_programs: true };
    let mut specifications: Vec<_> =
        documents.iter_mut().map(|document| &mut document.specification).collect();
    namespace::resolve(&mut specifications);
    let name_of = |id| sources.get(id).map_or_else(String::new, |source| shown(source, options));
    resolve::merge(&mut specifications, &name_of, found);
    resolve::supply(&mut specifications, &known);
    known
}

/// Returns the module, the summary with the findings, and the documents without their definitions.
fn analyzed(sources: &Sources, options: &Options) -> (Module, Generated, Vec<Document>) {
    let mut documents = Vec::new();
    let mut bindings = Vec::new();
    let (mut found, mut more) = (Vec::new(), Count::default());
    for (id, source) in sources.iter() {
        if source.kind() == Kind::Binding {
            bindings.extend(binding::read(id, source, &mut found));
            continue;
        }
        documents.push(read(id, source, options, &mut found, &mut more));
    }
    let before = found.len();
    check_paths(options, &mut found);
    check_derives(options, &mut found);
    check_manifest(options, &mut found);
    let has_bad_settings = found.len() > before;
    // A document without definitions is an error only if no document has definitions.
    let specifications = || documents.iter().map(|document| &document.specification);
    if specifications().all(|one| one.definitions.is_empty() && one.additions.is_empty()) {
        let nothing = diag::Kind::Document(DocumentKind::NoDefinition);
        let empty = found.iter_mut().filter(|found: &&mut Diagnostic| found.kind == nothing);
        empty.for_each(|found| found.severity = Severity::Error);
    }
    let definitions = specifications()
        .flat_map(|specification| &specification.definitions)
        .filter(|definition| !matches!(definition.kind, crate::ast::DefinitionKind::PassThrough(_)))
        .count();
    let known = known(&mut documents, sources, options, &mut found);
    let unread = Unread::of(&documents, sources, &found);
    let Resolved { hir, is_complete, found: mut diagnostics, .. } = resolve::resolve(&documents, &known);
    crate::check::remaining(&hir, &mut diagnostics);
    let expansions = expansions(&documents);
    // Frees the syntax trees before lowering.
    documents.iter_mut().for_each(|document| document.specification.definitions = Vec::new());
    let summary = Summary {
        documents: documents.len(),
        definitions,
        types: hir.types.len(),
        consts: hir.consts.len(),
        programs: hir.programs.len(),
        procedures: hir.procedures().count(),
    };
    // If definitions are missing after an error, lowering is skipped, since it would report correct bindings
    // as invalid.
    let module =
        if is_complete { lowered(hir, &bindings, options, &mut diagnostics) } else { Module::default() };
    let more = more.and(diagnostics.more);
    crate::parse::explain(&mut diagnostics.kept, &expansions);
    // An undefined name is not reported if unparsed text may define it. With `keep_going`, it is reported,
    // since the report explains why a definition is omitted.
    found.extend(diagnostics.kept.into_iter().filter(|found| options.keep_going || !unread.may_have(found)));
    include::report(sources, |_| true, !options.keep_going, &mut found);
    include::unseen::report(sources, |_| true, &options.defined, &mut found);
    diag::sort(&mut found);
    let is_complete = if options.keep_going {
        is_complete && !has_bad_settings
    } else {
        more.errors == 0 && !diag::has_errors(&found)
    };
    (module, Generated { files: Vec::new(), summary, diagnostics: found, more, is_complete }, documents)
}

/// Rejects invalid paths in the options, since they become part of the code.
fn check_paths(options: &Options, found: &mut Vec<Diagnostic>) {
    let derives = options.derives.iter().filter(|derive| emit::Known::named(derive).is_none());
    let paths = options.externs.values().chain(std::iter::once(&options.runtime)).chain(derives);
    for path in paths.filter(|path| !names::is_path(path)) {
        found.push(OutputKind::NoPath { path: path.clone() }.at(Span::NOWHERE));
    }
}

/// Rejects `serde` and `arbitrary` for borrowed types: these derives create values without a message from
/// which the values could borrow.
fn check_derives(options: &Options, found: &mut Vec<Diagnostic>) {
    let known = options.derives.iter().filter(|derive| emit::Known::named(derive).is_some());
    for derive in known.filter(|_| options.data == Data::Borrowed) {
        found.push(OutputKind::BorrowedDerive { derive: derive.clone() }.at(Span::NOWHERE));
    }
}

/// Checks the crate's name, title and runtime path, which become part of its manifest.
fn check_manifest(options: &Options, found: &mut Vec<Diagnostic>) {
    let Output::Crate(Package { name: package, title, manifest }) = &options.output else { return };
    if title.contains(['"', '\\']) || title.contains(char::is_control) {
        found.push(OutputKind::NoTitle.at(Span::NOWHERE));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !package.starts_with(|c: char| c.is_ascii_alphabetic()) || !package.chars().all(is_part) {
        found.push(OutputKind::NoPackage.at(Span::NOWHERE));
    }
    let derives = options.derives.iter().filter_map(|derive| Some(emit::Known::named(derive)?.name()));
    let mut dependencies = derives.chain(["rpcrdma-runtime"]);
    if let Some(dependency) = dependencies.find(|name| *name == package.replace('_', "-")) {
        let (name, dependency) = (package.clone(), dependency.to_owned());
        found.push(OutputKind::DependencyName { name, dependency }.at(Span::NOWHERE));
    }
    if let Manifest::Alone { runtime: Some(path) } = manifest
        && (path.contains(['\'', '\n']) || path.contains(char::is_control))
    {
        found.push(OutputKind::NoDirectory.at(Span::NOWHERE));
    }
}

fn lowered(mut hir: Hir, bindings: &[binding::Binding], options: &Options, found: &mut Found) -> Module {
    crate::check::apply(&mut hir, bindings, found);
    let module = lower::lower(hir, bindings, options, found);
    crate::check::messages(&module, bindings, found);
    module
}

fn head(sources: &Sources, options: &Options) -> Head {
    let names = sources.iter().map(|(_, source)| format!("`{}`", shown(source, options)));
    let documents = emit::enumerated(names.collect()).unwrap_or_default();
    Head { documents, command: one_line(&options.command) }
}

/// Returns a document's name as shown in emitted files, without control characters.
fn shown(source: &Source, options: &Options) -> String {
    let directory = options.command_directory.as_deref().filter(|_| source.name() != Path::new(STDIN));
    one_line(&relative::shown(source.name(), directory))
}

/// Replaces control characters, so that the text cannot end a line comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Reserved module names: names of crates, and names of files that Rust treats specially.
const NO_MODULES: &[&str] = &["alloc", "core", "lib", "main", "mod_", "rpcrdma_runtime", "std"];

/// Returns the nonempty modules of a run with several documents or with namespaces. A single document
/// without namespaces has no modules.
fn modules(
    sources: &Sources,
    namespaces: &[(SourceId, &Namespace)],
    module: &Module,
    options: &Options,
    found: &mut Vec<Diagnostic>,
) -> Vec<emit::Document> {
    let all: Vec<_> = sources.iter().filter(|(_, source)| source.kind() == Kind::Document).collect();
    if all.len() < 2 && namespaces.is_empty() {
        return Vec::new();
    }
    let mut items = emit::items_by_source(module);
    let mut taken = Taken::with(NO_MODULES);
    let documents = all.into_iter().map(|(id, source)| {
        let span = Span::of(id, 0..0);
        (id, names::module(source.name()), shown(source, options), span, true)
    });
    let namespaces = namespaces.iter().map(|(id, space)| {
        let ident = names::snake(&space.path.replace("::", "_"));
        let span = Span { end: space.span.start, ..space.span };
        (*id, ident, format!("namespace {}", space.path), span, false)
    });
    let mut modules = Vec::new();
    for (source, wanted, name, span, is_file) in documents.chain(namespaces) {
        let Some(items) = items.remove(&source) else { continue };
        let (ident, clash) = taken.take(wanted, &name);
        if let Some(other) = clash {
            let (name, ident) = (name.clone(), ident.clone());
            found.push(OutputKind::SameModule { name, other, ident, is_file }.at(span));
        }
        modules.push(emit::Document { source, ident, name, items });
    }
    modules
}

fn emitted(
    module: &Module,
    documents: Vec<emit::Document>,
    sources: &Sources,
    options: &Options,
) -> Vec<(PathBuf, String)> {
    let std = matches!(options.output, Output::Module { std: true, .. } | Output::Directory { std: true });
    let features = matches!(options.output, Output::Crate(_));
    let sizes = (!module.programs.is_empty()).then(|| Layouts::of(module));
    let emitter = Emitter {
        module,
        head: head(sources, options),
        runtime: options.runtime.replace(' ', ""),
        std,
        names: options.names,
        derives: &options.derives,
        features,
        sizes: sizes.as_ref(),
        homes: documents.iter().enumerate().map(|(at, document)| (document.source, at)).collect(),
        documents,
        ambiguous: emit::ambiguous(module),
    };
    let mut texts = sources.iter().map(|(_, source)| source).filter(|source| source.kind() == Kind::Document);
    let (first, second) = (texts.next(), texts.next());
    match &options.output {
        Output::Module { name, .. } => vec![(PathBuf::from(format!("{name}.rs")), emitter.single_file())],
        Output::Directory { .. } if second.is_none() => {
            let name = first.map_or_else(String::new, |document| names::module(document.name()));
            vec![(PathBuf::from(format!("{name}.rs")), emitter.single_file())]
        }
        Output::Directory { .. } => emitter.directory(),
        Output::Crate(package) => emitter.package(package),
    }
}
