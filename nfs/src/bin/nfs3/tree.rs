//! Copies directory trees. Symbolic links in a tree are copied, not followed.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use rpcrdma_nfs::cli::nfs3::{Location, TreeOptions};
use rpcrdma_nfs::client::{Digest, DirectoryItem, Remote, RemoteFile, Step, Url};
use rpcrdma_nfs3::{Ftype3, Nfstime3};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::copy::{fetch, read_back, store};
use crate::exit::Usage;
use crate::part::Summing;
use crate::report::{Report, warn};
use crate::{parent, part, show};

struct Level {
    at: PathBuf,
    /// Names and targets of the links. The links are created after all files below the directory. Otherwise a
    /// hostile server could redirect files by sending a link and a directory with the same name.
    links: Vec<(PathBuf, Bytes)>,
}

impl Level {
    fn make(at: PathBuf) -> anyhow::Result<Self> {
        make_here(&at)?;
        Ok(Level { at, links: Vec::new() })
    }

    /// Creates the links once all started copies have ended. With `replace`, changes the targets of existing
    /// links.
    async fn link(self, transfers: &mut Transfers, replace: bool) -> anyhow::Result<()> {
        if !self.links.is_empty() {
            transfers.end_all().await?;
        }
        for (name, to) in self.links {
            let at = self.at.join(name);
            link_here(&at, &to, replace).with_context(|| at.display().to_string())?;
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) tree: TreeOptions,
    pub(crate) report: Report,
    /// If set, only files that differ by this comparison are copied, and their modification times are set.
    pub(crate) changes: Option<Compare>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    /// By size and modification time.
    Time,
    /// By size and SHA-256.
    Content,
}

/// Concurrent copies. Dropping this value stops them.
struct Transfers {
    running: JoinSet<anyhow::Result<()>>,
    max: usize,
}

impl Transfers {
    fn new(max: usize) -> Self {
        Transfers { running: JoinSet::new(), max }
    }

    /// Starts a copy. If `max` copies are running, first waits for one of them to end.
    ///
    /// # Errors
    /// The error of an earlier copy.
    async fn start(
        &mut self,
        copy: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) -> anyhow::Result<()> {
        while self.running.len() >= self.max {
            self.end_one().await?;
        }
        self.running.spawn(copy);
        Ok(())
    }

    async fn end_one(&mut self) -> anyhow::Result<()> {
        self.running.join_next().await.transpose()?.transpose().map(|_| ())
    }

    async fn end_all(&mut self) -> anyhow::Result<()> {
        while !self.running.is_empty() {
            self.end_one().await?;
        }
        Ok(())
    }
}

pub(crate) async fn get(url: &Url, to: PathBuf, plan: &Plan) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let top = remote.find(&url.path).await?;
    if !top.is_directory() {
        return get_file(remote, top, to, plan.clone()).await;
    }
    let (mut transfers, mut own) = (Transfers::new(plan.tree.transfers), 0_u64);
    let (mut walk, mut level, mut above) = (remote.walk(top), Level::make(to.clone())?, Vec::new());
    while let Some(visit) = walk.next().await? {
        if visit.step == Step::Leave {
            if let Some(left) = above.pop().map(|above| std::mem::replace(&mut level, above)) {
                left.link(&mut transfers, plan.changes.is_some()).await?;
            }
            continue;
        }
        let name = name_of(&visit.dir, &visit.item)?;
        let at = level.at.join(name);
        let is_selected = plan.tree.selects(below(&at, &to), visit.step == Step::Enter);
        let is_own = is_selected && part::is_own(&visit.item.name);
        if is_own {
            warn_skipped(&at.display().to_string(), RESERVED);
            own = own.saturating_add(1);
        }
        if is_own || !is_selected {
            walk.skip();
            continue;
        }
        match visit.item.attributes.r#type {
            Ftype3::Nf3dir => above.push(std::mem::replace(&mut level, Level::make(at)?)),
            Ftype3::Nf3lnk => level.links.extend(visit.item.target.clone().map(|to| (name.to_owned(), to))),
            Ftype3::Nf3reg => {
                transfers.start(get_file(remote.clone(), visit.file(), at, plan.clone())).await?;
            }
            _ => warn_skipped(&at.display().to_string(), UNSUPPORTED),
        }
    }
    level.link(&mut transfers, plan.changes.is_some()).await?;
    transfers.end_all().await?;
    must_be_complete(&url.path, own)
}

