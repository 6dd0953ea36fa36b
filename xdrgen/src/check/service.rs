//! The service parameters of a binding: port, netids, and inline threshold.

use super::Facts;
use crate::binding::{Binding, Direction, Placed};
use crate::diag::{BindingKind, Found, Unknown};
use crate::hir;
use crate::similarity::nearest;
use crate::source::Span;

/// The netids of RPC-over-RDMA for IPv4 and for IPv6 addresses (RFC 8166 section 9).
const NETIDS: [&str; 2] = ["rdma", "rdma6"];

const KIB: u32 = 1024;
/// The thresholds that a peer can announce: multiples of 1 KiB, from 1 to 256 KiB (RFC 8797 section 4.2).
const THRESHOLDS: std::ops::RangeInclusive<u32> = KIB..=256 * KIB;

/// Returns the parameters of a binding, without invalid or repeated netids and without an invalid inline
/// threshold.
pub(super) fn valid_parameters(binding: &Binding) -> hir::Binding {
    let mut netids: Vec<String> = Vec::new();
    for Placed { value, .. } in &binding.netids {
        if NETIDS.contains(&value.as_str()) && !netids.contains(value) {
            netids.push(value.clone());
        }
    }
    hir::Binding {
        backward: binding.direction == Direction::Backward,
        port: binding.port.as_ref().map(|port| port.value),
        netids,
        inline_threshold: binding.inline_threshold.as_ref().map(|one| one.value).filter(is_threshold),
    }
}

fn is_threshold(bytes: &u32) -> bool {
    THRESHOLDS.contains(bytes) && bytes.is_multiple_of(KIB)
}

/// X317: an inline threshold that no peer can announce.
pub(super) fn inline_thresholds(facts: &Facts<'_>, found: &mut Found) {
    let thresholds = facts.bound.iter().filter_map(|bound| bound.binding.inline_threshold.as_ref());
    for Placed { value: bytes, span } in thresholds.filter(|one| !is_threshold(&one.value)) {
        let near = (*bytes).min(*THRESHOLDS.end()).next_multiple_of(KIB).max(*THRESHOLDS.start());
        found.push(BindingKind::Threshold { bytes: *bytes, near }.at(*span));
    }
}

/// X318: an unknown or repeated netid.
pub(super) fn netids(facts: &Facts<'_>, found: &mut Found) {
    for bound in facts.bound {
        let netids = &bound.binding.netids;
        for (index, Placed { value, span }) in netids.iter().enumerate() {
            if !NETIDS.contains(&value.as_str()) {
                let near = nearest(&value.to_ascii_lowercase(), NETIDS.into_iter()).map(str::to_owned);
                let name = Unknown { name: value.clone(), near };
                found.push(BindingKind::NoNetid { name }.at(*span));
            } else if let Some(first) = netids.iter().take(index).find(|first| first.value == *value) {
                let twice = BindingKind::NetidTwice { netid: value.clone(), first: first.span };
                found.push(twice.at(*span));
            }
        }
    }
}

/// X319: port 0.
pub(super) fn ports(facts: &Facts<'_>, found: &mut Found) {
    let ports = facts.bound.iter().filter_map(|bound| bound.binding.port.as_ref());
    ports.filter(|port| port.value == 0).for_each(|port| found.push(BindingKind::PortZero.at(port.span)));
}

/// X324: keys without effect in the binding of a backward-only program.
pub(super) fn keys_without_effect(facts: &Facts<'_>, found: &mut Found) {
    for binding in facts.bound.iter().map(|bound| bound.binding) {
        let keys: [(&'static str, Option<Span>); 4] = [
            ("port", binding.port.as_ref().map(|port| port.span)),
            ("netids", binding.netids.first().map(|netid| netid.span)),
            ("inline_threshold", binding.inline_threshold.as_ref().map(|bytes| bytes.span)),
            ("reply", binding.replies.first().map(|reply| reply.procedure.span)),
        ];
        for (key, span) in keys.into_iter().filter(|_| binding.direction == Direction::Backward) {
            let no_effect = BindingKind::NoEffect { key, version: binding.version.value.clone() };
            found.extend(span.map(|span| no_effect.at(span)));
        }
    }
}
