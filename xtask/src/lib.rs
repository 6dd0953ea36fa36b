//! The project's own chores, for its tests too.

pub mod files;
pub mod generate;
pub mod trace;
