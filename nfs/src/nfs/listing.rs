//! Limits a directory listing to the size of one reply.

use rpcrdma_nfs3::{Entry3Element, Entryplus3Element};

use super::convert;
use crate::export::{Entry, Listed, NfsError};

/// The length of READDIR3resok and READDIRPLUS3resok without entries, in bytes: attributes 4 + 84, verifier
/// 8, end of the list 4, eof 4.
const EMPTY: u64 = 104;
/// The length of a READDIR entry without its name, in bytes: list item 4, fileid 8, length of the name 4,
/// cookie 8.
const ENTRY: u64 = 24;
/// The encoded lengths of absent and of present attributes (`post_op_attr`), in bytes.
const ATTRIBUTES: [u64; 2] = [4, 88];

#[derive(Debug)]
pub(super) struct Room {
    /// The remaining bytes of the reply.
    max: u64,
    /// The remaining bytes for entries, excluding their attributes and handles (`dircount` of READDIRPLUS).
    names: u64,
    entries: usize,
}

impl Room {
    pub(super) fn new(max: u32, names: u32) -> Self {
        Room { max: u64::from(max).saturating_sub(EMPTY), names: u64::from(names), entries: 0 }
    }

    /// # Errors
    /// [`NfsError::TooSmall`] if the directory has further entries and none fits.
    pub(super) fn check_progress(&self, end: Listed) -> Result<Listed, NfsError> {
        if self.entries == 0 && !end.eof { Err(NfsError::TooSmall) } else { Ok(end) }
    }

    /// Reserves room for an entry and returns true, or returns false if the entry does not fit. The first
    /// entry may exceed `dircount`: otherwise a client with a small `dircount` could never proceed.
    fn take(&mut self, names: u64, more: u64) -> bool {
        let fits = names.saturating_add(more) <= self.max && (names <= self.names || self.entries == 0);
        if fits {
            self.max -= names + more;
            self.names = self.names.saturating_sub(names);
            self.entries += 1;
        }
        fits
    }

    pub(super) fn take_entry(&mut self, entry: &Entry) -> bool {
        self.take(ENTRY + padded(entry.name.len()), 0)
    }

    pub(super) fn take_plus(&mut self, entry: &Entry) -> bool {
        let [none, some] = ATTRIBUTES;
        let more = match &entry.found {
            Some(found) => some + 4 + 4 + padded(found.handle.len()),
            None => none + 4,
        };
        self.take(ENTRY + padded(entry.name.len()), more)
    }
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(4)
}

pub(super) fn entry(entry: Entry) -> Entry3Element {
    Entry3Element { fileid: entry.fileid, name: entry.name.into(), cookie: entry.cookie }
}

pub(super) fn entry_plus(entry: Entry) -> Entryplus3Element {
    Entryplus3Element {
        fileid: entry.fileid,
        name: entry.name.into(),
        cookie: entry.cookie,
        name_attributes: entry.found.as_ref().map(|found| convert::attributes(&found.attributes)),
        name_handle: entry.found.map(|found| convert::handle(found.handle)),
    }
}
