//! Checks the libraries' packages: the manifests, the contents, a build of each package alone, and a build
//! with the oldest supported Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use xtask::files::relative;

use crate::cargo;

/// The package for RDMA devices, the only package with unsafe code.
pub(crate) const VERBS: &str = "rpcrdma-verbs";

const REQUIRED: &[&str] = &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// The directories of a crate that its package must not contain.
const FORBIDDEN: &[&str] = &["benches", "fixtures", "tests"];
/// The build directory of the step `msrv`, separate from the workspace's build directory.
const MSRV_TARGET: &str = "target/msrv";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    manifest_path: PathBuf,
    /// The registries to which the member may be published. `None` allows all registries, and an empty list
    /// forbids publication.
    publish: Option<Vec<String>>,
    rust_version: Option<String>,
    description: Option<String>,
    documentation: Option<String>,
    license: Option<String>,
    readme: Option<String>,
    repository: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
}

impl Member {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns the keys of `[package]` that a registry shows and this member lacks.
    fn missing_keys(&self) -> Vec<&'static str> {
        let texts = [
            ("description", &self.description),
            ("documentation", &self.documentation),
            ("license", &self.license),
            ("readme", &self.readme),
            ("repository", &self.repository),
            ("rust-version", &self.rust_version),
        ];
        let lists = [("keywords", &self.keywords), ("categories", &self.categories)];
        let texts = texts.into_iter().filter(|(_, text)| text.is_none()).map(|(key, _)| key);
        let lists = lists.into_iter().filter(|(_, list)| list.is_empty()).map(|(key, _)| key);
        texts.chain(lists).collect()
    }
}

/// Checks that every member except the one for RDMA devices inherits the workspace's lints, which forbid
/// unsafe code.
pub(crate) fn members_agree(root: &Path) -> Result<(), String> {
    let read = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str::<Manifest>(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut found = Vec::new();
    let lints = read(&root.join("Cargo.toml"))?.workspace.unwrap_or_default().lints;
    if lints.rust.get("unsafe_code").and_then(toml::Value::as_str) != Some("forbid") {
        found.push("Cargo.toml: the workspace's lints must have `unsafe_code = \"forbid\"`".to_owned());
    }
    let packages = metadata(root)?.packages;
    for Member { name, manifest_path, .. } in packages.iter().filter(|member| member.name != VERBS) {
        if !read(manifest_path)?.lints.workspace {
            found.push(format!("{name}: the manifest must have `[lints] workspace = true`"));
        }
    }
    cargo::report(&found)
}

#[derive(Deserialize, Default)]
struct Manifest {
    #[serde(default)]
    lints: Lints,
    workspace: Option<Workspace>,
}

#[derive(Deserialize, Default)]
struct Workspace {
    #[serde(default)]
    lints: Lints,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Lints {
    workspace: bool,
    rust: BTreeMap<String, toml::Value>,
}

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let guards = guards(root)?;
    let (published, others): (Vec<_>, Vec<_>) =
        metadata(root)?.packages.into_iter().partition(Member::is_published);
    let mut found = Vec::new();
    for member in &published {
        let missing = member.missing_keys().into_iter();
        found.extend(missing.map(|key| format!("{}: the manifest has no `{key}`", member.name)));
        let directory = member.manifest_path.parent().unwrap_or(root);
        let is_guarded = guards.contains(&format!("{}/build.rs", relative(root, directory)));
        let wrong = wrong_files(&files(root, &member.name)?, is_guarded);
        found.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", member.name)));
    }
    cargo::report(&found)?;
    let target = fresh_directory(root)?;
    let built = build_packages(root, &target.to_string_lossy(), &others);
    let removed = fs::remove_dir_all(&target);
    built?;
    removed.map_err(|error| format!("{}: {error}", target.display()))
}

/// Creates a directory below `target` that no earlier check used.
///
/// Cargo unpacks each package into cargo's home directory, under a name derived from the target directory,
/// the package and its version. Cargo reuses existing files: with the same target directory, a second check
/// would build against outdated crates.
fn fresh_directory(root: &Path) -> Result<PathBuf, String> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let directory = root.join(format!("target/packages-{}", since_epoch.as_nanos()));
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory)
}

/// Builds each published member from its package, in the directory `target`. Leaves out [`VERBS`] if the
/// system packages that it needs are missing.
fn build_packages(root: &Path, target: &str, others: &[Member]) -> Result<(), String> {
    let mut arguments = vec!["package", "--workspace", "--locked", "--allow-dirty", "--target-dir", target];
    arguments.extend(others.iter().flat_map(|member| ["--exclude", member.name.as_str()]));
    if !builds_verbs("packages") {
        arguments.extend(["--exclude", VERBS]);
    }
    cargo::run(root, &arguments)
}

