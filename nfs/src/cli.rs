//! The command lines of the programs `nfs3` and `nfs3d`.
//!
//! The command lines are part of the library, so that man pages and shell completions can be rendered from
//! them.

pub mod nfs3;
pub mod nfs3d;
