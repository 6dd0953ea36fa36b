use bytes::Bytes;
use rpcrdma_nfs3::{
    Entryplus3, Fattr3, Ftype3, NfsFh3, Readdirplus3Args, Readdirplus3Res, Readdirplus3Resok,
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
    /// What is in it, for a symbolic link that could be read.
    pub target: Option<Bytes>,
}

impl Remote {
    /// Lists a directory without `.` and `..`, in the server's order.
    ///
    /// # Errors
    /// [`ClientError`]: also if the server does not get on.
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
    async fn item(&self, dir: &RemoteFile, entry: Entryplus3) -> Result<Option<Item>, ClientError> {
        let name = entry.name.into_bytes();
        if matches!(&name[..], b"." | b"..") {
            return Ok(None);
        }
        let path = below(dir, &name);
        let (handle, attributes) = match (entry.name_handle, entry.name_attributes) {
            (Some(handle), Some(attributes)) => (handle, attributes),
            _ => match self.lookup(dir, name.clone(), path.clone()).await {
                Ok(found) => (found.handle, found.attributes),
                Err(ClientError::Status { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let target =
            if attributes.r#type == Ftype3::Nf3lnk { self.readlink(handle, &path).await.ok() } else { None };
        Ok(Some(Item { name, handle, attributes, target }))
    }
}