/// Checks that the libraries compile with the toolchain that `rust-version` specifies. If that toolchain is
/// missing, records the step as not run.
pub(crate) fn msrv(root: &Path) -> Result<(), String> {
    let mut published = metadata(root)?.packages;
    published.retain(Member::is_published);
    let versions: BTreeSet<_> =
        published.iter().filter_map(|member| member.rust_version.as_deref()).collect();
    let [version] = versions.into_iter().collect::<Vec<_>>()[..] else {
        return Err("the libraries must have the same `rust-version`".to_owned());
    };
    if running_rustc()?.starts_with(&format!("{version}.")) {
        eprintln!("rustc {version} is the oldest supported version: the other checks already use it");
        return Ok(());
    }
    let toolchain = format!("{version}.0");
    let mut rustup = Command::new("rustup");
    if !rustup.args(["run", &toolchain, "cargo", "--version"]).output().is_ok_and(|out| out.status.success())
    {
        let how = format!("`rustup toolchain install {toolchain} --profile minimal`");
        not_run::record("msrv", format_args!("Rust {toolchain} is missing: run {how}"));
        return Ok(());
    }
    if !builds_verbs("msrv") {
        published.retain(|member| member.name != VERBS);
    }
    let mut arguments = vec!["check", "--lib", "--locked", "--target-dir", MSRV_TARGET];
    arguments.extend(published.iter().flat_map(|member| ["--package", member.name.as_str()]));
    let mut command = Command::new("rustup");
    command.args(["run", &toolchain, "cargo"]).args(&arguments).current_dir(root);
    // rustup and cargo may have set these variables for the toolchain that runs this program.
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    cargo::succeed(command, &arguments)
}

/// Returns the version of the rustc that cargo uses here, such as `1.95.0`.
fn running_rustc() -> Result<String, String> {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.map_err(|error| format!("cannot run `rustc --version`: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().nth(1).ok_or("`rustc --version` printed no version")?;
    Ok(version.to_owned())
}

fn metadata(root: &Path) -> Result<Metadata, String> {
    let text = cargo::output(root, &["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Returns true if the system has the packages that [`VERBS`] needs. Otherwise records the missing packages
/// for `step`.
fn builds_verbs(step: &str) -> bool {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        let what = format!("{step}: {VERBS}");
        not_run::record(&what, format_args!("missing packages: {}", missing.join(" ")));
    }
    missing.is_empty()
}

/// Returns the paths, relative to the workspace, of the build scripts that only check generated files.
fn guards(root: &Path) -> Result<BTreeSet<String>, String> {
    let files = xtask::generate::files(root)?;
    let guards = files.iter().filter(|(path, _)| path.ends_with("build.rs"));
    Ok(guards.map(|(path, _)| path.to_string_lossy().into_owned()).collect())
}

fn files(root: &Path, package: &str) -> Result<BTreeSet<String>, String> {
    let text =
        cargo::output(root, &["package", "--list", "--locked", "--allow-dirty", "--package", package])?;
    // Windows uses backslashes as separators.
    Ok(text.lines().map(|line| line.replace('\\', "/")).collect())
}

fn wrong_files(files: &BTreeSet<String>, is_guarded: bool) -> Vec<String> {
    let missing = REQUIRED.iter().filter(|name| !files.contains(**name));
    let is_forbidden = |file: &&String| {
        let is_below = file.split_once('/').is_some_and(|(directory, _)| FORBIDDEN.contains(&directory));
        is_below || (is_guarded && *file == "build.rs")
    };
    let forbidden = files.iter().filter(is_forbidden);
    let missing = missing.map(|name| format!("the package has no {name}"));
    missing.chain(forbidden.map(|file| format!("the package must not have {file}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_forbidden_files_are_reported() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let mut files = set(REQUIRED);
        files.extend(["build.rs".to_owned(), "src/tests/a.rs".to_owned()]);
        assert_eq!(wrong_files(&files, false), [""; 0]);
        assert_eq!(wrong_files(&files, true), ["the package must not have build.rs"]);
        files.remove("LICENSE-MIT");
        files.insert("tests/data.bin".to_owned());
        let wrong = ["the package has no LICENSE-MIT", "the package must not have tests/data.bin"];
        assert_eq!(wrong_files(&files, false), wrong);
    }

    #[test]
    fn a_member_without_keywords_is_reported() {
        let member: Member = serde_json::from_str(
            r#"{"name": "a", "manifest_path": "/a/Cargo.toml", "publish": [], "rust_version": "1.95", "description": "a",
                "documentation": "a", "license": "a", "readme": null, "repository": "a", "keywords": [], "categories": ["a"]}"#,
        )
        .unwrap();
        assert!(!member.is_published());
        assert_eq!(member.missing_keys(), ["readme", "keywords"]);
    }
}
