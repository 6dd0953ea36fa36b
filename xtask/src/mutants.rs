//! `cargo xtask mutants`: makes mutations in a scratch copy, and reports those that no test
//! detects.
//!
//! `tests/mutants.toml` lists mutations of the protocol code, each with the rules that it breaks.
//! cargo-mutants generates other mutations in the layers of the runtime that perform no I/O.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use xtask::files;
use xtask::trace::{self, Claim, Trace};

use crate::cargo::{self, target};
use crate::child::{self, End, print};
use crate::ledger::Ledger;

/// Options of `cargo xtask mutants`.
#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// The listed mutations to try (default: all, and those that cargo-mutants generates)
    names: Vec<String>,
    /// Only check that each listed mutation can be made, without running tests
    #[arg(long)]
    check: bool,
    /// Try only one part of the generated mutations, such as `0/240` (default: all parts in turn)
    #[arg(long, value_name = "K/N", conflicts_with_all = ["names", "check"])]
    shard: Option<String>,
}

const LIST: &str = "tests/mutants.toml";
/// Time limit for the tests with one listed mutation. A mutation that makes the tests hang counts as
/// detected.
const LIMIT: Duration = Duration::from_secs(300);
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Time limit for each run of cargo-mutants on a part of the generated mutations.
const PART_LIMIT: Duration = Duration::from_secs(3600);
const GENERATED_IN: [&str; 3] =
    ["rpcrdma-runtime/src/wire/**", "rpcrdma-runtime/src/proto/**", "rpcrdma-runtime/src/xdr/**"];
/// The packages and `cargo test` arguments of the tests that run first with generated mutations.
const FIRST_TESTS: [&str; 7] =
    ["rpcrdma-runtime", "--", "--lib", "--test", "xdr", "--test", "xdr_properties"];
/// The packages and `cargo test` arguments of the tests that run next, for mutations that the first tests do
/// not detect.
const ALL_TESTS: [&str; 3] = ["rpcrdma-runtime,rpcrdma-tests", "--", "--tests"];
/// The number of parts into which the generated mutations are divided.
const PARTS: usize = 240;
/// Enables incremental compilation, since each mutation changes one crate only slightly. `.ci/run` disables
/// incremental compilation.
const INCREMENTAL: [(&str, &str); 1] = [("CARGO_INCREMENTAL", "1")];
const INSTALL: &str = "cargo-mutants is missing: run `cargo install cargo-mutants --locked`";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "mutation")]
    mutations: Vec<Mutation>,
    #[serde(default, rename = "survivor")]
    survivors: Vec<Survivor>,
}

/// A mutation: a string that must occur exactly once in a file, and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    name: String,
    breaks: Vec<String>,
    file: PathBuf,
    find: String,
    replace: String,
    test: String,
    /// The reason why no test can detect the mutation, if none can.
    reason: Option<String>,
}

/// A generated mutation that no test can detect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    file: String,
    /// The description that cargo-mutants prints.
    mutant: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Caught,
    /// Tests fail, but none of them names a broken rule.
    CaughtByOtherTests,
    Survived,
    DoesNotCompile,
}

#[derive(Debug)]
enum Run {
    Succeeded,
    /// The names of the tests that failed. Empty if the tests hung, or crashed before a test failed.
    Failed(Vec<String>),
    DoesNotCompile,
}

pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    child::kill_on_signals()?;
    let list = List::read(root)?;
    if arguments.shard.is_none() {
        try_listed(root, &list, arguments)?;
    }
    if arguments.check || !arguments.names.is_empty() {
        return Ok(());
    }
    if ready() { try_generated(root, &list, arguments.shard.as_deref()) } else { Err(INSTALL.to_owned()) }
}

/// Runs the long job that tries all listed mutations.
pub(crate) fn listed(root: &Path) -> Result<(), String> {
    child::kill_on_signals()?;
    try_listed(root, &List::read(root)?, &Arguments::default())
}

/// Runs the long job that tries one part of the generated mutations: the next part in each run.
pub(crate) fn generated(root: &Path) -> Result<(), String> {
    const JOB: &str = "generated-mutants";
    if !ready() {
        not_run::record(JOB, INSTALL);
        return Ok(());
    }
    child::kill_on_signals()?;
    let part = Ledger::read(root)?.runs(JOB) % PARTS;
    try_generated(root, &List::read(root)?, Some(&format!("{part}/{PARTS}")))
}

