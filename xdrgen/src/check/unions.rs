//! Unions whose arms leave values of the discriminant without one, or leave none for the default arm.

use super::Facts;
use crate::diag::{Few, Found, MeaningKind};
use crate::hash::HashSet;
use crate::hir::{Body, Chooser, Hir, Union};

/// How many values a warning names.
const NAMED: usize = 5;

/// X214: a message with a value without an arm cannot be decoded.
pub(crate) fn uncovered_values(hir: &Hir, found: &mut Found) {
    for ty in &hir.types {
        let Body::Union(union) = &ty.body else { continue };
        let missing = missing(hir, union);
        if !missing.is_empty() {
            let values = Few::of(missing.into_iter().map(str::to_owned), NAMED);
            found.push(MeaningKind::NoArm { values }.at(union.at));
        }
    }
}

/// X226: a bool has two values. An enum may get more in another version, for which a default arm is there.
pub(super) fn idle_defaults(facts: &Facts<'_>, found: &mut Found) {
    for ty in &facts.hir.types {
        let Body::Union(union) = &ty.body else { continue };
        let labels: usize = union.arms.iter().map(|arm| arm.labels.len()).sum();
        let default = union.arms.iter().find(|arm| arm.labels.is_empty());
        if let Some(default) = default.filter(|_| union.sound && labels == 2)
            && facts.hir.chooser(&union.discriminant) == Some(Chooser::Bool)
        {
            found.push(MeaningKind::IdleDefault.at(default.docs.span));
        }
    }
}

/// The names of the values without an arm, where all arms are known.
fn missing<'h>(hir: &'h Hir, union: &Union) -> Vec<&'h str> {
    if !union.sound || union.arms.iter().any(|arm| arm.labels.is_empty()) {
        return Vec::new();
    }
    let labels = union.arms.iter().flat_map(|arm| &arm.labels);
    let taken: HashSet<i128> = labels.map(|label| label.value).collect();
    match hir.chooser(&union.discriminant) {
        Some(Chooser::Enum(id)) => {
            let members = hir.members(id).iter().filter(|member| member.same_as.is_none());
            let free = members.filter(|member| !taken.contains(&member.value.into()));
            free.map(|member| member.name.as_str()).collect()
        }
        Some(Chooser::Bool) => {
            let free = [(0, "FALSE"), (1, "TRUE")].into_iter().filter(|(value, _)| !taken.contains(value));
            free.map(|(_, name)| name).collect()
        }
        _ => Vec::new(),
    }
}
