//! Access rights of callers according to a file's mode.

use super::{Attributes, FileKind};

/// The bits of ACCESS (RFC 1813 section 3.3.4).
pub mod access_bits {
    /// Read a file, or list a directory.
    pub const READ: u32 = 0x01;
    /// Look up a name.
    pub const LOOKUP: u32 = 0x02;
    /// Change existing data or entries.
    pub const MODIFY: u32 = 0x04;
    /// Add data or entries.
    pub const EXTEND: u32 = 0x08;
    /// Remove an entry.
    pub const DELETE: u32 = 0x10;
    /// Run as a program.
    pub const EXECUTE: u32 = 0x20;
    /// All rights that permit changes.
    pub const CHANGES: u32 = MODIFY | EXTEND | DELETE;
}

/// The identity of a caller. With AUTH_SYS, the client claims the identity without proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsCaller {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// Supplementary groups; AUTH_SYS has at most 16.
    pub gids: Vec<u32>,
}

impl NfsCaller {
    /// The anonymous user, for callers without an identity.
    pub const NOBODY: NfsCaller = NfsCaller { uid: 65_534, gid: 65_534, gids: Vec::new() };

    /// The superuser.
    pub const ROOT: NfsCaller = NfsCaller { uid: 0, gid: 0, gids: Vec::new() };

    /// Returns true if the caller is in a group.
    #[must_use]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.gids.contains(&gid)
    }

    /// Returns the caller's permission bits: read 4, write 2, execute 1. Root may always read and write.
    /// Root may also execute every directory, and every file with at least one execute bit.
    fn bits(&self, attributes: &Attributes) -> u32 {
        if self.uid == 0 {
            let executes = attributes.kind == FileKind::Directory || attributes.mode & 0o111 != 0;
            return 6 | u32::from(executes);
        }
        let shift = match () {
            () if self.uid == attributes.uid => 6,
            () if self.is_in(attributes.gid) => 3,
            () => 0,
        };
        (attributes.mode >> shift) & 7
    }

    /// Returns the [`access_bits`] that the caller has.
    #[must_use]
    pub fn granted(&self, attributes: &Attributes) -> u32 {
        let bits = self.bits(attributes);
        let when = |bit: u32, granted: u32| if bits & bit == bit { granted } else { 0 };
        if attributes.kind == FileKind::Directory {
            return when(4, access_bits::READ) | when(1, access_bits::LOOKUP) | when(3, access_bits::CHANGES);
        }
        when(4, access_bits::READ)
            | when(2, access_bits::MODIFY | access_bits::EXTEND)
            | when(1, access_bits::EXECUTE)
    }

    /// Returns true if the caller may read the file's content. The owner may always read, since the owner
    /// could have opened the file before the mode changed, and NFS has no OPEN (RFC 1813 section 4.4). A
    /// caller that may execute the file may also read it.
    pub(super) fn may_read(&self, attributes: &Attributes) -> bool {
        self.uid == attributes.uid || self.bits(attributes) & 5 != 0
    }

    /// Returns true if the caller may write the file's content. The owner may always write.
    pub(super) fn may_write(&self, attributes: &Attributes) -> bool {
        self.uid == attributes.uid || self.bits(attributes) & 2 != 0
    }

    pub(super) fn has(&self, attributes: &Attributes, bits: u32) -> bool {
        self.granted(attributes) & bits == bits
    }

    /// Returns true if the caller is the file's owner or root.
    pub(super) fn owns(&self, attributes: &Attributes) -> bool {
        self.uid == 0 || self.uid == attributes.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::FileTime;

    fn file(kind: FileKind, mode: u32) -> Attributes {
        let now = FileTime::default();
        Attributes {
            kind,
            mode,
            nlink: 1,
            uid: 10,
            gid: 20,
            size: 0,
            used: 0,
            rdev: (0, 0),
            fsid: 0,
            fileid: 1,
            atime: now,
            mtime: now,
            ctime: now,
        }
    }

    #[test]
    fn the_first_matching_class_decides() {
        let owner = NfsCaller { uid: 10, gid: 20, gids: Vec::new() };
        let group = NfsCaller { uid: 11, gid: 1, gids: vec![20] };
        let of = file(FileKind::Regular, 0o047);
        assert_eq!(owner.granted(&of), 0, "the group bits do not apply to the owner");
        assert!(owner.may_read(&of) && owner.may_write(&of), "the owner may always read and write");
        assert_eq!(group.granted(&of), access_bits::READ);
        assert!(!group.may_write(&of));
        assert!(NfsCaller::NOBODY.may_write(&of));
    }

    #[test]
    fn root_executes_only_executable_files() {
        assert_eq!(NfsCaller::ROOT.granted(&file(FileKind::Regular, 0)) & access_bits::EXECUTE, 0);
        assert_ne!(NfsCaller::ROOT.granted(&file(FileKind::Regular, 0o1)) & access_bits::EXECUTE, 0);
        let all = access_bits::READ | access_bits::LOOKUP | access_bits::CHANGES;
        assert_eq!(NfsCaller::ROOT.granted(&file(FileKind::Directory, 0)), all);
    }
}