fn ready() -> bool {
    Command::new("cargo").args(["mutants", "--version"]).output().is_ok_and(|output| output.status.success())
}

impl List {
    fn read(root: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
        let list: List = toml::from_str(&text).map_err(|error| format!("{LIST}: {error}"))?;
        let trace = trace::read(root)?;
        let mut names = BTreeSet::new();
        let mut found = Vec::new();
        for mutation in &list.mutations {
            let untested = mutation.breaks.iter().filter(|id| !mutation.selects_a_test_of(id, &trace));
            found.extend(untested.map(|id| {
                format!("{}: `cargo test {}` runs no test that names {id}", mutation.name, mutation.test)
            }));
            if mutation.breaks.is_empty() || !names.insert(&mutation.name) {
                found.push(format!("{}: `breaks` is empty, or the name is not unique", mutation.name));
            }
            found.extend(mutation.applied(root).err());
        }
        found.extend(list.survivors.iter().filter_map(|survivor| survivor.is_current(root).err()));
        cargo::report(&found)?;
        Ok(list)
    }
}

impl Survivor {
    /// Returns the name of the mutated function. If the complete body is replaced, the description of the
    /// mutation begins with `replace FUNCTION -> TYPE with ` or `replace FUNCTION with `. Otherwise, the
    /// description ends with ` in FUNCTION`.
    fn function(&self) -> &str {
        let inside = self.mutant.rsplit_once(" in ").map(|(_, path)| path);
        let replaced = self.mutant.strip_prefix("replace ").and_then(|rest| {
            rest.split_once(" -> ").or_else(|| rest.split_once(" with ")).map(|(path, _)| path)
        });
        let path = inside.or(replaced).unwrap_or_default();
        path.rsplit_once("::").map_or(path, |(_, name)| name)
    }

    /// Fails if the file does not define the function.
    fn is_current(&self, root: &Path) -> Result<(), String> {
        let text =
            fs::read_to_string(root.join(&self.file)).map_err(|error| format!("{}: {error}", self.file))?;
        let name = self.function();
        let defined = [format!("fn {name}("), format!("fn {name}<")].iter().any(|start| text.contains(start));
        if defined { Ok(()) } else { Err(format!("{}: no function `{name}`: `{}`", self.file, self.mutant)) }
    }
}

impl Mutation {
    fn applied(&self, root: &Path) -> Result<String, String> {
        let Mutation { name, file, find, replace, .. } = self;
        let text = fs::read_to_string(root.join(file))
            .map_err(|error| format!("{name}: {}: {error}", file.display()))?;
        match text.matches(find.as_str()).count() {
            1 => Ok(text.replacen(find.as_str(), replace, 1)),
            count => Err(format!("{name}: expected 1 match in {}, found {count}", file.display())),
        }
    }

    fn selects_a_test_of(&self, rule: &str, trace: &Trace) -> bool {
        self.tests_of(rule, trace).next().is_some()
    }

    /// Returns the tests that name the rule and that `cargo test` runs with the mutation's arguments.
    fn tests_of<'a>(&self, rule: &str, trace: &'a Trace) -> impl Iterator<Item = &'a Claim> {
        trace.tests.get(rule).into_iter().flatten().filter(|claim| selects(&self.test, claim))
    }

    /// Returns the outcome of a run of the tests with this mutation. A mutation that makes the tests hang or
    /// crash is caught.
    fn outcome(&self, run: &Run, trace: &Trace) -> Outcome {
        let failed = match run {
            Run::Succeeded => return Outcome::Survived,
            Run::DoesNotCompile => return Outcome::DoesNotCompile,
            Run::Failed(names) => names,
        };
        let mut named = self.breaks.iter().flat_map(|rule| self.tests_of(rule, trace));
        let is_named = named.any(|claim| failed.iter().any(|name| is_function(name, &claim.test)));
        if is_named || failed.is_empty() { Outcome::Caught } else { Outcome::CaughtByOtherTests }
    }
}

