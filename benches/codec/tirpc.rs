//! C's own: what rpcgen makes of `messages.x`, on libtirpc, in a program of its own that is made when the benchmark runs.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program, waiting for commands.
pub(crate) struct Tirpc {
    child: Child,
    /// Closed to end the program.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Tirpc {
    /// Makes the program in `dir` and starts it. What it takes may not be installed; then the error says what that is.
    pub(crate) fn start(dir: &Path) -> Result<Self, String> {
        drop(fs::remove_dir_all(dir));
        let write =
            |name: &str, text: &str| fs::write(dir.join(name), text).map_err(|error| error.to_string());
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        write("messages.x", include_str!("messages.x"))?;
        write("tirpc.c", include_str!("tirpc.c"))?;
        run(dir, "rpcgen", ["-h", "-o", "messages.h", "messages.x"])?;
        run(dir, "rpcgen", ["-c", "-o", "messages.c", "messages.x"])?;
        // Where pkg-config does not know, the library is looked for where it usually is.
        let flags = run(dir, "pkg-config", ["--cflags", "--libs", "libtirpc"])
            .unwrap_or_else(|_| "-I/usr/include/tirpc -ltirpc".to_owned());
        let sources = ["-O2", "-w", "-o", "tirpc", "tirpc.c", "messages.c"];
        run(dir, "cc", sources.into_iter().chain(flags.split_whitespace()))?;
        let mut child = Command::new(dir.join("tirpc"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take().ok_or("no pipe")?);
        Ok(Tirpc { child, commands, answers: BufReader::new(answers) })
    }

    /// Gives it a message, which it decodes and encodes to see that it comes out as it was.
    pub(crate) fn load(&mut self, name: &str, message: &[u8]) {
        let commands = self.commands.as_mut().unwrap();
        writeln!(commands, "load {name} {}", message.len()).unwrap();
        commands.write_all(message).unwrap();
        self.answer();
    }

    /// How long it takes to `decode`, to `encode` or to `encode-fresh` the message so many times.
    pub(crate) fn time(&mut self, what: &str, name: &str, count: u64) -> Duration {
        writeln!(self.commands.as_mut().unwrap(), "{what} {name} {count}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Duration {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        Duration::from_nanos(line.trim().parse().unwrap())
    }
}

impl Drop for Tirpc {
    fn drop(&mut self) {
        drop(self.commands.take());
        drop(self.child.wait());
    }
}

/// Runs a tool to its end; what it printed.
fn run<A: AsRef<OsStr>>(dir: &Path, tool: &str, args: impl IntoIterator<Item = A>) -> Result<String, String> {
    let output = Command::new(tool)
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|error| format!("{tool}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{tool}: {}", said.lines().next().unwrap_or("failed")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
