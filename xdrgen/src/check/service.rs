//! What a binding says of the service: where it is found, and how long its messages are.

use crate::binding::{Binding, Direction, Placed};
use crate::diag::{BindingKind, Found, Unknown};
use crate::hir;
use crate::likeness::nearest;
use crate::source::Span;

/// The netids of RPC-over-RDMA, with IPv4 and with IPv6 addresses (RFC 8166 section 5).
const NETIDS: [&str; 2] = ["rdma", "rdma6"];

/// The thresholds that an end can announce: whole KiB, from 1 to 256 (RFC 8797 section 4.2).
const KIB: u32 = 1024;
const THRESHOLDS: std::ops::RangeInclusive<u32> = KIB..=256 * KIB;

/// The part of a binding that says where and how a program version is called.
pub(super) fn check(binding: &Binding, found: &mut Found) -> hir::Binding {
    let backward = binding.direction == Direction::Backward;
    if backward {
        without_effect(binding, found);
    }
    hir::Binding {
        backward,
        port: port(binding, found),
        netids: netids(&binding.netids, found),
        inline_threshold: inline_threshold(binding, found),
    }
}

fn port(binding: &Binding, found: &mut Found) -> Option<u16> {
    let port = binding.port.as_ref()?;
    if port.value == 0 {
        found.push(BindingKind::PortZero.at(port.span));
    }
    Some(port.value)
}

fn netids(netids: &[Placed<String>], found: &mut Found) -> Vec<String> {
    let mut kept: Vec<&Placed<String>> = Vec::new();
    for netid in netids {
        if !NETIDS.contains(&netid.value.as_str()) {
            let lower = netid.value.to_ascii_lowercase();
            let near = nearest(&lower, NETIDS.into_iter()).map(str::to_owned);
            let name = Unknown { name: netid.value.clone(), near };
            found.push(BindingKind::NoNetid { name }.at(netid.span));
        } else if let Some(first) = kept.iter().find(|first| first.value == netid.value) {
            let twice = BindingKind::NetidTwice { netid: netid.value.clone(), first: first.span };
            found.push(twice.at(netid.span));
        } else {
            kept.push(netid);
        }
    }
    kept.into_iter().map(|netid| netid.value.clone()).collect()
}

fn inline_threshold(binding: &Binding, found: &mut Found) -> Option<u32> {
    let threshold = binding.inline_threshold.as_ref()?;
    let bytes = threshold.value;
    if THRESHOLDS.contains(&bytes) && bytes.is_multiple_of(KIB) {
        return Some(bytes);
    }
    let near = bytes.min(*THRESHOLDS.end()).next_multiple_of(KIB).max(*THRESHOLDS.start());
    found.push(BindingKind::Threshold { bytes, near }.at(threshold.span));
    None
}

/// Nobody connects to a backward-only program: its calls come by the connection that there is.
fn without_effect(binding: &Binding, found: &mut Found) {
    let keys = [
        ("port", binding.port.as_ref().map(|port| port.span)),
        ("netids", binding.netids.first().map(|netid| netid.span)),
        ("inline_threshold", binding.inline_threshold.as_ref().map(|bytes| bytes.span)),
        ("reply", binding.replies.first().map(|reply| reply.procedure.span)),
    ];
    let said: Vec<(&'static str, Span)> =
        keys.into_iter().filter_map(|(key, span)| Some((key, span?))).collect();
    for (key, span) in said {
        found.push(BindingKind::NoEffect { key, version: binding.version.value.clone() }.at(span));
    }
}
