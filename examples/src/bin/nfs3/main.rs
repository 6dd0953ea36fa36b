//! Uses files of an NFSv3 server over RPC-over-RDMA: `nfs3 ls|cat|get|put rdma://HOST[:PORT]/PATH`.

mod show;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use rpcrdma_examples::client::{Remote, Url};

/// Uses files of an NFSv3 server over RPC-over-RDMA (iWARP in user space over TCP).
///
/// A URL is rdma://HOST:PORT/PATH, or without the port, which is 20049 then. Log by RUST_LOG, for example
/// RUST_LOG=debug.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List a directory, or show a file, as ls -l does
    Ls {
        /// Directory or file
        url: Url,
    },
    /// Write a file to standard output
    Cat {
        /// File
        url: Url,
    },
    /// Fetch a file and print its SHA-256
    Get {
        /// File
        url: Url,
        /// Local file or directory; by default the file's own name, here
        to: Option<PathBuf>,
    },
    /// Store a file and print its SHA-256
    Put {
        /// Local file
        from: PathBuf,
        /// File, or a directory to put it in
        url: Url,
    },
}

#[tokio::main]
#[allow(clippy::print_stderr, reason = "a program's own words")]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let done = match Arguments::parse().command {
        Command::Ls { url } => ls(&url).await,
        Command::Cat { url } => cat(&url).await,
        Command::Get { url, to } => get(&url, to).await,
        Command::Put { from, url } => put(&from, &url).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nfs3: {}", rpcrdma_examples::client::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
        || matches!(
            error.downcast_ref(),
            Some(rpcrdma_examples::client::ClientError::Local(error)) if error.kind() == io::ErrorKind::BrokenPipe
        )
}

async fn ls(url: &Url) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let mut out = io::stdout().lock();
    if !file.is_directory() {
        let target = remote.readlink(file.handle, &file.path).await.ok();
        show::lines(&mut out, &[(file.path.into(), file.attributes, target)])?;
        return Ok(());
    }
    let mut items = remote.list(&file).await?;
    items.sort_by(|a, b| a.name.cmp(&b.name));
    let rows: Vec<_> = items.into_iter().map(|item| (item.name, item.attributes, item.target)).collect();
    show::lines(&mut out, &rows)?;
    Ok(())
}

async fn cat(url: &Url) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let mut out = io::stdout();
    remote.read_file(&file, &mut |data| out.write_all(&data)).await?;
    out.flush()?;
    Ok(())
}

async fn get(url: &Url, to: Option<PathBuf>) -> anyhow::Result<()> {
    let name = url.file_name().context("the URL names no file")?;
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    if matches!(name.as_os_str().as_bytes(), b"." | b"..") {
        bail!("the URL names no file");
    }
    let to = match to {
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to,
        None => name.to_owned(),
    };
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    // The file appears under its name once it is whole.
    let mut part = to.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let mode = file.attributes.mode & 0o777;
    let result = fetch(&remote, &file, &part, mode).await.and_then(|sum| {
        fs::rename(&part, &to).with_context(|| to.display().to_string())?;
        Ok(sum)
    });
    if result.is_err() {
        // It may never have been made.
        let _ = fs::remove_file(&part);
    }
    print_sum(&result?, &to.display().to_string())
}

async fn fetch(
    remote: &Remote,
    file: &rpcrdma_examples::client::RemoteFile,
    part: &Path,
    mode: u32,
) -> anyhow::Result<String> {
    let options = File::options().write(true).create(true).truncate(true).mode(0o600).clone();
    let mut out = options.open(part).with_context(|| part.display().to_string())?;
    let bar = progress(file.attributes.size, &file.path);
    let mut take = |data: Bytes| {
        bar.inc(data.len() as u64);
        out.write_all(&data)
    };
    let sum = remote.read_file(file, &mut take).await?;
    out.set_permissions(fs::Permissions::from_mode(mode)).with_context(|| part.display().to_string())?;
    bar.finish_and_clear();
    Ok(sum.to_string())
}

async fn put(from: &Path, url: &Url) -> anyhow::Result<()> {
    let shown = || from.display().to_string();
    let mut source = File::open(from).with_context(shown)?;
    let metadata = source.metadata().with_context(shown)?;
    if !metadata.is_file() {
        bail!("{}: is not a regular file", shown());
    }
    let remote = Remote::mount(url).await?;
    let (dir, name) = match remote.find(&url.path).await {
        Ok(dir) if dir.is_directory() => {
            (dir, Bytes::copy_from_slice(from.file_name().with_context(shown)?.as_bytes()))
        }
        _ => {
            let name = url.file_name().context("the URL names no file")?;
            let above = url.path.strip_suffix(b"/").unwrap_or(&url.path);
            let above = above.get(..above.len().saturating_sub(name.len())).unwrap_or_default();
            (remote.find(above).await?, Bytes::copy_from_slice(name))
        }
    };
    let file = remote.create(&dir, name, metadata.permissions().mode() & 0o777).await?;
    let bar = progress(metadata.len(), &file.path);
    let sum = remote.write_file(&file, &mut source, &|done| bar.set_position(done)).await?;
    bar.finish_and_clear();
    print_sum(&sum.to_string(), &file.path)
}

/// Nothing is drawn unless standard error is a terminal.
fn progress(size: u64, name: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(size).with_style(style).with_message(show::text(name.as_bytes()))
}

fn print_sum(sum: &str, name: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{sum}  {}", show::text(name.as_bytes()))?;
    Ok(())
}
