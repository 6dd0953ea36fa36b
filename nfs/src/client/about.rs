use rpcrdma_nfs3::{
    Fsinfo3Args, Fsinfo3Res, Fsinfo3Resok, Fsstat3Args, Fsstat3Res, Fsstat3Resok, Pathconf3Args,
    Pathconf3Res, Pathconf3Resok,
};

use super::{ClientError, Remote, RemoteFile};

impl Remote {
    /// Calls FSINFO. Returns the limits and preferences of the server.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn fsinfo(&self, of: &RemoteFile) -> Result<Fsinfo3Resok, ClientError> {
        let result = self.nfs().fsinfo(&Fsinfo3Args { fsroot: of.handle }).await;
        match result.map_err(|source| ClientError::call("FSINFO", &of.path, source))? {
            Fsinfo3Res::Nfs3Ok(info) => Ok(info),
            Fsinfo3Res::Default(status, _) => Err(ClientError::status("FSINFO", &of.path, status as i32)),
        }
    }

    /// Calls FSSTAT. Returns the capacity of the file system.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn fsstat(&self, of: &RemoteFile) -> Result<Fsstat3Resok, ClientError> {
        let result = self.nfs().fsstat(&Fsstat3Args { fsroot: of.handle }).await;
        match result.map_err(|source| ClientError::call("FSSTAT", &of.path, source))? {
            Fsstat3Res::Nfs3Ok(stat) => Ok(stat),
            Fsstat3Res::Default(status, _) => Err(ClientError::status("FSSTAT", &of.path, status as i32)),
        }
    }

    /// Calls PATHCONF. Returns the limits on names and links.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn pathconf(&self, of: &RemoteFile) -> Result<Pathconf3Resok, ClientError> {
        let result = self.nfs().pathconf(&Pathconf3Args { object: of.handle }).await;
        match result.map_err(|source| ClientError::call("PATHCONF", &of.path, source))? {
            Pathconf3Res::Nfs3Ok(conf) => Ok(conf),
            Pathconf3Res::Default(status, _) => Err(ClientError::status("PATHCONF", &of.path, status as i32)),
        }
    }
}
