//! Unions whose arms leave values of the discriminant uncovered, or leave none for the default arm.

use super::Facts;
use crate::diag::{Few, Found, UnionKind};
use crate::hash::HashSet;
use crate::hir::{Body, Chooser, Hir, Union};

/// Maximum number of values named in a warning.
const NAMED: usize = 5;

/// X214: a message with a value without an arm cannot be decoded. Each union has one finding for all values.
pub(super) fn uncovered_values(hir: &Hir, found: &mut Found) {
    for ty in &hir.types {
        let Body::Union(union) = &ty.body else { continue };
        let values = missing(hir, union);
        if !values.first.is_empty() {
            found.push(UnionKind::NoArm { values }.at(union.at));
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
            found.push(UnionKind::IdleDefault.at(default.docs.span));
        }
    }
}

/// The names of the values without an arm, where all arms are known.
fn missing(hir: &Hir, union: &Union) -> Few<String> {
    let has_all = !union.sound || union.arms.iter().any(|arm| arm.labels.is_empty());
    let chooser = hir.chooser(&union.discriminant).filter(|_| !has_all);
    let labels = union.arms.iter().flat_map(|arm| &arm.labels);
    let taken: HashSet<i128> = labels.map(|label| label.value).collect();
    let free = |values: &mut dyn Iterator<Item = (i128, &str)>| {
        let free = values.filter(|(value, _)| !taken.contains(value));
        Few::of(free.map(|(_, name)| name.to_owned()), NAMED)
    };
    match chooser {
        Some(Chooser::Enum(id)) => {
            let members = hir.members(id).iter().filter(|member| member.same_as.is_none());
            free(&mut members.map(|member| (member.value.into(), member.name.as_str())))
        }
        Some(Chooser::Bool) => free(&mut [(0, "FALSE"), (1, "TRUE")].into_iter()),
        _ => free(&mut std::iter::empty()),
    }
}
