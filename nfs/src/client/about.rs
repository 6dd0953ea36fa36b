use rpcrdma_nfs3::nfs_v3::proc;
use rpcrdma_nfs3::{Fsinfo3Args, Fsinfo3Resok, Fsstat3Args, Fsstat3Resok, Pathconf3Args, Pathconf3Resok};

use super::{ClientError, Remote, RemoteFile};

impl Remote {
    /// Calls FSINFO. Returns the limits and preferences of the server.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn fsinfo(&self, of: &RemoteFile) -> Result<Fsinfo3Resok, ClientError> {
        self.call::<proc::Fsinfo>(&Fsinfo3Args { fsroot: of.handle }, &of.path).await
    }

    /// Calls FSSTAT. Returns the capacity of the file system.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn fsstat(&self, of: &RemoteFile) -> Result<Fsstat3Resok, ClientError> {
        self.call::<proc::Fsstat>(&Fsstat3Args { fsroot: of.handle }, &of.path).await
    }

    /// Calls PATHCONF. Returns the limits on names and links.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn pathconf(&self, of: &RemoteFile) -> Result<Pathconf3Resok, ClientError> {
        self.call::<proc::Pathconf>(&Pathconf3Args { object: of.handle }, &of.path).await
    }
}
