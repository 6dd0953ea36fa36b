//! The tests against Linux's NFS/RDMA client and server in a guest (`tests/interop`), for the gate and
//! the long jobs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{self, scratch};
use crate::child::{self, End, print};
use crate::filters::{self, Filters};
use crate::optional::KRB5_FEATURES;
use crate::shell::Shell;

#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) filters: Filters<'static>,
    /// True to run the tests at full length.
    pub(crate) long: bool,
    /// True if the tests need programs with the feature `verbs`, for the devices in the guest.
    pub(crate) devices: bool,
    /// True if the tests need programs with the feature `krb5`, and a KDC on this machine.
    pub(crate) kerberos: bool,
    /// True if the tests need fsx, fio, dbench and pjdfstest.
    pub(crate) suites: bool,
    pub(crate) kernel: &'static str,
}

/// The kernel version of the guest, except in the long job `second-kernel`.
const KERNEL: &str = "6.12";
/// The kernel version of the guest in the long job `second-kernel`.
const SECOND_KERNEL: &str = "6.1";

impl Group {
    const fn short(only: &'static [&'static str], skip: &'static [&'static str]) -> Self {
        let filters = Filters { only, skip };
        Group { filters, long: false, devices: false, kerberos: false, suites: false, kernel: KERNEL }
    }

    pub(crate) const fn long(only: &'static [&'static str]) -> Self {
        Group { long: true, ..Group::short(only, &[]) }
    }

    pub(crate) const fn skip(self, skip: &'static [&'static str]) -> Self {
        Group { filters: Filters { only: self.filters.only, skip }, ..self }
    }

    pub(crate) const fn with_devices(self) -> Self {
        Group { devices: true, ..self }
    }

    pub(crate) const fn with_kerberos(self) -> Self {
        Group { kerberos: true, ..self }
    }

    pub(crate) const fn with_suites(self) -> Self {
        Group { suites: true, ..self }
    }
}

/// The tests with iWARP in user space on this machine and siw in the guest.
pub(crate) const IWARP: Group = Group::short(&[], &["verbs::", "in_guest::"]);
/// The tests of programs with the feature `verbs`, on the devices in the guest.
pub(crate) const DEVICES: Group = Group::short(&["verbs::"], &["by_verbs::"]).with_devices();
/// The tests that run inside the guest, with our client or server on one of the guest's devices, without
/// third-party suites.
pub(crate) const IN_GUEST: Group = Group::short(&["by_verbs::"], &["by_verbs::suites"]).with_devices();
/// The tests of the three groups above, with the second kernel.
pub(crate) const ON_SECOND_KERNEL: Group =
    Group { kernel: SECOND_KERNEL, ..Group::short(&[], &["suites_over", "in_guest::"]).with_devices() };

/// Runs a group of tests. If the lab or a system package is missing, records the step `name` as not run.
pub(crate) fn run(root: &Path, name: &str, group: &Group) -> Result<(), String> {
    let needs = [(group.devices, "--verbs"), (group.suites, "--suites")];
    let needs: Vec<&str> = needs.iter().filter(|(needed, _)| *needed).map(|(_, option)| *option).collect();
    let missing = if group.kerberos { rpcrdma_verbs_packages::missing_for_krb5() } else { Vec::new() };
    if !missing.is_empty() {
        not_run::record(name, format_args!("missing packages: {}", missing.join(" ")));
        return Ok(());
    }
    if !ready(root, name, group.kernel, &needs)? {
        return Ok(());
    }
    if group.suites {
        lab(root, group.kernel, &["suites"])?;
    }
    let mut command = command(root, group.kerberos);
    command
        .env("RPCRDMA_LAB", if group.long { "long" } else { "1" })
        .env("RPCRDMA_LAB_KERNEL", group.kernel)
        .env("RPCRDMA_LAB_VERBS", if group.devices { "yes" } else { "no" })
        .env("RPCRDMA_LAB_SUITES", if group.suites { "yes" } else { "no" });
    filters::test(command, &group.filters)
}

fn command(root: &Path, kerberos: bool) -> Command {
    let features: &[&str] = if kerberos { &["--features", KRB5_FEATURES] } else { &[] };
    cargo::command(root, &[&["test", "--test", "interop"], features].concat())
}

/// Fails if a filter of a named group matches no test. If `kerberos` is true, checks the groups that need
/// Kerberos. Otherwise, checks the other groups.
pub(crate) fn check_filters<'a>(
    root: &Path,
    kerberos: bool,
    groups: impl Iterator<Item = (&'a str, &'a Group)>,
) -> Result<(), String> {
    let listing = filters::list(&command(root, kerberos))?;
    cargo::report(&unmatched(&listing, groups.filter(|(_, group)| group.kerberos == kerberos)))
}

fn unmatched<'a>(listing: &str, groups: impl Iterator<Item = (&'a str, &'a Group)>) -> Vec<String> {
    let of_group = |(name, group): (&str, &Group)| -> Vec<String> {
        let filters = group.filters.unmatched(listing).into_iter();
        filters.map(|filter| format!("{name}: no test name matches the filter: {filter}")).collect()
    };
    groups.flat_map(of_group).collect()
}

pub(crate) fn bench(root: &Path, name: &str, options: &[&str], needs: &[&str]) -> Result<(), String> {
    if !ready(root, name, KERNEL, needs)? {
        return Ok(());
    }
    lab(root, KERNEL, &[&["bench"], options].concat())
}

