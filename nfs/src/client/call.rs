use std::time::Duration;

use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_nfs3::*;
use rpcrdma_runtime::program::{Caller, Procedure};
use tokio::time::{Instant, sleep};

use super::{ClientError, Remote};

/// The delay before the first repetition of a call. Each further delay is twice as long, up to `DELAY_MAX`.
const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The result of a procedure.
pub(super) trait NfsResult {
    /// The result of a successful call.
    type Ok;

    fn into_result(self) -> Result<Self::Ok, Nfsstat3>;
}

macro_rules! results {
    ($($res:ident => $ok:ident,)*) => {
        $(impl NfsResult for $res {
            type Ok = $ok;

            fn into_result(self) -> Result<$ok, Nfsstat3> {
                match self {
                    $res::Nfs3Ok(ok) => Ok(ok),
                    $res::Default(status, ..) => Err(status),
                }
            }
        })*
    };
}

results! {
    Commit3Res => Commit3Resok,
    Create3Res => Create3Resok,
    Fsinfo3Res => Fsinfo3Resok,
    Fsstat3Res => Fsstat3Resok,
    Getattr3Res => Getattr3Resok,
    Lookup3Res => Lookup3Resok,
    Mkdir3Res => Mkdir3Resok,
    Pathconf3Res => Pathconf3Resok,
    Read3Res => Read3Resok,
    Readdirplus3Res => Readdirplus3Resok,
    Readlink3Res => Readlink3Resok,
    Remove3Res => Remove3Resok,
    Rename3Res => Rename3Resok,
    Rmdir3Res => Rmdir3Resok,
    Setattr3Res => Setattr3Resok,
    Symlink3Res => Symlink3Resok,
    Write3Res => Write3Resok,
}

impl Remote {
    /// Makes a call. If the server is busy (NFS3ERR_JUKEBOX), repeats the call with a new XID (RFC 1813
    /// section 2.6) until the connection's call timeout has elapsed. Errors contain `path`.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub(super) async fn call<Q>(
        &self,
        args: &Q::Args,
        path: &str,
    ) -> Result<<Q::Res as NfsResult>::Ok, ClientError>
    where
        Q: Procedure<Program = NfsV3>,
        Q::Res: NfsResult,
    {
        let procedure = Q::NAME.trim_start_matches("NFSPROC3_");
        let (start, mut delay) = (Instant::now(), DELAY_MIN);
        loop {
            let result = self.nfs.0.call::<Q>(args).await;
            match result.map_err(|source| ClientError::call(procedure, path, source))?.into_result() {
                Ok(ok) => return Ok(ok),
                Err(Nfsstat3::Nfs3errJukebox) if start.elapsed() + delay < self.connection.timeout() => {}
                Err(status) => return Err(ClientError::status(procedure, path, status as i32)),
            }
            sleep(delay).await;
            delay = DELAY_MAX.min(2 * delay);
        }
    }
}
