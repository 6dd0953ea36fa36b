//! An incomplete file that is being fetched.
//!
//! The data is in `NAME.nfs3-part`. `NAME.nfs3-state` records the version of the server's file, and the
//! length and digest of the data. Data beyond that length is fetched again. If the disk has lost data, the
//! digest differs and all data is fetched again.
//!
//! The lock on the data file protects both files. Each must be a regular file that this user owns. Symbolic
//! links are not followed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use indicatif::HumanBytes;
use rpcrdma_nfs::client::{Digest, RemoteFile};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, umask};
use sha2::{Digest as _, Sha256};

use crate::report::warn;
use crate::show;

/// Number of new bytes after which a running copy saves its state.
const STEP: u64 = 64 << 20;
/// Maximum length of the state, in bytes.
const STATE_MAX: u64 = 1 << 10;

/// The process's umask. Reading the umask with umask(2) changes it temporarily, so a file that another thread
/// creates meanwhile could get the wrong mode. `main` therefore initializes this value before other threads
/// start.
pub(crate) static UMASK: LazyLock<u32> = LazyLock::new(|| {
    let withheld = umask(Mode::RWXG | Mode::RWXO);
    umask(withheld);
    withheld.bits()
});

pub(crate) struct Part {
    /// The path of the complete file.
    target: PathBuf,
    file: File,
    version: String,
    sum: Sha256,
    length: u64,
    saved: u64,
    /// Waits until the content of a file is on the disk.
    sync: fn(&File) -> io::Result<()>,
    /// True if dropping this value must not change the files: the copy has not started, is complete or was
    /// discarded.
    done: bool,
}

/// Maximum length of a file name on Linux, in bytes.
const NAME_MAX: usize = 255;
const DATA: &str = ".nfs3-part";
const STATE: &str = ".nfs3-state";
const NEW_STATE: &str = ".nfs3-state-new";
/// The suffix of a new symbolic link that has not yet replaced the old link.
const LINK: &str = ".nfs3-link";

/// Returns true if this module may have created a file with this name.
pub(crate) fn is_own(name: &[u8]) -> bool {
    [DATA, STATE, NEW_STATE, LINK].iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    path.with_file_name(OsStr::from_bytes(&with_suffix(name, suffix)))
}

/// Appends a suffix to a name. If the result would be too long, a digest of the name replaces the name's end.
fn with_suffix(name: &[u8], suffix: &str) -> Vec<u8> {
    if name.len() + suffix.len() <= NAME_MAX {
        return [name, suffix.as_bytes()].concat();
    }
    let digest =
        Sha256::digest(name).iter().take(8).fold(0, |digest: u64, byte| digest << 8 | u64::from(*byte));
    let suffix = format!("-{digest:016x}{suffix}");
    let kept = name.get(..NAME_MAX.saturating_sub(suffix.len())).unwrap_or(name);
    [kept, suffix.as_bytes()].concat()
}

pub(crate) fn link_name(name: &[u8]) -> Vec<u8> {
    with_suffix(name, LINK)
}

/// Replaces the symbolic link `at` with a link to `to`. If the replacement fails, the old link stays.
pub(crate) fn replace_link(at: &Path, to: &OsStr) -> io::Result<()> {
    let new = beside(at, LINK);
    remove(&new)?;
    symlink(to, &new)?;
    // If the rename fails, its error is more useful than an error from the removal.
    fs::rename(&new, at).inspect_err(|_| drop(remove(&new)))
}

/// Returns a string that identifies a version of the server's file: file system, file ID, size, modification
/// time and change time.
fn version(of: &RemoteFile) -> String {
    let at = &of.attributes;
    format!(
        "{}.{} {} {}.{:09} {}.{:09}",
        at.fsid, at.fileid, at.size, at.mtime.seconds, at.mtime.nseconds, at.ctime.seconds, at.ctime.nseconds
    )
}