/// Returns true if `cargo test` with these arguments runs the test. The arguments are a package, a target
/// and an optional filter, such as `-p rpcrdma-runtime --lib iwarp`.
fn selects(arguments: &str, claim: &Claim) -> bool {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (package, target, filter) = match words.as_slice() {
        ["-p", package, "--lib", filter @ ..] => (*package, "src".to_owned(), filter),
        ["-p", package, "--test", name, filter @ ..] => (*package, format!("tests/{name}"), filter),
        _ => return false,
    };
    let folder = if package == "rpcrdma-tests" { "tests" } else { package };
    let module = claim.file.strip_prefix(&format!("{folder}/{target}"));
    let Some(module) = module.filter(|rest| rest.starts_with(['/', '.'])) else { return false };
    let path = format!("{}::{}", module.trim_end_matches(".rs").replace('/', "::"), claim.test);
    filter.iter().all(|word| path.contains(word))
}

fn is_function(name: &str, function: &str) -> bool {
    name.rsplit("::").next() == Some(function)
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the mutations with these names, or all mutations if `names` is empty.
///
/// # Errors
/// Reports unknown names.
fn chosen<'a>(mutations: &'a [Mutation], names: &[String]) -> Result<Vec<&'a Mutation>, String> {
    let is_unknown = |name: &&String| !mutations.iter().any(|mutation| mutation.name == **name);
    let unknown: Vec<&str> = names.iter().filter(is_unknown).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(format!("{LIST} lists no mutation with the name: {}", unknown.join(", ")));
    }
    Ok(mutations.iter().filter(|mutation| names.is_empty() || names.contains(&mutation.name)).collect())
}

fn try_listed(root: &Path, list: &List, arguments: &Arguments) -> Result<(), String> {
    let chosen = chosen(&list.mutations, &arguments.names)?;
    if arguments.check {
        print(&format!("mutations that apply to the current code: {}", chosen.len()));
        return Ok(());
    }
    let scratch = Scratch::new(root)?;
    let tests: BTreeSet<&str> = chosen.iter().map(|mutation| mutation.test.as_str()).collect();
    for test in tests {
        if !matches!(scratch.test(test)?, Run::Succeeded) {
            return Err(format!("without any mutation, `cargo test {test}` fails"));
        }
    }
    let trace = trace::read(root)?;
    let (mut caught, mut by_others, mut explained, mut found) = (0, 0, 0, Vec::new());
    for mutation in chosen {
        let outcome = mutation.outcome(&scratch.try_one(mutation)?, &trace);
        let breaks = mutation.breaks.join(", ");
        print(&format!("{outcome:?}: {} ({breaks})", mutation.name));
        match (outcome, &mutation.reason) {
            (Outcome::Caught, None) => caught += 1,
            (Outcome::CaughtByOtherTests, None) => by_others += 1,
            (Outcome::Survived, Some(_)) => explained += 1,
            (Outcome::Caught | Outcome::CaughtByOtherTests, Some(_)) => {
                found.push(format!("{} is detected: remove its `reason`", mutation.name))
            }
            (Outcome::Survived, None) => {
                found.push(format!("{} survived, although it breaks {breaks}", mutation.name))
            }
            (Outcome::DoesNotCompile, _) => found.push(format!("{} does not compile", mutation.name)),
        }
    }
    print(&format!(
        "listed mutations: {caught} detected, {by_others} detected only by tests that do not name their rules, \
         {explained} explained; findings: {}",
        found.len()
    ));
    cargo::report(&found)
}

