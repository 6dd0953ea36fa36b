use bytes::Bytes;
use rpcrdma_nfs3::nfs_v3::proc;
use rpcrdma_nfs3::{
    Diropargs3, Fattr3, Ftype3, Mkdir3Args, NfsFh3, Nfstime3, Remove3Args, Rename3Args, Rmdir3Args, Sattr3,
    SetMtime, Setattr3Args, Symlink3Args, Symlinkdata3,
};

use super::{ClientError, Remote, RemoteFile, below};
use crate::export::NfsError;

impl Remote {
    /// Creates a directory.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn make_directory(
        &self,
        above: &RemoteFile,
        name: Bytes,
        mode: u32,
    ) -> Result<RemoteFile, ClientError> {
        let path = below(above, &name);
        let attributes = Sattr3 { mode: Some(mode & 0o7777), ..Sattr3::default() };
        let r#where = Diropargs3 { dir: above.handle, name: name.clone().into() };
        let made = self.call::<proc::Mkdir>(&Mkdir3Args { r#where, attributes }, &path).await?;
        self.made(above, name, path, made.obj.zip(made.obj_attributes)).await
    }

    /// Returns a created file. `found` contains the handle and the attributes from the reply to the call that
    /// created the file. If `found` is `None`, calls LOOKUP.
    pub(super) async fn made(
        &self,
        above: &RemoteFile,
        name: Bytes,
        path: String,
        found: Option<(NfsFh3, Fattr3)>,
    ) -> Result<RemoteFile, ClientError> {
        match found {
            Some((handle, attributes)) => Ok(RemoteFile { path, handle, attributes }),
            None => self.lookup(above, name, path).await,
        }
    }

    /// Creates a directory, or returns the existing directory.
    ///
    /// # Errors
    /// The errors of [`Remote::make_directory`], and [`ClientError::Kind`] if the name exists but is not a
    /// directory.
    pub async fn make_or_enter(
        &self,
        above: &RemoteFile,
        name: Bytes,
        mode: u32,
    ) -> Result<RemoteFile, ClientError> {
        match self.lookup_in(above, name.clone()).await {
            Ok(dir) if dir.is_directory() => Ok(dir),
            Ok(other) => Err(ClientError::Kind { path: other.path, what: "is not a directory" }),
            Err(error) if error.is_missing() => self.make_directory(above, name, mode).await,
            Err(error) => Err(error),
        }
    }

    /// Creates a symbolic link, unless the same link exists.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn make_link(&self, above: &RemoteFile, name: Bytes, target: &[u8]) -> Result<(), ClientError> {
        let path = below(above, &name);
        let r#where = Diropargs3 { dir: above.handle, name: name.clone().into() };
        let symlink_data = Bytes::copy_from_slice(target).into();
        let symlink = Symlinkdata3 { symlink_attributes: Sattr3::default(), symlink_data };
        match self.call::<proc::Symlink>(&Symlink3Args { r#where, symlink }, &path).await {
            Err(ClientError::Status { status, .. })
                if status == NfsError::Exist.number()
                    && self.link_target(above, name).await?.is_some_and(|there| there == target) =>
            {
                Ok(())
            }
            made => made.map(drop),
        }
    }

    /// Creates a symbolic link, or replaces a symbolic link that has another target. To replace a link,
    /// removes any file named `temporary`, creates the new link under that name, and renames it to `name`. If
    /// a step fails, the old link stays.
    ///
    /// # Errors
    /// [`ClientError`], for example if the name exists but is not a symbolic link.
    pub async fn update_link(
        &self,
        above: &RemoteFile,
        name: Bytes,
        target: &[u8],
        temporary: Bytes,
    ) -> Result<(), ClientError> {
        let there = match self.link_target(above, name.clone()).await {
            Err(error) if error.is_missing() => None,
            there => there?,
        };
        match there {
            Some(there) if there == target => return Ok(()),
            Some(_) => {}
            None => return self.make_link(above, name, target).await,
        }
        match self.remove(above, temporary.clone()).await {
            Err(error) if !error.is_missing() => return Err(error),
            _ => {}
        }
        self.make_link(above, temporary.clone(), target).await?;
        let renamed = self.rename((above, temporary.clone()), (above, name)).await;
        if renamed.is_err() {
            // If the rename fails, its error is more useful than an error from the removal.
            let _ = self.remove(above, temporary).await;
        }
        renamed
    }

    /// Returns the target of a symbolic link, or `None` for other files.
    async fn link_target(&self, above: &RemoteFile, name: Bytes) -> Result<Option<Bytes>, ClientError> {
        let found = self.lookup_in(above, name).await?;
        if found.attributes.r#type != Ftype3::Nf3lnk {
            return Ok(None);
        }
        self.readlink(found.handle, &found.path).await.map(Some)
    }

    /// Removes a name of a file that is not a directory. Removes a symbolic link itself, not its target.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn remove(&self, above: &RemoteFile, name: Bytes) -> Result<(), ClientError> {
        let path = below(above, &name);
        let object = Diropargs3 { dir: above.handle, name: name.into() };
        self.call::<proc::Remove>(&Remove3Args { object }, &path).await.map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn remove_directory(&self, above: &RemoteFile, name: Bytes) -> Result<(), ClientError> {
        let path = below(above, &name);
        let object = Diropargs3 { dir: above.handle, name: name.into() };
        self.call::<proc::Rmdir>(&Rmdir3Args { object }, &path).await.map(drop)
    }

    /// Renames a file or directory within an export. If a file with the new name exists, replaces it.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn rename(
        &self,
        from: (&RemoteFile, Bytes),
        to: (&RemoteFile, Bytes),
    ) -> Result<(), ClientError> {
        let path = below(from.0, &from.1);
        let place = |(dir, name): (&RemoteFile, Bytes)| Diropargs3 { dir: dir.handle, name: name.into() };
        let args = Rename3Args { from: place(from), to: place(to) };
        self.call::<proc::Rename>(&args, &path).await.map(drop)
    }

    /// Sets the length of a regular file.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn set_size(&self, file: &RemoteFile, size: u64) -> Result<(), ClientError> {
        self.set(file, Sattr3 { size: Some(size), ..Sattr3::default() }).await
    }

    /// Sets the modification time of a file.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn set_modified(&self, file: &RemoteFile, time: Nfstime3) -> Result<(), ClientError> {
        self.set(file, Sattr3 { mtime: SetMtime::SetToClientTime(time), ..Sattr3::default() }).await
    }

    async fn set(&self, file: &RemoteFile, new_attributes: Sattr3) -> Result<(), ClientError> {
        let args = Setattr3Args { object: file.handle, new_attributes, guard: None };
        self.call::<proc::Setattr>(&args, &file.path).await.map(drop)
    }

    /// Returns the regular file with this name, or creates an empty file.
    ///
    /// # Errors
    /// [`ClientError`], for example if the name exists but is not a regular file.
    pub async fn find_or_create(
        &self,
        above: &RemoteFile,
        name: Bytes,
        mode: u32,
    ) -> Result<RemoteFile, ClientError> {
        let path = below(above, &name);
        match self.lookup(above, name.clone(), path.clone()).await {
            Ok(file) if file.attributes.r#type == Ftype3::Nf3reg => Ok(file),
            Ok(_) => Err(ClientError::Kind { path, what: "is not a regular file" }),
            Err(error) if error.is_missing() => self.create(above, name, mode).await,
            Err(error) => Err(error),
        }
    }
}
