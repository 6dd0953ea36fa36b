//! Tests of the errors for invalid encodings from a peer.

use emitted::language::{
    Bush, ByEnum, ByUnsigned, Containers, Expression, Handle, Nodes, Ping, Several, Tree,
};
use rpcrdma_runtime::xdr::{self, ErrorKind, DecodeLimits, Xdr};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn rejected<T: Xdr>(bytes: &[u8]) -> ErrorKind {
    match xdr::from_slice::<T>(bytes) {
        Ok(_) => panic!("{bytes:02x?} is accepted"),
        Err(error) => error.kind(),
    }
}

/// Returns the encoding of nested values: the words before each level, the innermost value, and the words
/// after each level.
fn nested(levels: usize, before: &[u32], innermost: &[u32], behind: &[u32]) -> Vec<u8> {
    [words(before).repeat(levels), words(innermost), words(behind).repeat(levels)].concat()
}

/// Asserts that nested values are accepted up to a limit on the depth and rejected beyond it. Each level
/// adds a box, a counted array or a list, which counts toward the depth.
fn is_limited<T: Xdr>(before: &[u32], innermost: &[u32], behind: &[u32]) {
    let limit = DecodeLimits::default().max_depth;
    let accepted = (0..1000).take_while(|levels| {
        let bytes = nested(*levels, before, innermost, behind);
        let value = xdr::from_slice::<T>(&bytes);
        if let Ok(value) = &value {
            assert_eq!(xdr::to_bytes(value).expect("a decoded value"), bytes);
        }
        value.is_ok()
    });
    let accepted = accepted.count();
    let (least, most) = (limit as usize, limit as usize + 1);
    assert!((least..=most).contains(&accepted), "{accepted} levels with a limit of {limit}");
    for levels in [accepted, accepted + 1, 500_000] {
        let bytes = nested(levels, before, innermost, behind);
        assert_eq!(rejected::<T>(&bytes), ErrorKind::TooDeep { limit }, "{levels} levels");
    }
}

#[test]
fn nesting_has_a_limit() {
    is_limited::<Tree>(&[7, 1], &[7, 0, 0], &[0]);
    is_limited::<Ping>(&[7, 1], &[7, 0], &[]);
    is_limited::<Expression>(&[1], &[0, 7], &[]);
    is_limited::<Bush>(&[7, 1], &[7, 0, 0], &[0]);
}

#[test]
fn a_list_may_be_long() {
    let long = nested(200_000, &[1, 7], &[0], &[]);
    let nodes: Nodes = xdr::from_slice(&long).expect("decoding a list does not recurse");
    assert_eq!(nodes.0.len(), 200_000);
    assert_eq!(xdr::to_bytes(&nodes).expect("a decoded value"), long);
}

#[test]
fn invalid_encodings_are_rejected() {
    assert!(matches!(rejected::<ByEnum>(&words(&[17, 0])), ErrorKind::UnknownEnum { value: 17, .. }));
    assert!(matches!(
        rejected::<ByUnsigned>(&words(&[8, 0])),
        ErrorKind::UnknownDiscriminant { value: 8, .. }
    ));
    assert_eq!(rejected::<Ping>(&words(&[7, 2])), ErrorKind::BadBool(2));
    assert_eq!(rejected::<Handle>(&words(&[1, 0xaa00_0100])), ErrorKind::Padding);
    assert_eq!(rejected::<Handle>(&words(&[1, 0xaa00_0000, 0])), ErrorKind::Trailing(4));
    assert_eq!(rejected::<Handle>(&words(&[65])), ErrorKind::TooLong { len: 65, max: 64 });
    assert_eq!(rejected::<Several>(&words(&[9])), ErrorKind::TooLong { len: 9, max: 8 });
    assert!(matches!(rejected::<Nodes>(&words(&[1, 7])), ErrorKind::Truncated { needed: 4, left: 0 }));
    assert!(matches!(rejected::<Containers>(&words(&[u32::MAX])), ErrorKind::Truncated { .. }));
}