struct Scratch {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Creates or updates the copy of the workspace. Unchanged files keep their modification times, so that
    /// cargo rebuilds only crates with changed files and their dependents.
    fn new(root: &Path) -> Result<Self, String> {
        let folder = target(root).join("mutants");
        let scratch =
            Scratch { root: root.to_path_buf(), tree: folder.join("tree"), target: folder.join("target") };
        let wanted: BTreeSet<String> =
            files::below(root)?.iter().map(|path| files::relative(root, path)).collect();
        for path in files::below(&scratch.tree)? {
            if !wanted.contains(&files::relative(&scratch.tree, &path)) {
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        for name in wanted {
            scratch.restore(Path::new(&name))?;
        }
        Ok(scratch)
    }

    /// Copies a file of the workspace, unless the copy is identical.
    fn restore(&self, name: &Path) -> Result<(), String> {
        let (from, to) = (self.root.join(name), self.tree.join(name));
        let failed = |error: std::io::Error| format!("{}: {error}", to.display());
        if fs::read(&from).ok() == fs::read(&to).ok() {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // Writing the file updates its modification time, by which cargo detects the change.
        let content = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        fs::write(&to, content).map_err(failed)?;
        let permissions = fs::metadata(&from).map_err(failed)?.permissions();
        fs::set_permissions(&to, permissions).map_err(failed)
    }

    fn try_one(&self, mutation: &Mutation) -> Result<Run, String> {
        let path = self.tree.join(&mutation.file);
        let text = mutation.applied(&self.root)?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let run = self.test(&mutation.test);
        self.restore(&mutation.file)?;
        run
    }

    fn test(&self, test: &str) -> Result<Run, String> {
        let arguments: Vec<&str> = test.split_whitespace().collect();
        let mut output = Vec::new();
        let build = self.cargo(&[&["test", "--no-run"], &arguments[..]].concat());
        if child::run(build, BUILD_LIMIT, |line| output.push(line.to_owned()))? != End::Succeeded {
            output.iter().filter(|line| line.starts_with("error")).for_each(|line| print(line));
            return Ok(Run::DoesNotCompile);
        }
        let run = self.cargo(&[&["test"], &arguments[..]].concat());
        let mut failed = Vec::new();
        let end = child::run(run, LIMIT, |line| failed.extend(failed_test(line).map(str::to_owned)))?;
        Ok(match end {
            End::Succeeded => Run::Succeeded,
            End::Failed(_) => Run::Failed(failed),
            End::TimedOut => Run::Failed(Vec::new()),
        })
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo::command(&self.tree, arguments);
        command.env("CARGO_TARGET_DIR", &self.target).env_remove("RPCRDMA_LAB").envs(INCREMENTAL);
        command
    }
}

/// The generated mutations by outcome, one per line, as cargo-mutants writes them.
#[derive(Default)]
struct Generated {
    caught: String,
    missed: String,
    timeout: String,
    unviable: String,
}

impl Generated {
    fn read(output: &Path) -> Result<Self, String> {
        let read = |outcome: &str| {
            let path = output.join(format!("mutants.out/{outcome}.txt"));
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Generated {
            caught: read("caught")?,
            missed: read("missed")?,
            timeout: read("timeout")?,
            unviable: read("unviable")?,
        })
    }

    fn add(&mut self, other: &Generated) {
        self.caught += &other.caught;
        self.missed += &other.missed;
        self.timeout += &other.timeout;
        self.unviable += &other.unviable;
    }

    fn by_layer(&self) -> Vec<String> {
        let line = |pattern: &&str| {
            let folder = pattern.trim_end_matches("**");
            let count = |list: &str| list.lines().filter(|line| line.starts_with(folder)).count();
            let Generated { caught, missed, timeout, unviable } = self;
            let [caught, missed, timeout, unviable] =
                [caught, missed, timeout, unviable].map(|list| count(list));
            format!("{folder}: {caught} caught, {missed} missed, {timeout} timed out, {unviable} unviable")
        };
        GENERATED_IN.iter().map(line).collect()
    }
}

/// Tries the generated mutations of one part, or of all parts in sequence. Reports the survivors that the
/// list does not explain.
fn try_generated(root: &Path, list: &List, part: Option<&str>) -> Result<(), String> {
    let parts = match part {
        Some(part) => vec![part.to_owned()],
        None => (0..PARTS).map(|part| format!("{part}/{PARTS}")).collect(),
    };
    let mut all = Generated::default();
    let mut found = Vec::new();
    for part in parts {
        match try_part(root, &part) {
            Ok(outcomes) => all.add(&outcomes),
            Err(error) => found.push(format!("part {part}: {error}")),
        }
        print(&format!("generated mutations tried so far (last part: {part}):"));
        all.by_layer().iter().for_each(|line| print(line));
    }
    found.extend(unexplained(&all.missed, &list.survivors));
    print(&format!(
        "generated mutations: {} survived; findings: {}",
        all.missed.lines().count(),
        found.len()
    ));
    cargo::report(&found)
}

/// Tries a part of the generated mutations. The unit tests and the XDR tests of the runtime run first, since
/// they build much faster. The other tests run only for survivors.
fn try_part(root: &Path, part: &str) -> Result<Generated, String> {
    let mut first = cargo_mutants(root, &FIRST_TESTS, |command| {
        command.args(["--shard", part]);
    })?;
    if !first.missed.is_empty() {
        let survivors = std::mem::take(&mut first.missed);
        first.add(&cargo_mutants(root, &ALL_TESTS, |command| {
            command.args(survivors.lines().flat_map(|line| ["--re".to_owned(), exactly(line)]));
        })?);
    }
    Ok(first)
}

/// Runs cargo-mutants once. `tests` contains the test packages and the arguments for `cargo test`. `select`
/// adds the arguments that select mutations. cargo-mutants creates its own scratch copy.
fn cargo_mutants(root: &Path, tests: &[&str], select: impl Fn(&mut Command)) -> Result<Generated, String> {
    let output = target(root).join("mutants");
    let mut command = cargo::command(root, &["mutants", "--package", "rpcrdma-runtime", "--no-shuffle"]);
    for part in GENERATED_IN {
        command.args(["--file", part]);
    }
    command.args(["--exclude", "**/generated/**", "--minimum-test-timeout", "60", "--output"]).arg(&output);
    select(&mut command);
    command.arg("--test-package").args(tests).env_remove("RPCRDMA_LAB").envs(INCREMENTAL);
    // Exit status 2: mutations survived. Exit status 3: the tests of some mutations timed out; these
    // mutations count as detected.
    match child::run(command, PART_LIMIT, print)? {
        End::Succeeded | End::Failed(Some(2 | 3)) => Generated::read(&output),
        End::TimedOut => Err(format!("cargo-mutants timed out: limit {} s", PART_LIMIT.as_secs())),
        End::Failed(_) => Err("cargo-mutants failed".to_owned()),
    }
}

fn exactly(text: &str) -> String {
    let is_special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    let escaped = text.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c]));
    format!("^{}$", escaped.collect::<String>())
}

