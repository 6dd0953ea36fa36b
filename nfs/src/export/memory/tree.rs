use core::ops::Bound;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::content::Content;
use crate::export::permissions::access_bits;
use crate::export::{
    Attributes, Cookie, FileKind, FileTime, NfsCaller, NfsError, NfsVerifier, SetAttributes, SetTime,
};

pub(super) const ROOT: u64 = 1;
/// The cookie of the first entry after `.` (cookie 1) and `..` (cookie 2).
const FIRST_COOKIE: Cookie = 3;
pub(super) const LINKS_MAX: u32 = 32_000;
/// The size of a directory, in bytes, reported as `size` and `used`.
const DIRECTORY_SIZE: u64 = 4096;

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: u64,
    /// A cookie is never reused, so that a listing continues at the right position after changes.
    entries: BTreeMap<Cookie, (Bytes, u64)>,
    cookies: HashMap<Bytes, Cookie>,
    next: Cookie,
}

impl Directory {
    fn new(parent: u64) -> Self {
        Directory { parent, entries: BTreeMap::new(), cookies: HashMap::new(), next: FIRST_COOKIE }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        let cookie = self.cookies.get(name)?;
        self.entries.get(cookie).map(|(_, id)| *id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn behind(&self, cookie: Cookie) -> impl Iterator<Item = (Cookie, &Bytes, u64)> {
        let range = (Bound::Excluded(cookie), Bound::Unbounded);
        self.entries.range(range).map(|(cookie, (name, id))| (*cookie, name, *id))
    }

    fn insert(&mut self, name: Bytes, id: u64) {
        self.entries.insert(self.next, (name.clone(), id));
        self.cookies.insert(name, self.next);
        self.next += 1;
    }

    fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let cookie = self.cookies.remove(name)?;
        self.entries.remove(&cookie).map(|(_, id)| id)
    }
}

#[derive(Debug)]
pub(super) enum Body {
    /// A regular file: the content, and the verifier if an exclusive CREATE created the file.
    Regular(Content, Option<NfsVerifier>),
    Directory(Directory),
    Symlink(Bytes),
    /// A device with its numbers, a socket or a pipe: only the name and attributes are stored.
    Special(FileKind, (u32, u32)),
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) attributes: Attributes,
    pub(super) body: Body,
}

impl Node {
    /// # Errors
    /// [`NfsError::IsDir`], or [`NfsError::Inval`] for any other file without content.
    pub(super) fn content(&self) -> Result<&Content, NfsError> {
        match &self.body {
            Body::Regular(content, _) => Ok(content),
            Body::Directory(_) => Err(NfsError::IsDir),
            Body::Symlink(_) | Body::Special(..) => Err(NfsError::Inval),
        }
    }

    fn content_mut(&mut self) -> Result<&mut Content, NfsError> {
        match &mut self.body {
            Body::Regular(content, _) => Ok(content),
            Body::Directory(_) => Err(NfsError::IsDir),
            Body::Symlink(_) | Body::Special(..) => Err(NfsError::Inval),
        }
    }

    /// # Errors
    /// [`NfsError::NotDir`].
    pub(super) fn directory(&self) -> Result<&Directory, NfsError> {
        if let Body::Directory(directory) = &self.body { Ok(directory) } else { Err(NfsError::NotDir) }
    }

    fn measure(&mut self) {
        let (size, used) = match &self.body {
            Body::Regular(content, _) => (content.size(), content.held()),
            Body::Directory(_) => (DIRECTORY_SIZE, DIRECTORY_SIZE),
            Body::Symlink(target) => (target.len() as u64, target.len() as u64),
            Body::Special(..) => (0, 0),
        };
        self.attributes.size = size;
        self.attributes.used = used;
    }
}

/// All files. File numbers are never reused, so that a handle of a removed file stays invalid.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    last_id: u64,
    last_time: FileTime,
    fsid: u64,
    /// The number of bytes stored in all files and symbolic links.
    pub(super) held: u64,
    pub(super) bytes_max: u64,
    pub(super) files_max: usize,
}

