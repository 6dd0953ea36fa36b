//! Serves files in memory. Dropping the export discards the files.
//!
//! Unix permissions apply to the caller's identity. Reading does not change `atime`. Every write is reported
//! as FILE_SYNC, so COMMIT does nothing.

mod content;
mod tree;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;

use self::content::{Content, FILE_MAX};
use self::tree::{Body, LINKS_MAX, ROOT, Tree};
use super::permissions::access_bits;
use super::{
    Before, Cookie, CreateHow, Entry, Export, ExportLimits, FileHandle, FileKind, FileTime, Found, Listed,
    NfsCaller, NfsError, NfsVerifier, Outcome, ReadData, Renamed, SetAttributes, Space, Stability,
    TRANSFER_MAX, Wcc, WriteResult, names,
};
use crate::export::{Attributes, TryExport};

/// Maximum length of a symbolic link's target, in bytes.
pub const PATH_MAX: usize = 4096;

/// A file system in memory. Every caller may create files in the root directory.
///
/// ```
/// use std::sync::Arc;
///
/// use rpcrdma_nfs::export::Export;
/// use rpcrdma_nfs::export::memory::MemoryExport;
/// use rpcrdma_nfs::nfs::NfsHandler;
///
/// let export = MemoryExport::new(16 << 20, 1000); // 16 MiB in 1,000 files
/// assert_ne!(export.root(), MemoryExport::default().root(), "handles of another file system are stale");
/// let handler = NfsHandler::new(Arc::new(export));
/// ```
#[derive(Debug)]
pub struct MemoryExport {
    tree: RwLock<Tree>,
    /// Distinguishes this export's handles and cookies from those of other exports.
    instance: NfsVerifier,
}

impl Default for MemoryExport {
    /// Returns an empty file system for at most 4 GiB in 1,048,576 files.
    fn default() -> Self {
        MemoryExport::new(4 << 30, 1 << 20)
    }
}

impl MemoryExport {
    /// Returns an empty file system for at most `bytes` bytes of content in at most `files` files.
    /// Directories count as files, including the root directory.
    #[must_use]
    pub fn new(bytes: u64, files: usize) -> Self {
        let instance = RandomState::new().build_hasher().finish();
        let tree = RwLock::new(Tree::new(instance, bytes, files, 0o777));
        MemoryExport { tree, instance: instance.to_be_bytes() }
    }

    /// Locks the tree for reading. Ignores poisoning, so that a panic in one call does not fail all later
    /// calls.
    fn read_tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, id: u64) -> FileHandle {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.instance);
        bytes[8..].copy_from_slice(&id.to_be_bytes());
        FileHandle::new(&bytes).unwrap_or_default()
    }

    fn id(&self, handle: &FileHandle) -> Result<u64, NfsError> {
        let bytes: &[u8; 16] = handle.as_slice().try_into().map_err(|_| NfsError::BadHandle)?;
        let (instance, id) = bytes.split_at(8);
        if *instance != self.instance {
            return Err(NfsError::Stale);
        }
        id.try_into().map(u64::from_be_bytes).map_err(|_| NfsError::BadHandle)
    }

    fn found(&self, tree: &Tree, id: u64) -> Result<Found, NfsError> {
        let attributes = tree.node(id)?.attributes.clone();
        Ok(Found { handle: self.handle(id), attributes })
    }

    fn change<T>(
        &self,
        handle: &FileHandle,
        change: impl FnOnce(&mut Tree, u64) -> Result<T, NfsError>,
    ) -> Outcome<T> {
        let id = match self.id(handle) {
            Ok(id) => id,
            Err(error) => return Outcome::failed(error),
        };
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let before = before(&tree, id);
        let result = change(&mut tree, id);
        Outcome { result, wcc: Wcc { before, after: after(&tree, id) } }
    }

    /// Creates a directory, symbolic link, device, socket or pipe. Fails if the name exists.
    fn make(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        new: &SetAttributes,
        body: impl FnOnce(u64) -> Body,
    ) -> Outcome<Found> {
        self.change(dir, |tree, dir| {
            names::check_new(name)?;
            let directory = tree.directory_for(caller, dir, access_bits::LOOKUP)?;
            if directory.get(name).is_some() {
                return Err(NfsError::Exist);
            }
            tree.directory_for(caller, dir, access_bits::EXTEND)?;
            // Only regular files have a settable size.
            let new = SetAttributes { size: None, ..new.clone() };
            let id = tree.add(caller, dir, name, body(dir), &new)?;
            self.found(tree, id)
        })
    }

    /// Returns the verifier of the exclusive CREATE that created a file, or `None` for any other file.
    fn created_by(tree: &Tree, id: u64) -> Option<NfsVerifier> {
        match &tree.node(id).ok()?.body {
            Body::Regular(_, verifier) => *verifier,
            _ => None,
        }
    }
}

