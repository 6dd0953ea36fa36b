//! Random values of emitted types, and tests of the properties of these values.

use std::collections::BTreeSet;
use std::fmt::Debug;

use allocation_counter::measure;
use rpcrdma_runtime::xdr::{
    self, Char, Error, Opaque, Quadruple, Size, SmallOpaque, UnsignedChar, Xdr, XdrString,
};

/// Random numbers from a seed. A budget bounds the size of a value.
pub struct Dice {
    state: u64,
    left: u32,
    turn: Option<usize>,
    reached: Vec<(&'static str, usize)>,
}

impl Dice {
    /// Seeds the numbers with `turn`. The first choice rotates with `turn`, so that every choice occurs.
    pub fn new(turn: usize) -> Self {
        let state = (turn as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Dice { state, left: 60, turn: Some(turn), reached: Vec::new() }
    }

    fn word(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() >> 16) as usize % n.max(1)
    }

    /// Selects one of the `n` arms or members of a type. `turn` determines the first choice. Later choices
    /// are random, or `plain` once the budget is spent.
    pub fn choose(&mut self, of: &'static str, n: usize, plain: Option<usize>) -> usize {
        let choice = match (self.turn.take(), plain) {
            (Some(turn), _) => turn % n,
            (None, Some(plain)) if self.left == 0 => plain,
            (None, _) => self.below(n),
        };
        self.left = self.left.saturating_sub(1);
        self.reached.push((of, choice));
        choice
    }

    pub fn other_than(&mut self, taken: &[i64]) -> i64 {
        loop {
            let number =
                if self.below(2) == 0 { self.below(1000) as i64 } else { (self.word() >> 33) as i64 };
            if !taken.contains(&number) {
                return number;
            }
        }
    }

    /// Returns a number of elements, sometimes the maximum; zero once the budget is spent.
    fn count(&mut self, max: u32) -> u32 {
        let full = max <= 16 && self.below(4) == 0;
        let count = if full { max } else { self.below(max.min(4) as usize + 1) as u32 }.min(self.left);
        self.left -= count;
        count
    }

    /// Returns bytes, sometimes of the maximum length.
    fn bytes(&mut self, max: u32) -> Vec<u8> {
        let full = max <= 64 && self.below(4) == 0;
        let len = if full { max as usize } else { self.below(max.min(37) as usize + 1) };
        (0..len).map(|_| self.word() as u8).collect()
    }
}

pub trait Sample: Sized {
    fn sample(dice: &mut Dice) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Sample for $type {
            fn sample(dice: &mut Dice) -> Self {
                match dice.below(6) {
                    0 => <$type>::MIN,
                    1 => <$type>::MAX,
                    2 => 1,
                    _ => dice.word() as $type,
                }
            }
        }
    )* };
}

numbers!(i16, u16, i32, u32, i64, u64);

impl Sample for f32 {
    fn sample(dice: &mut Dice) -> Self {
        let value = f32::from_bits(dice.word() as u32);
        if value.is_nan() { f32::INFINITY } else { value }
    }
}

impl Sample for f64 {
    fn sample(dice: &mut Dice) -> Self {
        let value = f64::from_bits(dice.word());
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }
}

impl Sample for bool {
    fn sample(dice: &mut Dice) -> Self {
        dice.below(2) == 1
    }
}

impl Sample for () {
    fn sample(_dice: &mut Dice) -> Self {}
}

impl Sample for Char {
    fn sample(dice: &mut Dice) -> Self {
        Char(dice.word() as i8)
    }
}

impl Sample for UnsignedChar {
    fn sample(dice: &mut Dice) -> Self {
        UnsignedChar(dice.word() as u8)
    }
}

