//! Conversions between the types of [`crate::export`] and those of the protocol.

use rpcrdma_nfs3::{
    Createhow3, Createmode3, Fattr3, Ftype3, NfsFh3, Nfsstat3, Nfstime3, Sattr3, SetAtime, SetMtime,
    Specdata3, StableHow, TimeHow, WccAttr, WccData,
};

use crate::export::{
    Attributes, CreateHow, FileHandle, FileKind, FileTime, NfsError, SetAttributes, SetTime, Stability, Wcc,
};

pub(super) fn status(error: NfsError) -> Nfsstat3 {
    match error {
        NfsError::Perm => Nfsstat3::Nfs3errPerm,
        NfsError::NoEnt => Nfsstat3::Nfs3errNoent,
        NfsError::Io => Nfsstat3::Nfs3errIo,
        NfsError::NxIo => Nfsstat3::Nfs3errNxio,
        NfsError::Acces => Nfsstat3::Nfs3errAcces,
        NfsError::Exist => Nfsstat3::Nfs3errExist,
        NfsError::XDev => Nfsstat3::Nfs3errXdev,
        NfsError::NoDev => Nfsstat3::Nfs3errNodev,
        NfsError::NotDir => Nfsstat3::Nfs3errNotdir,
        NfsError::IsDir => Nfsstat3::Nfs3errIsdir,
        NfsError::Inval => Nfsstat3::Nfs3errInval,
        NfsError::FBig => Nfsstat3::Nfs3errFbig,
        NfsError::NoSpc => Nfsstat3::Nfs3errNospc,
        NfsError::RoFs => Nfsstat3::Nfs3errRofs,
        NfsError::MLink => Nfsstat3::Nfs3errMlink,
        NfsError::NameTooLong => Nfsstat3::Nfs3errNametoolong,
        NfsError::NotEmpty => Nfsstat3::Nfs3errNotempty,
        NfsError::DQuot => Nfsstat3::Nfs3errDquot,
        NfsError::Stale => Nfsstat3::Nfs3errStale,
        NfsError::Remote => Nfsstat3::Nfs3errRemote,
        NfsError::BadHandle => Nfsstat3::Nfs3errBadhandle,
        NfsError::NotSync => Nfsstat3::Nfs3errNotSync,
        NfsError::BadCookie => Nfsstat3::Nfs3errBadCookie,
        NfsError::NotSupp => Nfsstat3::Nfs3errNotsupp,
        NfsError::TooSmall => Nfsstat3::Nfs3errToosmall,
        NfsError::ServerFault => Nfsstat3::Nfs3errServerfault,
        NfsError::BadType => Nfsstat3::Nfs3errBadtype,
        NfsError::JukeBox => Nfsstat3::Nfs3errJukebox,
    }
}

pub(super) fn handle(handle: FileHandle) -> NfsFh3 {
    NfsFh3 { data: handle }
}

fn nfstime(time: FileTime) -> Nfstime3 {
    Nfstime3 { seconds: time.seconds, nseconds: time.nanoseconds }
}

pub(super) fn time(time: Nfstime3) -> FileTime {
    FileTime { seconds: time.seconds, nanoseconds: time.nseconds }
}

pub(super) fn attributes(of: &Attributes) -> Fattr3 {
    Fattr3 {
        r#type: match of.kind {
            FileKind::Regular => Ftype3::Nf3reg,
            FileKind::Directory => Ftype3::Nf3dir,
            FileKind::Block => Ftype3::Nf3blk,
            FileKind::Character => Ftype3::Nf3chr,
            FileKind::Symlink => Ftype3::Nf3lnk,
            FileKind::Socket => Ftype3::Nf3sock,
            FileKind::Fifo => Ftype3::Nf3fifo,
        },
        mode: of.mode,
        nlink: of.nlink,
        uid: of.uid,
        gid: of.gid,
        size: of.size,
        used: of.used,
        rdev: Specdata3 { specdata1: of.rdev.0, specdata2: of.rdev.1 },
        fsid: of.fsid,
        fileid: of.fileid,
        atime: nfstime(of.atime),
        mtime: nfstime(of.mtime),
        ctime: nfstime(of.ctime),
    }
}

pub(super) fn wcc(wcc: &Wcc) -> WccData {
    WccData {
        before: wcc.before.map(|before| WccAttr {
            size: before.size,
            mtime: nfstime(before.mtime),
            ctime: nfstime(before.ctime),
        }),
        after: wcc.after.as_ref().map(attributes),
    }
}

pub(super) fn set_attributes(new: &Sattr3) -> SetAttributes {
    SetAttributes {
        mode: new.mode,
        uid: new.uid,
        gid: new.gid,
        size: new.size,
        atime: match new.atime {
            SetAtime::SetToClientTime(to) => Some(SetTime::To(time(to))),
            SetAtime::Default(how) => now_or_never(how),
        },
        mtime: match new.mtime {
            SetMtime::SetToClientTime(to) => Some(SetTime::To(time(to))),
            SetMtime::Default(how) => now_or_never(how),
        },
    }
}

fn now_or_never(how: TimeHow) -> Option<SetTime> {
    (how == TimeHow::SetToServerTime).then_some(SetTime::Now)
}

pub(super) fn create_how(how: &Createhow3) -> CreateHow {
    match how {
        Createhow3::ObjAttributes(Createmode3::Guarded, new) => CreateHow::Guarded(set_attributes(new)),
        Createhow3::ObjAttributes(_, new) => CreateHow::Unchecked(set_attributes(new)),
        Createhow3::Exclusive(verifier) => CreateHow::Exclusive(*verifier),
    }
}

pub(super) fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

pub(super) fn committed(how: Stability) -> StableHow {
    match how {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}
