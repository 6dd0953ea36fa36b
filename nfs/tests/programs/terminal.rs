//! The progress display of `nfs3` on a terminal, and its absence elsewhere.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Daemon;

fn nfs3(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command with a terminal of 100 columns as standard error. Returns the terminal's output.
fn on_a_terminal(mut command: Command) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&other, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut child = command.env("TERM", "xterm").stderr(Stdio::from(other)).spawn().unwrap();
    // Closes the command's copy of the descriptor, so that reading ends when the program exits.
    drop(command);
    let reader = thread::spawn(move || {
        let (mut drawn, mut terminal) = (Vec::new(), File::from(terminal));
        // The system returns EIO after the program has exited.
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut piece) {
            drawn.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&drawn).into_owned()
    });
    assert!(child.wait().unwrap().success());
    reader.join().unwrap()
}

#[test]
fn a_progress_bar_appears_only_on_a_terminal() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let large = from.path().join("large");
    File::create(&large).unwrap().set_len(48 << 20).unwrap();
    let daemon = Daemon::start(to.path(), &[]);
    let url = &daemon.url;
    let (large, back) = (large.to_str().unwrap(), from.path().join("back"));
    let drawn = on_a_terminal(nfs3(&["put", "--verify", large, &format!("{url}/")]));
    let amounts = |drawn: &str| drawn.matches("/48.00 MiB").count();
    assert!(drawn.contains("/large ") && amounts(&drawn) > 1, "{drawn:?}");
    assert!(drawn.contains("reading back /large "), "{drawn:?}");
    let drawn = on_a_terminal(nfs3(&["get", &format!("{url}/large"), back.to_str().unwrap()]));
    assert!(drawn.contains("/large ") && amounts(&drawn) > 1, "{drawn:?}");
    assert_eq!(fs::metadata(&back).unwrap().len(), 48 << 20);
    // Concurrent copies have one line each. All lines are cleared before they are drawn again.
    for name in ["one", "two", "three"] {
        File::create(to.path().join(name)).unwrap().set_len(48 << 20).unwrap();
    }
    let tree = from.path().join("tree");
    let hidden = from.path().join("hidden");
    let quiet = ["-q", "get", &format!("{url}/large"), hidden.to_str().unwrap()];
    assert_eq!(on_a_terminal(nfs3(&quiet)), "");
    let concurrent = ["get", "-r", "--transfers", "4", &format!("{url}/"), tree.to_str().unwrap()];
    let drawn = on_a_terminal(nfs3(&concurrent));
    assert!(["/large ", "/one ", "/two ", "/three "].iter().all(|name| drawn.contains(name)), "{drawn:?}");
    assert!(drawn.split("\x1b[2K").any(|lines| amounts(lines) > 1), "{drawn:?}");
    // A file or a pipe receives no progress display.
    let again = from.path().join("again");
    let quiet = nfs3(&["get", &format!("{url}/large"), again.to_str().unwrap()]).output().unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
    daemon.stop(Signal::TERM);
}
