//! The jobs that take too long for every run of the gate.

use std::path::Path;
use std::time::Duration;

use crate::dist;
use crate::interop::{self, Group};
use crate::ledger::Ledger;
use crate::mutants;
use crate::peers;
use crate::step::Step;
use crate::steps;

/// Every long job, with an estimated duration that is used until the ledger has an actual one.
pub(crate) const JOBS: &[Step] = &[
    job("faults", 30, |root| interop::run(root, "faults", &FAULTS)),
    job("files", 30, |root| interop::run(root, "files", &FILES)),
    job("suites", 40, |root| interop::run(root, "suites", &SUITES)),
    job("suites-guest", 40, |root| interop::run(root, "suites-guest", &SUITES_GUEST)),
    job("suites-siw", 40, |root| interop::run(root, "suites-siw", &SUITES_SIW)),
    job("suites-rxe", 40, |root| interop::run(root, "suites-rxe", &SUITES_RXE)),
    job("full-iwarp", 30, |root| interop::run(root, "full-iwarp", &FULL_IWARP)),
    job("full-siw", 35, |root| interop::run(root, "full-siw", &FULL_SIW)),
    job("full-rxe", 35, |root| interop::run(root, "full-rxe", &FULL_RXE)),
    job("client-siw", 35, |root| interop::run(root, "client-siw", &CLIENT_SIW)),
    job("client-rxe", 35, |root| interop::run(root, "client-rxe", &CLIENT_RXE)),
    job("server-guest", 35, |root| interop::run(root, "server-guest", &SERVER_GUEST)),
    job("server-siw", 35, |root| interop::run(root, "server-siw", &SERVER_SIW)),
    job("server-rxe", 35, |root| interop::run(root, "server-rxe", &SERVER_RXE)),
    job("second-kernel", 60, |root| interop::run(root, "second-kernel", &interop::ON_SECOND_KERNEL)),
    job("kerberos", 30, |root| interop::run(root, "kerberos", &KERBEROS)),
    job("libnfs", 30, peers::libnfs),
    job("ganesha", 30, peers::ganesha),
    job("dist", 30, dist::checked),
    job("bench", 30, |root| interop::bench(root, "bench", &[], &["--verbs"])),
    job("profile", 30, |root| {
        interop::bench(root, "profile", &["--profile", "--functions", "5"], &["--verbs", "--profiler"])
    }),
    job("siege", 30, |root| steps::siege(root, &[])),
    job("long-fuzz", 90, |root| steps::fuzzing(root, "long-fuzz", 600)),
    job("mutants", 60, mutants::listed),
    job("generated-mutants", 30, mutants::generated),
    job("million-seeds", 60, |root| steps::simulation(root, "1000000")),
];

const FAULTS: Group = Group::long(&["faults::", "captures::"]).with_suites();
const FILES: Group = Group::long(&["suites::thousands", "kernel_server::files"]);
const SUITES: Group = Group::long(&["suites::"]).with_suites();
const SUITES_GUEST: Group = Group::long(&["in_guest::suites"]).with_suites();
const SUITES_SIW: Group = Group::long(&["by_verbs::suites_over_siw"]).with_devices().with_suites();
const SUITES_RXE: Group = Group::long(&["by_verbs::suites_over_rxe"]).with_devices().with_suites();
const FULL_IWARP: Group = Group::long(&["by_iwarp_here", "iwarp_here_uses"]).with_devices();
const FULL_SIW: Group = Group::long(&["over_siw", "siw_is_removed"]).skip(&["by_verbs::"]).with_devices();
const FULL_RXE: Group = Group::long(&["over_rxe", "rxe_is_removed"]).skip(&["by_verbs::"]).with_devices();
const CLIENT_SIW: Group = Group::long(&["by_verbs::our_client_over_siw"]).with_devices();
const CLIENT_RXE: Group = Group::long(&["by_verbs::our_client_over_rxe"]).with_devices();
const SERVER_GUEST: Group = Group::long(&["in_guest::our_server"]);
const SERVER_SIW: Group = Group::long(&["by_verbs::our_server_over_siw"]).with_devices();
const SERVER_RXE: Group = Group::long(&["by_verbs::our_server_over_rxe"]).with_devices();
const KERBEROS: Group = Group::long(&["kerberos::"]).with_kerberos();

const fn job(name: &'static str, minutes: u64, run: fn(&Path) -> Result<(), String>) -> Step {
    Step { name, minutes, run }
}

/// Returns the names of all jobs, separated by commas.
pub(crate) fn job_names() -> String {
    JOBS.iter().map(|job| job.name).collect::<Vec<_>>().join(",")
}

/// Returns the job with the oldest run among those that should finish in the remaining time and were not
/// tried.
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
        // A recorded run replaces the estimate, and the other runs are older.
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
