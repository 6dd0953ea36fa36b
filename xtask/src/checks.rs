//! The steps of the gate that run before the tests, cheap steps first. `steps.rs` has the steps that run
//! tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::files::{self, relative};
use xtask::{generate, trace};

use crate::packages::VERBS;
use crate::step::Step;
use crate::steps::STEPS;
use crate::{book, cargo, cycles, deny, documents, evidence, optional, packages, security, tools, walk};

/// All checks, in the order in which they run.
pub(crate) const CHECKS: &[Step] = &[
    step("fmt", |root| cargo::run(root, &["fmt", "--all", "--check"])),
    step("members", packages::members_agree),
    step("layers", layers),
    step("dependencies", dependencies),
    step("generated", generate::check),
    step("requirements", trace::check),
    step("docs", docs),
    step("deny", deny::run),
    step("clippy", |root| cargo::clippy(root, &[])),
    step("no_std", no_std),
    step("rustdoc", |root| cargo::rustdoc(root, &[])),
    step("book", book::check),
    step("optional", optional::check),
    step("packages", packages::check),
    step("walk", walk::run),
    step("msrv", packages::msrv),
];

const MINUTES: u64 = 20;

const fn step(name: &'static str, run: fn(&Path) -> Result<(), String>) -> Step {
    Step::new(name, MINUTES, run)
}

/// Checks the form and the spelling of documents and comments, the matrix in docs/interop.md, and the tests
/// that SECURITY.md names.
fn docs(root: &Path) -> Result<(), String> {
    documents::check(root)?;
    evidence::check(root)?;
    let steps: Vec<&str> = CHECKS.iter().chain(STEPS).map(|step| step.name).collect();
    security::check(root, &steps)?;
    let Some(program) = tools::TYPOS.program(root, "docs: spelling") else { return Ok(()) };
    let failure = "spelling error: correct the word, or add it to typos.toml";
    tools::succeed(Command::new(program).current_dir(root), failure)
}

/// Compiles the runtime's layers that perform no I/O, and a generated crate on top of them, without the
/// standard library.
fn no_std(root: &Path) -> Result<(), String> {
    cargo::run(root, &["build", "--package", "rpcrdma-runtime", "--no-default-features"])?;
    cargo::run(root, &["build", "--package", "rpcrdma-nfs3"])
}

/// Modules of the runtime, each with the modules that it must not name.
const LAYERS: &[(&str, &[&str])] = &[
    ("xdr", &["wire", "proto", "provider", "shell"]),
    ("wire", &["proto", "provider", "shell"]),
    ("proto", &["provider", "shell"]),
    ("provider", &["shell"]),
];

const WITHOUT_CYCLES: &[&str] = &[
    "nfs/src",
    "rpcrdma-derive/src",
    "rpcrdma-layout/src",
    "rpcrdma-runtime/src",
    "xdrgen/src",
    "services/src",
    "examples/src",
    "tools/src",
    "tests/lab/src",
    "tests/sim/src",
    "rpcrdma-runtime/verbs/src",
    "krb5/src",
    "xtask/src",
    "xtask/dist/src",
];

/// Maximum number of lines with `feature = "…"` in the runtime's source. Code that needs a feature belongs in
/// a separate module, which the parent module selects (see `xdr/spare.rs` and `xdr/no_spare.rs`).
const MAX_FEATURE_GATES: usize = 17;

/// Checks `xdr <- wire <- proto <- provider <- shell`: a layer names only layers to its left. Also reports
/// files named `mod.rs`, import cycles between files, and too many lines that depend on a feature.
fn layers(root: &Path) -> Result<(), String> {
    let source = root.join("rpcrdma-runtime/src");
    let mut found = Vec::new();
    for source in WITHOUT_CYCLES {
        let source = root.join(source);
        found.append(&mut cycles::find(root, &source)?);
    }
    let modules = files::below(root)?.into_iter().filter(|file| file.ends_with("mod.rs"));
    found.extend(modules.map(|file| format!("{}: name the file after its module", relative(root, &file))));
    let gates = feature_gates(&source)?;
    if gates > MAX_FEATURE_GATES {
        found.push(format!(
            "rpcrdma-runtime/src: {gates} lines depend on a feature (limit {MAX_FEATURE_GATES}): move the code \
             into a module that its parent selects by feature"
        ));
    }
    for (layer, above) in LAYERS {
        let root_file = source.join(layer).with_extension("rs");
        for path in files::below(&source.join(layer))?.into_iter().chain([root_file]) {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
                for name in above.iter().filter(|name| names_module(line, name)) {
                    let file = relative(root, &path);
                    found.push(format!("{file}:{}: `{layer}` must not name `{name}`", number + 1));
                }
            }
        }
    }
    cargo::report(&found)
}

