//! A step of the gate, or a long job.

use std::path::Path;

/// A step of the gate, or a long job.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The time limit of a step, or the estimated duration of a long job.
    pub(crate) minutes: u64,
    /// Runs the step in the workspace at this path. A step that cannot run here records that under its
    /// name (package `not-run`).
    pub(crate) run: fn(&Path) -> Result<(), String>,
}
