//! The workspace: its directories, packages and version.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// The workspace in which cargo runs this program.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// Output of `cargo metadata`, for the target of the archive.
    metadata: Value,
}

/// Returns the target triple of the archive's programs, which are statically linked for this machine's
/// architecture.
pub(crate) fn triple() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
        let root = Path::new(&manifest).ancestors().nth(2).context("the package is not in the workspace")?;
        let root = root.to_path_buf();
        let metadata = run::output(
            cargo(&root).args(["metadata", "--format-version", "1", "--filter-platform"]).arg(triple()),
        )?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let target = text(&metadata, "target_directory")?.into();
        Ok(Workspace { root, target, metadata })
    }

    pub(crate) fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> Result<String> {
        run::output(Command::new("git").current_dir(&self.root).args(arguments))
    }

    pub(crate) fn packages(&self) -> Result<impl Iterator<Item = Package<'_>>> {
        let packages = self.metadata["packages"].as_array().context("cargo metadata has no packages")?;
        Ok(packages.iter().map(Package))
    }

    pub(crate) fn publishable(&self) -> Result<Vec<Package<'_>>> {
        let publishable = |package: &Package<'_>| package.is_member() && package.is_publishable();
        Ok(self.packages()?.filter(publishable).collect())
    }

    /// Returns the version of this package. A release requires the same version for all published packages.
    pub(crate) fn version(&self) -> Result<String> {
        let own = self.packages()?.find(|package| package.name() == env!("CARGO_PKG_NAME"));
        Ok(own.context("cargo metadata does not list this package")?.version().to_owned())
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    command
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no {key}"))
}

#[derive(Clone, Copy)]
pub(crate) struct Package<'a>(&'a Value);

impl<'a> Package<'a> {
    fn text(self, key: &str) -> &'a str {
        self.0[key].as_str().unwrap_or_default()
    }

    pub(crate) fn name(self) -> &'a str {
        self.text("name")
    }

    pub(crate) fn version(self) -> &'a str {
        self.text("version")
    }

    /// Returns the SPDX expression, or an empty string if the package declares no license.
    pub(crate) fn license(self) -> &'a str {
        self.text("license")
    }

    pub(crate) fn directory(self) -> &'a Path {
        Path::new(self.text("manifest_path")).parent().unwrap_or(Path::new(""))
    }

    /// Returns true for a workspace member. In the metadata, the `source` of a member is null.
    pub(crate) fn is_member(self) -> bool {
        self.0["source"].is_null()
    }

    fn is_publishable(self) -> bool {
        self.0["publish"].is_null()
    }

    /// Returns the names of the package's dependencies, except development dependencies without a version.
    pub(crate) fn requirements(self) -> impl Iterator<Item = &'a str> {
        let dependencies = self.0["dependencies"].as_array().into_iter().flatten();
        dependencies
            .filter(|dependency| dependency["req"] != "*")
            .filter_map(|dependency| dependency["name"].as_str())
    }
}
