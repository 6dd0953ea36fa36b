//! Record marking: RPC messages on a byte stream (RFC 5531 section 11).
//!
//! A record is one message and consists of fragments. The word before a fragment is its mark: it contains the
//! length of the fragment, and its highest bit is set for the last fragment.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error as ThisError;

const LAST: u32 = 1 << 31;

/// Size of a fragment's mark in octets.
const MARK: usize = 4;

/// Returns the mark of a record of `len` octets in one fragment, or `None` if the record is 2 GiB or longer.
#[must_use]
pub fn record_mark(len: u64) -> Option<[u8; 4]> {
    let len = u32::try_from(len).ok().filter(|len| *len < LAST)?;
    Some((LAST | len).to_be_bytes())
}

/// The reason why no further records can be read from a stream: a rejected record is never skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum RecordError {
    /// A record exceeds the local limit.
    #[error("record too long: at least {len} octets, limit {max} (TcpOptions::max_record)")]
    TooLong {
        /// The size that the record's marks have claimed so far, in octets.
        len: u64,
        /// The limit in octets.
        max: usize,
    },
}

/// Extracts records from a byte stream. Stores only the received part of one record, and reserves no memory
/// for the size that a mark claims.
#[derive(Debug)]
pub struct Records {
    max: usize,
    /// True from the first mark of a record to its last octet, even between fragments.
    is_partial: bool,
    fragment: Option<Fragment>,
    /// The received octets of a record with several fragments.
    before: BytesMut,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    left: usize,
    last: bool,
}

