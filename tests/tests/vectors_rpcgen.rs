//! Decodes vectors that rpcgen's C code encoded, for every type of NFSv3 and MOUNT, and encodes them again to
//! the same bytes.
//!
//! `cargo xtask vectors` writes the vectors; see `tests/vectors/README.md`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs};

use bytes::Bytes;
use rpcrdma_mount3 as mount3;
use rpcrdma_nfs3 as nfs3;
use rpcrdma_runtime::xdr::{self, Decode, Encode};
use rpcrdma_tests::captured::octets;
use rpcrdma_xdrgen::ast::DefinitionKind;
use rpcrdma_xdrgen::source::{Source, Sources};

fn vectors(document: &str) -> BTreeMap<String, Vec<Bytes>> {
    let path = format!("{}/vectors/rpcgen-{document}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut vectors: BTreeMap<String, Vec<Bytes>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, hex) = line.split_once(' ').expect("a type and its bytes");
        vectors.entry(name.to_owned()).or_default().push(octets(hex));
    }
    vectors
}

fn defined(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs").join(document).with_extension("txt");
    let mut sources = Sources::default();
    sources.add(Source::new("document.txt", fs::read_to_string(path).expect("the document")));
    let definitions = rpcrdma_xdrgen::parse(&sources).documents.remove(0).1.definitions;
    let names = definitions.into_iter().filter_map(|definition| match definition.kind {
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            Some(name.name)
        }
        DefinitionKind::Typedef(declaration) => declaration.name.map(|name| name.name),
        _ => None,
    });
    names.collect()
}

/// Checks that a value encoded by rpcgen's C code round-trips. The encoding must be rejected if it is
/// truncated or has an extra word. An encoding with one flipped bit must be rejected or round-trip.
fn check<T: Encode + for<'de> Decode<'de> + PartialEq + fmt::Debug>(name: &str, bytes: &Bytes) {
    let value: T = xdr::from_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}: {bytes:02x?}"));
    assert_eq!(xdr::to_bytes(&value).expect("a decoded value"), bytes, "{name}: {value:?}");
    assert_eq!(xdr::from_slice::<T>(bytes).expect("a decoded value"), value, "{name}");
    for end in 0..bytes.len() {
        assert!(xdr::from_slice::<T>(&bytes[..end]).is_err(), "{name}: {value:?} cut to {end}");
    }
    assert!(xdr::from_slice::<T>(&[&bytes[..], &[0; 4]].concat()).is_err(), "{name}: {value:?}");
    let mut other = bytes.to_vec();
    for at in 0..other.len() {
        let bit = 1 << (at * 5 % 8);
        other[at] ^= bit;
        if let Ok(value) = xdr::from_slice::<T>(&other) {
            assert_eq!(xdr::to_bytes(&value).expect("a decoded value"), other, "{name}: {value:?}");
        }
        other[at] ^= bit;
    }
}

type Check = fn(&str, &Bytes);

/// Checks each vector of each type, and returns the number of vectors. Panics if a type has fewer than four
/// vectors.
fn check_all(document: &str, types: &[(&str, Check)]) -> usize {
    let vectors = vectors(document);
    let mut listed: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    let mut defined = defined(document);
    listed.sort_unstable();
    defined.sort_unstable();
    assert_eq!(listed, defined, "the table must have every type of {document}");
    assert!(
        vectors.keys().all(|name| listed.contains(&name.as_str())),
        "a vector of a type that {document} does not define"
    );
    for (name, check) in types {
        let values = vectors.get(*name).map_or(&[][..], Vec::as_slice);
        assert!(values.len() >= 4, "{name}");
        values.iter().for_each(|bytes| check(name, bytes));
    }
    vectors.values().map(Vec::len).sum()
}

macro_rules! types {
    ($($name:literal => $type:ty),* $(,)?) => {
        &[$(($name, check::<$type>)),*]
    };
}

const MOUNT: &[(&str, Check)] = types! {
    "fhandle3" => mount3::Fhandle3,
    "dirpath" => mount3::Dirpath,
    "name" => mount3::Name,
    "mountstat3" => mount3::Mountstat3,
    "mountres3_ok" => mount3::Mountres3Ok,
    "mountres3" => mount3::Mountres3,
    "mountlist" => mount3::Mountlist,
    "groups" => mount3::Groups,
    "exports" => mount3::Exports,
    "mountbody" => mount3::Mountbody,
    "groupnode" => mount3::Groupnode,
    "exportnode" => mount3::Exportnode,
};

