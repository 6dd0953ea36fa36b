//! Copies single files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use rpcrdma_nfs::cli::nfs3::CopyOptions;
use rpcrdma_nfs::client::{Digest, Remote, RemoteFile, Url};
use sha2::{Digest as _, Sha256};

use crate::exit::{DataMismatch, check_digest};
use crate::file_target;
use crate::part::{Part, Summing};
use crate::report::Report;

pub(crate) fn target(url: &Url, to: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let name = url.file_name().context("the URL does not name a file; with -r, give a local directory")?;
    if matches!(name, b"." | b"..") || name.contains(&b'/') {
        bail!("the URL ends in `.`, `..` or a name with a slash; specify a file or directory by name");
    }
    let name = Path::new(OsStr::from_bytes(name));
    Ok(match to {
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to,
        None => name.to_owned(),
    })
}

pub(crate) async fn get(
    url: &Url,
    to: Option<PathBuf>,
    resume: bool,
    expected: Option<Digest>,
    report: Report,
) -> anyhow::Result<()> {
    if let Some(to) = &to
        && to.as_os_str().as_bytes().ends_with(b"/")
        && !to.is_dir()
    {
        bail!("{}: no such directory", to.display());
    }
    let to = target(url, to)?;
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let sum = fetch(&remote, &file, &to, resume, expected, report).await?;
    report.copied(sum, &to.display().to_string())
}

/// Fetches a file. The copy appears at the path `to` only when it is complete.
pub(crate) async fn fetch(
    remote: &Remote,
    file: &RemoteFile,
    to: &Path,
    resume: bool,
    expected: Option<Digest>,
    report: Report,
) -> anyhow::Result<Digest> {
    let shown = || to.display().to_string();
    remote.must_be_regular(file)?;
    // Only a regular file is replaced, never a device or a link.
    if std::fs::symlink_metadata(to).is_ok_and(|there| !there.is_file()) {
        bail!("{}: is not a regular file; use nfs3 cat to write to it", shown());
    }
    // `Part::open` computes the digest of the partial file. On this thread, that would delay other copies.
    let (target, version) = (to.to_owned(), file.clone());
    let opened = tokio::task::spawn_blocking(move || Part::open(&target, &version, resume));
    let mut part = opened.await?.with_context(shown)?;
    let current = receive(remote, file, &mut part, report).await?;
    // All data must belong to the same version of the file.
    if !part.has_version_of(&current) {
        part.discard().with_context(shown)?;
        return Err(DataMismatch(format!(
            "{}: changed during the copy, which was discarded; retry",
            file.path
        ))
        .into());
    }
    let sum = part.sum();
    if let Err(differs) = check_digest(expected, sum, &file.path) {
        part.discard().with_context(shown)?;
        return Err(differs);
    }
    part.finish(file.attributes.mode).with_context(shown)?;
    Ok(sum)
}

/// Fetches the data that `part` lacks. Returns the file with the attributes that it has after the transfer.
async fn receive(
    remote: &Remote,
    file: &RemoteFile,
    part: &mut Part,
    report: Report,
) -> anyhow::Result<RemoteFile> {
    let resumed = part.length();
    let bar = report.progress(file.attributes.size, &file.path);
    bar.set_position(resumed);
    let mut take = |data: Bytes| {
        part.append(&data)?;
        bar.inc(data.len() as u64);
        Ok(std::ops::ControlFlow::Continue(()))
    };
    remote.read_from(file, resumed, &mut take).await?;
    let current = remote.refresh(file).await?;
    bar.finish_and_clear();
    Ok(current)
}

pub(crate) async fn put(
    from: &Path,
    url: &Url,
    how: &CopyOptions,
    verify: bool,
    report: Report,
) -> anyhow::Result<()> {
    let shown = || from.display().to_string();
    let mut source = File::open(from).with_context(shown)?;
    let metadata = source.metadata().with_context(shown)?;
    if !metadata.is_file() {
        bail!("{}: is not a regular file", shown());
    }
    if how.sha256.is_some() {
        let mut sum = Sha256::new();
        io::copy(&mut source, &mut Summing(&mut sum)).with_context(shown)?;
        check_digest(how.sha256, sum, &shown())?;
    }
    let remote = Remote::mount(url).await?;
    let (dir, name) = match remote.find(&url.path).await {
        Ok(dir) if dir.is_directory() => {
            (dir, Bytes::copy_from_slice(from.file_name().with_context(shown)?.as_bytes()))
        }
        Err(error) if !error.is_missing() => return Err(error.into()),
        _ => file_target(&remote, url).await?,
    };
    let mode = metadata.permissions().mode();
    let (file, sum) = store(&remote, (&dir, name), &mut source, mode, how.resume, report).await?;
    if let Some(expected) = how.sha256 {
        check_digest(Some(expected), sum, &shown())?;
    }
    if verify {
        read_back(&remote, &file, sum, report).await?;
    }
    report.copied(sum, &file.path)
}

/// Stores `source` as the file `name` in `dir`. With `resume`, keeps the prefix that an existing file has in
/// common with `source`.
pub(crate) async fn store(
    remote: &Remote,
    (dir, name): (&RemoteFile, Bytes),
    source: &mut File,
    mode: u32,
    resume: bool,
    report: Report,
) -> anyhow::Result<(RemoteFile, Digest)> {
    let size = source.metadata()?.len();
    let mode = mode & 0o777;
    if !resume {
        let file = remote.create(dir, name, mode).await?;
        let bar = report.progress(size, &file.path);
        let sum = remote.write_file(&file, source, &|done| bar.set_position(done)).await?;
        bar.finish_and_clear();
        return Ok((file, sum));
    }
    let file = remote.find_or_create(dir, name, mode).await?;
    let checking = report.progress(file.attributes.size.min(size), &format!("checking {}", file.path));
    let same = remote.common_prefix(&file, source, &|done| checking.set_position(done)).await?;
    checking.finish_and_clear();
    let bar = report.progress(size, &file.path);
    let sum = remote.write_from(&file, source, same, &|done| bar.set_position(done)).await?;
    bar.finish_and_clear();
    // Truncates an existing file that was longer than the source.
    let length = source.stream_position()?;
    if remote.refresh(&file).await?.attributes.size != length {
        remote.set_size(&file, length).await?;
    }
    Ok((file, sum))
}

/// Reads a stored file back and compares its digest with `sum`, the digest of the written data.
///
/// # Errors
/// [`DataMismatch`] if the digests differ, or the error of a failed call.
pub(crate) async fn read_back(
    remote: &Remote,
    file: &RemoteFile,
    sum: Digest,
    report: Report,
) -> anyhow::Result<()> {
    let file = remote.refresh(file).await?;
    let bar = report.progress(file.attributes.size, &format!("reading back {}", file.path));
    let mut count = |data: Bytes| {
        bar.inc(data.len() as u64);
        Ok(())
    };
    let read = remote.read_file(&file, &mut count).await?;
    bar.finish_and_clear();
    check_digest(Some(sum), read, &file.path)
}