fn feature_gates(source: &Path) -> Result<usize, String> {
    let mut gates = 0;
    for file in files::below(source)? {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        gates += text.lines().filter(|line| !is_comment(line) && line.contains("feature = \"")).count();
    }
    Ok(gates)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns true if a line names the module `name` directly after `crate::`, alone or in braces.
fn names_module(line: &str, name: &str) -> bool {
    let Some((_, path)) = line.split_once("crate::") else { return false };
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    match path.strip_prefix('{') {
        Some(group) => words(group),
        None => path.split("::").next().is_some_and(words) || names_module(path, name),
    }
}

/// The package that every other package may depend on.
const LEAF: &str = "rpcrdma-layout";

/// Packages, each with the workspace members that it may depend on.
const OURS: &[(&str, &[&str])] = &[
    (LEAF, &[]),
    ("rpcrdma-xdrgen", &[]),
    ("rpcrdma-derive", &[]),
    // The runtime uses `rpcrdma-sim` only in its tests, and `rpcrdma-conf` only in documentation examples.
    ("rpcrdma-runtime", &["rpcrdma-derive", "rpcrdma-sim", "rpcrdma-conf"]),
    ("rpcrdma-sim", &["rpcrdma-runtime", "rpcrdma-derive"]),
    (VERBS, &["rpcrdma-runtime", "rpcrdma-derive", "rpcrdma-verbs-packages"]),
    ("rpcrdma-krb5", &["rpcrdma-runtime", "rpcrdma-derive", "rpcrdma-verbs-packages"]),
    ("rpcrdma-nfs3", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-mount3", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-rpcbind", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-conf", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-keepalive", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-services", &["rpcrdma-rpcbind", "rpcrdma-conf", "rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-verbs-packages", &[]),
];

/// Like `OURS`, but the tests of these packages may depend on any workspace member.
const PRODUCTS: &[(&str, &[&str])] = &[
    (
        "rpcrdma-nfs",
        &[
            "rpcrdma-services",
            "rpcrdma-nfs3",
            "rpcrdma-mount3",
            "rpcrdma-rpcbind",
            "rpcrdma-conf",
            "rpcrdma-runtime",
            "rpcrdma-derive",
        ],
    ),
    (
        "rpcrdma-tools",
        &[
            "rpcrdma-nfs",
            "rpcrdma-services",
            "rpcrdma-nfs3",
            "rpcrdma-mount3",
            "rpcrdma-rpcbind",
            "rpcrdma-conf",
            "rpcrdma-runtime",
            "rpcrdma-derive",
        ],
    ),
];

/// Checks that packages depend only on the members that `OURS` and `PRODUCTS` allow, and that only one major
/// version of syn is compiled. Also checks that the default build needs no system library for RDMA or
/// Kerberos.
fn dependencies(root: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    let ours = OURS.iter().map(|row| (row, "all"));
    let products = PRODUCTS.iter().map(|row| (row, "normal,build"));
    for ((package, allowed), edges) in ours.chain(products) {
        for line in tree(root, &["--edges", edges, "--package", package])? {
            let name = line.split_whitespace().next().unwrap_or_default();
            if name.starts_with("rpcrdma-") && ![*package, LEAF].contains(&name) && !allowed.contains(&name) {
                found.push(format!("{package} must not depend on {name}"));
            }
        }
    }
    let all = tree(root, &["--edges", "all", "--target", "all"])?;
    for library in ["ibverbs-sys", "libgssapi-sys"] {
        if all.iter().any(|line| line.starts_with(library)) {
            found.push(format!(
                "the default build must not depend on {library}: see `cargo tree --invert {library}`"
            ));
        }
    }
    // Considers only crates that are compiled on this platform: on Windows, loom uses another version of syn.
    let majors: BTreeSet<String> = tree(root, &["--edges", "all"])?
        .iter()
        .filter_map(|line| line.strip_prefix("syn v")?.split('.').next().map(str::to_owned))
        .collect();
    if majors.len() > 1 {
        let majors = majors.into_iter().collect::<Vec<_>>().join(" and ");
        found.push(format!("more than one major version of syn ({majors}): see `cargo tree --invert syn@2`"));
    }
    cargo::report(&found)
}

/// Returns the packages that `cargo tree` prints, each once: `name vVERSION ...`.
fn tree(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut command = cargo::command(root, &["tree", "--prefix", "none"]);
    let output =
        command.args(selection).output().map_err(|error| format!("cannot run `cargo tree`: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_named_by_a_complete_path_segment() {
        assert!(names_module("use crate::proto::work::Action;", "proto"));
        assert!(names_module("    crate::shell;", "shell"));
        assert!(!names_module("use crate::protocol::Action;", "proto"));
        assert!(!names_module("use super::proto;", "proto"));
        assert!(names_module("use crate::{wire, proto::work};", "proto"));
        assert!(names_module("fn f(a: crate::xdr::Size, b: crate::proto::Token)", "proto"));
    }

    #[test]
    fn comments_may_name_any_layer() {
        assert!(is_comment("    /// See [`crate::shell`]."));
        assert!(!is_comment("use crate::shell; // why not"));
    }
}
