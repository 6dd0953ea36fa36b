//! Decoding the most frequent messages of NFSv3 does not allocate. Decoding a READDIRPLUS reply allocates
//! once, and encoding any of these messages allocates once.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

/// The messages of the codec benchmark.
#[path = "../../benches/codec/messages.rs"]
mod messages;

use allocation_counter::{AllocationInfo, measure};
use messages::{attributes, encoded, handle};
use rpcrdma_mount3 as mount;
use rpcrdma_nfs3 as nfs;
use rpcrdma_runtime::xdr::{self, Bytes, Xdr};

fn decoded<T: Xdr>(bytes: &Bytes) -> AllocationInfo {
    let mut decoded = None;
    let counted = measure(|| decoded = Some(xdr::from_bytes::<T>(bytes).unwrap()));
    assert_eq!(xdr::to_bytes(&decoded.unwrap()).unwrap(), bytes);
    counted
}

fn assert_no_allocation<T: Xdr>(bytes: &Bytes) {
    assert_eq!(decoded::<T>(bytes).count_total, 0, "{}", std::any::type_name::<T>());
}

#[test]
fn decoding_getattr_lookup_read_and_write_does_not_allocate() {
    assert_no_allocation::<nfs::Getattr3Args>(&encoded(&nfs::Getattr3Args { object: handle(1) }));
    assert_no_allocation::<nfs::Getattr3Res>(&messages::getattr());
    let what = |name: &str| nfs::Diropargs3 { dir: handle(1), name: name.into() };
    assert_no_allocation::<nfs::Lookup3Args>(&encoded(&nfs::Lookup3Args { what: what("file.txt") }));
    assert_no_allocation::<nfs::Lookup3Args>(&encoded(&nfs::Lookup3Args { what: what(&"long".repeat(60)) }));
    assert_no_allocation::<nfs::Lookup3Res>(&messages::lookup());
    let read = nfs::Read3Args { file: handle(2), offset: 4096, count: 65_536 };
    assert_no_allocation::<nfs::Read3Args>(&encoded(&read));
    for len in [65_535, 1 << 20] {
        assert_no_allocation::<nfs::Read3Res>(&messages::read(len));
        assert_no_allocation::<nfs::Write3Args>(&messages::write(len));
    }
    assert_no_allocation::<nfs::Write3Res>(&encoded(&nfs::Write3Res::Nfs3Ok(nfs::Write3Resok {
        file_wcc: nfs::WccData { before: None, after: Some(attributes(2)) },
        count: 65_535,
        committed: nfs::StableHow::FileSync,
        verf: *b"verifier",
    })));
}

#[test]
fn decoding_a_listing_allocates_once_and_at_most_twice_the_message() {
    for entries in [1, 2, 100, 3000] {
        let bytes = messages::readdirplus(entries);
        let counted = decoded::<nfs::Readdirplus3Res>(&bytes);
        assert_eq!(counted.count_total, 1, "{entries}");
        assert!(counted.bytes_total <= 2 * bytes.len() as u64 + 512, "{entries}: {}", counted.bytes_total);
    }
}

/// An EXPORT reply that a hostile server could send, in which each export has a list of one group.
#[test]
fn decoding_many_lists_needs_memory_in_proportion_to_the_message() {
    let group = mount::GroupnodeElement::default();
    let export = mount::ExportnodeElement { ex_groups: vec![group].into(), ..Default::default() };
    for exports in [100, 10_000] {
        let bytes = encoded(&mount::Exports(vec![export.clone(); exports]));
        let counted = decoded::<mount::Exports>(&bytes);
        assert!(counted.bytes_total <= 32 * bytes.len() as u64, "{exports}: {}", counted.bytes_total);
    }
}

#[test]
fn encoding_allocates_once_with_the_exact_size() {
    fn encodes<T: Xdr>(bytes: &Bytes) {
        let value: T = xdr::from_bytes(bytes).unwrap();
        let mut again = None;
        let counted = measure(|| again = Some(xdr::to_bytes(&value).unwrap()));
        assert_eq!(again.unwrap(), bytes);
        assert_eq!((counted.count_total, counted.bytes_total), (1, bytes.len() as u64));
    }
    encodes::<nfs::Getattr3Res>(&messages::getattr());
    encodes::<nfs::Lookup3Res>(&messages::lookup());
    encodes::<nfs::Lookup3Res>(&encoded(&nfs::Lookup3Res::Default(
        nfs::Nfsstat3::Nfs3errNoent,
        nfs::Lookup3Resfail { dir_attributes: None },
    )));
    for len in [1, 65_535, 1 << 20] {
        encodes::<nfs::Read3Res>(&messages::read(len));
        encodes::<nfs::Write3Args>(&messages::write(len));
    }
    for entries in [0, 1, 2, 100, 3000] {
        encodes::<nfs::Readdirplus3Res>(&messages::readdirplus(entries));
    }
}

#[test]
fn a_decoder_that_allocates_is_detected() {
    let wire = [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
    let counted = measure(|| assert!(xdr::from_slice::<Vec<u32>>(&wire).is_ok()));
    assert!(counted.count_total > 0);
}
