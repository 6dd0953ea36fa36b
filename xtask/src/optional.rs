//! Runs Clippy, rustdoc and tests with all optional features at once: OpenTelemetry, RDMA devices and
//! Kerberos. Clippy and rustdoc also enable the benchmarks. These features are off by default.
//!
//! The commands select the entire workspace. If they selected individual packages, cargo would compile the
//! dependencies again, with fewer features. However, if one package enables a feature of a dependency, these
//! checks do not notice that another package's manifest lacks the feature.

use std::path::Path;

use crate::filters::{self, Filters};
use crate::{binaries, cargo};

struct Optional {
    /// Features in the form `PACKAGE/FEATURE`, separated by commas.
    features: &'static str,
    /// Returns the system packages that the features need and that are missing.
    missing: fn() -> Vec<&'static str>,
    /// The directories of the packages that test the features.
    directories: &'static [&'static str],
    /// The test binary that needs the features.
    test: Option<&'static str>,
    /// The directory of the documentation tests that need the features. Its path is part of the name of each
    /// test, and selects the tests.
    doc_tests: Option<&'static str>,
}

const FEATURES: [Optional; 3] = [
    Optional {
        features: "rpcrdma-examples/opentelemetry",
        missing: Vec::new,
        directories: &["examples"],
        test: Some("spans"),
        doc_tests: None,
    },
    Optional {
        features: "rpcrdma-verbs/devices,rpcrdma-nfs/verbs,rpcrdma-tools/verbs,rpcrdma-examples/verbs,\
            rpcrdma-tests/verbs",
        missing: rpcrdma_verbs_packages::missing,
        directories: &["rpcrdma-runtime/verbs"],
        test: None,
        doc_tests: Some("rpcrdma-runtime/verbs/src"),
    },
    Optional {
        features: KRB5_FEATURES,
        missing: rpcrdma_verbs_packages::missing_for_krb5,
        directories: &["krb5", "nfs"],
        test: Some("kerberos"),
        doc_tests: Some("krb5/src"),
    },
];

pub(crate) const KRB5_FEATURES: &str = "rpcrdma-krb5/gssapi,rpcrdma-nfs/krb5";

/// Enables the benchmarks, which have no tests.
const BENCHES: &str = "rpcrdma-benches/peers";

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let features = [joined(&available("optional")).as_str(), BENCHES].join(",");
    cargo::clippy(root, &["--features", &features])?;
    cargo::rustdoc(root, &["--features", &features])
}

/// Runs the tests of the features. The tests for RDMA need no device, and those for Kerberos run a KDC on
/// loopback.
pub(crate) fn test(root: &Path) -> Result<(), String> {
    let available = available("optional-tests");
    let features = joined(&available);
    let tests = available.iter().filter_map(|optional| optional.test).flat_map(|test| ["--test", test]);
    let options: Vec<&str> = ["--lib", "--features", &features].into_iter().chain(tests).collect();
    let directories: Vec<&str> =
        available.iter().flat_map(|optional| optional.directories).copied().collect();
    binaries::run(root, &directories, &options)?;
    let doc_tests: Vec<&str> = available.iter().filter_map(|optional| optional.doc_tests).collect();
    if doc_tests.is_empty() {
        return Ok(());
    }
    let arguments = ["test", "--doc", "--features", &features];
    filters::test(cargo::command(root, &arguments), &Filters { only: &doc_tests, skip: &[] })
}

/// Returns the features that compile here. For the other features, records the missing packages.
fn available(step: &str) -> Vec<&'static Optional> {
    let compiles = |optional: &&Optional| {
        let missing = (optional.missing)();
        if !missing.is_empty() {
            let step = format!("{step}: {}", optional.features);
            not_run::record(&step, format_args!("missing packages: {}", missing.join(" ")));
        }
        missing.is_empty()
    };
    FEATURES.iter().filter(compiles).collect()
}

fn joined(optional: &[&Optional]) -> String {
    optional.iter().map(|optional| optional.features).collect::<Vec<_>>().join(",")
}
