//! Compares `rpcrdma-xdrgen sizes` with the generated code. The sizes of each type equal those in its
//! `Layout`. The chunks reported for a reply equal those that the runtime offers, unless the size of the
//! reply depends on the arguments.

use std::fs;
use std::path::Path;

use rpcrdma_runtime::program::{Procedure, ReplyBounds};
use rpcrdma_runtime::proto::rdma::ReplyResources;
use rpcrdma_runtime::xdr::{self, Layout, Xdr};
use rpcrdma_xdrgen::Options;
use rpcrdma_xdrgen::sizes::{Assumed, Bound, Needs, ProcedureSizes, Sizes, sizes};
use rpcrdma_xdrgen::source::{Source, Sources};

fn compiler_sizes(files: &[&str], assumed: &Assumed) -> Sizes {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
    let mut sources = Sources::default();
    for file in files {
        sources.add(Source::new(*file, fs::read_to_string(specs.join(file)).expect("a document")));
    }
    let sizes = sizes(&sources, &Options::module("sizes"), assumed);
    assert_eq!(sizes.diagnostics, []);
    sizes
}

fn size(size: xdr::Size) -> Option<u64> {
    size.bound()
}

/// The name of a type and the limits that its generated code declares: minimum, maximum and maximum reduced
/// length, length of the largest eligible item, and number of eligible items.
type Row = (&'static str, [Option<u64>; 5]);

fn row<T: Layout>(name: &'static str) -> Row {
    (
        name,
        [
            Some(T::LENGTHS.min),
            size(T::LENGTHS.max),
            size(T::LENGTHS.max_reduced),
            size(T::HELD.largest),
            size(T::HELD.count),
        ],
    )
}

/// Checks that `rows` has every type of the documents, with the sizes that the compiler reports.
fn check_types(files: &[&str], rows: &[Row]) {
    let known = compiler_sizes(files, &Assumed::default()).types;
    let ours: Vec<(&str, [Option<u64>; 5])> = known
        .iter()
        .map(|(name, of)| {
            (
                name.as_str(),
                [
                    Some(of.lengths.min),
                    size(of.lengths.max),
                    size(of.lengths.max_reduced),
                    size(of.items.largest),
                    size(of.items.count),
                ],
            )
        })
        .collect();
    for (name, sizes) in rows {
        let of =
            ours.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("unknown type {name}"));
        assert_eq!(of.1, *sizes, "{name}");
    }
    let missing: Vec<&str> = ours
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| rows.iter().all(|(other, _)| other != name))
        .collect();
    assert!(missing.is_empty(), "not compared: {missing:?}");
}

macro_rules! rows {
    ($module:path: $($name:literal $ident:ident),* $(,)?) => {{
        use $module as types;
        [$(row::<types::$ident>($name)),*]
    }};
}

struct Generated {
    name: &'static str,
    args: [Option<u64>; 2],
    bounds: ReplyBounds,
}

/// Returns any valid arguments. All words are zero, except the last, which may be one.
fn any_arguments<Args: Xdr>() -> Args {
    let tries = (0..64).flat_map(|words: usize| [0, 1].map(|last| (words, last)));
    let mut decoded = tries.filter_map(|(words, last)| {
        let mut bytes = vec![0; 4 * words];
        if let Some(end) = bytes.last_mut() {
            *end = last;
        }
        xdr::from_bytes(&bytes.into()).ok()
    });
    decoded.next().expect("valid arguments")
}

fn generated<P: Procedure>() -> Generated {
    Generated {
        name: P::NAME,
        args: [size(<P::Args as Layout>::LENGTHS.max), size(<P::Args as Layout>::LENGTHS.max_reduced)],
        bounds: P::reply_bounds(&any_arguments()),
    }
}

macro_rules! procedures {
    ($module:path: $($ident:ident),* $(,)?) => {{
        use $module as procedures;
        vec![$(generated::<procedures::$ident>()),*]
    }};
}

fn bytes(bound: &Bound) -> Option<Option<u64>> {
    match bound {
        Bound::Bytes(bytes) => Some(Some(*bytes)),
        Bound::Unbounded => Some(None),
        Bound::Arguments(_) => None,
    }
}

