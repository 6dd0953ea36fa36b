//! Tests of the errors for invalid NFS encodings from a peer.

use rpcrdma_runtime::xdr::{self, ErrorKind, Xdr};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn rejected<T: Xdr>(bytes: &[u8]) -> ErrorKind {
    match xdr::from_slice::<T>(bytes) {
        Ok(_) => panic!("{bytes:02x?} is accepted"),
        Err(error) => error.kind(),
    }
}

mod version_3 {
    use super::*;
    use rfc1813::{Dirlist3, Getattr3Res, NfsFh3, PostOpAttr};

    #[test]
    fn invalid_encodings_are_rejected() {
        assert!(matches!(rejected::<Getattr3Res>(&words(&[3])), ErrorKind::UnknownEnum { value: 3, .. }));
        assert_eq!(rejected::<PostOpAttr>(&words(&[2])), ErrorKind::BadBool(2));
        assert_eq!(rejected::<NfsFh3>(&words(&[65])), ErrorKind::TooLong { len: 65, max: 64 });
        assert_eq!(rejected::<NfsFh3>(&words(&[2, 1])), ErrorKind::Padding);
        assert_eq!(rejected::<NfsFh3>(&words(&[4, 1, 0])), ErrorKind::Trailing(4));
        assert_eq!(rejected::<NfsFh3>(&words(&[8, 1])), ErrorKind::Truncated { needed: 8, left: 4 });
    }

    #[test]
    fn a_directory_may_be_long() {
        let entry = [1, 0, 9, 1, u32::from_be_bytes(*b"x\0\0\0"), 0, 7];
        let long = [words(&entry).repeat(100_000), words(&[0, 1])].concat();
        let list: Dirlist3 = xdr::from_slice(&long).expect("decoding a list does not recurse");
        assert_eq!((list.entries.len(), list.eof), (100_000, true));
        assert_eq!(xdr::to_bytes(&list).expect("a decoded value"), long);
    }
}

macro_rules! version_4 {
    ($module:ident, $($path:ident)::*) => {
        mod $module {
            use super::*;
            use ::$($path::)*{Compound4Args, Dirlist4, NfsArgop4, NfsFh4};

            #[test]
            fn invalid_encodings_are_rejected() {
                let kind = rejected::<NfsArgop4>(&words(&[9999]));
                assert!(matches!(kind, ErrorKind::UnknownEnum { value: 9999, .. }), "{kind:?}");
                assert_eq!(rejected::<Dirlist4>(&words(&[2])), ErrorKind::BadBool(2));
                assert_eq!(rejected::<Dirlist4>(&words(&[0, 3])), ErrorKind::BadBool(3));
                assert_eq!(rejected::<NfsFh4>(&words(&[129])), ErrorKind::TooLong { len: 129, max: 128 });
                assert_eq!(rejected::<NfsFh4>(&words(&[3, 1])), ErrorKind::Padding);
                assert_eq!(rejected::<NfsFh4>(&words(&[4, 1, 0])), ErrorKind::Trailing(4));
            }

            #[test]
            fn a_compound_with_missing_operations_is_rejected() {
                // An empty tag, minor version 1, the number of operations, and two GETFH operations of one
                // word each.
                for (count, refusal) in [(u32::MAX, true), (3, true), (2, false)] {
                    let compound = words(&[0, 1, count, 10, 10]);
                    let decoded = xdr::from_slice::<Compound4Args>(&compound);
                    assert_eq!(decoded.is_err(), refusal, "{count}");
                }
            }

            #[test]
            fn a_directory_may_be_long() {
                // Each entry has a cookie, an empty name and no attributes.
                let long = [words(&[1, 0, 9, 0, 0, 0]).repeat(100_000), words(&[0, 1])].concat();
                let list: Dirlist4 = xdr::from_slice(&long).expect("decoding a list does not recurse");
                assert_eq!((list.entries.len(), list.eof), (100_000, true));
                assert_eq!(xdr::to_bytes(&list).expect("a decoded value"), long);
            }
        }
    };
}

version_4!(version_4_1, rfc5662);
version_4!(version_4_2, rfc7863::rfc7863);
