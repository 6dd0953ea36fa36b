//! Accesses files on an NFSv3 server over RPC-over-RDMA or TCP. Transfers keep up to 16 calls outstanding.

mod about;
mod call;
mod changes;
mod connection;
mod error;
mod listing;
mod transfer;
mod url;
mod walk;

use bytes::Bytes;
use rpcrdma_mount3::{Dirpath, ExportnodeElement, Mountres3};
use rpcrdma_nfs3::nfs_v3::{self, proc};
use rpcrdma_nfs3::{
    Diropargs3, Fattr3, Fsinfo3Args, Ftype3, Getattr3Args, Lookup3Args, NfsFh3, Readlink3Args,
};
use rpcrdma_runtime::ClientOptions;
use rpcrdma_runtime::program::{AuthSys, Credential};

use crate::security::Security;

pub use connection::{NfsConnection, ServerConnection};
pub use error::ClientError;
pub use listing::DirectoryItem;
pub use transfer::{Digest, Progress, Take};
pub use url::{Transport, Url, UrlError};
pub use walk::{Step, Visit, Walk};

/// Maximum length of the data in one READ or WRITE, in bytes.
const CHUNK_MAX: u32 = 1 << 20;
/// Maximum number of outstanding calls per transfer.
const WINDOW: usize = 16;

/// Maximum number of supplementary groups in AUTH_SYS (RFC 5531 appendix A).
const GROUPS_MAX: usize = 16;

/// A mounted export.
///
/// If the server is busy (NFS3ERR_JUKEBOX), a call is repeated until [`ServerConnection::timeout`] has
/// elapsed. Calls through [`Remote::nfs`] are not repeated.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rpcrdma_nfs::client::{Remote, Url};
///
/// let url: Url = "rdma://192.0.2.1/data".parse()?;
/// let remote = Remote::mount(&url).await?;
/// for item in remote.list(&remote.find(&url.path).await?).await? {
///     println!("{} {}", item.attributes.size, String::from_utf8_lossy(&item.name));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Remote {
    nfs: nfs_v3::Client<NfsConnection>,
    connection: ServerConnection,
    root: NfsFh3,
    /// The export's path, as components.
    mounted: Vec<Bytes>,
    /// Maximum length of the data in a READ, in bytes.
    read_size: u32,
    /// Maximum length of the data in a WRITE, in bytes.
    write_size: u32,
}

/// A file on the server.
#[derive(Clone, Debug)]
pub struct RemoteFile {
    /// The path, for messages.
    pub path: String,
    /// The file's handle.
    pub handle: NfsFh3,
    /// The file's attributes.
    pub attributes: Fattr3,
}

impl RemoteFile {
    /// Returns true if this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes.r#type == Ftype3::Nf3dir
    }
}

/// Returns the AUTH_SYS credential of this process, with at most 16 supplementary groups, the limit of
/// AUTH_SYS.
#[must_use]
pub fn this_user() -> Credential {
    let groups = rustix::process::getgroups().unwrap_or_default();
    let machine_name = rustix::system::uname().nodename().to_string_lossy().chars().take(64).collect();
    Credential::Sys(AuthSys {
        stamp: std::process::id(),
        machine_name,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        gids: groups.into_iter().take(GROUPS_MAX).map(rustix::process::Gid::as_raw).collect(),
    })
}

impl Remote {
    /// Connects to the server of a URL and mounts the innermost export that contains the URL's path. If no
    /// listed export contains the path, tries to mount `/`. Calls MOUNT on the port in the URL
    /// (`?mountport=`), if given. Otherwise calls MOUNT on the same connection if the server offers MOUNT
    /// there, else on the port that the server's rpcbind returns.
    ///
    /// # Errors
    /// [`ClientError`] if the connection or a call fails, the export does not exist, or the server refuses
    /// the mount or the security flavor of the URL.
    pub async fn mount(url: &Url) -> Result<Self, ClientError> {
        let options = connection::options();
        let connection = ServerConnection::to(url, options.clone()).await?;
        Remote::mount_over(connection, url, &options).await
    }

