use bytes::Bytes;
use rpcrdma_nfs3::{
    Entryplus3Element, Fattr3, Ftype3, NfsFh3, Readdirplus3Args, Readdirplus3Res, Readdirplus3Resok,
};

use super::{ClientError, Remote, RemoteFile, below};

/// The size of one reply: it comes in a Reply chunk.
const REPLY: u32 = 128 << 10;

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub name: Bytes,
    /// Its handle.
    pub handle: NfsFh3,
    /// Its attributes.
    pub attributes: Fattr3,
    /// What is in it, for a symbolic link.
    pub target: Option<Bytes>,
}

impl Remote {
    /// Lists a directory without `.` and `..`, in the server's order.
    ///
    /// # Errors
    /// [`ClientError`]: also if the server does not get on, or keeps an entry's attributes or a link's target back. What is gone
    /// meanwhile is left out.
    pub async fn list(&self, dir: &RemoteFile) -> Result<Vec<Item>, ClientError> {
        let mut items = Vec::new();
        let mut args = Readdirplus3Args {
            dir: dir.handle,
            cookie: 0,
            cookieverf: Default::default(),
            dircount: REPLY,
            maxcount: REPLY,
        };
        loop {
            let Readdirplus3Resok { cookieverf, reply, .. } = self.list_some(dir, &args).await?;
            let Some(last) = reply.entries.last().map(|entry| entry.cookie) else {
                if reply.eof {
                    return Ok(items);
                }
                return Err(ClientError::server("READDIRPLUS", &dir.path, "no entries and no end"));
            };
            for entry in reply.entries {
                items.extend(self.item(dir, entry).await?);
            }
            if reply.eof {
                return Ok(items);
            }
            if last == args.cookie {
                return Err(ClientError::server("READDIRPLUS", &dir.path, "the cookie does not get on"));
            }
            args = Readdirplus3Args { cookie: last, cookieverf, ..args };
        }
    }

    async fn list_some(
        &self,
        dir: &RemoteFile,
        args: &Readdirplus3Args,
    ) -> Result<Readdirplus3Resok, ClientError> {
        let result = self.nfs().readdirplus(args).await;
        match result.map_err(|source| ClientError::call("READDIRPLUS", &dir.path, source))? {
            Readdirplus3Res::Nfs3Ok(some) => Ok(some),
            Readdirplus3Res::Default(status, _) => {
                Err(ClientError::status("READDIRPLUS", &dir.path, status as i32))
            }
        }
    }

    /// An entry with what the server left out. One that is gone meanwhile is none.
    async fn item(&self, dir: &RemoteFile, entry: Entryplus3Element) -> Result<Option<Item>, ClientError> {
        let name = entry.name.into_bytes();
        if matches!(&name[..], b"." | b"..") {
            return Ok(None);
        }
        let path = below(dir, &name);
        let found = match (entry.name_handle, entry.name_attributes) {
            (Some(handle), Some(attributes)) => Ok(RemoteFile { path: path.clone(), handle, attributes }),
            _ => self.lookup(dir, name.clone(), path.clone()).await,
        };
        let Some(RemoteFile { handle, attributes, .. }) = unless_gone(found)? else { return Ok(None) };
        if attributes.r#type != Ftype3::Nf3lnk {
            return Ok(Some(Item { name, handle, attributes, target: None }));
        }
        let target = unless_gone(self.readlink(handle, &path).await)?;
        Ok(target.map(|target| Item { name, handle, attributes, target: Some(target) }))
    }
}

/// Nothing, if the server says that there is no such file any more. All else that it refuses is no reason to leave an entry out.
fn unless_gone<T>(found: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match found {
        Err(error) if error.is_missing() => Ok(None),
        found => found.map(Some),
    }
}
