//! The checks before a release, and the order in which to publish the packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::workspace::{Package, Workspace};
use crate::{archive, run};

/// Options of `cargo xtask release`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Long jobs, separated by commas, that must have an entry in docs/ledger.tsv
    #[arg(long, value_name = "JOBS", value_delimiter = ',')]
    jobs: Vec<String>,
    /// Do not build the packed crates
    #[arg(long)]
    no_verify: bool,
    /// If a check fails, still pack and build, then exit with status 1
    #[arg(long)]
    keep_going: bool,
}

/// The ledger of long jobs, relative to the workspace. A line has a date, a revision, a job, an outcome and
/// a duration in seconds, separated by tabs.
const LEDGER: &str = "docs/ledger.tsv";

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    NotRun(String),
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let version = workspace.version()?;
    let tag = last_tag(workspace)?;
    let checks = [
        ("the working tree is clean", clean(workspace)),
        ("all crates have the same version", same_version(workspace)),
        ("the changelog has a section for this version", changelog(workspace, &version)),
        (
            "long jobs have passed since the last release",
            ledger_is_recent(workspace, tag.as_deref(), &options.jobs),
        ),
        ("the version permits the API changes", semver(workspace, tag.as_deref())),
    ];
    let mut failed = Vec::new();
    for (name, outcome) in checks {
        match outcome {
            Ok(Outcome::Passed) => println!("passed: {name}"),
            Ok(Outcome::NotRun(why)) => println!("NOT RUN: {name}: {why}"),
            Err(error) => {
                println!("FAILED: {name}: {error:#}");
                failed.push(name);
            }
        }
    }
    let failure = failed.join("; ");
    ensure!(failed.is_empty() || options.keep_going, "not ready for release: {failure}");

    let mut files = pack(workspace, options)?;
    files.push(archive::build(workspace)?);
    println!("\nfiles:");
    for path in &files {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        println!("{}  {:>9}  {}", sha256(&bytes), bytes.len(), path.display());
    }
    println!("\nto publish, in this order:");
    for name in order(&workspace.publishable()?)? {
        println!("cargo publish --package {name}");
    }
    ensure!(failed.is_empty(), "not ready for release: {failure}");
    Ok(())
}

/// Returns the highest version tag of the current commit and its ancestors, if any.
fn last_tag(workspace: &Workspace) -> Result<Option<String>> {
    let tags = workspace.git(&["tag", "--list", "v[0-9]*", "--merged", "HEAD", "--sort=-version:refname"])?;
    Ok(tags.lines().next().map(str::to_owned))
}

fn clean(workspace: &Workspace) -> Result<Outcome> {
    let changes = workspace.git(&["status", "--porcelain"])?;
    ensure!(changes.is_empty(), "uncommitted changes:\n{changes}");
    Ok(Outcome::Passed)
}

fn same_version(workspace: &Workspace) -> Result<Outcome> {
    let version = workspace.version()?;
    let others: Vec<String> = workspace
        .publishable()?
        .iter()
        .filter(|package| package.version() != version)
        .map(|package| format!("{} {}", package.name(), package.version()))
        .collect();
    ensure!(others.is_empty(), "packages without the workspace version {version}: {}", others.join(", "));
    Ok(Outcome::Passed)
}

fn changelog(workspace: &Workspace, version: &str) -> Result<Outcome> {
    has_section(&fs::read_to_string(workspace.root.join("CHANGELOG.md"))?, version)?;
    Ok(Outcome::Passed)
}

/// Fails unless a changelog has a nonempty section `## VERSION - YYYY-MM-DD` (the version may be in
/// brackets).
fn has_section(changelog: &str, version: &str) -> Result<()> {
    let headings = [format!("## {version}"), format!("## [{version}]")];
    let mut lines = changelog.lines();
    let rest = lines.find_map(|line| {
        let rest = headings.iter().find_map(|heading| line.strip_prefix(heading.as_str()))?;
        rest.chars().next().is_none_or(char::is_whitespace).then_some(rest)
    });
    let rest = rest.with_context(|| format!("no section `## {version} - YYYY-MM-DD`"))?;
    let date = rest.trim_start_matches([' ', '-']);
    let is_date = date.len() == 10
        && date
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() });
    ensure!(is_date, "the section for {version} has no date YYYY-MM-DD: `{rest}`");
    let text = lines.take_while(|line| !line.starts_with("## "));
    let has_text = text.into_iter().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    ensure!(has_text, "the section for {version} is empty");
    Ok(())
}

/// Fails if the latest run of a long job failed or was before the last version tag, or if one of `jobs` has
/// never run.
fn ledger_is_recent(workspace: &Workspace, tag: Option<&str>, jobs: &[String]) -> Result<Outcome> {
    let since = match tag {
        Some(tag) => {
            let format = ["--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"];
            let mut git = Command::new("git");
            git.env("TZ", "UTC").current_dir(&workspace.root).args(["log", "-1"]).args(format).arg(tag);
            run::output(&mut git)?
        }
        None => String::new(),
    };
    let findings = stale_jobs(&fs::read_to_string(workspace.root.join(LEDGER))?, &since, jobs)?;
    ensure!(findings.is_empty(), "{}", findings.join("; "));
    Ok(Outcome::Passed)
}