    /// Mounts an export like [`Remote::mount`], over a connection supplied by the caller. If MOUNT needs
    /// another connection, that connection uses the credential and the timeout of `options`.
    ///
    /// # Errors
    /// The errors of [`Remote::mount`].
    pub async fn mount_over(
        connection: impl Into<ServerConnection>,
        url: &Url,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let connection = connection.into();
        let mount = connection::mount_of(&connection, url, options).await?;
        let exports = mount.export().await.map_err(|source| ClientError::call("EXPORT", "/", source))?;
        let wanted: Vec<Bytes> = components(&url.path).collect();
        let export = longest_export(&exports.0, &wanted);
        let is_exported = export.is_some();
        let mounted = export.unwrap_or_default();
        let path = joined(&mounted);
        let result = mount.mnt(&Dirpath::from(path.clone())).await;
        let root = match result.map_err(|source| ClientError::call("MNT", &path, source))? {
            Mountres3::Mnt3Ok(found) => {
                must_offer(&found.auth_flavors, url, &path)?;
                NfsFh3 { data: found.fhandle }
            }
            Mountres3::Default(status) => {
                let refused = if is_exported { path } else { joined(&wanted) };
                return Err(ClientError::status("MNT", &refused, status as i32));
            }
        };
        let nfs = NfsConnection::new(connection.clone(), url)?;
        Ok(Remote { mounted, ..Remote::with(nfs, connection, root).await? })
    }

    /// Returns an export that was mounted by other means. `root` is the export's root handle, and calls of
    /// the NFS program use `client`. Paths start at the export's root.
    ///
    /// # Errors
    /// [`ClientError`] if FSINFO fails.
    pub async fn of(client: impl Into<ServerConnection>, root: NfsFh3) -> Result<Self, ClientError> {
        let connection = client.into();
        Remote::with(connection.clone().into(), connection, root).await
    }

    async fn with(
        nfs: NfsConnection,
        connection: ServerConnection,
        root: NfsFh3,
    ) -> Result<Self, ClientError> {
        let (nfs, mounted) = (nfs_v3::Client(nfs), Vec::new());
        let mut remote =
            Remote { nfs, connection, root, mounted, read_size: CHUNK_MAX, write_size: CHUNK_MAX };
        remote.ask_sizes().await?;
        Ok(remote)
    }

    /// Returns the client of the NFS program, for procedures that [`Remote`] does not cover.
    #[must_use]
    pub fn nfs(&self) -> &nfs_v3::Client<NfsConnection> {
        &self.nfs
    }

    async fn ask_sizes(&mut self) -> Result<(), ClientError> {
        let info = self.call::<proc::Fsinfo>(&Fsinfo3Args { fsroot: self.root }, "/").await?;
        // A server may return zero or another unusable value.
        self.read_size = info.rtmax.clamp(512, CHUNK_MAX);
        self.write_size = info.wtmax.clamp(512, CHUNK_MAX);
        Ok(())
    }

    /// Finds the file at a path. The path starts at the server's root, not at the export's root. Symbolic
    /// links are not followed. For a path outside the export, returns the export's root.
    ///
    /// # Errors
    /// [`ClientError::Call`] or [`ClientError::Status`], with the path up to the component that failed.
    pub async fn find(&self, path: &[u8]) -> Result<RemoteFile, ClientError> {
        let wanted: Vec<Bytes> = components(path).collect();
        let below = wanted.strip_prefix(&self.mounted[..]).unwrap_or_default();
        let mut at = self.attributes(self.root, joined(&self.mounted)).await?;
        for (index, name) in below.iter().enumerate() {
            let walked = joined(&wanted[..self.mounted.len().saturating_add(index).saturating_add(1)]);
            at = self.lookup(&at, name.clone(), walked).await?;
        }
        Ok(at)
    }

    /// Returns the connection that carries the calls of the NFS program. Calls made directly on this
    /// connection do not use RPCSEC_GSS.
    #[must_use]
    pub fn connection(&self) -> &ServerConnection {
        &self.connection
    }

    /// Returns the path of the mounted export.
    #[must_use]
    pub fn export_path(&self) -> String {
        joined(&self.mounted)
    }

