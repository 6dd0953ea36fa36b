use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, statx};

use crate::export::{Attributes, FileKind, FileTime, NfsError};

/// The device and inode numbers of a file, which together identify one existing file. The numbers of a
/// removed file can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) dev: u64,
    pub(super) ino: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Stat {
    pub(super) key: Key,
    /// The mount ID of the file; before Linux 5.8, the device number of its file system.
    pub(super) mount: u64,
    /// The creation time in nanoseconds, which distinguishes the file from a later file with the same
    /// [`Key`]. Zero if the file system does not store creation times.
    pub(super) generation: u64,
    pub(super) attributes: Attributes,
}

impl Stat {
    pub(super) fn of(file: impl AsFd) -> Result<Stat, NfsError> {
        let of = statx(file, c"", AtFlags::EMPTY_PATH, wanted())?;
        Ok(Stat::from(&of))
    }

    /// Returns the metadata of the file `name` in a directory, without following a link.
    pub(super) fn of_name(dir: impl AsFd, name: &[u8]) -> Result<Stat, NfsError> {
        let of = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted())?;
        Ok(Stat::from(&of))
    }

    pub(super) fn is(&self, kind: FileKind) -> bool {
        self.attributes.kind == kind
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID
}

impl From<&Statx> for Stat {
    fn from(of: &Statx) -> Self {
        let dev = (u64::from(of.stx_dev_major) << 32) | u64::from(of.stx_dev_minor);
        let kind = kind(FileType::from_raw_mode(of.stx_mode.into()));
        let attributes = Attributes {
            kind,
            mode: u32::from(of.stx_mode) & 0o7777,
            nlink: of.stx_nlink,
            uid: of.stx_uid,
            gid: of.stx_gid,
            size: of.stx_size,
            used: of.stx_blocks.saturating_mul(512),
            rdev: (of.stx_rdev_major, of.stx_rdev_minor),
            fsid: dev,
            fileid: of.stx_ino,
            atime: time(&of.stx_atime),
            mtime: time(&of.stx_mtime),
            ctime: time(&of.stx_ctime),
        };
        let birth_seconds = of.stx_btime.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
        let generation = if of.stx_mask & StatxFlags::BTIME.bits() == 0 {
            0
        } else {
            birth_seconds.wrapping_add(u64::from(of.stx_btime.tv_nsec))
        };
        let mount = if of.stx_mask & StatxFlags::MNT_ID.bits() == 0 { dev } else { of.stx_mnt_id };
        Stat { key: Key { dev, ino: of.stx_ino }, mount, generation, attributes }
    }
}

/// A time out of range becomes the first or the last second that NFS can represent.
fn time(time: &StatxTimestamp) -> FileTime {
    let latest = if time.tv_sec < 0 { 0 } else { u32::MAX };
    u32::try_from(time.tv_sec).map_or(FileTime { seconds: latest, nanoseconds: 0 }, |seconds| FileTime {
        seconds,
        nanoseconds: time.tv_nsec,
    })
}

fn kind(of: FileType) -> FileKind {
    match of {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::BlockDevice => FileKind::Block,
        FileType::CharacterDevice => FileKind::Character,
        FileType::Socket => FileKind::Socket,
        FileType::Fifo => FileKind::Fifo,
        _ => FileKind::Regular,
    }
}
