//! NFS version 3 (RFC 1813) over RPC-over-RDMA and over TCP: a client, a server, and file systems to serve.
//!
//! - [`client`] mounts an export and reads, writes and lists its files.
//! - [`nfs`] implements the NFS and MOUNT programs for any [`export::Export`].
//! - [`provider`] selects the provider for RPC-over-RDMA: iWARP in user space or an RDMA device.
//! - [`security`] defines the security flavors of calls: AUTH_SYS and the services of Kerberos. [`kerberos`]
//!   requires the feature `krb5`.
//! - [`export`] defines the trait that a file system implements. Two implementations are included: one in
//!   memory, and, with the feature `directory`, one that serves a directory of a Linux machine.
//! - `cli` defines the command lines of the programs `nfs3` and `nfs3d`. `output` writes their output and
//!   logs.
//!
//! ```
//! # #[cfg(feature = "client")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use rpcrdma_mount3::mount_v3;
//! use rpcrdma_nfs::client::{Remote, Url};
//! use rpcrdma_nfs::export::memory::MemoryExport;
//! use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
//! use rpcrdma_nfs3::nfs_v3;
//! use rpcrdma_runtime::Server;
//!
//! let export = Arc::new(MemoryExport::default());
//! let server = Server::bind("127.0.0.1:0").await?;
//! let server = server.service(nfs_v3::Server(NfsHandler::new(export.clone())));
//! let server = server.service(mount_v3::Server(MountHandler::new(export)));
//! let url: Url = format!("rdma://{}/", server.local_addr()?).parse()?;
//! tokio::spawn(server.run(std::future::pending()));
//!
//! let remote = Remote::mount(&url).await?;
//! let file = remote.create(&remote.top().await?, "hello".into(), 0o644).await?;
//! remote.write_file(&file, &mut std::io::Cursor::new("over RDMA"), &|_| {}).await?;
//! assert_eq!(remote.find(b"/hello").await?.attributes.size, 9);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "client"))]
//! # fn main() {}
//! ```
//!
//! The programs `nfs3` and `nfs3d` need the feature `programs`, which is on by default. To use only the
//! library, set `default-features = false`, and enable `client` or `directory` as needed.

#[cfg(feature = "programs")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod export;
#[cfg_attr(not(feature = "krb5"), path = "kerberos/not_built.rs")]
pub mod kerberos;
pub mod nfs;
#[cfg(feature = "programs")]
pub mod output;
pub mod provider;
pub mod security;