impl Sample for Quadruple {
    fn sample(dice: &mut Dice) -> Self {
        Quadruple(Sample::sample(dice))
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(dice: &mut Dice) -> Self {
        std::array::from_fn(|_| dice.word() as u8)
    }
}

impl<T: Sample, const N: usize> Sample for [T; N] {
    fn sample(dice: &mut Dice) -> Self {
        std::array::from_fn(|_| T::sample(dice))
    }
}

impl<const N: u32> Sample for Opaque<N> {
    fn sample(dice: &mut Dice) -> Self {
        dice.bytes(N).into()
    }
}

impl<const N: u32> Sample for XdrString<N> {
    fn sample(dice: &mut Dice) -> Self {
        XdrString::new(dice.bytes(N).into())
    }
}

impl<const N: usize> Sample for SmallOpaque<N> {
    fn sample(dice: &mut Dice) -> Self {
        SmallOpaque::new(&dice.bytes(N as u32)).expect("at most the maximum length")
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(dice: &mut Dice) -> Self {
        (dice.count(1) > 0).then(|| T::sample(dice))
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(dice: &mut Dice) -> Self {
        Box::new(T::sample(dice))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(dice: &mut Dice) -> Self {
        at_most(dice, u32::MAX)
    }
}

pub fn at_most<T: Sample>(dice: &mut Dice, max: u32) -> Vec<T> {
    (0..dice.count(max)).map(|_| T::sample(dice)).collect()
}

/// The name, the number of choices, the limits of the encoded length and the functions of one type. All other
/// code calls the function pointers, so it is not generic and is compiled once.
pub struct Codec {
    name: &'static str,
    choices: usize,
    min: u64,
    max: Size,
    make: fn(&mut Dice) -> Vec<u8>,
    reencode: fn(&[u8]) -> Result<Vec<u8>, Error>,
}

/// Returns the [`Codec`] of a type. `choices` is the number of the type's own enum members or union
/// discriminants, or 0 if the type is neither an enum nor a union.
pub fn codec<T: Sample + Xdr + PartialEq + Debug>(name: &'static str, choices: usize) -> Codec {
    Codec { name, choices, min: T::LENGTHS.min, max: T::LENGTHS.max, make: make::<T>, reencode: reencode::<T> }
}

/// Returns the encoding of a random value. Asserts that the encoding decodes to an equal value.
fn make<T: Sample + Xdr + PartialEq + Debug>(dice: &mut Dice) -> Vec<u8> {
    let value = T::sample(dice);
    let bytes = xdr::to_bytes(&value).expect("a valid value");
    assert_eq!(xdr::encoded_len(&value).expect("a valid value"), bytes.len() as u64);
    let back: T = xdr::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}: {value:?}"));
    assert_eq!(back, value);
    bytes.to_vec()
}

fn reencode<T: Xdr>(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let value: T = xdr::from_slice(bytes)?;
    Ok(xdr::to_bytes(&value).expect("a decoded value").to_vec())
}

pub fn check(codec: &Codec) {
    let mut reached = BTreeSet::new();
    for turn in 0..codec.choices.max(24) {
        let mut dice = Dice::new(turn);
        let bytes = (codec.make)(&mut dice);
        reached.extend(dice.reached.iter().filter(|(of, _)| *of == codec.name).map(|(_, choice)| *choice));
        let (name, len) = (codec.name, bytes.len() as u64);
        assert_eq!(len % 4, 0, "{name}");
        assert!(len >= codec.min, "{name}: {len} below {}", codec.min);
        assert!(codec.max.bound().is_none_or(|max| len <= max), "{name}: {len} above {:?}", codec.max);
        assert_eq!((codec.reencode)(&bytes).as_ref(), Ok(&bytes), "{name}");
        if turn < 8 {
            rejects_truncated_input(codec, &bytes);
        }
        if turn < 4 {
            survives_changed_words(codec, &bytes);
        }
    }
    assert_eq!(reached.len(), codec.choices, "{}: the samples lack some arms or members", codec.name);
    survives_repeated_words(codec);
}

fn rejects_truncated_input(codec: &Codec, bytes: &[u8]) {
    for cut in (0..bytes.len()).step_by(4) {
        assert!((codec.reencode)(&bytes[..cut]).is_err(), "{}: {bytes:02x?} truncated to {cut}", codec.name);
    }
    let longer = [bytes, &[0; 4]].concat();
    assert!((codec.reencode)(&longer).is_err(), "{}: {longer:02x?}", codec.name);
}

/// Replaces each word in turn with a huge count, an invalid bool or enum value, or nonzero padding. The
/// changed bytes must be rejected, or must decode to a value that encodes to the same bytes.
fn survives_changed_words(codec: &Codec, bytes: &[u8]) {
    let mut other = bytes.to_vec();
    for at in (0..bytes.len()).step_by(4) {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let [a, b, c, d] = word;
        for changed in [[0xff; 4], [0, 1, 0, 0], [a, b, c, d ^ 1], [a, b, c, d | 2], [a | 0x80, b, c, d]] {
            other[at..at + 4].copy_from_slice(&changed);
            survives(codec, &other);
        }
        other[at..at + 4].copy_from_slice(&word);
    }
}

/// Decodes long inputs that repeat one word, and that may be read as endless lists or as nested arrays with
/// one element each.
fn survives_repeated_words(codec: &Codec) {
    for word in [0u32, 1, 2, 3] {
        survives(codec, &word.to_be_bytes().repeat(10_000));
    }
}

/// Asserts that decoding allocates in proportion to the length of the input, regardless of its counts, and
/// that accepted input round-trips.
fn survives(codec: &Codec, bytes: &[u8]) {
    let mut result = None;
    let used = measure(|| result = Some((codec.reencode)(bytes)));
    let name = codec.name;
    let bound = 4096 + 64 * bytes.len() as u64;
    assert!(used.bytes_max <= bound, "{name}: {} bytes of memory for {bytes:02x?}", used.bytes_max);
    if let Some(Ok(encoded)) = result {
        assert_eq!(encoded, bytes, "{name}");
    }
}
