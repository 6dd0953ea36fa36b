use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::export::NfsError;

/// Maximum file length, in bytes: clients use signed 64-bit offsets.
pub(super) const FILE_MAX: u64 = i64::MAX as u64;

/// Data shorter than this number of bytes is copied. Otherwise a few bytes would keep the buffer of a whole
/// message in memory.
const SHARED_FROM: usize = 64 << 10;

/// A file's content: the written data by offset, with holes in between.
///
/// A large write keeps its receive buffer, and a read within the written range returns a part of the buffer
/// without copying. An extent keeps at most about twice its length in memory.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The extents by offset. No extent is empty, overlaps the next extent, or ends after `size`.
    extents: BTreeMap<u64, Extent>,
    size: u64,
    held: u64,
}

#[derive(Clone, Debug)]
struct Extent {
    data: Bytes,
    /// The length of the buffer that `data` keeps in memory, at most twice the length of `data`.
    buffer: usize,
}

impl Extent {
    fn new(data: Bytes) -> Self {
        Extent { buffer: data.len(), data }
    }

    /// Returns a new extent with `data`, which is a part of this extent's data. Copies `data` if it is less
    /// than half of the buffer.
    fn part(&self, data: Bytes) -> Self {
        if data.len() < self.buffer.div_ceil(2) {
            return Extent::new(Bytes::copy_from_slice(&data));
        }
        Extent { data, buffer: self.buffer }
    }
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of bytes outside holes.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Returns at most `count` bytes from `offset`, and true if they reach the end of the file.
    pub(super) fn read(&self, offset: u64, count: u32) -> (Bytes, bool) {
        let left = self.size.saturating_sub(offset);
        let count = u64::from(count).min(left);
        let eof = count == left;
        let before = self.extents.range(..=offset).next_back();
        if let Some((start, Extent { data, .. })) = before
            && let Some(range) = span(offset - start, count)
            && range.end <= data.len()
        {
            return (data.slice(range), eof);
        }
        (self.gather(offset, count), eof)
    }

    /// Returns the number of bytes that a write to this range would add to [`Content::held`].
    pub(super) fn added(&self, offset: u64, len: u64) -> u64 {
        let end = offset.saturating_add(len);
        let kept = self.overlapping(offset, end).map(|(start, data)| {
            let to = end.min(start + data.len() as u64);
            to.saturating_sub(offset.max(start))
        });
        len.saturating_sub(kept.sum())
    }

    fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Bytes)> {
        let first = self.extents.range(..from).next_back();
        first.into_iter().chain(self.extents.range(from..to)).map(|(start, extent)| (*start, &extent.data))
    }

    /// Returns a copy of a range, with zeros for the holes. `count` is at most `u32::MAX`.
    fn gather(&self, offset: u64, count: u64) -> Bytes {
        let end = offset.saturating_add(count);
        let mut all = BytesMut::zeroed(usize::try_from(count).unwrap_or(0));
        for (start, data) in self.overlapping(offset, end) {
            let from = offset.max(start);
            let to = end.min(start + data.len() as u64);
            let (Some(source), Some(target)) =
                (span(from - start, to.saturating_sub(from)), span(from - offset, to.saturating_sub(from)))
            else {
                continue;
            };
            if let (Some(source), Some(target)) = (data.get(source), all.get_mut(target)) {
                target.copy_from_slice(source);
            }
        }
        all.freeze()
    }

    /// # Errors
    /// [`NfsError::FBig`] if the data would end beyond [`FILE_MAX`].
    pub(super) fn write(&mut self, offset: u64, data: &Bytes) -> Result<(), NfsError> {
        let len = data.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(NfsError::FBig)?;
        if len == 0 {
            return Ok(());
        }
        self.cut(offset, end);
        self.held += len;
        self.size = self.size.max(end);
        if data.len() >= SHARED_FROM {
            self.extents.insert(offset, Extent::new(data.clone()));
        } else {
            self.insert_small(offset, data);
        }
        Ok(())
    }

    /// Inserts a copy of the data of a small write. If an extent ends at `offset` and would not exceed
    /// [`SHARED_FROM`] bytes, appends the copy to this extent.
    fn insert_small(&mut self, offset: u64, data: &[u8]) {
        let before = self.extents.range(..offset).next_back();
        let before = before.map(|(start, extent)| (*start, extent.data.len()));
        if let Some((start, held)) = before
            && start + held as u64 == offset
            && held + data.len() <= SHARED_FROM
            && let Some(Extent { data: extent, buffer }) = self.extents.remove(&start)
        {
            let mut extent = extent.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            extent.extend_from_slice(data);
            let (data, buffer) = (extent.freeze(), buffer.max(held + data.len()));
            self.extents.insert(start, Extent { data, buffer });
            return;
        }
        self.extents.insert(offset, Extent::new(Bytes::copy_from_slice(data)));
    }

    /// Replaces a range with a hole.
    fn cut(&mut self, from: u64, to: u64) {
        let before = self.extents.range(..from).next_back().map(|(start, extent)| (*start, extent.clone()));
        if let Some((start, extent)) = before
            && start + extent.data.len() as u64 > from
        {
            let head = extent.data.slice(..usize::try_from(from - start).unwrap_or(usize::MAX));
            self.held -= (extent.data.len() - head.len()) as u64;
            self.extents.insert(start, extent.part(head));
            self.keep_tail(start, &extent, to);
        }
        while let Some((&start, _)) = self.extents.range(from..to).next()
            && let Some(extent) = self.extents.remove(&start)
        {
            self.held -= extent.data.len() as u64;
            self.keep_tail(start, &extent, to);
        }
    }

    /// Reinserts the data of `extent` from file offset `to` on, if any. `extent` begins at `start`.
    fn keep_tail(&mut self, start: u64, extent: &Extent, to: u64) {
        let cut = to - start;
        if cut < extent.data.len() as u64 {
            let tail = extent.data.slice(usize::try_from(cut).unwrap_or(usize::MAX)..);
            self.held += tail.len() as u64;
            self.extents.insert(to, extent.part(tail));
        }
    }

    /// Truncates the content or extends it with a hole.
    ///
    /// # Errors
    /// [`NfsError::FBig`] if `size` exceeds [`FILE_MAX`].
    pub(super) fn resize(&mut self, size: u64) -> Result<(), NfsError> {
        if size > FILE_MAX {
            return Err(NfsError::FBig);
        }
        if size < self.size {
            self.cut(size, self.size);
        }
        self.size = size;
        Ok(())
    }
}

