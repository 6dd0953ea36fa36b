use bytes::Bytes;
use rpcrdma_nfs3::NfsFh3;

use super::listing::{HELD_MAX, ok_if_present};
use super::{ClientError, DirectoryItem, Remote, RemoteFile, below};

const DEPTH_MAX: usize = 512;

/// A [`Walk`]'s visit to an entry of a directory.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The directory that contains the entry.
    pub dir: RemoteFile,
    /// The entry.
    pub item: DirectoryItem,
    /// The reason for the visit.
    pub step: Step,
}

/// The reason why a [`Walk`] visits an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The entry is a directory. Its own entries follow.
    Enter,
    /// The entry is a directory whose own entries have all been visited.
    Leave,
    /// The entry is not a directory.
    File,
}

impl Visit {
    /// Returns the entry as a file.
    #[must_use]
    pub fn file(&self) -> RemoteFile {
        let DirectoryItem { handle, attributes, .. } = self.item;
        RemoteFile { path: below(&self.dir, &self.item.name), handle, attributes }
    }
}

#[derive(Debug)]
struct Level {
    dir: RemoteFile,
    /// The directory's entry in the level above, or `None` at the root of the walk.
    item: Option<DirectoryItem>,
    items: std::vec::IntoIter<DirectoryItem>,
    /// The memory that this level uses, in bytes.
    held: usize,
}

/// Visits everything below a directory, depth first and in the order of names. Does not follow links. The
/// walk fails if a directory contains itself or if directories are nested more than 512 levels deep. To bound
/// memory, the walk also fails if the listings on the current path exceed 256 MiB in total.
#[derive(Debug)]
pub struct Walk<'a> {
    remote: &'a Remote,
    levels: Vec<Level>,
    /// The directory to list next, and its entry as in `Level::item`.
    entering: Option<(RemoteFile, Option<DirectoryItem>)>,
    /// The remaining memory for further levels, in bytes.
    room: usize,
}

impl Remote {
    /// Starts a walk over everything below a directory.
    #[must_use]
    pub fn walk(&self, top: RemoteFile) -> Walk<'_> {
        Walk { remote: self, levels: Vec::new(), entering: Some((top, None)), room: HELD_MAX }
    }

    /// Removes a file, or a directory with everything below it. Does not follow links. Ignores entries that
    /// disappear meanwhile, but fails if a directory disappears before it has been listed.
    ///
    /// # Errors
    /// [`ClientError`] for the first entry that cannot be removed, or a failure of the [`Walk`]. Earlier
    /// entries are already removed.
    pub async fn remove_tree(&self, above: &RemoteFile, name: Bytes) -> Result<(), ClientError> {
        let found = self.lookup_in(above, name.clone()).await?;
        if !found.is_directory() {
            ok_if_present(self.remove(above, name).await)?;
            return Ok(());
        }
        let mut walk = self.walk(found);
        while let Some(Visit { dir, item, step }) = walk.next().await? {
            ok_if_present(match step {
                Step::Enter => Ok(()),
                Step::Leave => self.remove_directory(&dir, item.name).await,
                Step::File => self.remove(&dir, item.name).await,
            })?;
        }
        ok_if_present(self.remove_directory(above, name).await)?;
        Ok(())
    }
}

impl Walk<'_> {
    /// Returns the next entry, or `None` once all entries have been visited.
    ///
    /// # Errors
    /// [`ClientError`] if a directory cannot be listed, contains itself, or exceeds a limit of the walk.
    pub async fn next(&mut self) -> Result<Option<Visit>, ClientError> {
        if let Some((dir, item)) = self.entering.take() {
            self.enter(dir, item).await?;
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        if let Some(item) = level.items.next() {
            let mut visit = Visit { dir: level.dir.clone(), item, step: Step::File };
            let file = visit.file();
            if file.is_directory() {
                visit.step = Step::Enter;
                self.entering = Some((file, Some(visit.item.clone())));
            }
            return Ok(Some(visit));
        }
        let left = self.levels.pop();
        self.room = self.room.saturating_add(left.as_ref().map_or(0, |level| level.held));
        let above = self.levels.last().map(|above| above.dir.clone());
        let visit = above.zip(left.and_then(|level| level.item));
        Ok(visit.map(|(dir, item)| Visit { dir, item, step: Step::Leave }))
    }

    /// Skips the directory that was returned last: the walk neither enters nor leaves it.
    pub fn skip(&mut self) {
        self.entering = None;
    }

    async fn enter(&mut self, dir: RemoteFile, item: Option<DirectoryItem>) -> Result<(), ClientError> {
        let violation = |what| Err(ClientError::server("READDIRPLUS", &dir.path, what));
        let is_it = |handle: &NfsFh3| *handle == dir.handle;
        if self.levels.iter().any(|level| is_it(&level.dir.handle)) {
            return violation("the directory contains itself");
        }
        if self.levels.len() >= DEPTH_MAX {
            return violation("too many levels of directories (limit 512)");
        }
        let room = self.room.saturating_sub(dir.path.len());
        let (mut items, room) = self.remote.list_within(&dir, room).await?;
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let held = self.room.saturating_sub(room);
        self.room = room;
        self.levels.push(Level { dir, item, items: items.into_iter(), held });
        Ok(())
    }
}