/// Opens an existing regular file that this user owns.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let refuse = |what: &str| io::Error::other(format!("{}: {what}", path.display()));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Ok(file) => {
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(refuse("is not a regular file"));
            }
            // Another owner could read and change the data.
            if metadata.uid() != geteuid().as_raw() {
                return Err(refuse(&format!("owned by another user (uid {})", metadata.uid())));
            }
            Ok(file)
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Err(refuse("is a symbolic link")),
        Err(error) => Err(error),
    }
}

/// Opens or creates the data file, keeps its content, and locks the file.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        let file = match options.create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match open_own(options.create_new(false), path) {
                    // Another process has just renamed or removed the file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    opened => opened?,
                }
            }
            made => made?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other(format!("{}: in use by another nfs3 process", path.display())));
            }
            // Some file systems do not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Another process may have renamed or removed the file meanwhile. Then `path` no longer refers to the
        // opened file.
        let opened = file.metadata()?;
        let is_it = |there: fs::Metadata| (there.dev(), there.ino()) == (opened.dev(), opened.ino());
        if fs::symlink_metadata(path).is_ok_and(is_it) {
            return Ok(file);
        }
    }
}

/// Returns the length, digest and version of the data, or `None` if the state file is missing or invalid.
fn read_state(path: &Path) -> io::Result<Option<(u64, Digest, String)>> {
    let file = match open_own(File::options().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut state = Vec::new();
    file.take(STATE_MAX).read_to_end(&mut state)?;
    let parsed = String::from_utf8(state).ok().and_then(|state| {
        let mut lines = state.lines();
        let length = lines.next()?.parse().ok()?;
        let sum = lines.next()?.parse().ok()?;
        Some((length, sum, lines.next()?.to_owned()))
    });
    Ok(parsed)
}

impl Part {
    /// With `resume`, keeps the existing data if it is intact and belongs to the current version of the
    /// server's file. Otherwise starts over.
    ///
    /// # Errors
    /// Fails if another process is fetching the file, if the data file or the state file is not a regular
    /// file that this user owns, or if a file operation fails.
    pub(crate) fn open(target: &Path, remote: &RemoteFile, resume: bool) -> io::Result<Self> {
        let mut part = Part::locked(target, version(remote))?;
        if !(resume && part.try_resume()?) {
            // An old state would not match the new data.
            remove(&beside(target, STATE))?;
            part.file.set_len(0)?;
            part.file.rewind()?;
        }
        part.done = false;
        Ok(part)
    }

    fn locked(target: &Path, version: String) -> io::Result<Self> {
        Ok(Part {
            target: target.to_owned(),
            file: open_locked(&beside(target, DATA))?,
            version,
            sum: Sha256::new(),
            length: 0,
            saved: 0,
            sync: File::sync_data,
            done: true,
        })
    }

    /// Keeps the data that the state describes, and truncates the rest. Returns false if the state is missing
    /// or invalid, or if the data is incomplete, has changed, or belongs to another version.
    fn try_resume(&mut self) -> io::Result<bool> {
        let Some((length, expected, version)) = read_state(&beside(&self.target, STATE))? else {
            return Ok(false);
        };
        if version != self.version {
            return Ok(false);
        }
        let mut sum = Sha256::new();
        let summed = io::copy(&mut (&mut self.file).take(length), &mut Summing(&mut sum))?;
        if summed != length || Digest::from(sum.clone()) != expected {
            return Ok(false);
        }
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        (self.sum, self.length, self.saved) = (sum, length, length);
        Ok(true)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends `data`, and saves the state after every [`STEP`] bytes of new data.
    ///
    /// # Errors
    /// Fails if the data or the state cannot be written. The error contains the path of the data file and the
    /// reason.
    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.try_append(data).map_err(|error| {
            let path = beside(&self.target, DATA);
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })
    }

    fn try_append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.sum.update(data);
        self.length = self.length.saturating_add(data.len() as u64);
        if self.length.saturating_sub(self.saved) >= STEP { self.save() } else { Ok(()) }
    }

    pub(crate) fn save(&mut self) -> io::Result<()> {
        (self.sync)(&self.file)?;
        self.save_state(self.sync)
    }

    /// Replaces the saved state if data was appended since the last save. `sync` is called with the new state
    /// file and may wait until the file is on the disk.
    fn save_state(&mut self, sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
        if self.length == self.saved {
            return Ok(());
        }
        let new = beside(&self.target, NEW_STATE);
        remove(&new)?;
        let mut out = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(out, "{}\n{}\n{}", self.length, Digest::from(self.sum.clone()), self.version)?;
        sync(&out)?;
        fs::rename(new, beside(&self.target, STATE))?;
        self.saved = self.length;
        Ok(())
    }

    pub(crate) fn has_version_of(&self, remote: &RemoteFile) -> bool {
        self.version == version(remote)
    }

    pub(crate) fn sum(&self) -> Digest {
        self.sum.clone().into()
    }

    /// Completes the copy: sets the permissions, restricted by the umask, and renames the data file.
    pub(crate) fn finish(mut self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode & 0o777 & !*UMASK))?;
        // Even after a crash, the name must refer to complete data.
        self.file.sync_all()?;
        fs::rename(beside(&self.target, DATA), &self.target)?;
        self.done = true;
        remove(&beside(&self.target, STATE))
    }

    pub(crate) fn discard(mut self) -> io::Result<()> {
        self.done = true;
        remove(&beside(&self.target, STATE))?;
        remove(&beside(&self.target, DATA))
    }
}

