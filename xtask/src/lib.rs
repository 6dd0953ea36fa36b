//! Project maintenance tasks that tests also use.

pub mod files;
pub mod generate;
pub mod trace;