/// Checks the compiler's report for each procedure. The message sizes must equal those in the generated code.
/// The chunks must equal those that the runtime offers for the reply.
fn check_procedures(files: &[&str], version: &str, generated: &[Generated]) {
    for inline in [1024, 4096, 65_536] {
        let assumed = Assumed { inline: Some(inline), ..Assumed::default() };
        let sizes = compiler_sizes(files, &assumed);
        let version = sizes.versions.iter().find(|one| one.name == version).expect("a version");
        assert_eq!(version.procedures.len(), generated.len());
        for (ours, theirs) in version.procedures.iter().zip(generated) {
            assert_eq!(ours.name, theirs.name);
            let call = [bytes(&ours.call.unreduced), bytes(&ours.call.reduced)];
            assert_eq!(call, theirs.args.map(Some), "{}", ours.name);
            check_reply(ours, theirs, inline);
        }
    }
}

fn check_reply(ours: &ProcedureSizes, theirs: &Generated, inline: u32) {
    // Sizes that depend on the arguments are not compared, and neither are the chunks of a reply whose
    // unreduced size depends on the arguments.
    let number = |bound: &Bound, of: xdr::Size| {
        if let Some(bytes) = bytes(bound) {
            assert_eq!(bytes, size(of), "{}", ours.name);
        }
    };
    number(&ours.reply.unreduced, theirs.bounds.unreduced);
    number(&ours.reply.reduced, theirs.bounds.reduced);
    if bytes(&ours.reply.unreduced).is_none() {
        return;
    }
    let offered = ReplyResources::for_reply(&theirs.bounds, inline).expect("a bounded reply");
    let needs = Needs {
        chunks: xdr::Size::Bounded(offered.write_chunks.len() as u64),
        long: offered.reply_chunk.is_some(),
        unbounded: false,
    };
    assert_eq!(ours.reply.needs, needs, "{} at {inline}", ours.name);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one line per type")]
fn sizes_of_nfs3() {
    let files = ["nfs3.txt", "nfs3.ddp.toml"];
    #[rustfmt::skip]
    let rows = rows![rpcrdma_nfs3:
        "CREATE3res" Create3Res,
        "MKDIR3res" Mkdir3Res,
        "SYMLINK3res" Symlink3Res,
        "MKNOD3res" Mknod3Res,
        "uint64" Uint64,
        "int64" Int64,
        "uint32" Uint32,
        "int32" Int32,
        "fileid3" Fileid3,
        "cookie3" Cookie3,
        "uid3" Uid3,
        "gid3" Gid3,
        "size3" Size3,
        "offset3" Offset3,
        "mode3" Mode3,
        "count3" Count3,
        "filename3" Filename3,
        "nfspath3" Nfspath3,
        "cookieverf3" Cookieverf3,
        "createverf3" Createverf3,
        "writeverf3" Writeverf3,
        "nfsstat3" Nfsstat3,
        "ftype3" Ftype3,
        "specdata3" Specdata3,
        "nfs_fh3" NfsFh3,
        "nfstime3" Nfstime3,
        "fattr3" Fattr3,
        "post_op_attr" PostOpAttr,
        "wcc_attr" WccAttr,
        "pre_op_attr" PreOpAttr,
        "wcc_data" WccData,
        "post_op_fh3" PostOpFh3,
        "time_how" TimeHow,
        "set_mode3" SetMode3,
        "set_uid3" SetUid3,
        "set_gid3" SetGid3,
        "set_size3" SetSize3,
        "set_atime" SetAtime,
        "set_mtime" SetMtime,
        "sattr3" Sattr3,
        "diropargs3" Diropargs3,
        "GETATTR3args" Getattr3Args,
        "GETATTR3resok" Getattr3Resok,
        "GETATTR3res" Getattr3Res,
        "sattrguard3" Sattrguard3,
        "SETATTR3args" Setattr3Args,
        "SETATTR3resok" Setattr3Resok,
        "SETATTR3resfail" Setattr3Resfail,
        "SETATTR3res" Setattr3Res,
        "LOOKUP3args" Lookup3Args,
        "LOOKUP3resok" Lookup3Resok,
        "LOOKUP3resfail" Lookup3Resfail,
        "LOOKUP3res" Lookup3Res,
        "ACCESS3args" Access3Args,
        "ACCESS3resok" Access3Resok,
        "ACCESS3resfail" Access3Resfail,
        "ACCESS3res" Access3Res,
        "READLINK3args" Readlink3Args,
        "READLINK3resok" Readlink3Resok,
        "READLINK3resfail" Readlink3Resfail,
        "READLINK3res" Readlink3Res,
        "READ3args" Read3Args,
        "READ3resok" Read3Resok,
        "READ3resfail" Read3Resfail,
        "READ3res" Read3Res,
        "stable_how" StableHow,
        "WRITE3args" Write3Args,
        "WRITE3resok" Write3Resok,
        "WRITE3resfail" Write3Resfail,
        "WRITE3res" Write3Res,
        "createmode3" Createmode3,
        "createhow3" Createhow3,
        "CREATE3args" Create3Args,
        "CREATE3resok" Create3Resok,
        "CREATE3resfail" Create3Resfail,
        "MKDIR3args" Mkdir3Args,
        "MKDIR3resok" Mkdir3Resok,
        "MKDIR3resfail" Mkdir3Resfail,
        "symlinkdata3" Symlinkdata3,
        "SYMLINK3args" Symlink3Args,
        "SYMLINK3resok" Symlink3Resok,
        "SYMLINK3resfail" Symlink3Resfail,
        "devicedata3" Devicedata3,
        "mknoddata3" Mknoddata3,
        "MKNOD3args" Mknod3Args,
        "MKNOD3resok" Mknod3Resok,
        "MKNOD3resfail" Mknod3Resfail,
        "REMOVE3args" Remove3Args,
        "REMOVE3resok" Remove3Resok,
        "REMOVE3resfail" Remove3Resfail,
        "REMOVE3res" Remove3Res,
        "RMDIR3args" Rmdir3Args,
        "RMDIR3resok" Rmdir3Resok,
        "RMDIR3resfail" Rmdir3Resfail,
        "RMDIR3res" Rmdir3Res,
        "RENAME3args" Rename3Args,
        "RENAME3resok" Rename3Resok,
        "RENAME3resfail" Rename3Resfail,
        "RENAME3res" Rename3Res,
        "LINK3args" Link3Args,
        "LINK3resok" Link3Resok,
        "LINK3resfail" Link3Resfail,
        "LINK3res" Link3Res,
        "READDIR3args" Readdir3Args,
        "entry3" Entry3,
        "entry3_element" Entry3Element,
        "dirlist3" Dirlist3,
        "READDIR3resok" Readdir3Resok,
        "READDIR3resfail" Readdir3Resfail,
        "READDIR3res" Readdir3Res,
        "READDIRPLUS3args" Readdirplus3Args,
        "entryplus3" Entryplus3,
        "entryplus3_element" Entryplus3Element,
        "dirlistplus3" Dirlistplus3,
        "READDIRPLUS3resok" Readdirplus3Resok,
        "READDIRPLUS3resfail" Readdirplus3Resfail,
        "READDIRPLUS3res" Readdirplus3Res,
        "FSSTAT3args" Fsstat3Args,
        "FSSTAT3resok" Fsstat3Resok,
        "FSSTAT3resfail" Fsstat3Resfail,
        "FSSTAT3res" Fsstat3Res,
        "FSINFO3args" Fsinfo3Args,
        "FSINFO3resok" Fsinfo3Resok,
        "FSINFO3resfail" Fsinfo3Resfail,
        "FSINFO3res" Fsinfo3Res,
        "PATHCONF3args" Pathconf3Args,
        "PATHCONF3resok" Pathconf3Resok,
        "PATHCONF3resfail" Pathconf3Resfail,
        "PATHCONF3res" Pathconf3Res,
        "COMMIT3args" Commit3Args,
        "COMMIT3resok" Commit3Resok,
        "COMMIT3resfail" Commit3Resfail,
        "COMMIT3res" Commit3Res,
    ];
    check_types(&files, &rows);
    check_procedures(
        &files,
        "NFS_V3",
        &procedures![rpcrdma_nfs3::nfs_v3::proc: Null, Getattr, Setattr, Lookup, Access, Readlink, Read, Write, Create, Mkdir, Symlink, Mknod, Remove, Rmdir, Rename, Link, Readdir, Readdirplus, Fsstat, Fsinfo, Pathconf, Commit],
    );
}

#[test]
fn sizes_of_mount3() {
    let files = ["mount3.txt", "mount3.ddp.toml"];
    #[rustfmt::skip]
    let rows = rows![rpcrdma_mount3:
        "fhandle3" Fhandle3,
        "dirpath" Dirpath,
        "name" Name,
        "mountstat3" Mountstat3,
        "mountres3_ok" Mountres3Ok,
        "mountres3" Mountres3,
        "mountlist" Mountlist,
        "mountbody" Mountbody,
        "mountbody_element" MountbodyElement,
        "groups" Groups,
        "groupnode" Groupnode,
        "groupnode_element" GroupnodeElement,
        "exports" Exports,
        "exportnode" Exportnode,
        "exportnode_element" ExportnodeElement,
    ];
    check_types(&files, &rows);
    check_procedures(
        &files,
        "MOUNT_V3",
        &procedures![rpcrdma_mount3::mount_v3::proc: Null, Mnt, Dump, Umnt, Umntall, Export],
    );
}

#[test]
fn sizes_of_rpcbind() {
    let files = ["rpcbind.txt", "rpcbind.ddp.toml"];
    #[rustfmt::skip]
    let rows = rows![rpcrdma_rpcbind:
        "mapping" Mapping,
        "pmaplist" Pmaplist,
        "pmaplist_element" PmaplistElement,
        "pmaplist_ptr" PmaplistPtr,
        "call_args" CallArgs,
        "call_result" CallResult,
        "rpcb" Rpcb,
        "rp__list" RpList,
        "rp__list_element" RpListElement,
        "rpcblist_ptr" RpcblistPtr,
        "uaddr" Uaddr,
        "rpcb_rmtcallargs" RpcbRmtcallargs,
        "rpcb_rmtcallres" RpcbRmtcallres,
        "rpcb_entry" RpcbEntry,
        "rpcb_entry_list" RpcbEntryList,
        "rpcb_entry_list_element" RpcbEntryListElement,
        "rpcb_entry_list_ptr" RpcbEntryListPtr,
        "rpcbs_addrlist" RpcbsAddrlist,
        "rpcbs_addrlist_element" RpcbsAddrlistElement,
        "rpcbs_rmtcalllist" RpcbsRmtcalllist,
        "rpcbs_rmtcalllist_element" RpcbsRmtcalllistElement,
        "rpcbs_proc" RpcbsProc,
        "rpcbs_addrlist_ptr" RpcbsAddrlistPtr,
        "rpcbs_rmtcalllist_ptr" RpcbsRmtcalllistPtr,
        "rpcb_stat" RpcbStat,
        "rpcb_stat_byvers" RpcbStatByvers,
        "netbuf" Netbuf,
    ];
    check_types(&files, &rows);
    check_procedures(
        &files,
        "PMAP_VERS",
        &procedures![rpcrdma_rpcbind::pmap_vers::proc: Null, Set, Unset, Getport, Dump, Callit],
    );
    check_procedures(
        &files,
        "RPCBVERS",
        &procedures![rpcrdma_rpcbind::rpcbvers::proc: Null, Set, Unset, Getaddr, Dump, Callit, Gettime, Uaddr2taddr, Taddr2uaddr],
    );
    check_procedures(
        &files,
        "RPCBVERS4",
        &procedures![rpcrdma_rpcbind::rpcbvers4::proc: Null, Set, Unset, Getaddr, Dump, Bcast, Gettime, Uaddr2taddr, Taddr2uaddr, Getversaddr, Indirect, Getaddrlist, Getstat],
    );
}

#[test]
fn sizes_of_rdma_conf() {
    let files = ["rdma-conf.txt", "rdma-conf.ddp.toml"];
    #[rustfmt::skip]
    let rows = rows![rpcrdma_conf:
        "uint32" Uint32,
        "config_rdma_req" ConfigRdmaReq,
        "config_rdma_reply" ConfigRdmaReply,
    ];
    check_types(&files, &rows);
    check_procedures(&files, "VERS1", &procedures![rpcrdma_conf::vers1::proc: ConfRdma]);
}

#[test]
fn sizes_of_the_transport_header_with_its_extension() {
    #[rustfmt::skip]
    let mut rows = rows![rpcrdma_keepalive::rpcrdma1:
        "xdr_rdma_segment" XdrRdmaSegment,
        "xdr_read_chunk" XdrReadChunk,
        "xdr_read_list" XdrReadList,
        "xdr_read_list_element" XdrReadListElement,
        "xdr_write_chunk" XdrWriteChunk,
        "xdr_write_list" XdrWriteList,
        "xdr_write_list_element" XdrWriteListElement,
        "rpc_rdma_header" RpcRdmaHeader,
        "rpc_rdma_header_nomsg" RpcRdmaHeaderNomsg,
        "rpc_rdma_header_padded" RpcRdmaHeaderPadded,
        "rpc_rdma_errcode" RpcRdmaErrcode,
        "rpc_rdma_errvers" RpcRdmaErrvers,
        "rpc_rdma_error" RpcRdmaError,
        "rdma_msg" RdmaMsg,
        "rpcrdma_private_data" RpcrdmaPrivateData,
    ].to_vec();
    #[rustfmt::skip]
    rows.extend(rows![rpcrdma_keepalive::rpcrdma1_keepalive:
        "rdma_proc" RdmaProc,
        "rdma_body" RdmaBody,
        "rpc_rdma_keepalive" RpcRdmaKeepalive,
    ]);
    check_types(&["rpcrdma1.txt", "rpcrdma1-keepalive.txt"], &rows);
}
