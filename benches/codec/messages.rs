//! The NFS messages of the benchmark and of an allocation test: arguments and successful replies.

use rpcrdma_nfs3 as nfs;
use rpcrdma_runtime::xdr::{self, Bytes, SmallOpaque, Xdr};

pub(crate) fn encoded<T: Xdr>(value: &T) -> Bytes {
    // The clone makes the buffer reference-counted before the measurement. A transport's receive buffer is
    // also reference-counted.
    let bytes = xdr::to_bytes(value).unwrap();
    drop(bytes.clone());
    bytes
}

pub(crate) fn attributes(fileid: u64) -> nfs::Fattr3 {
    let time = nfs::Nfstime3 { seconds: 1_700_000_000, nseconds: 123_456_789 };
    nfs::Fattr3 {
        r#type: nfs::Ftype3::Nf3reg,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 100,
        size: 123_456,
        used: 126_976,
        rdev: nfs::Specdata3::default(),
        fsid: 0xfd00,
        fileid,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

pub(crate) fn handle(fileid: u64) -> nfs::NfsFh3 {
    let mut data = [7; 28];
    data[20..].copy_from_slice(&fileid.to_be_bytes());
    nfs::NfsFh3 { data: SmallOpaque::new(&data).unwrap() }
}

pub(crate) fn getattr() -> Bytes {
    encoded(&nfs::Getattr3Res::Nfs3Ok(nfs::Getattr3Resok { obj_attributes: attributes(1) }))
}

pub(crate) fn lookup() -> Bytes {
    encoded(&nfs::Lookup3Res::Nfs3Ok(nfs::Lookup3Resok {
        object: handle(2),
        obj_attributes: Some(attributes(2)),
        dir_attributes: Some(attributes(1)),
    }))
}

pub(crate) fn read(len: u32) -> Bytes {
    encoded(&nfs::Read3Res::Nfs3Ok(nfs::Read3Resok {
        file_attributes: Some(attributes(2)),
        count: len,
        eof: false,
        data: vec![0x5a; len as usize].into(),
    }))
}

pub(crate) fn write(len: u32) -> Bytes {
    encoded(&nfs::Write3Args {
        file: handle(2),
        offset: 1 << 20,
        count: len,
        stable: nfs::StableHow::Unstable,
        data: vec![0x5a; len as usize].into(),
    })
}

pub(crate) fn readdirplus(entries: u64) -> Bytes {
    let entries = (1..=entries)
        .map(|number| nfs::Entryplus3Element {
            fileid: number,
            name: format!("file-{number:04}.txt").into(),
            cookie: number,
            name_attributes: Some(attributes(number)),
            name_handle: Some(handle(number)),
        })
        .collect();
    encoded(&nfs::Readdirplus3Res::Nfs3Ok(nfs::Readdirplus3Resok {
        dir_attributes: Some(attributes(1)),
        cookieverf: *b"verifier",
        reply: nfs::Dirlistplus3 { entries, eof: true },
    }))
}
