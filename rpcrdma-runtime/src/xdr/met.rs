//! The types that are met on the way down from one, by their numbers: all in constants, where types cannot be compared.

/// How many types are told apart. What is beyond is as good as unseen.
const ROOM: usize = 32;

/// What was met, and what was not looked at.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// The numbers of the types that are behind boxes and arrays; zeros behind them.
    types: [u64; ROOM],
    len: usize,
    /// How many places were passed that hold items. Of a union's arms all count, so that none hides what another has.
    places: u64,
    /// Whether something was too far down.
    cut: bool,
    /// Whether there were more types than there is room for.
    lost: bool,
}

impl Met {
    /// Nothing.
    pub const NOTHING: Met = Met { types: [0; ROOM], len: 0, places: 0, cut: false, lost: false };
    /// A place that holds an item.
    pub const ITEM: Met = Met { places: 1, ..Met::NOTHING };
    /// Something that is too far down.
    pub const UNSEEN: Met = Met { cut: true, ..Met::NOTHING };

    /// A type more, unless it is there; 0 is none.
    #[must_use]
    pub const fn with(mut self, number: u64) -> Met {
        if number == 0 {
            return self;
        }
        let mut rest: &mut [u64] = &mut self.types;
        while let Some((one, behind)) = rest.split_first_mut() {
            if *one == number {
                return self;
            }
            if *one == 0 {
                *one = number;
                self.len = self.len.saturating_add(1);
                return self;
            }
            rest = behind;
        }
        self.lost = true;
        self
    }

    /// Both.
    #[must_use]
    pub const fn and(mut self, other: Met) -> Met {
        let mut rest: &[u64] = &other.types;
        while let Some((one, behind)) = rest.split_first()
            && *one != 0
        {
            self = self.with(*one);
            rest = behind;
        }
        self.places = self.places.saturating_add(other.places);
        self.cut |= other.cut;
        self.lost |= other.lost;
        self
    }

    /// Whether nothing was too far down.
    pub(super) const fn is_all(&self) -> bool {
        !self.cut
    }

    /// Whether no types were met but those of a shorter way.
    pub(super) const fn has_no_others(&self, shorter: &Met) -> bool {
        !self.lost && self.len == shorter.len
    }

    /// Whether no items were found but those of a shorter way.
    pub(super) const fn has_no_more(&self, shorter: &Met) -> bool {
        self.places == shorter.places && self.places < u64::MAX
    }
}

/// The number of a type that is derived where this is said.
#[must_use]
pub const fn numbered(module: &str, name: &str, line: u32, column: u32) -> u64 {
    let place = mixed(mixed(SEED, line as u64), column as u64);
    text(text(place, module.as_bytes()), name.as_bytes())
}

/// The number of a type with a parameter of this number.
#[must_use]
pub const fn mixed(number: u64, parameter: u64) -> u64 {
    text(number, &parameter.to_be_bytes())
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, and the length behind the bytes; never 0, which stands for no type.
const fn text(number: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let (mut number, mut rest) = (number, bytes);
    while let Some((byte, behind)) = rest.split_first() {
        number = (number ^ *byte as u64).wrapping_mul(PRIME);
        rest = behind;
    }
    (number ^ bytes.len() as u64).wrapping_mul(PRIME) | 1
}
