//! The project's own chores, for its tests too.

pub mod files;
pub mod generate;
pub mod lab;
pub mod trace;

/// The Debian packages that the feature `verbs` lacks on this machine: as the build of the runtime finds them.
pub use rpcrdma_verbs_packages::missing as missing_for_verbs;
