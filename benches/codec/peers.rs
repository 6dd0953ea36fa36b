//! Our borrowing types, and the decoders and encoders of other crates, called as their documentation shows.

use bytes::Bytes;
use nfs3_types::xdr_codec::{Pack, Unpack};

/// Our borrowing types: the output of xdrgen for `specs/nfs3.txt`.
#[expect(dead_code, unreachable_pub, reason = "the document defines more than the benchmark measures")]
pub(crate) mod borrowed {
    include!(concat!(env!("OUT_DIR"), "/borrowed.rs"));
}

/// The output of xdrgen 0.4, the compiler of xdr-codec, for `messages.x`.
#[allow(warnings, clippy::all, clippy::pedantic)]
pub(crate) mod jsgf {
    include!(concat!(env!("OUT_DIR"), "/jsgf.rs"));
}

/// The output of fastxdr for `messages.x`. fastxdr generates decoders only.
#[allow(warnings, clippy::all, clippy::pedantic)]
pub(crate) mod fastxdr {
    include!(concat!(env!("OUT_DIR"), "/fastxdr.rs"));
    pub(crate) use xdr::*;
}

pub(crate) fn decode_nfs3<T: Unpack>(mut bytes: &[u8]) -> T {
    let (value, _) = T::unpack(&mut bytes).unwrap();
    assert!(bytes.is_empty());
    value
}

pub(crate) fn encode_nfs3<T: Pack>(out: &mut Vec<u8>, value: &T) {
    out.clear();
    value.pack(out).unwrap();
    std::hint::black_box(out);
}

pub(crate) fn encode_nfs3_fresh<T: Pack>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.packed_size());
    value.pack(&mut out).unwrap();
    out
}

pub(crate) fn decode_jsgf<'b, T: xdr_codec::Unpack<&'b [u8]>>(mut bytes: &'b [u8]) -> T {
    let (value, _) = T::unpack(&mut bytes).unwrap();
    assert!(bytes.is_empty());
    value
}

pub(crate) fn encode_jsgf<T: xdr_codec::Pack<Vec<u8>>>(out: &mut Vec<u8>, value: &T) {
    out.clear();
    value.pack(out).unwrap();
    std::hint::black_box(out);
}

/// Encodes into a growing buffer, because xdr-codec cannot report the size.
pub(crate) fn encode_jsgf_fresh<T: xdr_codec::Pack<Vec<u8>>>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.pack(&mut out).unwrap();
    out
}

pub(crate) fn decode_fastxdr<T: TryFrom<Bytes, Error: std::fmt::Debug>>(bytes: &Bytes) -> T {
    T::try_from(bytes.clone()).unwrap()
}
