//! Runs commands that documents show.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::child::print;

pub(crate) struct Shell<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Shell<'_> {
    /// Prints a command, runs it, and prints and returns its standard output.
    pub(crate) fn run(&self, command: &str) -> Result<String, String> {
        print(&format!("$ {command}"));
        let output = self.bash(command).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot run bash: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        print(&printed);
        if output.status.success() { Ok(printed) } else { Err(format!("`{command}` failed")) }
    }

    /// Starts a server that writes its output to the file `printed`, and waits until the server prints
    /// `serving`.
    pub(crate) fn serve(&self, command: &str, printed: &Path) -> Result<Server, String> {
        print(&format!("$ {command}&"));
        let failed = |error: std::io::Error| format!("cannot start the server: {error}");
        let file = File::create(printed).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        // `exec` replaces the shell with the server, so killing the child process kills the server.
        let mut bash = self.bash(&format!("exec {command}"));
        let mut server = Server(bash.stdout(file).stderr(errors).spawn().map_err(failed)?);
        server.wait_until_serving(printed)?;
        Ok(server)
    }

    fn bash(&self, command: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-c", command]).current_dir(self.directory).envs(self.environment.iter().cloned());
        bash
    }
}

/// A running server. Dropping the value kills the server.
pub(crate) struct Server(Child);

impl Server {
    fn wait_until_serving(&mut self, printed: &Path) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let printed = fs::read_to_string(printed).unwrap_or_default();
            if printed.contains("serving") {
                return Ok(());
            }
            let has_ended = self.0.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || began.elapsed() > Duration::from_secs(300) {
                return Err(format!("the server did not start: {printed}"));
            }
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
