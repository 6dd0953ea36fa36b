//! A step of the gate, or a long job.

use std::path::Path;

use crate::interop::{self, Group};

pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The time limit of a step, or the estimated duration of a long job.
    pub(crate) minutes: u64,
    work: Work,
}

enum Work {
    Function(fn(&Path) -> Result<(), String>),
    Group(Group),
}

impl Step {
    /// Creates a step that calls a function with the path of the workspace. If the step cannot run here, the
    /// function records this under the step's name (package `not-run`).
    pub(crate) const fn new(name: &'static str, minutes: u64, run: fn(&Path) -> Result<(), String>) -> Self {
        Step { name, minutes, work: Work::Function(run) }
    }

    pub(crate) const fn interop(name: &'static str, minutes: u64, group: Group) -> Self {
        Step { name, minutes, work: Work::Group(group) }
    }

    pub(crate) fn run(&self, root: &Path) -> Result<(), String> {
        match &self.work {
            Work::Function(run) => run(root),
            Work::Group(group) => interop::run(root, self.name, group),
        }
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        match &self.work {
            Work::Function(_) => None,
            Work::Group(group) => Some(group),
        }
    }
}