impl Tree {
    pub(super) fn new(fsid: u64, bytes_max: u64, files_max: usize, mode: u32) -> Self {
        let mut tree = Tree {
            nodes: HashMap::new(),
            last_id: 0,
            last_time: FileTime::default(),
            fsid,
            held: 0,
            bytes_max,
            files_max,
        };
        let root =
            tree.make(&NfsCaller::ROOT, FileKind::Directory, mode, Body::Directory(Directory::new(ROOT)));
        tree.nodes.insert(ROOT, root);
        tree.last_id = ROOT;
        tree
    }

    pub(super) fn files(&self) -> usize {
        self.nodes.len()
    }

    /// # Errors
    /// [`NfsError::Stale`].
    pub(super) fn node(&self, id: u64) -> Result<&Node, NfsError> {
        self.nodes.get(&id).ok_or(NfsError::Stale)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut Node, NfsError> {
        self.nodes.get_mut(&id).ok_or(NfsError::Stale)
    }

    /// # Errors
    /// [`NfsError::Stale`], [`NfsError::NotDir`].
    pub(super) fn directory(&self, id: u64) -> Result<&Directory, NfsError> {
        self.node(id)?.directory()
    }

    /// # Errors
    /// [`NfsError::Stale`] or [`NfsError::NotDir`]; [`NfsError::Acces`] if the caller lacks any of these
    /// [`access_bits`] in the directory.
    pub(super) fn directory_for(
        &self,
        caller: &NfsCaller,
        id: u64,
        bits: u32,
    ) -> Result<&Directory, NfsError> {
        let node = self.node(id)?;
        let directory = node.directory()?;
        if caller.has(&node.attributes, bits) { Ok(directory) } else { Err(NfsError::Acces) }
    }

    /// Returns the current time, or a later time if needed. Each returned time is later than the previous
    /// time, so that the times of two changes within one clock step differ.
    fn tick(&mut self) -> FileTime {
        let after = |last: FileTime| match last.nanoseconds {
            999_999_999 => FileTime { seconds: last.seconds.saturating_add(1), nanoseconds: 0 },
            nanoseconds => FileTime { nanoseconds: nanoseconds + 1, ..last },
        };
        self.last_time = FileTime::now().max(after(self.last_time));
        self.last_time
    }

    fn make(&mut self, caller: &NfsCaller, kind: FileKind, mode: u32, body: Body) -> Node {
        let now = self.tick();
        let attributes = Attributes {
            kind,
            mode: mode & 0o7777,
            nlink: if kind == FileKind::Directory { 2 } else { 1 },
            uid: caller.uid,
            gid: caller.gid,
            size: 0,
            used: 0,
            rdev: (0, 0),
            fsid: self.fsid,
            fileid: self.last_id + 1,
            atime: now,
            mtime: now,
            ctime: now,
        };
        let mut node = Node { attributes, body };
        node.measure();
        node
    }

    /// Creates a file with this name, which must not exist in the directory.
    ///
    /// # Errors
    /// [`NfsError::NoSpc`], and the errors of setting the attributes. On failure, nothing is created.
    pub(super) fn add(
        &mut self,
        caller: &NfsCaller,
        dir: u64,
        name: &[u8],
        body: Body,
        new: &SetAttributes,
    ) -> Result<u64, NfsError> {
        let (kind, mode) = match &body {
            Body::Regular(..) => (FileKind::Regular, 0o644),
            Body::Directory(_) => (FileKind::Directory, 0o755),
            Body::Symlink(_) => (FileKind::Symlink, 0o777),
            Body::Special(kind, _) => (*kind, 0o644),
        };
        let rdev = if let Body::Special(_, device) = &body { *device } else { (0, 0) };
        let stored = if let Body::Symlink(target) = &body { target.len() as u64 } else { 0 };
        if self.nodes.len() >= self.files_max || self.held.saturating_add(stored) > self.bytes_max {
            return Err(NfsError::NoSpc);
        }
        let mut node = self.make(caller, kind, mode, body);
        node.attributes.rdev = rdev;
        let id = node.attributes.fileid;
        self.nodes.insert(id, node);
        if let Err(error) = self.set(caller, id, new) {
            self.nodes.remove(&id);
            return Err(error);
        }
        self.last_id = id;
        self.held += stored;
        self.enter(dir, name, id)?;
        Ok(id)
    }

    pub(super) fn empty_directory(parent: u64) -> Body {
        Body::Directory(Directory::new(parent))
    }

    /// Adds a name for a file. The name must not exist in the directory.
    pub(super) fn enter(&mut self, dir: u64, name: &[u8], id: u64) -> Result<(), NfsError> {
        let is_directory = matches!(self.node(id)?.body, Body::Directory(_));
        let now = self.tick();
        let node = self.node_mut(dir)?;
        let Body::Directory(directory) = &mut node.body else { return Err(NfsError::NotDir) };
        directory.insert(Bytes::copy_from_slice(name), id);
        node.attributes.nlink += u32::from(is_directory);
        node.attributes.mtime = now;
        node.attributes.ctime = now;
        if let Body::Directory(moved) = &mut self.node_mut(id)?.body {
            moved.parent = dir;
        }
        Ok(())
    }

    /// Removes a name and returns its file's number. The file itself remains.
    pub(super) fn leave(&mut self, dir: u64, name: &[u8]) -> Result<u64, NfsError> {
        let now = self.tick();
        let node = self.node_mut(dir)?;
        let Body::Directory(directory) = &mut node.body else { return Err(NfsError::NotDir) };
        let id = directory.remove(name).ok_or(NfsError::NoEnt)?;
        node.attributes.mtime = now;
        node.attributes.ctime = now;
        if matches!(self.node(id)?.body, Body::Directory(_)) {
            let parent = &mut self.node_mut(dir)?.attributes;
            parent.nlink = parent.nlink.saturating_sub(1);
        }
        Ok(id)
    }

    /// Decrements the number of a file's names. Removes the file if it is a directory or has no other
    /// names.
    pub(super) fn release(&mut self, id: u64) -> Result<(), NfsError> {
        let now = self.tick();
        let node = self.node_mut(id)?;
        let links = node.attributes.nlink.saturating_sub(1);
        if links == 0 || matches!(node.body, Body::Directory(_)) {
            let held = node.attributes.used;
            if !matches!(node.body, Body::Directory(_)) {
                self.held = self.held.saturating_sub(held);
            }
            self.nodes.remove(&id);
            return Ok(());
        }
        node.attributes.nlink = links;
        node.attributes.ctime = now;
        Ok(())
    }

    /// Increments the number of a file's names.
    ///
    /// # Errors
    /// [`NfsError::Stale`], [`NfsError::MLink`], and [`NfsError::IsDir`] for a directory.
    pub(super) fn retain(&mut self, id: u64) -> Result<(), NfsError> {
        let now = self.tick();
        let node = self.node_mut(id)?;
        if matches!(node.body, Body::Directory(_)) {
            return Err(NfsError::IsDir);
        }
        if node.attributes.nlink >= LINKS_MAX {
            return Err(NfsError::MLink);
        }
        node.attributes.nlink += 1;
        node.attributes.ctime = now;
        Ok(())
    }

    /// Returns true if `upper` is `lower` or contains `lower` at any depth.
    pub(super) fn is_above(&self, upper: u64, lower: u64) -> bool {
        let mut at = lower;
        for _ in 0..self.nodes.len() {
            if at == upper {
                return true;
            }
            match self.directory(at) {
                Ok(directory) if at != ROOT => at = directory.parent,
                _ => return false,
            }
        }
        false
    }

    /// # Errors
    /// [`NfsError::Stale`], [`NfsError::NoSpc`], [`NfsError::FBig`], [`NfsError::IsDir`],
    /// [`NfsError::Inval`], [`NfsError::Acces`].
    pub(super) fn write(
        &mut self,
        caller: &NfsCaller,
        id: u64,
        offset: u64,
        data: &Bytes,
    ) -> Result<(), NfsError> {
        let free = self.bytes_max.saturating_sub(self.held);
        let now = self.tick();
        let node = self.node_mut(id)?;
        let content = node.content()?;
        let (held, added) = (content.held(), content.added(offset, data.len() as u64));
        if !caller.may_write(&node.attributes) {
            return Err(NfsError::Acces);
        }
        if added > free {
            return Err(NfsError::NoSpc);
        }
        node.content_mut()?.write(offset, data)?;
        node.attributes.mtime = now;
        self.changed(id, now, held)
    }

    /// Sets all attributes, or none on failure.
    ///
    /// # Errors
    /// [`NfsError::Stale`], [`NfsError::Perm`], [`NfsError::Acces`], [`NfsError::IsDir`],
    /// [`NfsError::Inval`], [`NfsError::FBig`].
    pub(super) fn set(&mut self, caller: &NfsCaller, id: u64, new: &SetAttributes) -> Result<(), NfsError> {
        let now = self.tick();
        let node = self.node_mut(id)?;
        may_set(caller, &node.attributes, new)?;
        let held = node.content().map_or(0, Content::held);
        if let Some(size) = new.size {
            node.content_mut()?.resize(size)?;
            node.attributes.mtime = now;
        }
        let attributes = &mut node.attributes;
        attributes.mode = new.mode.map_or(attributes.mode, |mode| mode & 0o7777);
        attributes.uid = new.uid.unwrap_or(attributes.uid);
        attributes.gid = new.gid.unwrap_or(attributes.gid);
        let time = |set: Option<SetTime>, old: FileTime| match set {
            None => old,
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
        };
        attributes.atime = time(new.atime, attributes.atime);
        attributes.mtime = time(new.mtime, attributes.mtime);
        self.changed(id, now, held)
    }

    /// Updates a changed file's attributes and [`Tree::held`]. `held_before` is the file's earlier
    /// [`Content::held`].
    fn changed(&mut self, id: u64, now: FileTime, held_before: u64) -> Result<(), NfsError> {
        let node = self.node_mut(id)?;
        node.measure();
        node.attributes.ctime = now;
        let held = node.content().map_or(0, Content::held);
        self.held = self.held.saturating_sub(held_before).saturating_add(held);
        Ok(())
    }
}

/// Checks that the caller may set these attributes (the rules of POSIX chmod, chown, truncate and utimes).
fn may_set(caller: &NfsCaller, old: &Attributes, new: &SetAttributes) -> Result<(), NfsError> {
    let owns = caller.owns(old);
    let sets_uid = new.uid.is_some_and(|uid| uid != old.uid);
    let sets_gid = new.gid.is_some_and(|gid| gid != old.gid);
    let allowed_gid = new.gid.is_none_or(|gid| caller.uid == 0 || caller.is_in(gid));
    if (sets_uid && caller.uid != 0) || (sets_gid && !(owns && allowed_gid)) || (new.mode.is_some() && !owns)
    {
        return Err(NfsError::Perm);
    }
    for set in [new.atime, new.mtime].into_iter().flatten() {
        match set {
            SetTime::To(time) if time.nanoseconds > 999_999_999 => return Err(NfsError::Inval),
            SetTime::To(_) if !owns => return Err(NfsError::Perm),
            SetTime::Now if !owns && !caller.has(old, access_bits::MODIFY) => return Err(NfsError::Acces),
            _ => {}
        }
    }
    match (new.size, old.kind) {
        (None, _) => Ok(()),
        (Some(_), FileKind::Directory) => Err(NfsError::IsDir),
        (Some(_), FileKind::Regular) if caller.may_write(old) => Ok(()),
        (Some(_), FileKind::Regular) => Err(NfsError::Acces),
        (Some(_), _) => Err(NfsError::Inval),
    }
}
