//! Runs commands in the guest through the agent (`tests/interop/guest/agent`), a script that the guest starts
//! for each connection to the agent's port.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// The additional time to wait for the response after the command's timeout.
const SLACK: Duration = Duration::from_secs(60);
/// The maximum output of a command, in bytes.
const MAX_OUTPUT: u64 = 64 << 20;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit status; 124 or 137 if the command timed out.
    pub status: i32,
    /// The standard output and standard error, without later output of background processes.
    pub printed: String,
}

pub(super) fn run(port: u16, script: &str, limit: Duration) -> io::Result<Ran> {
    request(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, script, limit)
}

fn request(mut stream: TcpStream, script: &str, limit: Duration) -> io::Result<Ran> {
    // A random token marks the final line, so that no output of the command can be mistaken for this line.
    let token = format!("{:016x}", RandomState::new().build_hasher().finish());
    let too_long = || io::Error::new(ErrorKind::InvalidInput, format!("the timeout is too long: {limit:?}"));
    let deadline = Instant::now().checked_add(limit.saturating_add(SLACK)).ok_or_else(too_long)?;
    stream.write_all(format!("{} {} {token}\n{script}", limit.as_secs().max(1), script.len()).as_bytes())?;
    read_response(WithDeadline { stream, deadline }, &token)
}

/// Reads up to the line with the exit status. Background processes of the command may keep the connection
/// open after that line.
fn read_response(stream: impl Read, token: &str) -> io::Result<Ran> {
    let mut lines = BufReader::new(stream.take(MAX_OUTPUT));
    let start = format!("lab: {token} exit ");
    let mut output = Vec::new();
    loop {
        let line = output.len();
        if lines.read_until(b'\n', &mut output)? == 0 {
            let message = "no exit status: the connection closed, or the output exceeds 64 MiB";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
        }
        if let Some(status) = output[line..].strip_prefix(start.as_bytes()).and_then(status) {
            // The agent prints a newline before the final line. This newline is not part of the command's
            // output.
            output.truncate(line.saturating_sub(1));
            return Ok(Ran { status, printed: String::from_utf8_lossy(&output).into_owned() });
        }
    }
}

fn status(rest: &[u8]) -> Option<i32> {
    str::from_utf8(rest.strip_suffix(b"\n")?).ok()?.parse().ok()
}

struct WithDeadline {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for WithDeadline {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let timed_out =
            || io::Error::new(ErrorKind::TimedOut, "no response within 60 s after the command's timeout");
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => timed_out(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn read(response: &str) -> Option<Ran> {
        read_response(response.as_bytes(), "0f").ok()
    }

    fn ran(status: i32, printed: &str) -> Option<Ran> {
        Some(Ran { status, printed: printed.to_owned() })
    }

    #[test]
    fn the_status_follows_the_output() {
        assert_eq!(read("\nlab: 0f exit 0\n"), ran(0, ""));
        assert_eq!(read("one\n\nlab: 0f exit 3\n"), ran(3, "one\n"));
        assert_eq!(read("one\ntwo\nlab: 0f exit 124\n"), ran(124, "one\ntwo"));
    }

    #[test]
    fn a_final_line_with_another_token_is_treated_as_output() {
        let printed = "lab: exit 7\nlab: 0e exit 7\n and lab: 0f exit 7\nlab: 0f exit \n";
        assert_eq!(read(&format!("{printed}\nlab: 0f exit 3\nlab: 0f exit 4\n")), ran(3, printed));
    }

    #[test]
    fn a_truncated_response_is_an_error() {
        for cut in ["", "cut off", "cut off\n", "\nlab: 0f exit", "\nlab: 0f exit 1"] {
            assert_eq!(read(cut), None, "{cut:?}");
        }
    }

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let local = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (local, listener.accept().expect("a connection").0)
    }

    #[test]
    fn background_processes_do_not_delay_the_result() {
        let (local, mut peer) = connection();
        let guest = thread::spawn(move || {
            let mut request = String::new();
            BufReader::new(&peer).read_line(&mut request).expect("a request");
            let words: Vec<_> = request.split_whitespace().collect();
            assert_eq!(words[..2], ["400", "4"]);
            peer.write_all(format!("done\n\nlab: {} exit 0\n", words[2]).as_bytes()).expect("written");
            peer
        });
        let result = request(local, "true", Duration::from_secs(400)).expect("a result");
        assert_eq!(Some(result), ran(0, "done\n"));
        // The guest still has the connection open, so `request` did not wait for the end of the stream.
        drop(guest.join().expect("the guest"));
    }

    #[test]
    fn a_command_that_prints_forever_times_out() {
        let (local, mut peer) = connection();
        peer.write_all(b"more\n").expect("written");
        let stream = WithDeadline { stream: local, deadline: Instant::now() };
        let error = read_response(stream, "0f").expect_err("a timeout");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
