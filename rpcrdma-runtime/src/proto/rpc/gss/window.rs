use alloc::vec;
use alloc::vec::Vec;

/// Records which of a context's most recent sequence numbers were seen (RFC 2203 section 5.3.3.1).
#[derive(Clone, Debug)]
pub struct SequenceWindow {
    highest: Option<u32>,
    /// One bit per sequence number in the window. The bit of number `n` has the index `n % size`.
    seen: Vec<u64>,
    size: u32,
}

impl SequenceWindow {
    /// Creates a window of this many numbers, at least 1.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = size.max(1);
        let words = usize::try_from(size.div_ceil(64)).unwrap_or(usize::MAX);
        SequenceWindow { highest: None, seen: vec![0; words], size }
    }

    /// Marks a number as seen. Returns false if the number was already seen or is older than the window. A
    /// number above all earlier numbers moves the window, so the caller must verify the sender first.
    pub fn take(&mut self, number: u32) -> bool {
        let ahead = match self.highest {
            None => u32::MAX,
            Some(highest) if number > highest => number.saturating_sub(highest),
            Some(highest) => {
                let old = highest.saturating_sub(number) >= self.size;
                return !old && self.mark(number);
            }
        };
        if ahead >= self.size {
            self.seen.fill(0);
        } else {
            for passed in number.saturating_sub(ahead).saturating_add(1)..number {
                self.clear(passed);
            }
            self.clear(number);
        }
        self.highest = Some(number);
        self.mark(number)
    }

    /// Marks a number. Returns false if the number was already marked.
    fn mark(&mut self, number: u32) -> bool {
        let (index, bit) = self.position(number);
        let Some(word) = self.seen.get_mut(index) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn clear(&mut self, number: u32) {
        let (index, bit) = self.position(number);
        if let Some(word) = self.seen.get_mut(index) {
            *word &= !bit;
        }
    }

    fn position(&self, number: u32) -> (usize, u64) {
        let at = number.checked_rem(self.size).unwrap_or(0);
        (usize::try_from(at / 64).unwrap_or(usize::MAX), 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_sequence_number_is_accepted_once() {
        let mut window = SequenceWindow::new(4);
        for (number, taken) in [
            (10, true),
            (10, false),
            (7, true),
            (7, false),
            (6, false),
            (12, true),
            (9, true),
            (8, false),
            (11, true),
            (11, false),
            (1000, true),
            (997, true),
            (996, false),
            (12, false),
        ] {
            assert_eq!(window.take(number), taken, "{number}");
        }
    }

    #[test]
    fn the_window_equals_a_set_of_all_numbers() {
        for size in [1, 2, 63, 64, 65, 200] {
            let mut window = SequenceWindow::new(size);
            let (mut all, mut highest, mut state) = (BTreeSet::new(), None::<u32>, 1u32);
            for _ in 0..20_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let around = highest.unwrap_or(500);
                let number = (around + (state >> 16) % (2 * size + 3)).saturating_sub(size + size / 2);
                let old = highest.is_some_and(|highest| number < highest && highest - number >= size);
                let expected = !old && all.insert(number);
                assert_eq!(window.take(number), expected, "{number} of {size}");
                highest = highest.max(Some(number));
            }
        }
    }
}
