//! Accesses files on an NFSv3 server over RPC-over-RDMA or TCP: `nfs3 COMMAND rdma://HOST[:PORT]/PATH`.

mod about;
mod copy;
mod exit;
mod part;
mod report;
mod show;
mod tree;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use rpcrdma_nfs::cli::nfs3::{CopyOptions, Nfs3Arguments, Nfs3Command};
use rpcrdma_nfs::client::{Digest, Remote, RemoteFile, Transport, Url};
use rpcrdma_nfs::output::{self, LevelFilter, of_standard_output};
use rpcrdma_nfs::provider::Provider;
use sha2::{Digest as _, Sha256};

use crate::exit::{Interrupted, Usage, check_digest};
use crate::report::{Report, warn};
use crate::tree::{Compare, Plan};

fn main() -> ExitCode {
    let Nfs3Arguments { provider, quiet, json, log_format, mut command, .. } = Nfs3Arguments::parse();
    output::start_log(log_format, LevelFilter::ERROR);
    LazyLock::force(&part::UMASK);
    for url in command.urls() {
        url.provider = provider.unwrap_or(url.provider);
        let uncaptured = match (url.transport, url.provider) {
            (Transport::Tcp, _) => "for tcp:// URLs",
            (Transport::Rdma, Provider::Verbs) => "with --provider verbs",
            (Transport::Rdma, Provider::Iwarp | Provider::Auto) => continue,
        };
        if std::env::var_os("RPCRDMA_PCAP").is_some() {
            warn(format_args!("RPCRDMA_PCAP is ignored {uncaptured}: only iWARP is captured"));
        }
    }
    let done = until_interrupted(run(command, Report { quiet, json }));
    exit::code(done)
}

/// Runs a command until it ends or the user interrupts it. Then drops all tasks, and waits at most
/// [`output::SHUTDOWN`] for the runtime's threads. A separate runtime waits for the interrupt, because file
/// I/O or writes to standard output may block the threads of the command.
fn until_interrupted(run: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let running = runtime.spawn(run);
    let done = tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        tokio::select! {
            done = running => done.map_err(Into::into).and_then(|done| done),
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into).and(Err(Interrupted.into())),
        }
    });
    runtime.shutdown_timeout(output::SHUTDOWN);
    done
}

async fn run(command: Nfs3Command, report: Report) -> anyhow::Result<()> {
    let plan = |tree, changes| Plan { tree, report, changes };
    match command {
        Nfs3Command::Ls { long, human, url } => ls(&url, long, human, report).await,
        Nfs3Command::Cat { sha256, url } => cat(&url, sha256).await,
        Nfs3Command::Get { how: CopyOptions { recursive: true, tree, .. }, url, to } => {
            let to = match to {
                Some(to) if url.file_name().is_none() => to,
                to => copy::target(&url, to)?,
            };
            tree::get(&url, to, &plan(tree, None)).await
        }
        Nfs3Command::Get { how, url, to } => copy::get(&url, to, how.resume, how.sha256, report).await,
        Nfs3Command::Put { how: CopyOptions { recursive: true, tree, .. }, verify, from, url } => {
            tree::put(&from, &url, verify, false, &plan(tree, None)).await
        }
        Nfs3Command::Put { how, verify, from, url } => copy::put(&from, &url, &how, verify, report).await,
        Nfs3Command::Rm { recursive, urls } => {
            for url in &urls {
                rm(url, recursive).await?;
            }
            Ok(())
        }
        Nfs3Command::Mkdir { parents, urls } => {
            for url in &urls {
                mkdir(url, parents).await?;
            }
            Ok(())
        }
        Nfs3Command::Mv { from, to } => mv(&from, &to).await,
        Nfs3Command::Sync { tree, checksum, from, to } => {
            let compare = if checksum { Compare::Content } else { Compare::Time };
            tree::sync(&from, &to, &plan(tree, Some(compare))).await
        }
        Nfs3Command::Info { url } => about::info(&url, report).await,
    }
}

async fn ls(url: &Url, long: bool, human: bool, report: Report) -> anyhow::Result<()> {
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
    if report.json {
        return rows.iter().try_for_each(|row| report.object(&show::object(row)));
    }
    output::print(|mut out| {
        if long {
            return show::lines(&mut out, &rows, human);
        }
        rows.iter().try_for_each(|(name, ..)| writeln!(out, "{}", show::text(name)))
    })
}

async fn mv(from: &Url, to: &Url) -> anyhow::Result<()> {
    let server = |url: &Url| (url.transport, url.address());
    ensure!(server(from) == server(to), Usage("mv needs two URLs on the same server"));
    let remote = Remote::mount(from).await?;
    ensure!(remote.contains(&to.path), "{}: not in the same export as the source", show::text(&to.path));
    let (dir, name) = parent(&remote, from).await?;
    let to = match remote.find(&to.path).await {
        Ok(there) if there.is_directory() => (there, name.clone()),
        Err(error) if !error.is_missing() => return Err(error.into()),
        // A trailing slash after a directory's new name is allowed.
        _ if to.path.ends_with(b"/") && remote.find(&from.path).await?.is_directory() => {
            parent(&remote, to).await?
        }
        _ => file_target(&remote, to).await?,
    };
    Ok(remote.rename((&dir, name), (&to.0, to.1)).await?)
}

async fn cat(url: &Url, expected: Option<Digest>) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let mut out = io::stdout();
    let mut sum = Sha256::new();
    let mut unwritten = None;
    let mut take = |data: Bytes| {
        sum.update(&data);
        // This error only stops the read. The error in `unwritten` is reported.
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
    check_digest(expected, sum, &file.path)
}

async fn parent(remote: &Remote, url: &Url) -> anyhow::Result<(RemoteFile, Bytes)> {
    let (above, name) = url.split_name().context("the URL names the server's root; append a path")?;
    // For a path outside the export, `Remote::find` returns the export's root, which may contain another file
    // with this name.
    let is_below = remote.contains(above);
    ensure!(is_below, "{}: is the root of an export; append a path", show::text(&url.path));
    Ok((remote.find(above).await?, Bytes::copy_from_slice(name)))
}

/// Returns the parent directory and the name of a file to create or replace. Rejects a path that ends with a
/// slash, because such a path refers to a directory.
async fn file_target(remote: &Remote, url: &Url) -> anyhow::Result<(RemoteFile, Bytes)> {
    ensure!(!url.path.ends_with(b"/"), "{}: no such directory", show::text(&url.path));
    parent(remote, url).await
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

/// Permissions of directories that `nfs3 mkdir` creates.
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
