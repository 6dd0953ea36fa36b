//! Commands in the guest, by the script that waits there at a port (`tests/interop/guest/agent`).

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// How much longer than the command itself its answer may take.
const SLACK: Duration = Duration::from_secs(60);
/// What a command may print at most, in bytes.
const PRINTED_MAX: u64 = 64 << 20;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 124 or 137 if it took too long and was ended.
    pub status: i32,
    /// What it printed, errors included. What it left to run is not waited for, and may print more.
    pub printed: String,
}

/// Has the guest run a bash script.
pub(super) fn run(port: u16, script: &str, limit: Duration) -> io::Result<Ran> {
    ask(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, script, limit)
}

fn ask(mut stream: TcpStream, script: &str, limit: Duration) -> io::Result<Ran> {
    // So that nothing that is printed looks like the end.
    let word = format!("{:016x}", RandomState::new().build_hasher().finish());
    let long = || io::Error::new(ErrorKind::InvalidInput, "no command may take that long");
    let until = Instant::now().checked_add(limit.saturating_add(SLACK)).ok_or_else(long)?;
    stream.write_all(format!("{} {} {word}\n{script}", limit.as_secs().max(1), script.len()).as_bytes())?;
    answer(Until { stream, until }, &word)
}

/// Reads up to the line that says how the command ended. Behind that the connection may stay open for as long as anything lives
/// that the command has started.
fn answer(stream: impl Read, word: &str) -> io::Result<Ran> {
    let mut lines = BufReader::new(stream.take(PRINTED_MAX));
    let start = format!("lab: {word} exit ");
    let mut said = Vec::new();
    loop {
        let line = said.len();
        if lines.read_until(b'\n', &mut said)? == 0 {
            let lacks = "the guest did not say how the command ended";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, lacks));
        }
        if let Some(status) = said[line..].strip_prefix(start.as_bytes()).and_then(status) {
            // The line before ends where the agent has begun this one, whatever the command has printed last.
            said.truncate(line.saturating_sub(1));
            return Ok(Ran { status, printed: String::from_utf8_lossy(&said).into_owned() });
        }
    }
}

/// The status at the end of a line that is there whole.
fn status(rest: &[u8]) -> Option<i32> {
    str::from_utf8(rest.strip_suffix(b"\n")?).ok()?.parse().ok()
}

/// A stream that is read until then, no matter how often a little comes.
struct Until {
    stream: TcpStream,
    until: Instant,
}

impl Read for Until {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::new(ErrorKind::TimedOut, "the command did not end in time");
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn read(said: &str) -> Option<Ran> {
        answer(said.as_bytes(), "0f").ok()
    }

    fn ran(status: i32, printed: &str) -> Option<Ran> {
        Some(Ran { status, printed: printed.to_owned() })
    }

    #[test]
    fn the_status_is_behind_what_was_printed() {
        assert_eq!(read("\nlab: 0f exit 0\n"), ran(0, ""));
        assert_eq!(read("one\n\nlab: 0f exit 3\n"), ran(3, "one\n"));
        assert_eq!(read("one\ntwo\nlab: 0f exit 124\n"), ran(124, "one\ntwo"));
    }

    #[test]
    fn a_command_can_print_what_looks_like_its_end() {
        let printed = "lab: exit 7\nlab: 0e exit 7\n and lab: 0f exit 7\nlab: 0f exit \n";
        assert_eq!(read(&format!("{printed}\nlab: 0f exit 3\nlab: 0f exit 4\n")), ran(3, printed));
    }

    #[test]
    fn an_answer_without_its_end_is_none() {
        for cut in ["", "cut off", "cut off\n", "\nlab: 0f exit", "\nlab: 0f exit 1"] {
            assert_eq!(read(cut), None, "{cut:?}");
        }
    }

    /// A connection, and both ends of it.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        (near, listener.accept().expect("its other end").0)
    }

    #[test]
    fn what_a_command_left_to_run_is_not_waited_for() {
        let (near, mut far) = connection();
        let guest = thread::spawn(move || {
            let mut asked = String::new();
            BufReader::new(&far).read_line(&mut asked).expect("a request");
            let words: Vec<_> = asked.split_whitespace().collect();
            assert_eq!(words[..2], ["400", "4"]);
            far.write_all(format!("done\n\nlab: {} exit 0\n", words[2]).as_bytes()).expect("an answer");
            far
        });
        let done = ask(near, "true", Duration::from_secs(400)).expect("an answer");
        assert_eq!(Some(done), ran(0, "done\n"));
        // The guest's end is open still.
        drop(guest.join().expect("the guest"));
    }

    #[test]
    fn a_command_that_prints_for_ever_ends_for_us() {
        let (near, mut far) = connection();
        far.write_all(b"more\n").expect("written");
        let late = answer(Until { stream: near, until: Instant::now() }, "0f").expect_err("no answer");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
}
