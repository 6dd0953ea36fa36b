//! The similarity of two names, for suggestions.

/// Returns the most similar candidate, if its distance is permitted for the length of `name`. Among equally
/// similar candidates, returns the first in byte order.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    // In a short name, each letter matters.
    let max = if name.len() < 3 { 0 } else { name.len().div_ceil(3).min(3) };
    near(name, max, candidates)
}

/// Returns the most similar candidate that differs in at most `max` letters, if any.
pub(crate) fn near<'c>(name: &str, max: usize, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= max)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns true if the names differ only by a short prefix, as `rpcrdma_htype` and `rdma_htype` do. Names of
/// fewer than 8 bytes are too short for a match, and a prefix with `_` makes a different name.
pub(crate) fn is_slip(name: &str, candidate: &str) -> bool {
    let (short, long) = if name.len() < candidate.len() { (name, candidate) } else { (candidate, name) };
    let more = long.strip_suffix(short).filter(|more| !more.contains('_'));
    short.len() >= 8 && more.is_some_and(|more| more.len() <= short.len())
}

/// Returns the edit distance: the minimum number of letters to insert, delete, replace, or swap with the next
/// letter, ignoring case. Thousands of names are compared, so the rows of the distance matrix are on the
/// stack. Returns `usize::MAX` if `b` has more than [`LONGEST_COMPARED`] bytes.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let mut row = [0; LONGEST_COMPARED + 1];
    let Some(row) = row.get_mut(..=b.len()) else { return usize::MAX };
    for (count, place) in row.iter_mut().enumerate() {
        *place = count;
    }
    let Some((before, counts)) = row.split_first_mut() else { return a.len() };
    let mut above_that = [0; LONGEST_COMPARED];
    let mut last_x = None;
    for x in a.bytes() {
        // Distances one column to the left: `last` in this row, `diagonal` one row above, `two_up` two rows
        // above. `swapped` is the distance two columns to the left and two rows above. `above_that` is the
        // row of distances two rows above.
        let (mut diagonal, mut last) = (*before, *before + 1);
        let (mut two_up, mut swapped) = (before.saturating_sub(1), 0);
        let mut last_y: Option<u8> = None;
        *before = last;
        for ((place, old), y) in counts.iter_mut().zip(&mut above_that).zip(b.bytes()) {
            let above = *place;
            last = (diagonal + usize::from(!x.eq_ignore_ascii_case(&y))).min(above + 1).min(last + 1);
            let is_swap = last_x.zip(last_y).is_some_and(|(last_x, last_y): (u8, u8)| {
                last_x.eq_ignore_ascii_case(&y) && last_y.eq_ignore_ascii_case(&x)
            });
            if is_swap {
                last = last.min(swapped + 1);
            }
            (swapped, two_up, *old) = (two_up, *old, above);
            (diagonal, *place, last_y) = (above, last, Some(y));
        }
        last_x = Some(x);
    }
    counts.last().copied().unwrap_or(*before)
}

/// Maximum length in bytes of the second argument of [`distance`].
const LONGEST_COMPARED: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested() {
        let names = ["fattr3", "fattr4", "nfs_fh3"];
        for (a, b, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "ABC", 0),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("MXA", "MAX", 1),
            ("xab", "xba", 1),
            ("xxab", "yyba", 3),
            ("unsinged", "unsigned", 1),
            ("abcd", "badc", 2),
        ] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
        }
        assert_eq!(nearest("fatr3", names.into_iter()), Some("fattr3"));
        assert_eq!(nearest("NFS_FH3", names.into_iter()), Some("nfs_fh3"));
        assert_eq!(nearest("verifier", names.into_iter()), None);
    }
}
