//! The project's own chores, for its tests too.

pub mod files;
pub mod generate;
pub mod lab;
pub mod trace;

#[path = "../../rpcrdma-runtime/build/packages.rs"]
mod packages;

/// The Debian packages that the feature `verbs` lacks on this machine: as the build of the runtime finds them.
#[must_use]
pub fn missing_for_verbs() -> Vec<&'static str> {
    packages::missing()
}
