//! The project's own chores, for its tests too.

pub mod generate;
