//! The others' decoders and encoders, called as their documentation has it.

use bytes::Bytes;
use nfs3_types::xdr_codec::{Pack, Unpack};

/// Our types that borrow the message.
#[expect(dead_code, unreachable_pub, reason = "the document has more than is measured")]
pub(crate) mod borrowed {
    include!(concat!(env!("OUT_DIR"), "/borrowed.rs"));
}

/// What xdrgen 0.4, the compiler of xdr-codec, makes of `messages.x`.
#[allow(warnings, clippy::all, clippy::pedantic)]
pub(crate) mod jsgf {
    include!(concat!(env!("OUT_DIR"), "/jsgf.rs"));
}

/// What fastxdr makes of it: decoders only.
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

/// As nfs3_types writes its own headers: into as much memory as it says that it needs.
pub(crate) fn encode_nfs3_anew<T: Pack>(value: &T) -> Vec<u8> {
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

/// xdr-codec has nothing to ask for the size.
pub(crate) fn encode_jsgf_anew<T: xdr_codec::Pack<Vec<u8>>>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.pack(&mut out).unwrap();
    out
}

pub(crate) fn decode_fastxdr<T: TryFrom<Bytes, Error: std::fmt::Debug>>(bytes: &Bytes) -> T {
    T::try_from(bytes.clone()).unwrap()
}