fn span(from: u64, len: u64) -> Option<core::ops::Range<usize>> {
    let from = usize::try_from(from).ok()?;
    let end = from.checked_add(usize::try_from(len).ok()?)?;
    Some(from..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(writes: &[(usize, usize, u8)]) -> Vec<u8> {
        let mut all = Vec::new();
        for &(offset, len, byte) in writes {
            if len > 0 {
                all.resize(all.len().max(offset + len), 0);
            }
            all[offset..offset + len].fill(byte);
        }
        all
    }

    fn check(content: &Content, expected: &[u8]) {
        assert_eq!(content.size(), expected.len() as u64);
        for (offset, count) in
            [(0, expected.len()), (1, 70_000), (expected.len() / 2, expected.len()), (65_000, 3)]
        {
            let (data, eof) = content.read(offset as u64, u32::try_from(count).unwrap());
            let end = (offset + count).min(expected.len());
            assert!(data[..] == expected[offset.min(end)..end], "at {offset}, {count} bytes");
            assert_eq!(eof, end == expected.len());
        }
    }

    #[test]
    fn the_last_write_wins_for_overlapping_ranges() {
        let mut content = Content::default();
        let mut writes = Vec::new();
        let mut seed = 1_usize;
        for round in 0..300_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (seed >> 20) % 300_000;
            let len = if round % 3 == 0 { (seed >> 33) % 200_000 } else { (seed >> 33) % 500 };
            let byte = (round % 255) as u8 + 1;
            content.write(offset as u64, &Bytes::from(vec![byte; len])).unwrap();
            writes.push((offset, len, byte));
            if round % 20 == 0 {
                check(&content, &model(&writes));
            }
        }
        check(&content, &model(&writes));
        let held = content.extents.values().map(|extent| extent.data.len() as u64);
        assert_eq!(content.held(), held.sum::<u64>());
    }

    #[test]
    fn a_large_write_is_neither_copied_in_nor_out() {
        let data = Bytes::from(vec![7; 1 << 20]);
        let mut content = Content::default();
        content.write(0, &data).unwrap();
        let (read, eof) = content.read(4096, 1 << 19);
        assert_eq!(read.as_ptr(), data[4096..].as_ptr());
        assert!(!eof);
    }

    #[test]
    fn a_small_part_of_a_write_does_not_keep_the_rest_in_memory() {
        let [first, second] = [1, 2].map(|byte| Bytes::from(vec![byte; 1 << 20]));
        let mut content = Content::default();
        content.write(0, &first).unwrap();
        content.write(1, &second).unwrap();
        assert!(first.is_unique() && !second.is_unique(), "the remaining byte of the first write is copied");
        check(&content, &model(&[(0, 1 << 20, 1), (1, 1 << 20, 2)]));
        content.resize(100_000).unwrap();
        assert!(second.is_unique());
        check(&content, &model(&[(0, 1, 1), (1, 99_999, 2)]));
        assert_eq!(content.held(), 100_000);
    }

    #[test]
    fn small_writes_in_a_row_become_one_extent() {
        let mut content = Content::default();
        for index in 0..1000_u64 {
            content.write(index * 3, &Bytes::from_static(b"abc")).unwrap();
        }
        assert_eq!(content.extents.len(), 1);
        check(&content, &b"abc".repeat(1000));
    }

    #[test]
    fn truncated_data_reads_as_zeros() {
        let mut content = Content::default();
        content.write(0, &Bytes::from(vec![1; 100_000])).unwrap();
        content.resize(10).unwrap();
        content.resize(20).unwrap();
        check(&content, &[[1; 10], [0; 10]].concat());
        assert_eq!(content.held(), 10);
    }

    #[test]
    fn a_file_ends_at_the_largest_offset() {
        let mut content = Content::default();
        assert_eq!(content.write(u64::MAX, &Bytes::from_static(b"x")), Err(NfsError::FBig));
        assert_eq!(content.write(FILE_MAX, &Bytes::from_static(b"x")), Err(NfsError::FBig));
        content.write(FILE_MAX - 1, &Bytes::from_static(b"x")).unwrap();
        assert_eq!(content.read(FILE_MAX - 2, 100), (Bytes::from_static(b"\0x"), true));
        assert_eq!(content.read(u64::MAX, 100), (Bytes::new(), true));
    }
}
