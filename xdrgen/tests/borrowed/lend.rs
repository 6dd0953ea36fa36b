//! Tests of a borrowed type against its owned counterpart.

use allocation_counter::measure;
use rpcrdma_runtime::xdr::{self, Error, Layout, Size, Writer, Xdr};

use crate::sample::{Dice, Sample};

/// Tests values of `T` through the borrowed counterpart. `of_twin` contains the minimum and the maximum
/// encoded length of the counterpart. `read` decodes a value, compares the value with a copy of itself, and
/// encodes the value.
pub fn check<T: Sample + Xdr>(of_twin: [Size; 2], read: fn(&[u8], &mut Writer) -> Result<(), Error>) {
    assert_eq!(of_twin, [Size::Bounded(<T as Layout>::LENGTHS.min), <T as Layout>::LENGTHS.max]);
    for seed in 0..24 {
        let bytes = xdr::to_bytes(&T::sample(&mut Dice::new(seed))).unwrap();
        let mut writer = Writer::with_capacity(bytes.len());
        let counted = measure(|| read(&bytes, &mut writer).unwrap());
        assert_eq!(counted.count_total, 0);
        assert_eq!(writer.as_slice(), &bytes[..]);
        for end in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
            assert!(read(&bytes[..end], &mut Writer::new()).is_err(), "accepts a prefix of {end} bytes");
        }
    }
}
