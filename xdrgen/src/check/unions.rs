//! Checks unions for values without an arm, and for default arms that no value can select.

use super::Facts;
use crate::diag::{Excerpt, Found, UnionKind};
use crate::hash::HashSet;
use crate::hir::{Body, Hir, Selector, Union};

/// Maximum number of values named in a finding.
const NAMED: usize = 5;

/// X214: a union cannot decode enum or bool values that have no arm. Each union has at most one finding,
/// which names up to [`NAMED`] values.
pub(super) fn uncovered_values(hir: &Hir, found: &mut Found) {
    for ty in &hir.types {
        let Body::Union(union) = &ty.body else { continue };
        let values = missing(hir, union);
        if !values.first.is_empty() {
            found.push(UnionKind::NoArm { values }.at(union.at));
        }
    }
}

/// X226: a default arm that no value selects. Only unions with a bool as the discriminant are checked, since
/// an enum may gain values in another version.
pub(super) fn unused_defaults(facts: &Facts<'_>, found: &mut Found) {
    for ty in &facts.hir.types {
        let Body::Union(union) = &ty.body else { continue };
        let labels: usize = union.arms.iter().map(|arm| arm.labels.len()).sum();
        let default = union.arms.iter().find(|arm| arm.labels.is_empty());
        if let Some(default) = default.filter(|_| union.has_all_labels && labels == 2)
            && facts.hir.selector(&union.discriminant) == Some(Selector::Bool)
        {
            found.push(UnionKind::UnusedDefault.at(default.docs.span));
        }
    }
}

/// Returns the names of the values without an arm. The result is empty if the union has a default arm or an
/// integer discriminant, or if an invalid label was omitted.
fn missing(hir: &Hir, union: &Union) -> Excerpt<String> {
    let is_exempt = !union.has_all_labels || union.arms.iter().any(|arm| arm.labels.is_empty());
    let selector = hir.selector(&union.discriminant).filter(|_| !is_exempt);
    let labels = union.arms.iter().flat_map(|arm| &arm.labels);
    let taken: HashSet<i128> = labels.map(|label| label.value).collect();
    let free = |values: &mut dyn Iterator<Item = (i128, &str)>| {
        let free = values.filter(|(value, _)| !taken.contains(value));
        Excerpt::of(free.map(|(_, name)| name.to_owned()), NAMED)
    };
    match selector {
        Some(Selector::Enum(id)) => {
            let members = hir.members(id).iter().filter(|member| member.same_as.is_none());
            free(&mut members.map(|member| (member.value.into(), member.name.as_str())))
        }
        Some(Selector::Bool) => free(&mut [(0, "FALSE"), (1, "TRUE")].into_iter()),
        _ => free(&mut std::iter::empty()),
    }
}
