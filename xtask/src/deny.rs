//! cargo-deny (`deny.toml`): checks the licenses, duplicate versions, sources and security advisories of all
//! dependencies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{child, tools};

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let Some(program) = tools::DENY.program(root, "deny") else { return Ok(()) };
    let deny = |arguments: &[&str], failure| {
        tools::succeed(Command::new(&program).args(arguments).current_dir(root), failure)
    };
    deny(&["check", "licenses", "bans", "sources"], "a dependency breaks a rule of deny.toml")?;
    let mut fetch = Command::new(&program);
    fetch.args(["fetch", "db"]).current_dir(root);
    if !child::succeeds(fetch, Duration::from_secs(120)) {
        not_run::record("deny: advisories", "the advisory database cannot be fetched");
        return Ok(());
    }
    deny(&["check", "--disable-fetch", "advisories"], "a security advisory applies to a dependency")
}
