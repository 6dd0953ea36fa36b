//! Copies directories with everything below them. Links are copied as links and never followed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use rpcrdma_nfs::client::{Item, Remote, RemoteFile, Step, Url};
use rpcrdma_nfs::output::complain;
use rpcrdma_nfs3::Ftype3;

use crate::copy::{fetch, print_sum, read_back, store, target};
use crate::{parent, part, show};

/// A directory that is being fetched.
struct Level {
    at: PathBuf,
    /// Names and targets of its links. They are created after all files below the directory: otherwise a
    /// hostile server could make a file's path lead through a link of the same name.
    links: Vec<(PathBuf, Bytes)>,
}

impl Level {
    fn make(at: PathBuf) -> anyhow::Result<Self> {
        make_here(&at)?;
        Ok(Level { at, links: Vec::new() })
    }

    fn link(self) -> anyhow::Result<()> {
        for (name, to) in self.links {
            let at = self.at.join(name);
            link_here(&at, &to).with_context(|| at.display().to_string())?;
        }
        Ok(())
    }
}

pub(crate) async fn get(url: &Url, to: Option<PathBuf>) -> anyhow::Result<()> {
    let to = match to {
        Some(to) if url.file_name().is_none() => to,
        to => target(url, to)?,
    };
    let remote = Remote::mount(url).await?;
    let top = remote.find(&url.path).await?;
    if !top.is_directory() {
        let sum = fetch(&remote, &top, &to, false, None).await?;
        return print_sum(&sum.to_string(), &to.display().to_string());
    }
    let (mut walk, mut level, mut above, mut own) = (remote.walk(top), Level::make(to)?, Vec::new(), 0_u64);
    while let Some(visit) = walk.next().await? {
        if visit.step == Step::Leave {
            if let Some(left) = above.pop().map(|above| std::mem::replace(&mut level, above)) {
                left.link()?;
            }
            continue;
        }
        let name = name_of(&visit.dir, &visit.item)?;
        let at = level.at.join(name);
        if part::is_own(&visit.item.name) {
            left_out(&at.display().to_string(), "nfs3 gives such names to what is not whole yet");
            own = own.saturating_add(1);
            walk.skip();
            continue;
        }
        match visit.item.attributes.r#type {
            Ftype3::Nf3dir => above.push(std::mem::replace(&mut level, Level::make(at)?)),
            Ftype3::Nf3lnk => level.links.extend(visit.item.target.clone().map(|to| (name.to_owned(), to))),
            Ftype3::Nf3reg => {
                let sum = fetch(&remote, &visit.file(), &at, false, None).await?;
                print_sum(&sum.to_string(), &at.display().to_string())?;
            }
            _ => left_out(&at.display().to_string(), NO_FILE),
        }
    }
    level.link()?;
    if own > 0 {
        bail!("{}: not all of it is here: {own} left out by their names", show::text(&url.path));
    }
    Ok(())
}

/// Returns a name from the server if it is a single component, so that it cannot lead elsewhere.
fn name_of<'a>(dir: &RemoteFile, item: &'a Item) -> anyhow::Result<&'a Path> {
    let name = &item.name[..];
    let is_one =
        !name.is_empty() && name != b".." && name != b"." && !name.iter().any(|b| matches!(b, b'/' | 0));
    if !is_one {
        bail!("{}: the name {} cannot be used here", dir.path, show::text(name));
    }
    Ok(Path::new(OsStr::from_bytes(name)))
}

/// Creates a local directory, or accepts an existing one that is not a link.
fn make_here(at: &Path) -> anyhow::Result<()> {
    match fs::create_dir(at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(at)?.is_dir() {
                return Ok(());
            }
            bail!("{}: is not a directory", at.display())
        }
        made => made.with_context(|| at.display().to_string()),
    }
}

fn link_here(at: &Path, to: &[u8]) -> io::Result<()> {
    let to = OsStr::from_bytes(to);
    match symlink(to, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::read_link(at) {
            Ok(there) if there.as_os_str() == to => Ok(()),
            _ => Err(error),
        },
        made => made,
    }
}

const NO_FILE: &str = "neither file, directory nor link";

fn left_out(what: &str, why: &str) {
    complain("nfs3", format_args!("{}: is left out: {why}", show::text(what.as_bytes())));
}

pub(crate) async fn put(from: &Path, url: &Url, verify: bool) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let top = match remote.find(&url.path).await {
        Ok(dir) if dir.is_directory() => {
            let from = from.canonicalize().with_context(|| from.display().to_string())?;
            let name = from.file_name().with_context(|| from.display().to_string())?;
            (dir, Bytes::copy_from_slice(name.as_bytes()))
        }
        _ => parent(&remote, url).await?,
    };
    let mut pending = vec![(from.to_owned(), top)];
    while let Some((here, (above, name))) = pending.pop() {
        let shown = || here.display().to_string();
        let metadata = fs::symlink_metadata(&here).with_context(shown)?;
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            let dir = remote.make_or_enter(&above, name, mode & 0o777).await?;
            for entry in fs::read_dir(&here).with_context(shown)? {
                let entry = entry.with_context(shown)?;
                let name = Bytes::copy_from_slice(entry.file_name().as_bytes());
                pending.push((entry.path(), (dir.clone(), name)));
            }
        } else if metadata.is_symlink() {
            let target = fs::read_link(&here).with_context(shown)?;
            remote.make_link(&above, name, target.as_os_str().as_bytes()).await?;
        } else if metadata.is_file() {
            let mut source = File::open(&here).with_context(shown)?;
            let (file, sum) = store(&remote, (&above, name), &mut source, mode, false).await?;
            if verify {
                read_back(&remote, &file, sum).await?;
            }
            print_sum(&sum.to_string(), &file.path)?;
        } else {
            left_out(&shown(), NO_FILE);
        }
    }
    Ok(())
}