/// The exit status of `lab check` if a part of the lab is missing and cannot be built.
const UNAVAILABLE: i32 = 3;

/// Prepares the lab. If the lab is unavailable here, records the step as not run and returns false.
fn ready(root: &Path, name: &str, kernel: &str, needs: &[&str]) -> Result<bool, String> {
    let arguments = [&["xtask", "lab", "check"], needs].concat();
    let mut check = cargo::command(root, &arguments);
    check.env("RPCRDMA_LAB_KERNEL", kernel);
    let mut why = String::new();
    let end = child::run(check, Duration::from_secs(300), |line| {
        print(line);
        if let Some(words) = line.strip_prefix("lab: ") {
            words.clone_into(&mut why);
        }
    })?;
    match end {
        End::Succeeded => {}
        End::Failed(Some(UNAVAILABLE)) => {
            not_run::record(name, format_args!("no lab with Linux {kernel}: {why}"));
            return Ok(false);
        }
        End::TimedOut => {
            not_run::record(name, format_args!("no lab with Linux {kernel}: the package archive timed out"));
            return Ok(false);
        }
        End::Failed(_) => return Err("`cargo xtask lab check` failed".to_owned()),
    }
    lab(root, kernel, &["build"])?;
    Ok(true)
}

fn lab(root: &Path, kernel: &str, arguments: &[&str]) -> Result<(), String> {
    let arguments = [&["xtask", "lab"], arguments].concat();
    let mut command = cargo::command(root, &arguments);
    command.env("RPCRDMA_LAB_KERNEL", kernel);
    cargo::succeed(command, &arguments)
}

/// The heading of the README section with the commands of [`mount_commands`].
const SECTION: &str = "Mount a directory over RDMA";

/// Runs README's commands verbatim: a server for the directory `specs`, and a Linux guest that mounts the
/// directory over RDMA.
pub(crate) fn mount_commands(root: &Path) -> Result<(), String> {
    let readme = fs::read_to_string(root.join("README.md")).map_err(|error| format!("README.md: {error}"))?;
    let commands = commands_below(&readme, SECTION)?;
    let (server, others) = commands.split_first().ok_or("README.md: no commands")?;
    let server = server.strip_suffix('&').ok_or("README.md: the server's command does not end in `&`")?;
    let (listing, others) = others.split_last().ok_or("README.md: no command lists the directory")?;
    if !ready(root, "readme-mount", KERNEL, &[])? {
        return Ok(());
    }
    lab(root, KERNEL, &["down"])?;
    // Build the server first, to shorten the wait until it listens.
    cargo::run(root, &["build", "--release", "--package", "rpcrdma-nfs", "--bin", "nfs3d"])?;
    let shell = Shell { directory: root, environment: vec![("RPCRDMA_LAB_KERNEL", KERNEL.into())] };
    let _server = shell.serve(server, &scratch(root)?.join("readme-mount"))?;
    let _guest = Guest(root);
    for command in others {
        shell.run(command)?;
    }
    let listing = shell.run(listing)?;
    if listing.contains("nfs3.txt") { Ok(()) } else { Err("the guest does not list nfs3.txt".to_owned()) }
}

/// Returns the lines of the first fenced block below a heading.
fn commands_below(text: &str, section: &str) -> Result<Vec<String>, String> {
    let is_heading = |line: &&str| line.starts_with('#') && line.contains(section);
    let mut lines = text.lines().skip_while(|line| !is_heading(line));
    lines.next().ok_or_else(|| format!("README.md: no section `{section}`"))?;
    let section_lines = lines.take_while(|line| !line.starts_with("# ") && !line.starts_with("## "));
    let block = section_lines.skip_while(|line| !line.starts_with("```")).skip(1);
    let commands: Vec<String> =
        block.take_while(|line| !line.starts_with("```")).map(|line| line.trim_end().to_owned()).collect();
    if commands.is_empty() { Err(format!("README.md: no commands below `{section}`")) } else { Ok(commands) }
}

struct Guest<'a>(&'a Path);

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let _ = lab(self.0, KERNEL, &["down"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmatched_filter_is_reported_with_its_job() {
        let listing = "faults::cut: test\nverbs::over_siw: test\nby_verbs::over_siw: test\n";
        let faults = Group::long(&["faults::", "captures::"]);
        let siw = Group::long(&["over_siw"]).skip(&["by_verbs::", "in_guest::"]);
        let expected = [
            "faults: no test name matches the filter: captures::",
            "siw: no test name matches the filter: in_guest::",
        ];
        assert_eq!(unmatched(listing, [("faults", &faults), ("siw", &siw)].into_iter()), expected);
    }

    #[test]
    fn commands_are_those_of_the_section() {
        let text =
            "# A\n```sh\nother\n```\n### Mount it\ntext\n\n```sh\none &\ntwo\n```\n```sh\nthree\n```\n";
        assert_eq!(commands_below(text, "Mount it"), Ok(vec!["one &".to_owned(), "two".to_owned()]));
        assert_eq!(commands_below(text, "Gone"), Err("README.md: no section `Gone`".to_owned()));
        let empty = "### Mount it\ntext\n## Next\n```sh\nother\n```\n";
        assert!(commands_below(empty, "Mount it").is_err(), "the block belongs to another section");
    }

    #[test]
    fn the_readme_has_the_commands() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        let commands = commands_below(&fs::read_to_string(readme).unwrap(), SECTION).unwrap();
        assert!(commands.len() >= 3 && commands[0].ends_with('&'), "{commands:?}");
    }
}