#[test]
fn mount_encodes_like_rpcgen() {
    assert_eq!((MOUNT.len(), check_all("mount3", MOUNT)), (12, 54));
}

const NFS: &[(&str, Check)] = types! {
    "uint64" => nfs3::Uint64,
    "int64" => nfs3::Int64,
    "uint32" => nfs3::Uint32,
    "int32" => nfs3::Int32,
    "fileid3" => nfs3::Fileid3,
    "cookie3" => nfs3::Cookie3,
    "uid3" => nfs3::Uid3,
    "gid3" => nfs3::Gid3,
    "size3" => nfs3::Size3,
    "offset3" => nfs3::Offset3,
    "mode3" => nfs3::Mode3,
    "count3" => nfs3::Count3,
    "filename3" => nfs3::Filename3,
    "nfspath3" => nfs3::Nfspath3,
    "cookieverf3" => nfs3::Cookieverf3,
    "createverf3" => nfs3::Createverf3,
    "writeverf3" => nfs3::Writeverf3,
    "nfsstat3" => nfs3::Nfsstat3,
    "ftype3" => nfs3::Ftype3,
    "specdata3" => nfs3::Specdata3,
    "nfs_fh3" => nfs3::NfsFh3,
    "nfstime3" => nfs3::Nfstime3,
    "fattr3" => nfs3::Fattr3,
    "post_op_attr" => nfs3::PostOpAttr,
    "wcc_attr" => nfs3::WccAttr,
    "pre_op_attr" => nfs3::PreOpAttr,
    "wcc_data" => nfs3::WccData,
    "post_op_fh3" => nfs3::PostOpFh3,
    "time_how" => nfs3::TimeHow,
    "set_mode3" => nfs3::SetMode3,
    "set_uid3" => nfs3::SetUid3,
    "set_gid3" => nfs3::SetGid3,
    "set_size3" => nfs3::SetSize3,
    "set_atime" => nfs3::SetAtime,
    "set_mtime" => nfs3::SetMtime,
    "sattr3" => nfs3::Sattr3,
    "diropargs3" => nfs3::Diropargs3,
    "GETATTR3args" => nfs3::Getattr3Args,
    "GETATTR3resok" => nfs3::Getattr3Resok,
    "GETATTR3res" => nfs3::Getattr3Res,
    "sattrguard3" => nfs3::Sattrguard3,
    "SETATTR3args" => nfs3::Setattr3Args,
    "SETATTR3resok" => nfs3::Setattr3Resok,
    "SETATTR3resfail" => nfs3::Setattr3Resfail,
    "SETATTR3res" => nfs3::Setattr3Res,
    "LOOKUP3args" => nfs3::Lookup3Args,
    "LOOKUP3resok" => nfs3::Lookup3Resok,
    "LOOKUP3resfail" => nfs3::Lookup3Resfail,
    "LOOKUP3res" => nfs3::Lookup3Res,
    "ACCESS3args" => nfs3::Access3Args,
    "ACCESS3resok" => nfs3::Access3Resok,
    "ACCESS3resfail" => nfs3::Access3Resfail,
    "ACCESS3res" => nfs3::Access3Res,
    "READLINK3args" => nfs3::Readlink3Args,
    "READLINK3resok" => nfs3::Readlink3Resok,
    "READLINK3resfail" => nfs3::Readlink3Resfail,
    "READLINK3res" => nfs3::Readlink3Res,
    "READ3args" => nfs3::Read3Args,
    "READ3resok" => nfs3::Read3Resok,
    "READ3resfail" => nfs3::Read3Resfail,
    "READ3res" => nfs3::Read3Res,
    "stable_how" => nfs3::StableHow,
    "WRITE3args" => nfs3::Write3Args,
    "WRITE3resok" => nfs3::Write3Resok,
    "WRITE3resfail" => nfs3::Write3Resfail,
    "WRITE3res" => nfs3::Write3Res,
    "createmode3" => nfs3::Createmode3,
    "createhow3" => nfs3::Createhow3,
    "CREATE3args" => nfs3::Create3Args,
    "CREATE3resok" => nfs3::Create3Resok,
    "CREATE3resfail" => nfs3::Create3Resfail,
    "CREATE3res" => nfs3::Create3Res,
    "MKDIR3args" => nfs3::Mkdir3Args,
    "MKDIR3resok" => nfs3::Mkdir3Resok,
    "MKDIR3resfail" => nfs3::Mkdir3Resfail,
    "MKDIR3res" => nfs3::Mkdir3Res,
    "symlinkdata3" => nfs3::Symlinkdata3,
    "SYMLINK3args" => nfs3::Symlink3Args,
    "SYMLINK3resok" => nfs3::Symlink3Resok,
    "SYMLINK3resfail" => nfs3::Symlink3Resfail,
    "SYMLINK3res" => nfs3::Symlink3Res,
    "devicedata3" => nfs3::Devicedata3,
    "mknoddata3" => nfs3::Mknoddata3,
    "MKNOD3args" => nfs3::Mknod3Args,
    "MKNOD3resok" => nfs3::Mknod3Resok,
    "MKNOD3resfail" => nfs3::Mknod3Resfail,
    "MKNOD3res" => nfs3::Mknod3Res,
    "REMOVE3args" => nfs3::Remove3Args,
    "REMOVE3resok" => nfs3::Remove3Resok,
    "REMOVE3resfail" => nfs3::Remove3Resfail,
    "REMOVE3res" => nfs3::Remove3Res,
    "RMDIR3args" => nfs3::Rmdir3Args,
    "RMDIR3resok" => nfs3::Rmdir3Resok,
    "RMDIR3resfail" => nfs3::Rmdir3Resfail,
    "RMDIR3res" => nfs3::Rmdir3Res,
    "RENAME3args" => nfs3::Rename3Args,
    "RENAME3resok" => nfs3::Rename3Resok,
    "RENAME3resfail" => nfs3::Rename3Resfail,
    "RENAME3res" => nfs3::Rename3Res,
    "LINK3args" => nfs3::Link3Args,
    "LINK3resok" => nfs3::Link3Resok,
    "LINK3resfail" => nfs3::Link3Resfail,
    "LINK3res" => nfs3::Link3Res,
    "READDIR3args" => nfs3::Readdir3Args,
    "dirlist3" => nfs3::Dirlist3,
    "READDIR3resok" => nfs3::Readdir3Resok,
    "READDIR3resfail" => nfs3::Readdir3Resfail,
    "READDIR3res" => nfs3::Readdir3Res,
    "READDIRPLUS3args" => nfs3::Readdirplus3Args,
    "dirlistplus3" => nfs3::Dirlistplus3,
    "READDIRPLUS3resok" => nfs3::Readdirplus3Resok,
    "READDIRPLUS3resfail" => nfs3::Readdirplus3Resfail,
    "READDIRPLUS3res" => nfs3::Readdirplus3Res,
    "FSSTAT3args" => nfs3::Fsstat3Args,
    "FSSTAT3resok" => nfs3::Fsstat3Resok,
    "FSSTAT3resfail" => nfs3::Fsstat3Resfail,
    "FSSTAT3res" => nfs3::Fsstat3Res,
    "FSINFO3args" => nfs3::Fsinfo3Args,
    "FSINFO3resok" => nfs3::Fsinfo3Resok,
    "FSINFO3resfail" => nfs3::Fsinfo3Resfail,
    "FSINFO3res" => nfs3::Fsinfo3Res,
    "PATHCONF3args" => nfs3::Pathconf3Args,
    "PATHCONF3resok" => nfs3::Pathconf3Resok,
    "PATHCONF3resfail" => nfs3::Pathconf3Resfail,
    "PATHCONF3res" => nfs3::Pathconf3Res,
    "COMMIT3args" => nfs3::Commit3Args,
    "COMMIT3resok" => nfs3::Commit3Resok,
    "COMMIT3resfail" => nfs3::Commit3Resfail,
    "COMMIT3res" => nfs3::Commit3Res,
    "entry3" => nfs3::Entry3,
    "entryplus3" => nfs3::Entryplus3,
};

#[test]
fn nfs_version_3_encodes_like_rpcgen() {
    assert_eq!((NFS.len(), check_all("nfs3", NFS)), (131, 560));
}

#[test]
fn a_list_of_100_001_nodes_round_trips() {
    let entry = |number: u64| {
        [&number.to_be_bytes()[..], &[0, 0, 0, 1, b'x', 0, 0, 0], &number.to_be_bytes()].concat()
    };
    let mut wire = entry(0);
    for number in 1..=100_000 {
        wire.extend([0, 0, 0, 1]);
        wire.extend(entry(number));
    }
    wire.extend([0; 4]);
    let node: nfs3::Entry3 = xdr::from_slice(&wire).expect("a node");
    assert_eq!((node.fileid, node.nextentry.len(), node.nextentry[99_999].cookie), (0, 100_000, 100_000));
    assert_eq!(xdr::to_bytes(&node).expect("a decoded value"), wire);
}
