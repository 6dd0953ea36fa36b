//! NFS version 3 (RFC 1813) over RPC-over-RDMA and over TCP: a client, a server, and file systems to serve.
//!
//! - [`client`] mounts an export and reads, writes and lists its files.
//! - [`nfs`] has the handlers of the NFS and MOUNT programs, which serve any [`export::Export`].
//! - [`provider`] selects the provider for RPC-over-RDMA: iWARP in user space or an RDMA device.
//! - [`security`] names AUTH_SYS and the services of Kerberos. [`kerberos`] needs the feature `krb5`.
//! - [`export`] defines the trait of a file system. Two are included: one in memory, and, with the feature
//!   `directory`, one that serves a directory of a Linux machine.
//!
//! The programs `nfs3` and `nfs3d` need the feature `programs`, which is on by default. A library needs
//! only `default-features = false` and the features `client` or `directory`.

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
