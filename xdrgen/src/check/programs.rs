//! Programs whose calls cannot be distinguished.

use super::Facts;
use crate::diag::{Found, MeaningKind};
use crate::hash::HashMap;

/// X232: two programs with the same number that define the same version.
pub(super) fn shared_numbers(facts: &Facts<'_>, found: &mut Found) {
    let mut seen = HashMap::default();
    for program in &facts.hir.programs {
        let Some(span) = program.number_at else { continue };
        let number = program.number;
        let mut versions = program.versions.iter().map(|version| version.number);
        let shared = versions.clone().find_map(|version| Some((version, *seen.get(&(number, version))?)));
        match shared {
            Some((version, first)) => {
                found.push(MeaningKind::SecondProgram { number, version, first }.at(span));
            }
            None => seen.extend(versions.by_ref().map(|version| ((number, version), span))),
        }
    }
}
