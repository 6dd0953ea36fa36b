//! A relay for RPC over TCP that sends each call twice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::relay::Relay;

#[derive(Default)]
pub(super) struct Records {
    /// The number of calls. A call counts once, although it is sent twice.
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
        thread::spawn(move || copy_records(from, to, 2, &calls.calls));
        thread::spawn(move || copy_records(server, client, 1, &replies.replies));
    });
    (relay, records)
}

fn copy_records(mut from: TcpStream, mut to: TcpStream, times: usize, count: &AtomicUsize) {
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
            if to.write_all(&record.repeat(times)).is_err() {
                break;
            }
            count.fetch_add(1, Ordering::Relaxed);
            record.clear();
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