/// Returns a finding for each job that has not run since `since`, and for each job whose latest run failed.
fn stale_jobs(ledger: &str, since: &str, jobs: &[String]) -> Result<Vec<String>> {
    let mut latest: BTreeMap<&str, Option<(&str, &str)>> =
        jobs.iter().map(|job| (job.as_str(), None)).collect();
    for line in ledger.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [date, _revision, job, outcome, _seconds] = columns[..] else {
            bail!("{LEDGER}: not an entry: {line}");
        };
        let entry = latest.entry(job).or_default();
        if entry.is_none_or(|(earlier, _)| earlier <= date) {
            *entry = Some((date, outcome));
        }
    }
    let finding = |(job, run): (&str, Option<(&str, &str)>)| match run {
        None => Some(format!("{job}: never run")),
        Some((date, _)) if date < since => {
            Some(format!("{job}: last run on {date}, before the last release"))
        }
        Some((date, outcome)) if outcome != "passed" => Some(format!("{job}: {outcome} on {date}")),
        Some(_) => None,
    };
    Ok(latest.into_iter().filter_map(finding).collect())
}

fn semver(workspace: &Workspace, tag: Option<&str>) -> Result<Outcome> {
    let Some(tag) = tag else { return Ok(Outcome::NotRun("no tag of an earlier version".to_owned())) };
    if !run::is_installed("cargo-semver-checks") {
        return Ok(Outcome::NotRun("cargo-semver-checks is not installed".to_owned()));
    }
    run::succeed(workspace.cargo().args(["semver-checks", "--workspace", "--baseline-rev", tag]))?;
    Ok(Outcome::Passed)
}

fn pack(workspace: &Workspace, options: &Options) -> Result<Vec<PathBuf>> {
    let packages = workspace.publishable()?;
    let mut command = workspace.cargo();
    command.args(["package", "--locked"]);
    if options.no_verify {
        command.arg("--no-verify");
    }
    if options.keep_going {
        command.arg("--allow-dirty");
    }
    for package in &packages {
        command.args(["--package", package.name()]);
    }
    run::succeed(&mut command)?;
    let folder = workspace.target.join("package");
    let path = |package: &Package<'_>| folder.join(format!("{}-{}.crate", package.name(), package.version()));
    Ok(packages.iter().map(path).collect())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the names of packages, each after its dependencies.
fn order<'a>(packages: &[Package<'a>]) -> Result<Vec<&'a str>> {
    let own: BTreeSet<&str> = packages.iter().map(|package| package.name()).collect();
    let needs = |package: &Package<'a>| {
        let needs = package.requirements().filter(|name| own.contains(name) && *name != package.name());
        (package.name(), needs.collect())
    };
    sorted(packages.iter().map(needs).collect())
}

/// Sorts names so that each follows its dependencies. Of the names that could come next, takes the
/// alphabetically first.
fn sorted<'a>(mut needs: BTreeMap<&'a str, BTreeSet<&'a str>>) -> Result<Vec<&'a str>> {
    let mut order = Vec::new();
    while !needs.is_empty() {
        let ready = needs.iter().find(|(_, needs)| needs.is_empty()).map(|(name, _)| *name);
        let Some(ready) = ready else {
            bail!("cyclic dependencies between {}", needs.into_keys().collect::<Vec<_>>().join(", "));
        };
        needs.remove(ready);
        needs.values_mut().for_each(|others| {
            others.remove(ready);
        });
        order.push(ready);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_a_date_and_text() {
        for heading in ["## 0.2.0 - 2026-01-31", "## [0.2.0] - 2026-01-31", "## 0.2.0 2026-01-31"] {
            let changelog =
                format!("# Changelog\n\n## Unreleased\n\n{heading}\n\n### Added\n\n- This.\n\n## 0.1.0\n");
            has_section(&changelog, "0.2.0").unwrap();
            assert!(has_section(&changelog, "0.2").is_err());
            assert!(has_section(&changelog, "0.1.0").unwrap_err().to_string().contains("no date"));
            let empty = changelog.replace("- This.", "");
            assert!(has_section(&empty, "0.2.0").unwrap_err().to_string().contains("empty"));
        }
        assert!(has_section("## 0.2.0 - soon\n\n- This.\n", "0.2.0").is_err());
    }

    #[test]
    fn jobs_have_to_pass_after_the_last_version() {
        let ledger = "# date\trevision\tjob\toutcome\tseconds\n\
            2026-01-03T00:00:00Z\tabc\ta\tpassed\t1\n\
            2026-01-01T00:00:00Z\tabc\ta\tfailed\t1\n\
            2026-01-02T00:00:00Z\tabc\tb\tpassed\t1\n\
            2026-01-04T00:00:00Z\tabc\tc\tpassed\t1\n\
            2026-01-05T00:00:00Z\tabc\tc\tfailed\t1\n";
        let jobs = ["a", "d"].map(str::to_owned);
        let stale = |since| stale_jobs(ledger, since, &jobs).unwrap();
        assert_eq!(stale(""), ["c: failed on 2026-01-05T00:00:00Z", "d: never run"]);
        assert_eq!(
            stale("2026-01-03T00:00:00Z")[0],
            "b: last run on 2026-01-02T00:00:00Z, before the last release"
        );
        assert!(stale_jobs("2026-01-01 a passed", "", &[]).is_err());
    }

    #[test]
    fn dependencies_are_published_first() {
        let needs = |of: &[(&'static str, &[&'static str])]| {
            of.iter().map(|(name, needs)| (*name, needs.iter().copied().collect())).collect()
        };
        let order = sorted(needs(&[("a", &["c"]), ("b", &[]), ("c", &["b"]), ("d", &[])])).unwrap();
        assert_eq!(order, ["b", "c", "a", "d"]);
        assert!(sorted(needs(&[("a", &["b"]), ("b", &["a"])])).is_err());
    }

    #[test]
    fn sums_are_hexadecimal() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
