//! Lists the root of an NFSv3 export over RPC-over-RDMA:
//! `cargo run -p rpcrdma-examples --bin ls 127.0.0.1:20049 /`.
//!
//! The program works with NFS/RDMA servers that offer MOUNT on the same port, as `nfs3d` does.

use std::io::Write;

use anyhow::{Context, bail};
use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs3::{NfsFh3, Readdir3Args, Readdir3Res, nfs_v3};
use rpcrdma_runtime::Client;
use rpcrdma_runtime::ClientOptions;
use rpcrdma_runtime::program::{AuthSys, Credential};

/// The maximum size of a READDIR result, in bytes (RFC 1813 section 3.3.16).
const COUNT: u32 = 64 * 1024;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("usage: ls HOST:PORT [EXPORT]")?;
    let export = arguments.next().unwrap_or_else(|| "/".to_owned());

    let credential = Credential::Sys(AuthSys { machine_name: "ls".to_owned(), ..AuthSys::default() });
    let options = ClientOptions { credential, ..ClientOptions::of::<nfs_v3::NfsV3>() };
    let client = Client::connect_with(&*address, options).await?;

    let mounted = match mount_v3::Client(client.clone()).mnt(&export.as_str().into()).await? {
        Mountres3::Mnt3Ok(mounted) => mounted,
        refused => bail!("cannot mount {export}: {refused:?}"),
    };
    let nfs = nfs_v3::Client(client);
    let dir = NfsFh3 { data: mounted.fhandle };
    let mut next = Readdir3Args { dir, cookie: 0, cookieverf: [0; 8], count: COUNT };
    loop {
        let page = match nfs.readdir(&next).await? {
            Readdir3Res::Nfs3Ok(page) => page,
            refused => bail!("cannot list {export}: {refused:?}"),
        };
        for entry in &page.reply.entries {
            writeln!(std::io::stdout(), "{}", entry.name)?;
            next.cookie = entry.cookie;
        }
        if page.reply.eof || page.reply.entries.is_empty() {
            return Ok(());
        }
        next.cookieverf = page.cookieverf;
    }
}
