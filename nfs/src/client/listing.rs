use std::collections::HashSet;

use bytes::Bytes;
use rpcrdma_nfs3::nfs_v3::proc;
use rpcrdma_nfs3::{Entryplus3Element, Fattr3, Ftype3, NfsFh3, Readdirplus3Args, Readdirplus3Resok};

use super::{ClientError, Remote, RemoteFile, below};

/// Maximum size of a READDIRPLUS reply, in bytes. Over RDMA, a long reply uses a Reply chunk.
const REPLY: u32 = 128 << 10;
/// Maximum memory for one listing, or for all listings that a `Walk` keeps at a time, in bytes.
pub(super) const HELD_MAX: usize = 256 << 20;

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryItem {
    /// The entry's name.
    pub name: Bytes,
    /// The file's handle.
    pub handle: NfsFh3,
    /// The file's attributes.
    pub attributes: Fattr3,
    /// The target of a symbolic link, or `None` for other files.
    pub target: Option<Bytes>,
}

impl DirectoryItem {
    fn target_len(&self) -> usize {
        self.target.as_ref().map_or(0, Bytes::len)
    }
}

impl Remote {
    /// Lists a directory without `.` and `..`, in the server's order. Skips entries that are removed
    /// meanwhile.
    ///
    /// # Errors
    /// [`ClientError`], for example if the server repeats a cookie, returns an empty reply before the end, or
    /// lists more than 256 MiB of entries.
    pub async fn list(&self, dir: &RemoteFile) -> Result<Vec<DirectoryItem>, ClientError> {
        Ok(self.list_within(dir, HELD_MAX).await?.0)
    }

    /// Lists a directory like `Remote::list`, but limits the memory for the entries to `room` bytes. Also
    /// returns the unused part of the limit.
    pub(super) async fn list_within(
        &self,
        dir: &RemoteFile,
        mut room: usize,
    ) -> Result<(Vec<DirectoryItem>, usize), ClientError> {
        let violation = |what| ClientError::server("READDIRPLUS", &dir.path, what);
        let (mut items, mut cookies) = (Vec::new(), HashSet::from([0]));
        let mut args = Readdirplus3Args {
            dir: dir.handle,
            cookie: 0,
            cookieverf: Default::default(),
            dircount: REPLY,
            maxcount: REPLY,
        };
        loop {
            let listed = self.call::<proc::Readdirplus>(&args, &dir.path).await?;
            let Readdirplus3Resok { cookieverf, reply, .. } = listed;
            let last = reply.entries.last().map(|entry| entry.cookie);
            for entry in reply.entries {
                // Skipped entries also count toward the limit. Otherwise, a server could return `.` forever.
                let mut held = size_of::<DirectoryItem>().saturating_add(entry.name.len());
                let item = self.item(dir, entry).await?;
                held = held.saturating_add(item.as_ref().map_or(0, DirectoryItem::target_len));
                room = room.checked_sub(held).ok_or_else(|| violation("the listing exceeds 256 MiB"))?;
                items.extend(item);
            }
            if reply.eof {
                return Ok((items, room));
            }
            let last =
                last.ok_or_else(|| violation("the reply contains no entries, but does not end the listing"))?;
            if !cookies.insert(last) {
                return Err(violation("the server repeated a cookie"));
            }
            args = Readdirplus3Args { cookie: last, cookieverf, ..args };
        }
    }

    /// Completes an entry of a reply: requests a link's target, and a handle or attributes that the server
    /// omitted. Returns `None` for `.` and `..`, and if the file was removed meanwhile.
    async fn item(
        &self,
        dir: &RemoteFile,
        entry: Entryplus3Element,
    ) -> Result<Option<DirectoryItem>, ClientError> {
        // The name is copied, since a reference would keep the whole reply in memory.
        let name = Bytes::copy_from_slice(&entry.name);
        if matches!(&name[..], b"." | b"..") {
            return Ok(None);
        }
        let path = below(dir, &name);
        let found = match (entry.name_handle, entry.name_attributes) {
            (Some(handle), Some(attributes)) => Ok(RemoteFile { path: path.clone(), handle, attributes }),
            _ => self.lookup(dir, name.clone(), path.clone()).await,
        };
        let Some(RemoteFile { handle, attributes, .. }) = ok_if_present(found)? else { return Ok(None) };
        if attributes.r#type != Ftype3::Nf3lnk {
            return Ok(Some(DirectoryItem { name, handle, attributes, target: None }));
        }
        let target = ok_if_present(self.readlink(handle, &path).await)?;
        let target = target.map(|target| Bytes::copy_from_slice(&target));
        Ok(target.map(|target| DirectoryItem { name, handle, attributes, target: Some(target) }))
    }
}

pub(super) fn ok_if_present<T>(found: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match found {
        Err(error) if error.is_missing() => Ok(None),
        found => found.map(Some),
    }
}