/// # Errors
/// Fails if files or directories were skipped because their names are reserved.
fn must_be_complete(top: &[u8], skipped: u64) -> anyhow::Result<()> {
    if skipped > 0 {
        bail!(
            "{}: incomplete copy: reserved names skipped: {skipped}; rename the files or use --exclude",
            show::text(top)
        );
    }
    Ok(())
}

fn below<'a>(at: &'a Path, top: &Path) -> &'a [u8] {
    at.strip_prefix(top).unwrap_or(at).as_os_str().as_bytes()
}

async fn get_file(remote: Remote, file: RemoteFile, to: PathBuf, plan: Plan) -> anyhow::Result<()> {
    let shown = to.display().to_string();
    let Some(compare) = plan.changes else {
        let sum = fetch(&remote, &file, &to, true, None, plan.report).await?;
        return plan.report.copied(sum, &shown);
    };
    if let Ok(here) = fs::symlink_metadata(&to)
        && is_same(&remote, &file, (&to, &here), compare).await?
    {
        return Ok(());
    }
    let sum = fetch(&remote, &file, &to, true, None, plan.report).await?;
    let Nfstime3 { seconds, nseconds } = file.attributes.mtime;
    // A hostile server may send a billion nanoseconds or more. utimensat(2) gives some of these values, such
    // as `UTIME_OMIT`, a special meaning. `Duration::new` converts the excess to seconds.
    let time = Duration::new(seconds.into(), nseconds);
    let last_modification =
        Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().cast_signed().into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access, last_modification };
    // The mode may forbid opening the file, so the times are set by path.
    utimensat(CWD, &to, &times, AtFlags::SYMLINK_NOFOLLOW).with_context(|| shown.clone())?;
    plan.report.copied(sum, &shown)
}

async fn is_same(
    remote: &Remote,
    there: &RemoteFile,
    (at, here): (&Path, &Metadata),
    compare: Compare,
) -> anyhow::Result<bool> {
    let is_regular = here.is_file() && there.attributes.r#type == Ftype3::Nf3reg;
    if !is_regular || here.len() != there.attributes.size {
        return Ok(false);
    }
    if compare == Compare::Time {
        return Ok(modified(here) == there.attributes.mtime);
    }
    let path = at.to_owned();
    // On this thread, computing the digest would delay other copies.
    let local = tokio::task::spawn_blocking(move || local_digest(&path));
    let local = local.await?.with_context(|| at.display().to_string())?;
    Ok(local == remote.read_file(there, &mut |_| Ok(())).await?)
}

fn local_digest(path: &Path) -> io::Result<Digest> {
    let mut sum = Sha256::new();
    io::copy(&mut File::open(path)?, &mut Summing(&mut sum))?;
    Ok(Digest::from(sum))
}

/// Returns the modification time as an NFS time. A value out of range becomes zero.
fn modified(of: &Metadata) -> Nfstime3 {
    let seconds = u32::try_from(of.mtime()).unwrap_or_default();
    Nfstime3 { seconds, nseconds: u32::try_from(of.mtime_nsec()).unwrap_or_default() }
}

/// Returns the name of an item as a path. Fails unless the name is a single path component.
fn name_of<'a>(dir: &RemoteFile, item: &'a DirectoryItem) -> anyhow::Result<&'a Path> {
    let name = &item.name[..];
    let is_one =
        !name.is_empty() && name != b".." && name != b"." && !name.iter().any(|b| matches!(b, b'/' | 0));
    if !is_one {
        bail!("{}: invalid file name from the server: {}", dir.path, show::text(name));
    }
    Ok(Path::new(OsStr::from_bytes(name)))
}

/// Creates a local directory, or accepts an existing directory that is not a link.
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

fn link_here(at: &Path, to: &[u8], replace: bool) -> io::Result<()> {
    let to = OsStr::from_bytes(to);
    match symlink(to, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::read_link(at) {
            Ok(there) if there.as_os_str() == to => Ok(()),
            Ok(_) if replace => part::replace_link(at, to),
            _ => Err(error),
        },
        made => made,
    }
}

const RESERVED: &str = "the name is reserved for temporary files of nfs3";
const UNSUPPORTED: &str = "not a file, directory or symbolic link";

fn warn_skipped(what: &str, why: &str) {
    warn(format_args!("{}: skipped: {why}", show::text(what.as_bytes())));
}

