//! The command that repeats a run, for the headers of emitted files and manifests.

use std::path::Path;

use super::Generation;
use crate::generate::Options;
use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;
use crate::relative;

/// Returns the command with its arguments. The command must be run in the crate's directory if a crate is
/// emitted, otherwise in the original working directory. Paths are relative to the directory in which the
/// command must be run. An absolute path is unchanged if it shares at most the root with this directory, or
/// if it is the `--runtime-path`.
pub(super) fn command(generation: &Generation) -> String {
    let Generation { inputs, output, .. } = generation;
    let crate_directory = generation.directory();
    let from = crate_directory.unwrap_or(Path::new("."));
    let path = |path: &Path| match path.as_os_str() == "-" {
        true => "-".to_owned(),
        false => quoted(&relative::for_command(path, from)),
    };
    let mut words = vec!["rpcrdma-xdrgen".to_owned(), "generate".to_owned()];
    words.extend(inputs.documents.files.iter().map(|file| path(file)));
    let mut set = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    inputs.binding.iter().for_each(|file| set("--binding", path(file)));
    inputs.documents.define.iter().for_each(|name| set("-D", quoted(name)));
    inputs.externs.iter().for_each(|(name, rust)| set("--extern", quoted(&format!("{name}={rust}"))));
    match (crate_directory, output) {
        (Some(_), _) => set("--output", ".".to_owned()),
        (None, Some(output)) => set("--output", quoted(&relative::for_command(output, from))),
        (None, None) => {}
    }
    if generation.runtime != Options::module("").runtime {
        set("--runtime", quoted(&generation.runtime));
    }
    if generation.names == Names::Verbatim {
        set("--names", "verbatim".to_owned());
    }
    if generation.data == Data::Borrowed {
        set("--data", "borrowed".to_owned());
    }
    generation.derive.iter().for_each(|derive| set("--derive", quoted(derive)));
    if let Some(package) = &generation.package {
        set("--crate", quoted(package));
        set("--title", quoted(&generation.title));
    }
    generation.manifest_path().iter().for_each(|directory| set("--runtime-path", quoted(directory)));
    let flags = [
        ("--no-prelude", inputs.no_prelude),
        ("--dialect xdrzcc", inputs.dialect == Dialect::Xdrzcc),
        ("--no-std", generation.no_std),
        ("--keep-going", generation.keep_going),
        ("--workspace-crate", generation.workspace_crate),
    ];
    words.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()));
    words.join(" ")
}

/// Quotes a word for a shell, if necessary. Replaces control characters with `?`, since the command is one
/// line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let line: String = word.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("'{}'", line.replace('\'', "'\\''"))
}