impl Records {
    /// Creates an extractor for records of at most `max` octets.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Records { max, is_partial: false, fragment: None, before: BytesMut::new() }
    }

    /// Raises the limit to `max` octets if the current limit is lower.
    pub fn admit(&mut self, max: usize) {
        self.max = self.max.max(max);
    }

    /// Returns true if no record is partially read: a stream may end here.
    #[must_use]
    pub fn is_between(&self) -> bool {
        !self.is_partial
    }

    /// Returns an upper bound on the length of the next record, or `None` if its first mark has not arrived.
    /// The bound is the exact length for a record in one fragment, and the local limit otherwise.
    ///
    /// # Errors
    /// Fails as [`Records::next`] does.
    pub fn announced(&mut self, input: &mut BytesMut) -> Result<Option<usize>, RecordError> {
        if self.is_between() && self.fragment(input)?.is_none() {
            return Ok(None);
        }
        let only = self.fragment.filter(|fragment| fragment.last && self.before.is_empty());
        Ok(Some(only.map_or(self.max, |fragment| fragment.left)))
    }

    /// Returns the next record if it is complete. A record in one fragment shares the memory of `input`.
    /// Processed octets are removed from `input`. If the record is incomplete, append more octets to
    /// `input` and call this method again.
    ///
    /// # Errors
    /// Returns [`RecordError`] if the record exceeds the limit. The stream is then unusable.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, RecordError> {
        loop {
            let Some(fragment) = self.fragment(input)? else { return Ok(None) };
            if fragment.last && self.before.is_empty() {
                if input.len() < fragment.left {
                    return Ok(None);
                }
                (self.is_partial, self.fragment) = (false, None);
                return Ok(Some(input.split_to(fragment.left).freeze()));
            }
            let piece = input.split_to(fragment.left.min(input.len()));
            self.before.extend_from_slice(&piece);
            let left = fragment.left.saturating_sub(piece.len());
            if left > 0 {
                self.fragment = Some(Fragment { left, ..fragment });
                return Ok(None);
            }
            self.fragment = None;
            if fragment.last {
                self.is_partial = false;
                return Ok(Some(core::mem::take(&mut self.before).freeze()));
            }
        }
    }

    /// Returns the received start of a record that [`Records::next`] rejected: the fragments before the
    /// rejected mark. If the first mark was rejected, returns the octets after this mark.
    #[must_use]
    pub fn refused<'a>(&'a self, input: &'a [u8]) -> Option<&'a [u8]> {
        if self.before.is_empty() { input.get(MARK..) } else { Some(&self.before) }
    }

    /// Returns the current fragment. Between fragments, first reads the next mark from `input`, and returns
    /// `None` if the mark is incomplete.
    fn fragment(&mut self, input: &mut BytesMut) -> Result<Option<Fragment>, RecordError> {
        if self.fragment.is_none() {
            let Some(mark) = input.first_chunk::<MARK>() else { return Ok(None) };
            let mark = u32::from_be_bytes(*mark);
            let claimed = mark & !LAST;
            let len = u64::from(claimed).saturating_add(self.before.len() as u64);
            let left = match usize::try_from(claimed) {
                Ok(left) if len <= self.max as u64 => left,
                _ => return Err(RecordError::TooLong { len, max: self.max }),
            };
            input.advance(MARK);
            self.is_partial = true;
            self.fragment = Some(Fragment { left, last: mark & LAST != 0 });
        }
        Ok(self.fragment)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn fragment(last: bool, data: &[u8]) -> Vec<u8> {
        let mark = u32::try_from(data.len()).unwrap() | if last { LAST } else { 0 };
        [&mark.to_be_bytes(), data].concat()
    }

    /// Returns all records of a stream that arrives in pieces of `step` octets.
    fn records(stream: &[u8], step: usize) -> Vec<Bytes> {
        let (mut records, mut input, mut found) = (Records::new(64), BytesMut::new(), Vec::new());
        for piece in stream.chunks(step) {
            input.extend_from_slice(piece);
            while let Some(record) = records.next(&mut input).unwrap() {
                found.push(record);
            }
        }
        assert!(records.is_between() && input.is_empty());
        found
    }

    /// Requirement: R329
    #[test]
    fn records_are_extracted_from_any_pieces() {
        let stream = [
            fragment(true, b"one"),
            fragment(false, b"tw"),
            fragment(false, b""),
            fragment(true, b"o"),
            fragment(true, b""),
            fragment(false, b"three"),
            fragment(true, b""),
        ]
        .concat();
        for step in 1..=stream.len() {
            assert_eq!(records(&stream, step), [&b"one"[..], b"two", b"", b"three"], "{step}");
        }
    }

    #[test]
    fn a_record_is_partial_after_an_empty_fragment() {
        let (mut records, mut input) = (Records::new(64), BytesMut::from(&fragment(false, b"")[..]));
        assert!(records.is_between());
        assert_eq!(records.next(&mut input), Ok(None));
        assert!(!records.is_between());
        input.extend_from_slice(&fragment(true, b""));
        assert_eq!(records.next(&mut input), Ok(Some(Bytes::new())));
        assert!(records.is_between());
    }

    #[test]
    fn a_record_in_one_fragment_is_not_copied() {
        let mut input = BytesMut::from(&fragment(true, &[7; 40])[..]);
        let at = input.as_ptr().wrapping_add(MARK);
        let record = Records::new(64).next(&mut input).unwrap().unwrap();
        assert_eq!((record.as_ptr(), record.len()), (at, 40));
    }

    #[test]
    fn records_beyond_the_limit_are_rejected() {
        let read = |stream: &[u8]| Records::new(64).next(&mut BytesMut::from(stream));
        assert!(matches!(read(&fragment(true, &[0; 64])), Ok(Some(record)) if record.len() == 64));
        // The mark alone suffices for the rejection.
        assert_eq!(read(&fragment(true, &[0; 65])[..4]), Err(RecordError::TooLong { len: 65, max: 64 }));
        let two = [fragment(false, &[0; 60]), fragment(true, &[0; 5])].concat();
        assert_eq!(read(&two), Err(RecordError::TooLong { len: 65, max: 64 }));
        let mut input = BytesMut::from(&two[..]);
        let mut records = Records::new(64);
        assert!(records.next(&mut input).is_err());
        assert_eq!(records.refused(&input), Some(&[0; 60][..]), "the first fragment");
        let (mut records, one) = (Records::new(4), fragment(true, b"start"));
        let mut input = BytesMut::from(&one[..]);
        assert!(records.next(&mut input).is_err());
        assert_eq!(records.refused(&input), Some(&b"start"[..]));
        let huge = Err(RecordError::TooLong { len: 0x7fff_ffff, max: 64 });
        assert_eq!(read(&[0xff; 4]), huge);
        assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff]), huge);
    }

    /// Requirement: R329
    #[test]
    fn marks_of_records() {
        assert_eq!(record_mark(0), Some([0x80, 0, 0, 0]));
        assert_eq!(record_mark(40), Some([0x80, 0, 0, 40]));
        assert_eq!(record_mark(0x7fff_ffff), Some([0xff; 4]));
        assert_eq!(record_mark(0x8000_0000), None);
    }
}
