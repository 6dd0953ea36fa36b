//! The licenses of the crates that are linked into the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::pages::SHIPPED;
use crate::run;
use crate::workspace::{Workspace, triple};

/// Returns a list of the linked third-party crates with their licenses, followed by each license text once.
pub(crate) fn third_party(workspace: &Workspace) -> Result<String> {
    let linked = linked(workspace)?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in workspace.packages()?.filter(|package| !package.is_member()) {
        let name = format!("{} {}", package.name(), package.version());
        if !linked.contains(&name) {
            continue;
        }
        writeln!(list, "{name}: {}", package.license())?;
        for text in license_texts(package.directory())? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut page = format!(
        "The programs contain the Rust standard library (MIT OR Apache-2.0), musl libc (MIT), and these crates:\n\n{list}"
    );
    for (text, names) in texts {
        write!(page, "\n{}\n{}\n\n{}\n", "=".repeat(79), names.join(", "), text.trim_end())?;
    }
    Ok(page)
}

fn linked(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut command = workspace.cargo();
    command.args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none", "--target"]);
    command.arg(triple());
    for shipped in SHIPPED {
        command.args(["--package", shipped.package]);
        for feature in shipped.features {
            command.args(["--features", feature]);
        }
    }
    let tree = run::output(&mut command)?;
    let name = |line: &str| {
        let (name, version) = line.split_once(" v")?;
        Some(format!("{name} {}", version.split_whitespace().next()?))
    };
    Ok(tree.lines().filter_map(name).collect())
}

const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];

fn license_texts(directory: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.push(fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
    }
    texts.sort();
    Ok(texts)
}
