//! A relay for RPC over TCP that sends each call in a GSS context twice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::relay::Relay;

#[derive(Default)]
pub(super) struct Records {
    /// The number of calls. A call that is sent twice counts once.
    calls: AtomicUsize,
    replies: AtomicUsize,
}

impl Records {
    pub(super) fn counts(&self) -> [usize; 2] {
        [&self.calls, &self.replies].map(|count| count.load(Ordering::Relaxed))
    }
}

pub(super) fn repeating(target: u16) -> (Relay, Arc<Records>) {
    let records = Arc::<Records>::default();
    let counted = records.clone();
    let relay = Relay::start(target, move |client, server| {
        let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let [calls, replies] = [counted.clone(), counted.clone()];
        let times = |record: &[u8]| if is_call_in_context(record) { 2 } else { 1 };
        thread::spawn(move || copy_records(from, to, times, &calls.calls));
        thread::spawn(move || copy_records(server, client, |_| 1, &replies.replies));
    });
    (relay, records)
}

fn copy_records(mut from: TcpStream, mut to: TcpStream, times: impl Fn(&[u8]) -> usize, count: &AtomicUsize) {
    let mut record = Vec::new();
    let mut mark = [0; 4];
    while from.read_exact(&mut mark).is_ok() {
        let fragment = u32::from_be_bytes(mark);
        let start = record.len() + 4;
        record.extend_from_slice(&mark);
        record.resize(start + (fragment & 0x7fff_ffff) as usize, 0);
        if from.read_exact(&mut record[start..]).is_err() {
            break;
        }
        if fragment & 0x8000_0000 != 0 {
            if to.write_all(&record.repeat(times(&record))).is_err() {
                break;
            }
            count.fetch_add(1, Ordering::Relaxed);
            record.clear();
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Returns true if the credential of a call has the flavor RPCSEC_GSS and the procedure DATA. A server may
/// answer both copies of a call that creates a context, because such a call has no sequence number.
fn is_call_in_context(record: &[u8]) -> bool {
    const RPCSEC_GSS: u32 = 6;
    const DATA: u32 = 0;
    // The words after the record mark are: XID, message type, RPC version, program, version, procedure,
    // flavor, and the length, version and procedure of the credential.
    let word = |index: usize| {
        let at = 4 + 4 * index;
        record.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
    };
    word(6) == Some(RPCSEC_GSS) && word(9) == Some(DATA)
}