fn before(tree: &Tree, id: u64) -> Option<Before> {
    tree.node(id).ok().map(|node| Before::from(&node.attributes))
}

fn after(tree: &Tree, id: u64) -> Option<Attributes> {
    tree.node(id).ok().map(|node| node.attributes.clone())
}

/// Renames a file by the rules of RFC 1813 section 3.3.14.
fn rename(tree: &mut Tree, caller: &NfsCaller, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), NfsError> {
    names::check_old(from.1)?;
    names::check(to.1)?;
    if names::is_dot(to.1) {
        return Err(NfsError::Inval);
    }
    let moved = tree.directory_for(caller, from.0, access_bits::LOOKUP)?.get(from.1);
    let replaced = tree.directory_for(caller, to.0, access_bits::LOOKUP)?.get(to.1);
    let moved = moved.ok_or(NfsError::NoEnt)?;
    tree.directory_for(caller, from.0, access_bits::DELETE)?;
    tree.directory_for(caller, to.0, access_bits::EXTEND)?;
    if replaced == Some(moved) {
        return Ok(());
    }
    let is_directory = tree.directory(moved).is_ok();
    if is_directory && tree.is_above(moved, to.0) {
        return Err(NfsError::Inval);
    }
    if let Some(replaced) = replaced {
        match tree.directory(replaced) {
            Ok(directory) if !is_directory || !directory.is_empty() => return Err(NfsError::Exist),
            Err(_) if is_directory => return Err(NfsError::Exist),
            _ => {}
        }
        tree.leave(to.0, to.1)?;
        tree.release(replaced)?;
    }
    tree.leave(from.0, from.1)?;
    tree.enter(to.0, to.1, moved)
}

/// The defaults suffice, since no call blocks.
impl TryExport for MemoryExport {}

impl Export for MemoryExport {
    const BLOCKS: bool = false;

    fn root(&self) -> FileHandle {
        self.handle(ROOT)
    }

    fn owns(&self, file: &FileHandle) -> bool {
        self.id(file).is_ok()
    }

    fn write_verifier(&self) -> NfsVerifier {
        self.instance
    }

    fn limits(&self) -> ExportLimits {
        ExportLimits { file_size: FILE_MAX, links: LINKS_MAX, ..ExportLimits::default() }
    }

    fn attributes(&self, file: &FileHandle) -> Result<Attributes, NfsError> {
        let id = self.id(file)?;
        Ok(self.read_tree().node(id)?.attributes.clone())
    }