impl Drop for Part {
    /// Saves the state of a failed or interrupted copy without waiting for the disk, or removes the files if
    /// there is no data. After a crash, a later run uses the state on disk. If this state is
    /// missing or invalid, or does not match the data, the run fetches all data again.
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // Errors are ignored here, because the error that ended the copy is more useful.
        if self.length == 0 {
            let _ = remove(&beside(&self.target, STATE)).and(remove(&beside(&self.target, DATA)));
        } else if self.save_state(|_| Ok(())).is_ok() {
            let kept = HumanBytes(self.length);
            let file = show::text(self.target.as_os_str().as_bytes());
            let length = self.length;
            warn(format_args!(
                "kept {length} bytes ({kept}) of {file}; continue with `nfs3 get --resume`, `get -r` or `sync`"
            ));
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) struct Summing<'a>(pub(crate) &'a mut Sha256);

impl Write for Summing<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.update(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn names_with_suffixes_differ_and_are_not_too_long() {
        assert_eq!(with_suffix(b"file", DATA), b"file.nfs3-part");
        let [shortest, next] = [244, 245].map(|length| "a".repeat(length) + "b");
        assert_eq!(with_suffix(shortest.as_bytes(), DATA).len(), 255);
        let other = "a".repeat(245) + "c";
        let long = [&next, &other].map(|name| with_suffix(name.as_bytes(), DATA));
        assert!(long[0] != long[1] && long.iter().all(|name| name.len() == 255 && is_own(name)), "{long:?}");
    }

    #[test]
    fn an_interrupted_copy_is_saved_without_waiting_for_the_disk() {
        static SYNCS: AtomicUsize = AtomicUsize::new(0);
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("file");
        let mut part = Part::locked(&target, "version".to_owned()).unwrap();
        part.sync = |_| {
            SYNCS.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        part.done = false;
        part.append(b"some").unwrap();
        part.save().unwrap();
        assert_eq!(SYNCS.load(Ordering::Relaxed), 2);
        part.append(b" data").unwrap();
        drop(part);
        assert_eq!(SYNCS.load(Ordering::Relaxed), 2);
        let mut part = Part::locked(&target, "version".to_owned()).unwrap();
        assert!(part.try_resume().unwrap());
        assert_eq!(part.length(), 9);
    }

    #[test]
    fn a_suffix_shortens_a_long_name() {
        let long = PathBuf::from("/dir").join("n".repeat(255));
        let part = beside(&long, STATE);
        assert_eq!(part.file_name().unwrap().len(), 255);
        assert!(is_own(part.file_name().unwrap().as_bytes()));
        assert_eq!(beside(Path::new("/dir/a"), DATA), Path::new("/dir/a.nfs3-part"));
    }
}