/// Returns the lines of `missed` that match no listed survivor with a reason. Each line begins with a file, a
/// line number and a column. The numbers change with the code and are not compared.
fn unexplained(missed: &str, survivors: &[Survivor]) -> Vec<String> {
    let is_explained = |line: &str| {
        let Some((place, mutant)) = line.split_once(": ") else { return false };
        let file = place.split(':').next();
        survivors.iter().any(|known| {
            Some(known.file.as_str()) == file && known.mutant == mutant && !known.reason.is_empty()
        })
    };
    missed.lines().filter(|line| !is_explained(line)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_is_explained_at_any_line_of_its_file() {
        let survivors = [Survivor {
            file: "a/b.rs".to_owned(),
            mutant: "replace x -> bool with true".to_owned(),
            reason: "It is so.".to_owned(),
        }];
        let missed = "a/b.rs:3:5: replace x -> bool with true\n\
                      a/c.rs:3:5: replace x -> bool with true\n\
                      a/b.rs:9:1: replace x -> bool with false\n";
        let found = unexplained(missed, &survivors);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("a/c.rs") && found[1].ends_with("false"), "{found:?}");
    }

    #[test]
    fn a_survivor_names_a_function_of_its_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.rs"), "impl A { fn one(&self) {} }\nfn two<T>() {}\n").unwrap();
        let survivor = |mutant: &str| Survivor {
            file: "a.rs".to_owned(),
            mutant: mutant.to_owned(),
            reason: String::new(),
        };
        for (mutant, name) in [
            ("replace A<'_>::one -> Vec<u8> with vec![]", "one"),
            ("replace <impl A for B<'a, T>>::one -> fmt::Result with Ok(Default::default())", "one"),
            ("replace two with ()", "two"),
            ("replace < with <= in A::one", "one"),
        ] {
            assert_eq!(survivor(mutant).function(), name);
            assert_eq!(survivor(mutant).is_current(root.path()), Ok(()));
        }
        assert!(survivor("delete ! in three").is_current(root.path()).unwrap_err().contains("`three`"));
    }

    #[test]
    fn outcomes_are_counted_by_layer() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mutants.out")).unwrap();
        let mutation = |layer: &str| format!("rpcrdma-runtime/src/{layer}/a.rs:3:5: replace x -> y\n");
        for (outcome, text) in [
            ("caught", mutation("wire") + &mutation("wire") + &mutation("proto")),
            ("missed", mutation("xdr")),
            ("timeout", mutation("proto")),
            ("unviable", String::new()),
        ] {
            fs::write(folder.path().join(format!("mutants.out/{outcome}.txt")), text).unwrap();
        }
        let mut all = Generated::read(folder.path()).unwrap();
        all.add(&Generated { unviable: mutation("wire"), ..Generated::default() });
        assert_eq!(
            all.by_layer(),
            [
                "rpcrdma-runtime/src/wire/: 2 caught, 0 missed, 0 timed out, 1 unviable",
                "rpcrdma-runtime/src/proto/: 1 caught, 0 missed, 1 timed out, 0 unviable",
                "rpcrdma-runtime/src/xdr/: 0 caught, 1 missed, 0 timed out, 0 unviable",
            ]
        );
    }

    #[test]
    fn a_line_matches_only_itself() {
        assert_eq!(exactly("a.rs:1: b -> (c)"), r"^a\.rs:1: b -> \(c\)$");
    }

    #[test]
    fn the_list_matches_the_workspace() {
        List::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }

    fn claim(file: &str, test: &str) -> Claim {
        Claim { ids: vec!["R001".to_owned()], test: test.to_owned(), file: file.to_owned(), line: 1 }
    }

    fn mutation(name: &str) -> Mutation {
        Mutation {
            name: name.to_owned(),
            breaks: vec!["R001".to_owned()],
            file: "a.rs".into(),
            find: String::new(),
            replace: "three".to_owned(),
            test: "-p rpcrdma-runtime --lib".to_owned(),
            reason: None,
        }
    }

    #[test]
    fn unknown_names_are_rejected() {
        let all = ["a", "b"].map(mutation);
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&all, &names).map(|chosen| chosen.iter().map(|one| one.name.clone()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["b"]).unwrap(), ["b"]);
        let error = names(&["c", "a", "d"]).unwrap_err();
        assert!(error.ends_with(": c, d"), "{error}");
    }

    #[test]
    fn a_mutation_is_caught_by_a_test_that_names_its_rule() {
        let named = claim("rpcrdma-runtime/src/proto/work.rs", "it_is_so");
        let elsewhere = claim("tests/tests/sim.rs", "it_is_always_so");
        let tests = [("R001".to_owned(), vec![named, elsewhere])].into();
        let trace = Trace { entries: Vec::new(), tests };
        let outcome = |lines: &[&str]| {
            let failed = lines.iter().filter_map(|line| failed_test(line)).map(str::to_owned).collect();
            mutation("m").outcome(&Run::Failed(failed), &trace)
        };
        let other = "test proto::work::tests::not_so ... FAILED";
        assert_eq!(outcome(&[other, "test proto::work::tests::it_is_so ... FAILED"]), Outcome::Caught);
        for lines in [
            &[other, "test proto::work::tests::it_is_so ... ok"],
            &[other, "test proto::work::tests::and_it_is_so ... FAILED"],
            &[other, "test it_is_always_so ... FAILED"],
        ] {
            assert_eq!(outcome(lines), Outcome::CaughtByOtherTests, "{lines:?}");
        }
        assert_eq!(outcome(&[]), Outcome::Caught, "a hang or crash of the tests counts as caught");
        assert_eq!(mutation("m").outcome(&Run::Succeeded, &trace), Outcome::Survived);
    }

    #[test]
    fn a_mutation_runs_a_test_of_its_rule() {
        let unit = claim("rpcrdma-runtime/src/proto/iwarp/regions.rs", "r001_it_is_so");
        let scenario = claim("tests/tests/iwarp/hostile_stream.rs", "h60_it_is_so");
        for (arguments, selected) in [
            ("-p rpcrdma-runtime --lib iwarp", [true, false]),
            ("-p rpcrdma-runtime --lib", [true, false]),
            ("-p rpcrdma-runtime --lib rdma::", [false, false]),
            ("-p rpcrdma-tests --test iwarp hostile", [false, true]),
            ("-p rpcrdma-tests --test iwarp h60", [false, true]),
            ("-p rpcrdma-tests --test iwarp setup", [false, false]),
            ("-p rpcrdma-tests --test iw", [false, false]),
        ] {
            assert_eq!([&unit, &scenario].map(|claim| selects(arguments, claim)), selected, "{arguments}");
        }
    }

    #[test]
    fn a_mutation_must_match_exactly_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), "one two two").unwrap();
        let mutation = |find: &str| Mutation { find: find.to_owned(), ..mutation("m") };
        assert_eq!(mutation("one").applied(folder.path()).unwrap(), "three two two");
        for (find, count) in [("two", "found 2"), ("four", "found 0")] {
            let error = mutation(find).applied(folder.path()).unwrap_err();
            assert!(error.contains(count), "{error}");
        }
    }
}
