//! Merges the command line and the file of `--config`. Entries of the file are converted to arguments, so one
//! parser handles both.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, ValueEnum};
use toml::de::{DeTable, DeValue};

use super::{ExportOptions, Nfs3dArguments};
use crate::output::LogFormat;

/// The options of `nfs3d` from the command line and the configuration file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Nfs3dConfig {
    /// The options from the command line, and from the file outside of export tables.
    pub server: Nfs3dArguments,
    /// At least one export. The paths of all exports differ.
    pub exports: Vec<ExportOptions>,
}

impl Nfs3dConfig {
    /// Returns the format in which to report an error of [`Nfs3dConfig::read`]: the value of `--log-format`,
    /// or else of `log-format` in the file of `--config`. If neither is valid, returns [`LogFormat::Text`].
    /// Ignores arguments after the first invalid argument.
    #[must_use]
    pub fn log_format(line: &[OsString]) -> LogFormat {
        let Some(given) = valid_start(line) else { return LogFormat::Text };
        if given.value_source("log_format") == Some(ValueSource::CommandLine) {
            return given.get_one("log_format").copied().unwrap_or(LogFormat::Text);
        }
        let file = given.get_one::<PathBuf>("config").filter(|path| path.is_file());
        let text = file.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        // The file may have errors, which must not hide a valid `log-format`.
        let (table, _) = DeTable::parse_recoverable(&text);
        let of_file = table.get_ref().get("log-format").and_then(|value| value.get_ref().as_str());
        of_file.and_then(|name| LogFormat::from_str(name, false).ok()).unwrap_or(LogFormat::Text)
    }

    /// Reads the command line, which begins with the program's name, and the file of `--config`.
    ///
    /// # Errors
    /// A [`clap::Error`] if the command line is invalid. Another error if the file cannot be read or is
    /// invalid, if no directory is given, or if export tables are combined with a directory outside of them.
    /// For an invalid entry of the file, the message contains the line and, if known, the option.
    pub fn read(line: &[OsString]) -> anyhow::Result<Self> {
        // `valid_start` stops at the first invalid argument without an error. The parsers below report it.
        let named =
            valid_start(line).and_then(|given| Some((given.get_one::<PathBuf>("config")?.clone(), given)));
        let Some((path, given)) = named else {
            let server = <Nfs3dArguments as clap::Parser>::try_parse_from(line)?;
            return Nfs3dConfig::of(server, Vec::new());
        };
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file = File { path: &path, text: &text };
        let table = DeTable::parse(&text).map_err(|error| file.error(error.span(), error.message()))?;
        let mut tables = Vec::new();
        let mut entries = Vec::new();
        for (name, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Array(array) if name.get_ref() == "export" => tables.extend(array.iter()),
                _ if name.get_ref() == "export" => {
                    bail!(file.error(Some(name.span()), "`export` must be an array of tables: [[export]]"))
                }
                value => entries.push(file.entry(
                    &Nfs3dArguments::command(),
                    name.get_ref(),
                    name.span(),
                    value,
                )?),
            }
        }
        entries.retain(|entry| given.value_source(&entry.id) != Some(ValueSource::CommandLine));
        let (program, rest) = line.split_first().context("the command line has no program name")?;
        let parse = |entries: &mut dyn Iterator<Item = &Entry>| {
            let of_file = entries.flat_map(|entry| entry.arguments.iter().cloned());
            let all = [program.clone()].into_iter().chain(of_file).chain(rest.iter().cloned());
            Nfs3dArguments::command().try_get_matches_from(all)
        };
        let matches = file.parse(&entries, None, parse)?;
        let server = Nfs3dArguments::from_arg_matches(&matches)?;
        let mut exports: Vec<ExportOptions> = Vec::new();
        for value in tables {
            let error = |what: &str| file.error(Some(value.span()), what);
            let table = value
                .get_ref()
                .as_table()
                .ok_or_else(|| error("`export` must be an array of tables: [[export]]"))?;
            let export = file.export(table, value.span(), &matches)?;
            ensure!(export.dir.is_some(), error("option `dir` is missing"));
            let is_taken = exports.iter().any(|other| other.path == export.path);
            ensure!(!is_taken, error(&format!("option `path`: another export has the path {}", export.path)));
            exports.push(export);
        }
        Nfs3dConfig::of(server, exports)
    }

    fn of(server: Nfs3dArguments, mut exports: Vec<ExportOptions>) -> anyhow::Result<Self> {
        match (&server.export.dir, exports.is_empty()) {
            (Some(_), true) => exports.push(server.export.clone()),
            (Some(_), false) => {
                bail!(
                    "DIR or a top-level `dir` cannot be combined with [[export]] tables: remove one of them"
                )
            }
            (None, true) => {
                bail!("no directory to serve: give DIR, or [[export]] tables in the file of --config")
            }
            (None, false) => {}
        }
        Ok(Nfs3dConfig { server, exports })
    }
}

