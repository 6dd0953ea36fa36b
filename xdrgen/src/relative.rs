//! Computes paths relative to a given directory. The paths need not exist.

use std::path::{Component, Path, PathBuf, absolute};

/// Returns a path in the form that emitted files show: relative to `from`, if given. Without `from`, or if
/// both paths share at most the root, an absolute path is reduced to its last component. The directories of
/// such a path depend on the machine.
pub(crate) fn shown(path: &Path, from: Option<&Path>) -> String {
    let name =
        || path.file_name().filter(|_| path.is_absolute()).map_or_else(|| path.to_owned(), PathBuf::from);
    slashes(&from.and_then(|directory| relative_to(path, directory)).unwrap_or_else(name))
}

/// Returns a path for a command that runs in `from`: relative to `from`, or as given if the path is absolute
/// and shares at most the root with `from`.
#[cfg(feature = "cli")]
pub(crate) fn for_command(path: &Path, from: &Path) -> String {
    let path = slashes(&relative_to(path, from).unwrap_or_else(|| path.to_owned()));
    if path.is_empty() { ".".to_owned() } else { path }
}

/// Returns `path` relative to the directory `from`. Returns `None` for an absolute path that shares at most
/// the root with `from`.
fn relative_to(path: &Path, from: &Path) -> Option<PathBuf> {
    path_from(from, path).filter(|(_, is_near)| *is_near || path.is_relative()).map(|(seen, _)| seen)
}

/// Returns `directory` relative to `manifest`, the directory of a manifest. An absolute path is returned
/// unchanged, and so is any path if `manifest` is `None`.
#[cfg(feature = "cli")]
pub(crate) fn for_manifest(directory: &str, manifest: Option<&Path>) -> String {
    let path = Path::new(directory);
    let seen = manifest.filter(|_| path.is_relative()).and_then(|manifest| path_from(manifest, path));
    seen.map_or_else(|| directory.to_owned(), |(seen, _)| slashes(&seen))
}

fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Returns `path` relative to `directory`, and whether the two paths share more than the root. Returns `None`
/// if the paths have different roots. Each path may be absolute, or relative to the current directory.
fn path_from(directory: &Path, path: &Path) -> Option<(PathBuf, bool)> {
    let (from, to) = (normal(&absolute(directory).ok()?), normal(&absolute(path).ok()?));
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let root = to.components().take_while(|part| !matches!(part, Component::Normal(_))).count();
    if shared < root {
        return None;
    }
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    Some((up.chain(to.components().skip(shared)).collect(), shared > root))
}

/// Resolves `.` and `..` in an absolute path, without access to the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(all(test, unix, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_a_directory() {
        let from = |directory: &str, path: &str| shown(Path::new(path), Some(Path::new(directory)));
        assert_eq!(from("kv", "kv.x"), "../kv.x");
        assert_eq!(from("out/kv", "specs/kv.x"), "../../specs/kv.x");
        assert_eq!(from(".", "specs/../kv.x"), "kv.x");
        assert_eq!(from("kv", "kv/kv.x"), "kv.x");
        assert_eq!(from("/a/out", "/a/specs/kv.x"), "../specs/kv.x");
        assert_eq!(from("/a/out", "/b/kv.x"), "kv.x", "omits directories that depend on the machine");
        assert_eq!(shown(Path::new("specs/kv.x"), None), "specs/kv.x");
        assert_eq!(shown(Path::new("/b/kv.x"), None), "kv.x");
        assert_eq!(for_command(Path::new("/b/kv.x"), Path::new("/a/out")), "/b/kv.x");
        assert_eq!(for_command(Path::new("/a/kv.x"), Path::new("/a/out")), "../kv.x");
        assert_eq!(for_command(Path::new("."), Path::new(".")), ".");
        let manifest = |directory| for_manifest(directory, Some(Path::new("/a/out")));
        assert_eq!(manifest("/b/runtime"), "/b/runtime");
        assert_eq!(for_manifest("../runtime", Some(Path::new("kv"))), "../../runtime");
    }
}
