//! A strict parser for the part of Prometheus's text format (version 0.0.4) that `nfs3d` writes.

use std::collections::{BTreeMap, HashMap, HashSet};

type Labels<'t> = BTreeMap<&'t str, &'t str>;

/// The samples of one histogram with the same labels, except for `le`.
#[derive(Default)]
struct Histogram {
    /// Upper bounds and cumulative counts.
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Returns the value of each sample, keyed by the sample's name and labels, such as `name{label="value"}`.
///
/// # Errors
/// Returns the first invalid line, or describes an inconsistent histogram or a missing final newline.
pub(crate) fn samples(text: &str) -> Result<HashMap<String, f64>, String> {
    let (mut samples, mut families, mut histograms) = (HashMap::new(), HashSet::new(), BTreeMap::new());
    let (mut family, mut kind) = ("", "");
    if !text.ends_with('\n') {
        return Err("the last line has no newline".to_owned());
    }
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            (family, kind) = typed.split_once(' ').ok_or(line)?;
            let is_known = matches!(kind, "counter" | "gauge" | "histogram");
            if !is_known || !is_name(family) || !families.insert(family) {
                return Err(line.to_owned());
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').ok_or(line)?;
        let value: f64 = value.parse().map_err(|_| line)?;
        let (name, labels) = name_and_labels(sample).ok_or(line)?;
        let suffix = name.strip_prefix(family).filter(|_| !family.is_empty()).ok_or(line)?;
        let is_valid = match (kind, suffix) {
            ("histogram", _) => {
                let histogram = histograms.entry((family, without_bound(&labels))).or_default();
                record(histogram, suffix, labels.get("le").copied(), value)
            }
            ("counter", "") => value >= 0.0,
            ("gauge", "") => true,
            _ => false,
        };
        if !is_valid || samples.insert(sample.to_owned(), value).is_some() {
            return Err(line.to_owned());
        }
    }
    let disagrees = |histogram: &Histogram| !agrees(histogram);
    match histograms.iter().find(|(_, histogram)| disagrees(histogram)) {
        Some(((family, labels), _)) => Err(format!("histogram {family} {labels:?}")),
        None => Ok(samples),
    }
}

fn without_bound<'t>(labels: &Labels<'t>) -> Labels<'t> {
    labels.iter().map(|(name, value)| (*name, *value)).filter(|(name, _)| *name != "le").collect()
}

/// Records a sample. Returns false if the sample is invalid, or if a sum or count occurs twice.
fn record(histogram: &mut Histogram, suffix: &str, bound: Option<&str>, value: f64) -> bool {
    match (suffix, bound.map(str::parse)) {
        ("_bucket", Some(Ok(bound))) => {
            histogram.buckets.push((bound, value));
            true
        }
        ("_sum", None) => histogram.sum.replace(value).is_none(),
        ("_count", None) => histogram.count.replace(value).is_none(),
        _ => false,
    }
}

fn agrees(histogram: &Histogram) -> bool {
    let Histogram { buckets, sum, count } = histogram;
    let increases = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let last = buckets.last().is_some_and(|(bound, all)| *bound == f64::INFINITY && Some(*all) == *count);
    increases && last && sum.is_some()
}

fn is_name(name: &str) -> bool {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit())
}

/// Splits the part of a sample before its value into the name and the labels. Returns `None` if the part is
/// malformed.
fn name_and_labels(sample: &str) -> Option<(&str, Labels<'_>)> {
    let (name, labels) = match sample.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (sample, ""),
    };
    let mut found = Labels::new();
    for label in labels.split(',').filter(|_| !labels.is_empty()) {
        let (name, value) = label.split_once('=')?;
        let value = value.strip_prefix('"')?.strip_suffix('"')?;
        // The label values of nfs3d contain no characters that need escaping.
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-'));
        if !is_name(name) || !is_plain || found.insert(name, value).is_some() {
            return None;
        }
    }
    is_name(name).then_some((name, found))
}

#[test]
fn malformed_metrics_are_rejected() {
    let histogram = "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n";
    let parsed = samples(&format!("# TYPE c counter\nc{{k=\"v\"}} 1\n{histogram}")).unwrap();
    assert_eq!((parsed["c{k=\"v\"}"], parsed["h_count"], parsed.len()), (1.0, 3.0, 5));
    for (from, to) in [
        ("} 2\n", "} 4\n"),
        ("h_count 3", "h_count 2"),
        ("le=\"1\"", "le=\"x\""),
        ("le=\"1\"", "le=1"),
        ("le=\"+Inf\"", "le=\"2\""),
        ("h_sum 4\n", ""),
        ("h_sum 4\n", "h_sum 4\nh_sum 4\n"),
        ("h_sum 4", "g_sum 4"),
        ("h_sum 4", "h_sum{a b=\"1\"} 4"),
        ("h_sum 4", "h_sum four"),
        ("histogram", "gauge"),
        ("# TYPE h histogram\n", ""),
        ("h_count 3\n", "h_count 3"),
    ] {
        assert!(histogram.contains(from), "{from}");
        assert!(samples(&histogram.replacen(from, to, 1)).is_err(), "{to:?} in place of {from:?}");
    }
}
