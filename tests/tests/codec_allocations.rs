//! What the busiest messages of NFSv3 cost: to decode them allocates nothing.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

use allocation_counter::measure;
use rpcrdma_nfs3 as nfs;
use rpcrdma_runtime::xdr::{self, Bytes, SmallOpaque, Xdr};

/// Memory that is shared already: `Bytes` made from a `Vec` allocates its count with the first clone.
fn arrived<T: Xdr>(value: &T) -> Bytes {
    let bytes = xdr::to_bytes(value).unwrap();
    drop(bytes.clone());
    bytes
}

fn decodes_without_allocating<T: Xdr + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = arrived(value);
    let mut decoded = None;
    let counted = measure(|| decoded = Some(xdr::from_bytes::<T>(&bytes).unwrap()));
    assert_eq!(decoded.as_ref(), Some(value));
    assert_eq!(counted.count_total, 0, "{value:?}");
}

fn attributes() -> nfs::Fattr3 {
    let time = nfs::Nfstime3 { seconds: 1, nseconds: 2 };
    nfs::Fattr3 {
        r#type: nfs::Ftype3::Nf3reg,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 100,
        size: 123_456,
        used: 126_976,
        rdev: nfs::Specdata3::default(),
        fsid: 9,
        fileid: 7,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn handle() -> nfs::NfsFh3 {
    nfs::NfsFh3 { data: SmallOpaque::new(&[7; 29]).unwrap() }
}

#[test]
fn decoding_getattr_lookup_read_and_write_allocates_nothing() {
    decodes_without_allocating(&nfs::Getattr3Args { object: handle() });
    decodes_without_allocating(&nfs::Getattr3Res::Nfs3Ok(nfs::Getattr3Resok {
        obj_attributes: attributes(),
    }));
    decodes_without_allocating(&nfs::Lookup3Args {
        what: nfs::Diropargs3 { dir: handle(), name: "file.txt".into() },
    });
    decodes_without_allocating(&nfs::Lookup3Res::Nfs3Ok(nfs::Lookup3Resok {
        object: handle(),
        obj_attributes: Some(attributes()),
        dir_attributes: None,
    }));
    decodes_without_allocating(&nfs::Read3Args { file: handle(), offset: 4096, count: 65_536 });
    decodes_without_allocating(&nfs::Read3Res::Nfs3Ok(nfs::Read3Resok {
        file_attributes: Some(attributes()),
        count: 65_535,
        eof: true,
        data: vec![0x5a; 65_535].into(),
    }));
    decodes_without_allocating(&nfs::Write3Args {
        file: handle(),
        offset: 4096,
        count: 65_535,
        stable: nfs::StableHow::FileSync,
        data: vec![0x5a; 65_535].into(),
    });
    decodes_without_allocating(&nfs::Write3Res::Nfs3Ok(nfs::Write3Resok {
        file_wcc: nfs::WccData { before: None, after: Some(attributes()) },
        count: 65_535,
        committed: nfs::StableHow::FileSync,
        verf: *b"verifier",
    }));
}

#[test]
fn a_decoder_that_allocates_is_seen() {
    let wire = [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
    let counted = measure(|| assert!(xdr::from_slice::<Vec<u32>>(&wire).is_ok()));
    assert!(counted.count_total > 0);
}
