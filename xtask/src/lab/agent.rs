//! Commands in the guest, by the script that waits there at a port (`tests/interop/guest/agent`).

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// How much longer than the command itself its answer may take.
const SLACK: Duration = Duration::from_secs(60);
/// What a command may print at most, in bytes.
const PRINTED_MAX: u64 = 64 << 20;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 124 or 143 if it took too long and was ended.
    pub status: i32,
    /// What it printed, errors included.
    pub printed: String,
}

/// Has the guest run a bash script.
pub(super) fn run(port: u16, script: &str, limit: Duration) -> io::Result<Ran> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(limit.saturating_add(SLACK)))?;
    stream.write_all(format!("{} {}\n{script}", limit.as_secs().max(1), script.len()).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(PRINTED_MAX).read_to_end(&mut answer)?;
    read_answer(&String::from_utf8_lossy(&answer)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::UnexpectedEof, "the guest did not say how the command ended")
    })
}

fn read_answer(answer: &str) -> Option<Ran> {
    let (printed, status) = answer.rsplit_once("\nlab: exit ")?;
    Some(Ran { status: status.trim().parse().ok()?, printed: printed.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_behind_what_was_printed() {
        let ran = |status, printed: &str| Some(Ran { status, printed: printed.to_owned() });
        assert_eq!(read_answer("one\nlab: exit 7\ntwo\n\nlab: exit 3\n"), ran(3, "one\nlab: exit 7\ntwo\n"));
        assert_eq!(read_answer("\nlab: exit 0\n"), ran(0, ""));
        assert_eq!(read_answer("cut off"), None);
    }
}
