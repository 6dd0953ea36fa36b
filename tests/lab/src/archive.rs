//! Debian's package archive, accessed with this machine's apt configuration.
//!
//! Package lists and packages are stored in the lab's cache, and packages are only unpacked. Therefore, the
//! lab needs no privileges and installs nothing. The lab does not depend on the machine's own package lists,
//! which may be outdated.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{at, command, output, pipe, remove};

/// A package of a few kilobytes, for trial downloads.
const SMALL: &str = "netbase";

pub(super) struct Archive {
    state: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) version: String,
    /// The names of the packages that this version depends on. A name has a version if the
    /// dependency requires exactly that version.
    pub(super) depends: Vec<(String, Option<String>)>,
}

impl Archive {
    /// Opens the archive and downloads the current package lists. If a download fails, prints the error and
    /// continues.
    pub(super) fn open(cache: &Path) -> Result<Self, String> {
        let archive = Archive { state: cache.join("apt") };
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            let folder = archive.state.join(folder);
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        eprintln!("lab: reading the package lists");
        // Continue after a failure: another configured archive may have the required packages.
        if let Err(error) = output(archive.command("apt-get").arg("update")) {
            eprintln!("lab: {error}");
        }
        Ok(archive)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = command(program);
        for (option, value) in [
            ("Dir::State", self.state.join("state")),
            ("Dir::Cache", self.state.join("cache")),
            // The packages installed on this machine do not affect the guest, but apt requires a status file.
            ("Dir::State::status", "/var/lib/dpkg/status".into()),
        ] {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        // If run as root, apt would otherwise switch to a user that cannot write to the cache.
        command.args(["-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"]);
        command
    }

    /// Returns the available versions of a package, the newest first. The list is empty if the package is
    /// unknown or `apt-cache` fails.
    pub(super) fn versions(&self, package: &str) -> Vec<Version> {
        let shown = output(self.command("apt-cache").args(["show", package])).unwrap_or_default();
        versions(&shown)
    }

    /// Returns the named packages and all libraries that they need, directly or through other libraries.
    ///
    /// Other dependencies are omitted. Most of them are needed only to configure a package, and the lab only
    /// unpacks packages.
    pub(super) fn with_libraries(&self, packages: &[&str]) -> Result<Vec<String>, String> {
        let mut command = self.command("apt-cache");
        command.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"]);
        command.args(["--no-breaks", "--no-replaces", "--no-enhances"]).args(packages);
        let printed = output(&mut command)?;
        let tree = dependencies(&printed);
        let mut wanted: BTreeSet<&str> = packages.iter().copied().collect();
        let mut pending: VecDeque<&str> = packages.iter().copied().collect();
        while let Some(package) = pending.pop_front() {
            let needs = tree.get(package).map(Vec::as_slice).unwrap_or_default();
            for library in needs.iter().filter(|name| is_library(name) && tree.contains_key(**name)) {
                if wanted.insert(library) {
                    pending.push_back(library);
                }
            }
        }
        Ok(wanted.into_iter().map(str::to_owned).collect())
    }

    pub(super) fn have(&self, packages: &[&str]) -> Result<(), String> {
        let lacks = |package: &&&str| self.versions(package).is_empty();
        let missing: Vec<&str> = packages.iter().filter(lacks).copied().collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("the archive lacks {}", missing.join(", "))) }
    }

    /// Checks that a small package can be downloaded into `folder`, and then removes `folder`.
    pub(super) fn try_out(&self, folder: &Path) -> Result<(), String> {
        self.download(&[SMALL.to_owned()], folder)?;
        remove(folder)
    }

    /// Downloads packages (`NAME` or `NAME=VERSION`) into a directory. Returns all packages in the directory.
    pub(super) fn download(&self, packages: &[String], folder: &Path) -> Result<Vec<PathBuf>, String> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        output(self.command("apt-get").arg("download").args(packages).current_dir(folder))?;
        let entries = fs::read_dir(folder).map_err(at(folder))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|suffix| suffix == "deb"));
        files.sort();
        Ok(files)
    }

    /// Downloads and unpacks packages and the libraries that they need. `what` is part of the progress
    /// message.
    pub(super) fn unpack_all(&self, packages: &[&str], folder: &Path, what: &str) -> Result<(), String> {
        let packages = self.with_libraries(packages)?;
        eprintln!("lab: fetching {} packages {what}", packages.len());
        let downloaded = folder.with_extension("packages");
        for package in self.download(&packages, &downloaded)? {
            unpack(&package, folder)?;
        }
        remove(&downloaded)
    }
}

/// Unpacks a package without running its scripts.
pub(super) fn unpack(package: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    pipe(
        command("dpkg-deb").arg("--fsys-tarfile").arg(package),
        // /bin and similar directories may already be links into /usr.
        command("tar").args(["-x", "--keep-directory-symlink", "--no-same-owner", "-C"]).arg(folder),
    )
}

fn is_library(package: &str) -> bool {
    package.starts_with("lib") || package == "zlib1g"
}

/// Parses the output of `apt-cache show`, which consists of paragraphs of `Field: value` lines.
fn versions(shown: &str) -> Vec<Version> {
    let field = |paragraph: &str, name: &str| {
        let line = paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default().to_owned()
    };
    let paragraphs = shown.split("\n\n").filter(|paragraph| paragraph.contains("Version: "));
    let version = |paragraph: &str| Version {
        version: field(paragraph, "Version"),
        depends: field(paragraph, "Depends").split(", ").map(dependency).collect(),
    };
    paragraphs.map(version).collect()
}

/// Parses `NAME (= VERSION)`, `NAME (>= VERSION)` or `NAME`. Returns the version only if it is exact (`=`).
/// If `text` has alternatives, separated by `|`, parses only the first.
fn dependency(text: &str) -> (String, Option<String>) {
    let first = text.split('|').next().unwrap_or_default().trim();
    let (name, bound) = first.split_once(' ').unwrap_or((first, ""));
    let exact = bound.strip_prefix("(= ").and_then(|version| version.strip_suffix(')'));
    (name.to_owned(), exact.map(str::to_owned))
}

/// Parses the output of `apt-cache depends --recurse`: unindented package names, each followed by indented
/// dependencies.
fn dependencies(printed: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut tree: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut package = "";
    for line in printed.lines() {
        if !line.starts_with([' ', '|']) {
            package = line.trim();
            tree.entry(package).or_default();
        } else if let Some((_, name)) = line.split_once("Depends: ") {
            tree.entry(package).or_default().push(name.trim());
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_exact_dependencies_are_parsed() {
        let shown = "Package: linux-headers-amd64\nVersion: 6.1.9-2\nDepends: linux-headers-6.1.0-5-amd64 (= 6.1.9-2), \
                     make (>= 1) | gmake\n\nPackage: linux-headers-amd64\nVersion: 6.1.7-1\n";
        let read = versions(shown);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].version, "6.1.9-2");
        let exact = ("linux-headers-6.1.0-5-amd64".to_owned(), Some("6.1.9-2".to_owned()));
        assert_eq!(read[0].depends, [exact, ("make".to_owned(), None)]);
        assert_eq!(read[1].version, "6.1.7-1");
    }

    #[test]
    fn a_dependency_tree_is_parsed() {
        let printed = "mount\n  PreDepends: libmount1\n  Depends: libc6\n |Depends: a\n  Depends: <virtual>\n    b\nlibc6\n";
        let tree = dependencies(printed);
        assert_eq!(tree["mount"], ["libmount1", "libc6", "a", "<virtual>"]);
        assert!(tree["libc6"].is_empty());
    }
}