    fn set_attributes(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        new: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Outcome<()> {
        self.change(file, |tree, id| {
            if guard.is_some_and(|guard| tree.node(id).is_ok_and(|node| node.attributes.ctime != guard)) {
                return Err(NfsError::NotSync);
            }
            tree.set(caller, id, new)
        })
    }

    fn lookup(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Result<Found, NfsError> {
        let id = self.id(dir)?;
        let tree = self.read_tree();
        let directory = tree.directory_for(caller, id, access_bits::LOOKUP)?;
        names::check(name)?;
        let found = match name {
            b"." => id,
            b".." => directory.parent,
            name => directory.get(name).ok_or(NfsError::NoEnt)?,
        };
        self.found(&tree, found)
    }

    fn access(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        wanted: u32,
    ) -> Result<(u32, Attributes), NfsError> {
        let attributes = self.attributes(file)?;
        Ok((caller.granted(&attributes) & wanted, attributes))
    }

    fn readlink(&self, _caller: &NfsCaller, file: &FileHandle) -> Result<Bytes, NfsError> {
        let id = self.id(file)?;
        match &self.read_tree().node(id)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(NfsError::Inval),
        }
    }

    fn read(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, NfsError> {
        let id = self.id(file)?;
        let tree = self.read_tree();
        let node = tree.node(id)?;
        let content = node.content()?;
        if !caller.may_read(&node.attributes) {
            return Err(NfsError::Acces);
        }
        let (data, eof) = content.read(offset, count.min(TRANSFER_MAX));
        Ok(ReadData { data, eof })
    }

    fn write(
        &self,
        caller: &NfsCaller,
        file: &FileHandle,
        offset: u64,
        data: &Bytes,
        _stable: Stability,
    ) -> Outcome<WriteResult> {
        self.change(file, |tree, id| {
            let taken = data.slice(..data.len().min(TRANSFER_MAX as usize));
            tree.write(caller, id, offset, &taken)?;
            let count = u32::try_from(taken.len()).map_err(|_| NfsError::Inval)?;
            Ok(WriteResult { count, committed: Stability::FileSync })
        })
    }

    fn create(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8], how: &CreateHow) -> Outcome<Found> {
        self.change(dir, |tree, dir| {
            names::check_new(name)?;
            let there = tree.directory_for(caller, dir, access_bits::LOOKUP)?.get(name);
            let none = SetAttributes::default();
            match (there, how) {
                (Some(id), CreateHow::Unchecked(new)) => {
                    tree.node(id)?.content().map_err(|_| NfsError::Exist)?;
                    let size = SetAttributes { size: new.size, ..none };
                    tree.set(caller, id, &size)?;
                    self.found(tree, id)
                }
                (Some(id), CreateHow::Exclusive(verifier))
                    if Self::created_by(tree, id) == Some(*verifier) =>
                {
                    self.found(tree, id)
                }
                (Some(_), _) => Err(NfsError::Exist),
                (None, how) => {
                    tree.directory_for(caller, dir, access_bits::EXTEND)?;
                    let (new, verifier) = match how {
                        CreateHow::Unchecked(new) | CreateHow::Guarded(new) => (new, None),
                        CreateHow::Exclusive(verifier) => (&none, Some(*verifier)),
                    };
                    let body = Body::Regular(Content::default(), verifier);
                    let id = tree.add(caller, dir, name, body, new)?;
                    self.found(tree, id)
                }
            }
        })
    }

    fn mkdir(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        new: &SetAttributes,
    ) -> Outcome<Found> {
        self.make(caller, dir, name, new, Tree::empty_directory)
    }

    fn symlink(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        target: &Bytes,
        new: &SetAttributes,
    ) -> Outcome<Found> {
        if target.len() > PATH_MAX {
            return Outcome { wcc: self.change(dir, |_, _| Ok(())).wcc, result: Err(NfsError::NameTooLong) };
        }
        // The target is copied: a reference would keep the whole message buffer in memory.
        self.make(caller, dir, name, new, |_| Body::Symlink(Bytes::copy_from_slice(target)))
    }

    /// Only root may create devices.
    fn mknod(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        name: &[u8],
        (kind, device): (FileKind, (u32, u32)),
        new: &SetAttributes,
    ) -> Outcome<Found> {
        let refused = match kind {
            FileKind::Fifo | FileKind::Socket => None,
            FileKind::Block | FileKind::Character if caller.uid == 0 => None,
            FileKind::Block | FileKind::Character => Some(NfsError::Perm),
            _ => Some(NfsError::BadType),
        };
        if let Some(error) = refused {
            return Outcome { wcc: self.change(dir, |_, _| Ok(())).wcc, result: Err(error) };
        }
        self.make(caller, dir, name, new, |_| Body::Special(kind, device))
    }

    fn remove(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        self.change(dir, |tree, dir| {
            names::check_old(name)?;
            let id =
                tree.directory_for(caller, dir, access_bits::LOOKUP)?.get(name).ok_or(NfsError::NoEnt)?;
            tree.directory_for(caller, dir, access_bits::DELETE)?;
            if tree.directory(id).is_ok() {
                return Err(NfsError::IsDir);
            }
            tree.leave(dir, name)?;
            tree.release(id)
        })
    }

    fn rmdir(&self, caller: &NfsCaller, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        self.change(dir, |tree, dir| {
            names::check_old(name)?;
            let id =
                tree.directory_for(caller, dir, access_bits::LOOKUP)?.get(name).ok_or(NfsError::NoEnt)?;
            tree.directory_for(caller, dir, access_bits::DELETE)?;
            if !tree.directory(id)?.is_empty() {
                return Err(NfsError::NotEmpty);
            }
            tree.leave(dir, name)?;
            tree.release(id)
        })
    }

    fn rename(&self, caller: &NfsCaller, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Renamed {
        let (from_id, to_id) = match (self.id(from.0), self.id(to.0)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(error), _) | (_, Err(error)) => return Renamed::failed(error),
        };
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let earlier = (before(&tree, from_id), before(&tree, to_id));
        let result = rename(&mut tree, caller, (from_id, from.1), (to_id, to.1));
        Renamed {
            result,
            from: Wcc { before: earlier.0, after: after(&tree, from_id) },
            to: Wcc { before: earlier.1, after: after(&tree, to_id) },
        }
    }

    fn link(&self, caller: &NfsCaller, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Outcome<()> {
        self.change(dir, |tree, dir| {
            let file = self.id(file)?;
            names::check_new(name)?;
            if tree.directory_for(caller, dir, access_bits::LOOKUP)?.get(name).is_some() {
                return Err(NfsError::Exist);
            }
            tree.directory_for(caller, dir, access_bits::EXTEND)?;
            tree.retain(file)?;
            tree.enter(dir, name, file)
        })
    }

    fn list(
        &self,
        caller: &NfsCaller,
        dir: &FileHandle,
        after: (Cookie, NfsVerifier),
        plus: bool,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Listed, NfsError> {
        let id = self.id(dir)?;
        let tree = self.read_tree();
        let directory = tree.directory_for(caller, id, access_bits::READ)?;
        let (cookie, verifier) = after;
        if cookie != 0 && verifier != self.instance {
            return Err(NfsError::BadCookie);
        }
        let dots = [(1, Bytes::from_static(b"."), id), (2, Bytes::from_static(b".."), directory.parent)];
        let dots = dots.iter().map(|(at, name, id)| (*at, name, *id)).filter(|(at, _, _)| *at > cookie);
        for (cookie, name, fileid) in dots.chain(directory.behind(cookie)) {
            let found = if plus { self.found(&tree, fileid).ok() } else { None };
            if !take(Entry { fileid, name: name.clone(), cookie, found }) {
                return Ok(Listed { verifier: self.instance, eof: false });
            }
        }
        Ok(Listed { verifier: self.instance, eof: true })
    }

    fn space(&self, file: &FileHandle) -> Result<Space, NfsError> {
        self.attributes(file)?;
        let tree = self.read_tree();
        let free = tree.bytes_max.saturating_sub(tree.held);
        let files = tree.files_max as u64;
        let files_free = tree.files_max.saturating_sub(tree.files()) as u64;
        Ok(Space { bytes: [tree.bytes_max, free, free], files: [files, files_free, files_free] })
    }

    fn commit(&self, _caller: &NfsCaller, file: &FileHandle, _offset: u64, _count: u32) -> Outcome<()> {
        self.change(file, |tree, id| tree.node(id)?.content().map(drop))
    }
}