    /// Returns the number of components in the mounted export's path.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.mounted.len()
    }

    /// Returns true if a path is in the mounted export.
    #[must_use]
    pub fn contains(&self, path: &[u8]) -> bool {
        components(path).collect::<Vec<_>>().starts_with(&self.mounted)
    }

    /// Returns the root directory of the mounted export.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn top(&self) -> Result<RemoteFile, ClientError> {
        self.attributes(self.root, self.export_path()).await
    }

    /// Returns `file` with its current attributes.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn refresh(&self, file: &RemoteFile) -> Result<RemoteFile, ClientError> {
        self.attributes(file.handle, file.path.clone()).await
    }

    async fn attributes(&self, object: NfsFh3, path: String) -> Result<RemoteFile, ClientError> {
        let found = self.call::<proc::Getattr>(&Getattr3Args { object }, &path).await?;
        Ok(RemoteFile { path, handle: object, attributes: found.obj_attributes })
    }

    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn lookup_in(&self, dir: &RemoteFile, name: Bytes) -> Result<RemoteFile, ClientError> {
        let path = below(dir, &name);
        self.lookup(dir, name, path).await
    }

    async fn lookup(&self, dir: &RemoteFile, name: Bytes, path: String) -> Result<RemoteFile, ClientError> {
        let args = Lookup3Args { what: Diropargs3 { dir: dir.handle, name: name.into() } };
        let found = self.call::<proc::Lookup>(&args, &path).await?;
        match found.obj_attributes {
            Some(attributes) => Ok(RemoteFile { path, handle: found.object, attributes }),
            None => self.attributes(found.object, path).await,
        }
    }

    /// Returns the target of a symbolic link. Errors contain `path`.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn readlink(&self, symlink: NfsFh3, path: &str) -> Result<Bytes, ClientError> {
        let found = self.call::<proc::Readlink>(&Readlink3Args { symlink }, path).await?;
        Ok(found.data.into_bytes())
    }
}

/// # Errors
/// [`ClientError::Security`] if the server lists known flavors, but not the flavor of the URL.
fn must_offer(flavors: &[i32], url: &Url, path: &str) -> Result<(), ClientError> {
    let offered: Vec<Security> = flavors.iter().copied().filter_map(Security::from_flavor).collect();
    if offered.is_empty() || offered.contains(&url.security) {
        return Ok(());
    }
    let offered = offered.iter().map(Security::to_string).collect::<Vec<_>>().join(", ");
    Err(ClientError::Security { path: path.to_owned(), wanted: url.security, offered })
}

fn components(path: &[u8]) -> impl Iterator<Item = Bytes> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(Bytes::copy_from_slice)
}

/// Returns the path of a name in a directory, for messages.
fn below(dir: &RemoteFile, name: &[u8]) -> String {
    format!("{}/{}", dir.path.trim_end_matches('/'), String::from_utf8_lossy(name))
}

fn joined(components: &[Bytes]) -> String {
    if components.is_empty() {
        return "/".to_owned();
    }
    components.iter().fold(String::new(), |path, name| path + "/" + &String::from_utf8_lossy(name))
}

fn longest_export(exports: &[ExportnodeElement], wanted: &[Bytes]) -> Option<Vec<Bytes>> {
    exports
        .iter()
        .map(|export| components(&export.ex_dir).collect::<Vec<_>>())
        .filter(|export| wanted.starts_with(export))
        .max_by_key(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_export_is_mounted() {
        let export = |path: &str| ExportnodeElement { ex_dir: path.into(), ..ExportnodeElement::default() };
        let exports = [export("/srv"), export("/srv/data/"), export("/srv/database")];
        let chosen = |path: &str| {
            joined(
                &longest_export(&exports, &components(path.as_bytes()).collect::<Vec<_>>())
                    .unwrap_or_default(),
            )
        };
        assert_eq!(chosen("/srv/data/file"), "/srv/data");
        assert_eq!(chosen("//srv/dat"), "/srv");
        assert_eq!(chosen("/elsewhere"), "/");
    }
}
