//! The part of a directory that fits into one reply.

use rpcrdma_nfs3::{Entry3Element, Entryplus3Element};

use super::convert;
use crate::export::{Entry, Error, Listed};

/// READDIR3resok and READDIRPLUS3resok without entries, in bytes of XDR: attributes 4 + 84, verifier 8, end
/// of the list 4, eof 4.
const EMPTY: u64 = 104;
/// A READDIR entry without its name: 4 for the list, fileid 8, length of the name 4, cookie 8.
const ENTRY: u64 = 24;
/// Optional attributes: absent or present.
const ATTRIBUTES: [u64; 2] = [4, 88];

/// Counts the bytes of entries in a reply, and detects when it is full.
#[derive(Debug)]
pub(super) struct Room {
    /// Bytes left of the reply.
    whole: u64,
    /// Bytes left for the data that READDIR also returns.
    names: u64,
    entries: usize,
}

impl Room {
    /// Returns the room of a reply of at most `whole` bytes, of which the data that READDIR also returns
    /// takes at most `names`.
    pub(super) fn new(whole: u32, names: u32) -> Self {
        Room { whole: u64::from(whole).saturating_sub(EMPTY), names: u64::from(names), entries: 0 }
    }

    /// # Errors
    /// [`Error::TooSmall`] if the directory has further entries and not even one fits.
    pub(super) fn must_have_got_on(&self, end: Listed) -> Result<Listed, Error> {
        if self.entries == 0 && !end.eof { Err(Error::TooSmall) } else { Ok(end) }
    }

    /// Reserves room for an entry if there is enough. The first entry ignores `names`: a client whose value
    /// is too small would never progress.
    fn take(&mut self, names: u64, more: u64) -> bool {
        let fits = names.saturating_add(more) <= self.whole && (names <= self.names || self.entries == 0);
        if fits {
            self.whole -= names + more;
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
