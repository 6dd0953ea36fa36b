//! The steps of `cargo xtask ci` that run no tests, cheap ones first. `gate.rs` has the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use xtask::files::{self, relative};

use crate::deny;

/// A check: what it is called, and what it does in the workspace at the given path.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Path) -> Result<(), String>,
}

/// Every check, in the order in which they run.
pub(crate) const CHECKS: &[Check] = &[
    Check { name: "fmt", run: |root| cargo(root, &["fmt", "--all", "--check"]) },
    Check { name: "memory", run: memory },
    Check { name: "layers", run: layers },
    Check { name: "dependencies", run: dependencies },
    Check { name: "generated", run: |root| crate::generate::check(root) },
    Check { name: "requirements", run: |root| xtask::trace::check(root) },
    Check { name: "deny", run: deny::run },
    Check {
        name: "clippy",
        run: |root| cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    Check { name: "no_std", run: no_std },
    Check { name: "docs", run: docs },
    Check { name: "verbs", run: verbs },
    Check { name: "packages", run: crate::packages::check },
    Check { name: "msrv", run: crate::packages::msrv },
];

/// The workspace's own directory.
pub(crate) fn root() -> Result<PathBuf, String> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or("run this as `cargo xtask`")?;
    let root = Path::new(&manifest).parent().ok_or("the package has no parent directory")?;
    Ok(root.to_path_buf())
}

/// The `cargo` that runs us.
pub(crate) fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    succeed(cargo_command(root, arguments), arguments)
}

pub(crate) fn succeed(mut command: Command, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    let status = command.status().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed")) }
}

/// The layers without I/O, and a generated crate on top of them, without the standard library.
fn no_std(root: &Path) -> Result<(), String> {
    cargo(root, &["build", "--package", "rpcrdma-runtime", "--no-default-features"])?;
    cargo(root, &["build", "--package", "rpcrdma-nfs3"])
}

/// Documentation, with a broken link being an error.
fn docs(root: &Path) -> Result<(), String> {
    let arguments = ["doc", "--workspace", "--no-deps"];
    let mut command = cargo_command(root, &arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    succeed(command, &arguments)
}

/// Lints and documentation with the feature `verbs`, where what it needs of the system is there.
fn verbs(root: &Path) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        not_run::record("verbs", format_args!("missing packages: {}", missing.join(" ")));
        return Ok(());
    }
    let packages = ["rpcrdma-runtime", "rpcrdma-nfs", "rpcrdma-tools", "rpcrdma-examples", "rpcrdma-tests"];
    let selection: Vec<_> = packages
        .iter()
        .flat_map(|name| [format!("--package={name}"), format!("--features={name}/verbs")])
        .collect();
    let selection: Vec<_> = selection.iter().map(String::as_str).collect();
    cargo(root, &[&["clippy", "--all-targets"][..], &selection, &["--", "-D", "warnings"]].concat())?;
    let arguments = ["doc", "--no-deps", "--package", "rpcrdma-runtime", "--features", "verbs"];
    let mut command = cargo_command(root, &arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    succeed(command, &arguments)
}

/// The keyword that marks memory-unchecked code, put together so that it stands in no file of ours.
const KEYWORD: &str = concat!("un", "safe");
/// The one place where it may stand.
const ALLOWED: &str = "rpcrdma-runtime/src/provider/verbs/";

/// No file outside the verbs provider has the keyword, be it in code, comments or text.
fn memory(root: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    for path in files::below(root)? {
        let name = relative(root, &path);
        if name.starts_with(ALLOWED) {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
        for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            if line.contains(KEYWORD) {
                found.push(format!("{name}:{}: `{KEYWORD}` outside {ALLOWED}", number + 1));
            }
        }
    }
    report(&found)
}

/// Modules of the runtime, each with those that it must not name.
const LAYERS: &[(&str, &[&str])] = &[
    ("xdr", &["wire", "proto", "provider", "shell"]),
    ("wire", &["proto", "provider", "shell"]),
    ("proto", &["provider", "shell"]),
    ("provider", &["shell"]),
];

/// Sources whose files must not import each other in a cycle.
const LINEAR: &[&str] = &["rpcrdma-layout/src", "rpcrdma-derive/src"];

/// `xdr <- wire <- proto <- provider <- shell`: a layer names only those to its left.
fn layers(root: &Path) -> Result<(), String> {
    let source = root.join("rpcrdma-runtime/src");
    let mut found = Vec::new();
    for directory in LINEAR {
        let files = files::below(&root.join(directory))?;
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), text))
        };
        let files = files.iter().map(read).collect::<Result<BTreeMap<String, String>, String>>()?;
        let cycle = in_cycles(&files).join(", ");
        if !cycle.is_empty() {
            found.push(format!("{directory}: these files import each other in a cycle: {cycle}"));
        }
    }
    for (layer, above) in LAYERS {
        for path in files::below(&source.join(layer))? {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
                for name in above.iter().filter(|name| names_module(line, name)) {
                    let file = relative(root, &path);
                    found.push(format!("{file}:{}: `{layer}` must not name `{name}`", number + 1));
                }
            }
        }
    }
    report(&found)
}

