//! The jobs that take too long to be part of every run of the gate.

use std::time::Duration;

use crate::dist;
use crate::interop::{self, Group};
use crate::ledger::Ledger;
use crate::mutants;
use crate::peers;
use crate::step::Step;
use crate::stress;

/// All long jobs, each with an estimated duration in minutes. The estimate applies until the ledger has a
/// successful run of the job.
pub(crate) const JOBS: &[Step] = &[
    Step::interop("faults", 30, FAULTS),
    Step::interop("files", 30, FILES),
    Step::interop("suites", 40, SUITES),
    Step::interop("suites-guest", 40, SUITES_GUEST),
    Step::interop("suites-siw", 40, SUITES_SIW),
    Step::interop("suites-rxe", 40, SUITES_RXE),
    Step::interop("full-iwarp", 30, FULL_IWARP),
    Step::interop("full-siw", 35, FULL_SIW),
    Step::interop("full-rxe", 35, FULL_RXE),
    Step::interop("client-siw", 35, CLIENT_SIW),
    Step::interop("client-rxe", 35, CLIENT_RXE),
    Step::interop("server-guest", 35, SERVER_GUEST),
    Step::interop("server-siw", 35, SERVER_SIW),
    Step::interop("server-rxe", 35, SERVER_RXE),
    Step::interop("second-kernel", 60, interop::ON_SECOND_KERNEL),
    Step::interop("kerberos", 30, KERBEROS),
    Step::new("libnfs", 30, peers::libnfs),
    Step::new("ganesha", 30, peers::ganesha),
    Step::new("dist", 30, dist::checked),
    Step::new("bench", 30, |root| interop::bench(root, "bench", &[], &["--verbs"])),
    Step::new("profile", 30, |root| {
        interop::bench(root, "profile", &["--profile", "--functions", "5"], &["--verbs", "--profiler"])
    }),
    Step::new("siege", 30, |root| stress::siege(root, &[])),
    Step::new("long-fuzz", 90, |root| stress::fuzzing(root, "long-fuzz", 600)),
    Step::new("mutants", 60, mutants::listed),
    Step::new("generated-mutants", 30, mutants::generated),
    Step::new("million-seeds", 60, |root| stress::simulation(root, "1000000")),
];

const FAULTS: Group = Group::long(&["faults::", "captures::"]).with_suites();
const FILES: Group = Group::long(&["suites::thousands", "kernel_server::files"]);
const SUITES: Group = Group::long(&["suites::"]).with_suites();
const SUITES_GUEST: Group = Group::long(&["in_guest::suites"]).with_suites();
const SUITES_SIW: Group = Group::long(&["by_verbs::suites_over_siw"]).with_devices().with_suites();
const SUITES_RXE: Group = Group::long(&["by_verbs::suites_over_rxe"]).with_devices().with_suites();
const FULL_IWARP: Group = Group::long(&["our_iwarp_client_uses", "uses_our_iwarp_server"]).with_devices();
const FULL_SIW: Group = Group::long(&["over_siw", "siw_is_removed"]).skip(&["by_verbs::"]).with_devices();
const FULL_RXE: Group = Group::long(&["over_rxe", "rxe_is_removed"]).skip(&["by_verbs::"]).with_devices();
const CLIENT_SIW: Group = Group::long(&["by_verbs::our_client_over_siw"]).with_devices();
const CLIENT_RXE: Group = Group::long(&["by_verbs::our_client_over_rxe"]).with_devices();
const SERVER_GUEST: Group = Group::long(&["in_guest::our_server"]);
const SERVER_SIW: Group = Group::long(&["by_verbs::our_server_over_siw"]).with_devices();
const SERVER_RXE: Group = Group::long(&["by_verbs::our_server_over_rxe"]).with_devices();
const KERBEROS: Group = Group::long(&["kerberos::"]).with_kerberos();

pub(crate) fn job_names() -> String {
    JOBS.iter().map(|job| job.name).collect::<Vec<_>>().join(",")
}

/// Returns the next job, if any: the first job that never ran, or else the job whose latest run is oldest.
/// Considers only jobs that should finish in the remaining time and are not in `tried`.
pub(crate) fn next(ledger: &Ledger, left: Duration, tried: &[&str]) -> Option<&'static str> {
    let expected = |job: &Step| ledger.duration(job.name).unwrap_or(Duration::from_secs(job.minutes * 60));
    let fitting = JOBS.iter().filter(|job| expected(job) <= left).map(|job| job.name);
    let fitting = fitting.filter(|job| !tried.contains(job));
    ledger.by_age(fitting).first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Entry;

    #[test]
    fn the_next_job_fits_into_the_remaining_time() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let mut ledger = Ledger::default();
        assert_eq!(next(&ledger, minutes(29), &[]), None);
        assert_eq!(next(&ledger, minutes(30), &[]), Some("faults"));
        assert_eq!(next(&ledger, minutes(30), &["faults"]), Some("files"));
        // A recorded run replaces the estimate. Jobs that never ran come first.
        let mut record = |job: &str, seconds| {
            ledger.add(Entry {
                date: "2026-01-01T00:00:00Z".to_owned(),
                revision: "abc".to_owned(),
                job: job.to_owned(),
                passed: true,
                seconds,
            });
        };
        record("faults", 60);
        record("files", 31 * 60);
        assert_eq!(next(&ledger, minutes(1), &[]), Some("faults"));
        assert_eq!(next(&ledger, minutes(30), &[]), Some("full-iwarp"));
    }
}
