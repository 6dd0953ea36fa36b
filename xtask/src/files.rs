//! The files of the workspace, and their names in messages.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all files below a directory, sorted, except those in `.git` and in build directories. A missing or
/// unreadable directory counts as empty.
///
/// # Errors
/// Returns the system's error for an unreadable directory entry, with the path.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", directory.display()))?;
            let kind = entry.file_type().map_err(|error| format!("{}: {error}", entry.path().display()))?;
            if kind.is_file() {
                files.push(entry.path());
            } else if kind.is_dir() && !is_foreign(&entry.path()) {
                pending.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true if the directory contains version control data or build output.
fn is_foreign(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == ".git" || name == "target")
        || directory.join("CACHEDIR.TAG").exists()
}

/// Returns `path` relative to `root`, with `/` as the separator, for messages.
#[must_use]
pub fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