/// Parses a command line up to its first invalid argument.
fn valid_start(line: &[OsString]) -> Option<ArgMatches> {
    Nfs3dArguments::command().ignore_errors(true).try_get_matches_from(line).ok()
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

/// An option of the file, converted to command-line arguments.
struct Entry {
    id: String,
    name: String,
    at: Range<usize>,
    arguments: Vec<OsString>,
}

fn name(of: &Arg) -> &str {
    of.get_long().unwrap_or(of.get_id().as_str())
}

fn export_command() -> Command {
    ExportOptions::augment_args(Command::new("nfs3d"))
}

impl File<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    fn error(&self, span: Option<Range<usize>>, what: &str) -> anyhow::Error {
        let line = span.map_or(1, |span| self.line(span.start));
        anyhow!("{}:{line}: {}", self.path.display(), what.lines().collect::<Vec<_>>().join(", "))
    }

    fn entry(
        &self,
        command: &Command,
        called: &str,
        span: Range<usize>,
        value: &DeValue<'_>,
    ) -> anyhow::Result<Entry> {
        let is_of_file = |arg: &&Arg| !matches!(name(arg), "config" | "check-config");
        let arg = command.get_arguments().filter(is_of_file).find(|arg| name(arg) == called);
        let Some(arg) = arg else { bail!(self.error(Some(span), &format!("unknown option `{called}`"))) };
        let takes_value = arg.get_action().takes_values();
        let of_value = |value: &str| match arg.get_long() {
            Some(long) => OsString::from(format!("--{long}={value}")),
            None => value.into(),
        };
        let of_scalar = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(of_value(text)),
            DeValue::Integer(number) if number.radix() == 10 => Some(of_value(number.as_str())),
            _ => None,
        };
        let (expected, arguments) = match (takes_value, value) {
            (false, DeValue::Boolean(true)) => ("", Some(vec![format!("--{called}").into()])),
            (false, DeValue::Boolean(false)) => ("", Some(Vec::new())),
            (false, _) => ("true or false", None),
            (true, DeValue::Array(array)) if matches!(arg.get_action(), ArgAction::Append) => (
                "an array of strings or numbers",
                array.iter().map(|value| of_scalar(value.get_ref())).collect(),
            ),
            (true, value) => ("a string or a number", of_scalar(value).map(|argument| vec![argument])),
        };
        let what = || self.error(Some(span.clone()), &format!("option `{called}`: expected {expected}"));
        let arguments = arguments.ok_or_else(what)?;
        Ok(Entry { id: arg.get_id().to_string(), name: called.to_owned(), at: span, arguments })
    }

    /// Returns the options of the export in `table`. If `table` omits an option other than `dir` and `path`,
    /// uses its value from `outside`.
    fn export(
        &self,
        table: &DeTable<'_>,
        span: Range<usize>,
        outside: &ArgMatches,
    ) -> anyhow::Result<ExportOptions> {
        let command = export_command();
        let entries = table
            .iter()
            .map(|(name, value)| self.entry(&command, name.get_ref(), name.span(), value.get_ref()));
        let entries = entries.collect::<anyhow::Result<Vec<_>>>()?;
        let is_inherited = |arg: &&Arg| {
            let id = arg.get_id().as_str();
            let is_given = outside.value_source(id) == Some(ValueSource::CommandLine);
            is_given && !matches!(id, "dir" | "path") && entries.iter().all(|entry| entry.id != id)
        };
        let inherited = command.get_arguments().filter(is_inherited).flat_map(|arg| {
            let option = OsString::from(format!("--{}", name(arg)));
            if !arg.get_action().takes_values() {
                return vec![option];
            }
            let values = outside.get_raw(arg.get_id().as_str()).into_iter().flatten();
            values.map(|value| [&option, OsStr::new("="), value].into_iter().collect()).collect()
        });
        let inherited: Vec<OsString> = [OsString::from("nfs3d")].into_iter().chain(inherited).collect();
        let parse = |entries: &mut dyn Iterator<Item = &Entry>| {
            let own = entries.flat_map(|entry| entry.arguments.iter().cloned());
            command.clone().try_get_matches_from(inherited.iter().cloned().chain(own))
        };
        let matches = self.parse(&entries, Some(span), parse)?;
        Ok(ExportOptions::from_arg_matches(&matches)?)
    }

    /// An error contains the line of the invalid option if known, else the line of `table` if given.
    fn parse(
        &self,
        entries: &[Entry],
        table: Option<Range<usize>>,
        parse: impl Fn(&mut dyn Iterator<Item = &Entry>) -> Result<ArgMatches, clap::Error>,
    ) -> anyhow::Result<ArgMatches> {
        let error = match parse(&mut entries.iter()) {
            Ok(matches) => return Ok(matches),
            Err(error) => error,
        };
        let text = error.to_string();
        let text =
            text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" ");
        let text = text.trim_start_matches("error: ");
        let is_cause =
            |cause: &&Entry| parse(&mut entries.iter().filter(|entry| entry.id != cause.id)).is_ok();
        let is_named = |entry: &&Entry| text.contains(&format!("'--{} ", entry.name));
        let cause = entries.iter().find(is_cause).or_else(|| entries.iter().find(is_named));
        Err(match (cause, table) {
            (Some(Entry { name, at, .. }), _) => {
                self.error(Some(at.clone()), &format!("option `{name}`: {text}"))
            }
            (None, Some(table)) => self.error(Some(table), text),
            (None, None) => error.into(),
        })
    }
}
