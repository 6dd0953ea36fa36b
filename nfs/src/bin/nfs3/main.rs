//! Uses files of an NFSv3 server over RPC-over-RDMA or TCP: `nfs3 COMMAND rdma://HOST[:PORT]/PATH`.

mod about;
mod copy;
mod ending;
mod part;
mod show;
mod tree;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use rpcrdma_nfs::cli::nfs3::{Arguments, Command, How, Sum};
use rpcrdma_nfs::client::{Remote, RemoteFile, Url};
use rpcrdma_nfs::output::{self, of_standard_output};
use sha2::{Digest as _, Sha256};

use crate::ending::must_be;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .log_internal_errors(false)
        .init();
    let Arguments { provider, mut command } = Arguments::parse();
    if let Some(provider) = provider {
        command.urls().for_each(|url| url.provider = provider);
    }
    let done = run(command).await;
    ending::code(done)
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Ls { long, url } => ls(&url, long).await,
        Command::Cat { sha256, url } => cat(&url, sha256).await,
        Command::Get { how: How { recursive: true, .. }, url, to } => tree::get(&url, to).await,
        Command::Get { how, url, to } => copy::get(&url, to, how.resume, how.sha256).await,
        Command::Put { how: How { recursive: true, .. }, verify, from, url } => {
            tree::put(&from, &url, verify).await
        }
        Command::Put { how, verify, from, url } => copy::put(&from, &url, &how, verify).await,
        Command::Rm { recursive, urls } => {
            for url in &urls {
                rm(url, recursive).await?;
            }
            Ok(())
        }
        Command::Mkdir { parents, urls } => {
            for url in &urls {
                mkdir(url, parents).await?;
            }
            Ok(())
        }
        Command::Info { url } => about::info(&url).await,
    }
}

async fn ls(url: &Url, long: bool) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let rows: Vec<show::Row> = if file.is_directory() {
        let mut items = remote.list(&file).await?;
        items.sort_by(|a, b| a.name.cmp(&b.name));
        items.into_iter().map(|item| (item.name, item.attributes, item.target)).collect()
    } else {
        let target = remote.readlink(file.handle, &file.path).await.ok();
        vec![(file.path.into(), file.attributes, target)]
    };
    output::print(|mut out| {
        if long {
            return show::lines(&mut out, &rows);
        }
        rows.iter().try_for_each(|(name, ..)| writeln!(out, "{}", show::text(name)))
    })
}

async fn cat(url: &Url, expected: Option<Sum>) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let mut out = io::stdout();
    let mut sum = Sha256::new();
    let mut unwritten = None;
    let mut take = |data: Bytes| {
        sum.update(&data);
        // Stops reading; the error itself is reported.
        out.write_all(&data).map_err(|error| {
            let kind = error.kind();
            unwritten = Some(of_standard_output(error));
            kind.into()
        })
    };
    let read = remote.read_file(&file, &mut take).await;
    if let Some(error) = unwritten {
        return Err(error);
    }
    read?;
    out.flush().map_err(of_standard_output)?;
    must_be(expected, sum, &file.path)
}

/// Returns the parent directory of a URL's last name, and the name.
async fn parent(remote: &Remote, url: &Url) -> anyhow::Result<(RemoteFile, Bytes)> {
    let (above, name) = url.split_name().context("the URL names nothing below the server's top")?;
    Ok((remote.find(above).await?, Bytes::copy_from_slice(name)))
}

async fn rm(url: &Url, recursive: bool) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let (above, name) = parent(&remote, url).await?;
    if recursive {
        remote.remove_tree(&above, name).await?;
    } else {
        remote.remove(&above, name).await?;
    }
    Ok(())
}

/// Permissions of directories created by name.
const DIRECTORY: u32 = 0o755;

async fn mkdir(url: &Url, parents: bool) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    if !parents {
        let (above, name) = parent(&remote, url).await?;
        remote.make_directory(&above, name, DIRECTORY).await?;
        return Ok(());
    }
    let names = url.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut at = remote.top().await?;
    for name in names.skip(remote.depth()) {
        at = remote.make_or_enter(&at, Bytes::copy_from_slice(name), DIRECTORY).await?;
    }
    Ok(())
}
