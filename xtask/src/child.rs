//! Runs a command with a time limit and forwards its output line by line.

use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    /// The exit status, or `None` if a signal terminated the command.
    Failed(Option<i32>),
    TimedOut,
}

/// Maximum time from the exit of the command to the end of its output, which child processes may keep open.
const LINGER: Duration = Duration::from_secs(2);

/// Runs a command in a new process group. `each_line` receives standard output and standard error as one
/// stream, one complete line at a time. After the time limit, the entire group receives SIGTERM, and SIGKILL
/// after [`GRACE`]. If the output is still open [`LINGER`] after the command has exited, the group is killed.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    mut each_line: impl FnMut(&str),
) -> Result<End, String> {
    let began = Instant::now();
    let program = command.get_program().display().to_string();
    let failed = |error: io::Error| format!("cannot run `{program}`: {error}");
    let (reader, writer) = io::pipe().map_err(failed)?;
    let errors = writer.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    // `command` owns the write end of the pipe. The reader reaches the end of the output only after every
    // copy of the write end is closed.
    drop(command);
    let group = Group::of(&child);
    let lines = lines(reader);
    let mut ended: Option<(End, Instant)> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => each_line(&line),
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(20)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match ended {
            Some((_, at)) if at.elapsed() > LINGER => {
                kill(group.0.as_slice(), Signal::KILL);
                break;
            }
            Some(_) => {}
            None => ended = ending(&mut child, &group, began, limit)?.map(|end| (end, Instant::now())),
        }
    }
    ended.map(|(end, _)| end).ok_or_else(|| "the command has no outcome".to_owned())
}

/// Returns the outcome of the child, or `None` while the child runs. After the time limit, terminates the
/// group and returns `TimedOut`.
fn ending(child: &mut Child, group: &Group, began: Instant, limit: Duration) -> Result<Option<End>, String> {
    if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
        return Ok(Some(if status.success() { End::Succeeded } else { End::Failed(status.code()) }));
    }
    if began.elapsed() < limit {
        return Ok(None);
    }
    end(group.0.as_slice());
    child.wait().map_err(|error| error.to_string())?;
    Ok(Some(End::TimedOut))
}

fn lines(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Time between SIGTERM and SIGKILL, in which a process group can terminate the groups that it started.
const GRACE: Duration = Duration::from_millis(500);

/// The running process groups. The signal handler of [`kill_on_signals`] kills these groups.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Ok(mut running) = RUNNING.lock() {
            running.extend(group);
        }
        Group(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(mut running) = RUNNING.lock() {
            running.retain(|group| Some(*group) != self.0);
        }
    }
}

/// Sends SIGTERM to `groups`, so that a step of the gate can terminate the groups that it started. After
/// [`GRACE`], kills `groups`.
fn end(groups: &[Pid]) {
    kill(groups, Signal::TERM);
    thread::sleep(GRACE);
    kill(groups, Signal::KILL);
}

fn kill(groups: &[Pid], signal: Signal) {
    for group in groups {
        // Fails if no process of the group is left.
        let _ = kill_process_group(*group, signal);
    }
}

/// When this process receives SIGINT, SIGTERM or SIGHUP, kills the running groups and exits.
pub(crate) fn kill_on_signals() -> Result<(), String> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| format!("cannot handle signals: {error}"))?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end(&RUNNING.lock().map(|running| running.clone()).unwrap_or_default());
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs a command and prints its output. Returns true if the command succeeds within the limit.
pub(crate) fn succeeds(command: Command, limit: Duration) -> bool {
    run(command, limit, print).is_ok_and(|end| end == End::Succeeded)
}

/// Prints a line. Ignores write errors, since the reader of standard output may have exited.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(script: &str, limit: Duration) -> (End, Vec<String>) {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let end = run(command, limit, |line| lines.push(line.to_owned())).unwrap();
        (end, lines)
    }

    #[test]
    fn both_streams_arrive_in_order_with_the_outcome() {
        let long = Duration::from_secs(60);
        let (end, lines) = bash("echo a; echo b >&2; printf c", long);
        assert_eq!((end, lines.join(" ")), (End::Succeeded, "a b c".to_owned()));
        assert_eq!(bash("exit 3", long).0, End::Failed(Some(3)));
    }

    #[test]
    fn a_command_may_terminate_its_processes_at_its_limit() {
        let (end, lines) =
            bash("trap 'echo ending; exit' TERM; sleep 5000 & wait", Duration::from_millis(500));
        assert_eq!((end, lines.join(" ")), (End::TimedOut, "ending".to_owned()));
    }

    #[test]
    fn a_group_is_killed_at_its_limit_and_after_its_leader() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let begins = format!("sleep 5000 & echo $! >{}", pid.display());
        for (script, limit, expected) in [
            (format!("{begins}; wait"), Duration::from_millis(500), End::TimedOut),
            (begins, Duration::from_secs(60), End::Succeeded),
        ] {
            let began = Instant::now();
            assert_eq!(bash(&script, limit).0, expected);
            assert!(began.elapsed() < Duration::from_secs(50));
            let pid = std::fs::read_to_string(&pid).unwrap();
            let stat = format!("/proc/{}/stat", pid.trim());
            // A killed process stays a zombie until its parent reaps it.
            let has_ended = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
            for _ in 0..100 {
                if has_ended() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
            assert!(has_ended(), "{stat}");
        }
    }
}
