//! Project maintenance tasks, also for tests.

pub mod files;
pub mod generate;
pub mod trace;
