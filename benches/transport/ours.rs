//! Our client and server, over RPC/TCP and over iWARP.

use std::fmt::Debug;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use rpcrdma_mount3::{Dirpath, Mountres3, mount_v3};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler, must_not_run_twice};
use rpcrdma_nfs3::{
    Create3Args, Create3Res, Createhow3, Createmode3, Diropargs3, Getattr3Args, Getattr3Res, Lookup3Args,
    Lookup3Res, NfsFh3, Read3Args, Read3Res, Sattr3, StableHow, Write3Args, Write3Res, nfs_v3,
};
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::xdr::Bytes;
use rpcrdma_runtime::{
    CachePolicy, Client, ClientOptions, DuplicateCache, DuplicateOptions, IwarpOptions, Server,
    ServerOptions, TcpClient, TcpServer, TcpServerOptions,
};

use super::rows::{Call, Row};
use super::{Batch, Transport};

/// The addresses of a TCP server and of an iWARP server, and the file of 1 MiB that both serve.
pub(crate) struct Served {
    tcp: SocketAddr,
    iwarp: SocketAddr,
    file: NfsFh3,
}

impl Served {
    pub(crate) async fn start() -> Self {
        let export = Arc::new(MemoryExport::default());
        let nfs = || nfs_v3::Server(NfsHandler::new(export.clone()));
        let mount = mount_v3::Server(MountHandler::new(export.clone()));
        let server = Server::bind_with("127.0.0.1:0", server_options()).await.unwrap();
        let server = server.service(nfs()).service(mount);
        let iwarp = server.local_addr().unwrap();
        tokio::spawn(server.run(std::future::pending()));
        let options = TcpServerOptions { duplicates: Some(cache()), ..TcpServerOptions::default() };
        let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap().service(nfs());
        let tcp = server.local_addr().unwrap();
        tokio::spawn(server.run(std::future::pending()));
        Served { tcp, iwarp, file: make_file(iwarp).await }
    }

    pub(crate) async fn tcp(&self) -> Ours<TcpClient> {
        Ours::new(TcpClient::connect(self.tcp).await.unwrap(), self.file)
    }

    pub(crate) async fn iwarp(&self, crc: bool) -> Ours<Client> {
        let options = ClientOptions { iwarp: iwarp_options(crc), ..ClientOptions::default() };
        Ours::new(Client::connect_with(self.iwarp, options).await.unwrap(), self.file)
    }
}

fn iwarp_options(crc: bool) -> IwarpOptions {
    IwarpOptions { crc, ..IwarpOptions::default() }
}

/// Returns options that require no CRCs, so that each client decides whether to use CRCs.
fn server_options() -> ServerOptions {
    ServerOptions { iwarp: iwarp_options(false), duplicates: Some(cache()), ..ServerOptions::default() }
}

/// Returns a cache with the policy of nfs3d: replies of procedures that only read are not cached.
fn cache() -> DuplicateCache {
    let policy = CachePolicy::only(must_not_run_twice);
    DuplicateCache::new(DuplicateOptions { policy, ..DuplicateOptions::default() })
}

async fn make_file(address: SocketAddr) -> NfsFh3 {
    let client = Client::connect(address).await.unwrap();
    let (mount, nfs) = (mount_v3::Client(client.clone()), nfs_v3::Client(client));
    let Mountres3::Mnt3Ok(mounted) = mount.mnt(&Dirpath::from("/")).await.unwrap() else {
        panic!("MNT failed")
    };
    let place = || Diropargs3 { dir: NfsFh3 { data: mounted.fhandle }, name: "data.bin".into() };
    let how = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
    let Create3Res::Nfs3Ok(_) = nfs.create(&Create3Args { r#where: place(), how }).await.unwrap() else {
        panic!("CREATE failed")
    };
    let Lookup3Res::Nfs3Ok(found) = nfs.lookup(&Lookup3Args { what: place() }).await.unwrap() else {
        panic!("LOOKUP failed")
    };
    let data = Bytes::from(vec![7; 1 << 20]);
    let write = Write3Args {
        file: found.object,
        offset: 0,
        count: 1 << 20,
        stable: StableHow::FileSync,
        data: data.into(),
    };
    let Write3Res::Nfs3Ok(_) = nfs.write(&write).await.unwrap() else { panic!("WRITE failed") };
    found.object
}

pub(crate) struct Ours<C> {
    client: nfs_v3::Client<C>,
    file: NfsFh3,
    data: Bytes,
}

impl<C> Ours<C> {
    fn new(client: C, file: NfsFh3) -> Self {
        Ours { client: nfs_v3::Client(client), file, data: vec![7; 1 << 20].into() }
    }
}

impl<C: Caller<nfs_v3::NfsV3, Error: Debug> + Send + Sync> Transport for Ours<C> {
    fn run<'a>(&'a mut self, row: &'a Row) -> Option<Batch<'a>> {
        let Ours { client, file, data } = &*self;
        Some(match row.call {
            Call::Null => Box::pin(repeat(row, || async { client.null().await.unwrap() })),
            Call::Getattr => Box::pin(async move {
                let args = Getattr3Args { object: *file };
                repeat(row, || async {
                    let Getattr3Res::Nfs3Ok(_) = client.getattr(&args).await.unwrap() else {
                        panic!("GETATTR failed")
                    };
                })
                .await;
            }),
            Call::Read(count) => Box::pin(async move {
                let args = Read3Args { file: *file, offset: 0, count };
                repeat(row, || async {
                    let Read3Res::Nfs3Ok(reply) = client.read(&args).await.unwrap() else {
                        panic!("READ failed")
                    };
                    assert_eq!(reply.data.len(), count as usize);
                })
                .await;
            }),
            Call::Write(count) => Box::pin(async move {
                let data = data.slice(..count as usize).into();
                let args = Write3Args { file: *file, offset: 0, count, stable: StableHow::FileSync, data };
                repeat(row, || async {
                    let Write3Res::Nfs3Ok(reply) = client.write(&args).await.unwrap() else {
                        panic!("WRITE failed")
                    };
                    assert_eq!(reply.count, count);
                })
                .await;
            }),
        })
    }
}

async fn repeat<F: Future<Output = ()>>(row: &Row, call: impl Fn() -> F) {
    if row.outstanding == 1 {
        for _ in 0..row.calls {
            call().await;
        }
    } else {
        stream::iter(0..row.calls)
            .map(|_| call())
            .buffer_unordered(row.outstanding)
            .for_each(|()| ready(()))
            .await;
    }
}
