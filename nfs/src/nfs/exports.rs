use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use rpcrdma_nfs3::nfs_v3::Handler;
use rpcrdma_nfs3::*;
use rpcrdma_runtime::program::{CallContext, Reject};

use super::NfsHandler;
use super::permits::CallPermits;
use crate::export::{Export, FileHandle};

/// The exports of a server, and the paths at which clients mount them. The exports can be replaced while the
/// server runs. Each call goes to the export that created its file handle ([`Export::owns`]). The limit on
/// concurrent blocking calls of one [`Owner`](rpcrdma_runtime::Owner) applies to all exports together.
///
/// ```
/// use std::sync::Arc;
///
/// use rpcrdma_nfs::export::memory::MemoryExport;
/// use rpcrdma_nfs::nfs::{Exports, NfsHandler};
///
/// let handler = || NfsHandler::new(Arc::new(MemoryExport::default()));
/// let exports = Exports::new([("/data".to_owned(), handler())]);
/// // Later, while a server with a clone of `exports` runs:
/// exports.replace([("/data".to_owned(), handler().read_only(true))]);
/// ```
#[derive(Debug)]
pub struct Exports<E> {
    served: Arc<RwLock<Served<E>>>,
    permits: Arc<CallPermits>,
}

pub(super) type Served<E> = Arc<[(String, NfsHandler<E>)]>;

impl<E> Clone for Exports<E> {
    fn clone(&self) -> Self {
        Exports { served: self.served.clone(), permits: self.permits.clone() }
    }
}

impl<E: Export> Exports<E> {
    /// Serves exports at their paths. Without exports, NFS calls are rejected with SYSTEM_ERR,
    /// except calls of the procedure NULL.
    #[must_use]
    pub fn new(exports: impl IntoIterator<Item = (String, NfsHandler<E>)>) -> Self {
        let mut exports = exports.into_iter().peekable();
        // All exports share the first handler's permits, since a server may also use that handler directly.
        let permits = exports.peek().map(|(_, handler)| handler.permits.clone()).unwrap_or_default();
        let served = Exports { served: Arc::new(RwLock::new(Arc::from([]))), permits };
        served.replace(exports);
        served
    }

    /// Replaces the exports. Running calls continue on their old export.
    pub fn replace(&self, exports: impl IntoIterator<Item = (String, NfsHandler<E>)>) {
        let with_permits = |(path, handler)| {
            let permits = self.permits.clone();
            (path, NfsHandler { permits, ..handler })
        };
        let exports = exports.into_iter().map(with_permits).collect();
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = exports;
    }

    /// Returns true if any export allows callers with this address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.served().iter().any(|(_, handler)| handler.policy.allows(address))
    }

    pub(super) fn served(&self) -> Served<E> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the handler of the export that created a file handle. If no export created the handle, returns
    /// the handler of the first export, which rejects the handle.
    fn of(&self, file: &FileHandle) -> Result<NfsHandler<E>, Reject> {
        let served = self.served();
        let owner = match &*served {
            [only] => Some(only),
            several => several.iter().find(|(_, handler)| handler.export.owns(file)).or(several.first()),
        };
        owner.map(|(_, handler)| handler.clone()).ok_or(Reject::SystemError)
    }

    fn are_apart(&self, one: &FileHandle, other: &FileHandle) -> bool {
        let served = self.served();
        let owner = |file| served.iter().position(|(_, handler)| handler.export.owns(file));
        served.len() > 1 && owner(one).zip(owner(other)).is_some_and(|(one, other)| one != other)
    }
}

impl<E: Export> From<NfsHandler<E>> for Exports<E> {
    /// Serves one export at `/`.
    fn from(handler: NfsHandler<E>) -> Self {
        Exports::new([("/".to_owned(), handler)])
    }
}

macro_rules! passed_on {
    ($($procedure:ident($args:ident -> $res:ident) by $($field:ident).+;)+) => {$(
        async fn $procedure(&self, context: &CallContext, args: $args) -> Result<$res, Reject> {
            self.of(&args.$($field).+.data)?.$procedure(context, args).await
        }
    )+};
}

impl<E: Export> Handler for Exports<E> {
    passed_on! {
        getattr(Getattr3Args -> Getattr3Res) by object;
        setattr(Setattr3Args -> Setattr3Res) by object;
        lookup(Lookup3Args -> Lookup3Res) by what.dir;
        access(Access3Args -> Access3Res) by object;
        readlink(Readlink3Args -> Readlink3Res) by symlink;
        read(Read3Args -> Read3Res) by file;
        write(Write3Args -> Write3Res) by file;
        create(Create3Args -> Create3Res) by r#where.dir;
        mkdir(Mkdir3Args -> Mkdir3Res) by r#where.dir;
        symlink(Symlink3Args -> Symlink3Res) by r#where.dir;
        mknod(Mknod3Args -> Mknod3Res) by r#where.dir;
        remove(Remove3Args -> Remove3Res) by object.dir;
        rmdir(Rmdir3Args -> Rmdir3Res) by object.dir;
        readdir(Readdir3Args -> Readdir3Res) by dir;
        readdirplus(Readdirplus3Args -> Readdirplus3Res) by dir;
        fsstat(Fsstat3Args -> Fsstat3Res) by fsroot;
        fsinfo(Fsinfo3Args -> Fsinfo3Res) by fsroot;
        pathconf(Pathconf3Args -> Pathconf3Res) by object;
        commit(Commit3Args -> Commit3Res) by file;
    }

    async fn rename(&self, context: &CallContext, args: Rename3Args) -> Result<Rename3Res, Reject> {
        if self.are_apart(&args.from.dir.data, &args.to.dir.data) {
            let none = || WccData { before: None, after: None };
            let failed = Rename3Resfail { fromdir_wcc: none(), todir_wcc: none() };
            return Ok(Rename3Res::Default(Nfsstat3::Nfs3errXdev, failed));
        }
        self.of(&args.from.dir.data)?.rename(context, args).await
    }

    async fn link(&self, context: &CallContext, args: Link3Args) -> Result<Link3Res, Reject> {
        if self.are_apart(&args.file.data, &args.link.dir.data) {
            let linkdir_wcc = WccData { before: None, after: None };
            let failed = Link3Resfail { file_attributes: None, linkdir_wcc };
            return Ok(Link3Res::Default(Nfsstat3::Nfs3errXdev, failed));
        }
        self.of(&args.link.dir.data)?.link(context, args).await
    }
}
