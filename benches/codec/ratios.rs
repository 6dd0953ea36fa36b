//! Prints the medians of a run, and the ratios of the fastest peer's medians to ours.

use std::fs;
use std::path::Path;

use serde_json::Value;

use self::Goal::{Nanoseconds, Ratio};

const OURS: [&str; 2] = ["bytes", "borrowed"];
const PEERS: [&str; 4] = ["nfs3_types", "xdr-codec", "fastxdr", "libtirpc"];

#[derive(Clone, Copy)]
enum Goal {
    /// The minimum ratio of the fastest peer's median to ours.
    Ratio(f64),
    /// The maximum median in nanoseconds, on an idle machine.
    Nanoseconds(f64),
}

/// The measurements, with their goals, if any. The goal for decoding LOOKUP is the median of xdrzcc.
const GOALS: [(&str, Option<Goal>); 14] = [
    ("GETATTR decode", Some(Ratio(3.0))),
    ("GETATTR encode", Some(Ratio(2.0))),
    ("GETATTR encode, fresh", Some(Ratio(2.0))),
    ("LOOKUP decode", Some(Nanoseconds(31.6))),
    ("LOOKUP encode", None),
    ("LOOKUP encode, fresh", None),
    ("READ 64 KiB decode", None),
    ("READ 1 MiB decode", None),
    ("WRITE 64 KiB decode", Some(Ratio(3.0))),
    ("WRITE 1 MiB decode", Some(Ratio(3.0))),
    ("WRITE 1 MiB encode, reduced", Some(Nanoseconds(40.0))),
    ("READDIRPLUS of 100 decode", Some(Ratio(3.0))),
    ("READDIRPLUS of 100 encode", Some(Ratio(2.0))),
    ("READDIRPLUS of 100 encode, fresh", Some(Ratio(2.0))),
];

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
pub(crate) fn print(estimates: &Path, no_tirpc: Option<&str>) {
    println!("\nMedians in nanoseconds; `x` is the best median of the other implementations divided by ours");
    println!(
        "{:<34}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>11}{:>12}{:>12}",
        "",
        "bytes",
        "borrowed",
        "nfs3_types",
        "xdr-codec",
        "fastxdr",
        "libtirpc",
        "x bytes",
        "x borrowed",
        "goal"
    );
    for (name, wanted) in GOALS {
        let medians =
            |names: &[&str]| names.iter().map(|peer| median(estimates, name, peer)).collect::<Vec<_>>();
        let (ours, peers) = (medians(&OURS), medians(&PEERS));
        if ours.iter().all(Option::is_none) {
            continue;
        }
        let best = peers.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let figure = |value: &Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        print!("{name:<34}");
        for (column, width) in ours.iter().chain(&peers).zip([10, 12, 12, 12, 12, 12]) {
            print!("{:>width$}", figure(column));
        }
        for (ours, width) in ours.iter().zip([11, 12]) {
            print!("{:>width$}", figure(&ours.map(|ours| best / ours).filter(|ratio| ratio.is_finite())));
        }
        println!(
            "{:>12}",
            match wanted {
                Some(Ratio(ratio)) => format!("x {ratio:.1}"),
                Some(Nanoseconds(limit)) => format!("{limit:.1} ns"),
                None => "-".to_owned(),
            }
        );
    }
    if let Some(reason) = no_tirpc {
        println!("not measured: libtirpc with rpcgen: {reason}");
    }
    println!("not measured: xdrzcc: no package contains it (https://github.com/chimera-nas/xdrzcc)");
}

fn median(estimates: &Path, group: &str, implementation: &str) -> Option<f64> {
    let path = estimates.join(group).join(implementation).join("new/estimates.json");
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str::<Value>(&text).ok()?.pointer("/median/point_estimate")?.as_f64()
}
