//! The C implementation: rpcgen's code for `messages.x` with libtirpc. The benchmark builds this code as a
//! separate program.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

pub(crate) struct Tirpc {
    child: Child,
    /// The program's standard input. The program exits when this pipe is closed.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Tirpc {
    /// Builds the program in `dir` and starts it. If a tool is missing or fails, the error names the tool.
    pub(crate) fn start(dir: &Path) -> Result<Self, String> {
        drop(fs::remove_dir_all(dir));
        let write =
            |name: &str, text: &str| fs::write(dir.join(name), text).map_err(|error| error.to_string());
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        write("messages.x", include_str!("messages.x"))?;
        write("tirpc.c", include_str!("tirpc.c"))?;
        run(dir, "rpcgen", ["-h", "-o", "messages.h", "messages.x"])?;
        run(dir, "rpcgen", ["-c", "-o", "messages.c", "messages.x"])?;
        // If pkg-config does not find the library, use its usual location.
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

    /// Sends a message to the program. The program decodes the message, encodes the value, and checks that
    /// the result is equal to the message.
    pub(crate) fn load(&mut self, name: &str, message: &[u8]) {
        let commands = self.commands.as_mut().unwrap();
        writeln!(commands, "load {name} {}", message.len()).unwrap();
        commands.write_all(message).unwrap();
        self.answer();
    }

    /// Returns the time for `count` runs of `what`: `decode`, `encode` or `encode-fresh`.
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

fn run<A: AsRef<OsStr>>(dir: &Path, tool: &str, args: impl IntoIterator<Item = A>) -> Result<String, String> {
    let output = Command::new(tool)
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|error| format!("{tool}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{tool}: {}", stderr.lines().next().unwrap_or("failed")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