/// Copies a tree into the URL's directory, or with `inside`, only the tree's contents. If that directory does
/// not exist, copies the tree to the URL's path.
pub(crate) async fn put(
    from: &Path,
    url: &Url,
    verify: bool,
    inside: bool,
    plan: &Plan,
) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let found = remote.find(&url.path).await;
    let mut pending = match found {
        Ok(dir) if dir.is_directory() && inside => children(from, &dir)?,
        Ok(dir) if dir.is_directory() => {
            let full_path = from.canonicalize().with_context(|| from.display().to_string())?;
            let name = full_path.file_name().with_context(|| from.display().to_string())?;
            vec![(from.to_owned(), (dir, Bytes::copy_from_slice(name.as_bytes())))]
        }
        Err(error) if !error.is_missing() => return Err(error.into()),
        _ => vec![(from.to_owned(), parent(&remote, url).await?)],
    };
    let mut transfers = Transfers::new(plan.tree.transfers);
    let (mut links, mut own) = (Vec::new(), 0_u64);
    while let Some((here, (above, name))) = pending.pop() {
        let shown = || here.display().to_string();
        let metadata = fs::symlink_metadata(&here).with_context(shown)?;
        if here != from && !plan.tree.selects(below(&here, from), metadata.is_dir()) {
            continue;
        }
        if here != from && part::is_own(&name) {
            warn_skipped(&shown(), RESERVED);
            own = own.saturating_add(1);
            continue;
        }
        if metadata.is_dir() {
            let mode = metadata.permissions().mode();
            let dir = remote.make_or_enter(&above, name, mode & 0o777).await?;
            pending.extend(children(&here, &dir)?);
        } else if metadata.is_symlink() {
            let target = fs::read_link(&here).with_context(shown)?;
            links.push((above, name, target));
        } else if metadata.is_file() {
            let to = (above, name);
            transfers.start(put_file(remote.clone(), (here, metadata), to, verify, plan.clone())).await?;
        } else {
            warn_skipped(&shown(), UNSUPPORTED);
        }
    }
    transfers.end_all().await?;
    // Links are created after the files, so that a new or changed link does not point to a missing file.
    for (above, name, target) in links {
        let target = target.as_os_str().as_bytes();
        match plan.changes {
            Some(_) => {
                let temporary = part::link_name(&name).into();
                remote.update_link(&above, name, target, temporary).await?;
            }
            None => remote.make_link(&above, name, target).await?,
        }
    }
    must_be_complete(from.as_os_str().as_bytes(), own)
}

/// A local file or directory, and its parent directory and name on the server.
type Pending = (PathBuf, (RemoteFile, Bytes));

fn children(here: &Path, dir: &RemoteFile) -> anyhow::Result<Vec<Pending>> {
    let shown = || here.display().to_string();
    let child = |entry: io::Result<DirEntry>| {
        let entry = entry.with_context(shown)?;
        Ok((entry.path(), (dir.clone(), Bytes::copy_from_slice(entry.file_name().as_bytes()))))
    };
    fs::read_dir(here).with_context(shown)?.map(child).collect()
}

async fn put_file(
    remote: Remote,
    (here, metadata): (PathBuf, Metadata),
    (above, name): (RemoteFile, Bytes),
    verify: bool,
    plan: Plan,
) -> anyhow::Result<()> {
    if let Some(compare) = plan.changes {
        match remote.lookup_in(&above, name.clone()).await {
            Ok(there) if is_same(&remote, &there, (&here, &metadata), compare).await? => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut source = File::open(&here).with_context(|| here.display().to_string())?;
    let mode = metadata.permissions().mode();
    let (file, sum) = store(&remote, (&above, name), &mut source, mode, false, plan.report).await?;
    if verify {
        read_back(&remote, &file, sum, plan.report).await?;
    }
    if plan.changes.is_some() {
        remote.set_modified(&file, modified(&metadata)).await?;
    }
    plan.report.copied(sum, &file.path)
}

pub(crate) async fn sync(from: &Location, to: &Location, plan: &Plan) -> anyhow::Result<()> {
    match (from, to) {
        (Location::Server(url), Location::Local(to)) => {
            let to = if to.is_dir() { followed(to)? } else { to.clone() };
            get(url, to, plan).await
        }
        (Location::Local(from), Location::Server(url)) => {
            if !fs::metadata(from).with_context(|| from.display().to_string())?.is_dir() {
                bail!("{}: is not a directory", from.display());
            }
            put(&followed(from)?, url, false, true, plan).await
        }
        _ => Err(Usage("sync needs one local directory and one URL").into()),
    }
}

/// If `directory` is a symbolic link, returns the path of its target. Otherwise, returns `directory`.
fn followed(directory: &Path) -> io::Result<PathBuf> {
    if directory.is_symlink() { directory.canonicalize() } else { Ok(directory.to_owned()) }
}
