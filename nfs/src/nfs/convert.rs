//! Conversions between the types of [`crate::export`] and those of the protocol.

use rpcrdma_nfs3::{
    Createhow3, Createmode3, Fattr3, Ftype3, NfsFh3, Nfsstat3, Nfstime3, Sattr3, SetAtime, SetMtime,
    Specdata3, StableHow, TimeHow, WccAttr, WccData,
};

use crate::export::{
    Attributes, CreateHow, Error, FileHandle, FileKind, SetAttributes, SetTime, Stability, Time, Wcc,
};

/// Returns the status of an error.
pub(super) fn status(error: Error) -> Nfsstat3 {
    match error {
        Error::Perm => Nfsstat3::Nfs3errPerm,
        Error::NoEnt => Nfsstat3::Nfs3errNoent,
        Error::Io => Nfsstat3::Nfs3errIo,
        Error::NxIo => Nfsstat3::Nfs3errNxio,
        Error::Acces => Nfsstat3::Nfs3errAcces,
        Error::Exist => Nfsstat3::Nfs3errExist,
        Error::XDev => Nfsstat3::Nfs3errXdev,
        Error::NoDev => Nfsstat3::Nfs3errNodev,
        Error::NotDir => Nfsstat3::Nfs3errNotdir,
        Error::IsDir => Nfsstat3::Nfs3errIsdir,
        Error::Inval => Nfsstat3::Nfs3errInval,
        Error::FBig => Nfsstat3::Nfs3errFbig,
        Error::NoSpc => Nfsstat3::Nfs3errNospc,
        Error::RoFs => Nfsstat3::Nfs3errRofs,
        Error::MLink => Nfsstat3::Nfs3errMlink,
        Error::NameTooLong => Nfsstat3::Nfs3errNametoolong,
        Error::NotEmpty => Nfsstat3::Nfs3errNotempty,
        Error::DQuot => Nfsstat3::Nfs3errDquot,
        Error::Stale => Nfsstat3::Nfs3errStale,
        Error::Remote => Nfsstat3::Nfs3errRemote,
        Error::BadHandle => Nfsstat3::Nfs3errBadhandle,
        Error::NotSync => Nfsstat3::Nfs3errNotSync,
        Error::BadCookie => Nfsstat3::Nfs3errBadCookie,
        Error::NotSupp => Nfsstat3::Nfs3errNotsupp,
        Error::TooSmall => Nfsstat3::Nfs3errToosmall,
        Error::ServerFault => Nfsstat3::Nfs3errServerfault,
        Error::BadType => Nfsstat3::Nfs3errBadtype,
        Error::JukeBox => Nfsstat3::Nfs3errJukebox,
    }
}

pub(super) fn handle(handle: FileHandle) -> NfsFh3 {
    NfsFh3 { data: handle }
}

fn nfstime(time: Time) -> Nfstime3 {
    Nfstime3 { seconds: time.seconds, nseconds: time.nanoseconds }
}

pub(super) fn time(time: Nfstime3) -> Time {
    Time { seconds: time.seconds, nanoseconds: time.nseconds }
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