/// The files that import each other by `crate::NAME`, also through others: what is left when each file is removed that
/// imports no other file, or that no other file imports.
fn in_cycles(files: &BTreeMap<String, String>) -> Vec<&str> {
    let imports = |name: &str, other: &str| {
        let text = files.get(name).map_or("", String::as_str);
        name != other && text.lines().any(|line| !is_comment(line) && names_module(line, other))
    };
    let mut left: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    loop {
        let is_between = |name: &&str| {
            left.iter().any(|other| imports(name, other)) && left.iter().any(|other| imports(other, name))
        };
        let kept: BTreeSet<&str> = left.iter().copied().filter(is_between).collect();
        if kept.len() == left.len() {
            return kept.into_iter().collect();
        }
        left = kept;
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Whether a line has `crate::name` as a whole path segment, also as one of several in braces.
fn names_module(line: &str, name: &str) -> bool {
    let Some((_, path)) = line.split_once("crate::") else { return false };
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    match path.strip_prefix('{') {
        Some(group) => words(group),
        None => path.split("::").next().is_some_and(words) || names_module(path, name),
    }
}

/// The package that every other may stand on.
const LEAF: &str = "rpcrdma-layout";

/// Packages, each with those of ours that it may stand on.
const OURS: &[(&str, &[&str])] = &[
    (LEAF, &[]),
    ("rpcrdma-xdrgen", &[]),
    ("rpcrdma-derive", &[]),
    ("rpcrdma-runtime", &["rpcrdma-derive"]),
    ("rpcrdma-nfs3", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-mount3", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-rpcbind", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-conf", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-keepalive", &["rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-services", &["rpcrdma-rpcbind", "rpcrdma-conf", "rpcrdma-runtime", "rpcrdma-derive"]),
    ("rpcrdma-verbs-packages", &[]),
];

/// The same for packages whose tests may depend on more.
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

/// A compiler needs none of our other crates but the leaf, generated crates need only the runtime, there is one syn, and without features nothing
/// is built with a system's library for RDMA.
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
    let all = tree(root, &["--edges", "all", "--workspace", "--target", "all"])?;
    if all.iter().any(|line| line.starts_with("ibverbs")) {
        found.push(
            "the default build must not depend on ibverbs: `cargo tree --invert ibverbs-sys`".to_owned(),
        );
    }
    let majors: BTreeSet<String> = all
        .iter()
        .filter_map(|line| line.strip_prefix("syn v")?.split('.').next().map(str::to_owned))
        .collect();
    if majors.len() > 1 {
        let majors = majors.into_iter().collect::<Vec<_>>().join(" and ");
        found.push(format!("syn {majors} are in use: `cargo tree --invert syn@2` shows by whom"));
    }
    report(&found)
}

/// The packages that `cargo tree` prints, each once: `name vVERSION ...`.
fn tree(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut command = cargo_command(root, &["tree", "--prefix", "none"]);
    let output =
        command.args(selection).output().map_err(|error| format!("cannot run `cargo tree`: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

pub(crate) fn report(found: &[String]) -> Result<(), String> {
    if found.is_empty() { Ok(()) } else { Err(format!("\n  {}", found.join("\n  "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_named_by_a_whole_path_segment() {
        assert!(names_module("use crate::proto::work::Action;", "proto"));
        assert!(names_module("    crate::shell;", "shell"));
        assert!(!names_module("use crate::protocol::Action;", "proto"));
        assert!(!names_module("use super::proto;", "proto"));
        assert!(names_module("use crate::{wire, proto::work};", "proto"));
        assert!(names_module("fn f(a: crate::xdr::Size, b: crate::proto::Token)", "proto"));
    }

    #[test]
    fn files_that_import_each_other_are_found() {
        let files = |texts: &[(&str, &str)]| {
            texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let linear =
            [("lib", "use crate::a::A;"), ("a", "use crate::b::B;\n// crate::a"), ("b", "use syn::A;")];
        assert!(in_cycles(&files(&linear)).is_empty());
        let cycle =
            [("a", "use crate::b::B;"), ("b", "use crate::{c, syn};"), ("c", "fn f(a: crate::b::B) {}")];
        assert_eq!(in_cycles(&files(&cycle)), ["b", "c"]);
    }

    #[test]
    fn comments_may_name_any_layer() {
        assert!(is_comment("    /// See [`crate::shell`]."));
        assert!(!is_comment("use crate::shell; // why not"));
    }

    #[test]
    fn the_keyword_is_put_together_in_this_file() {
        let own = include_str!("ci.rs");
        assert!(!own.contains(KEYWORD));
    }
}
