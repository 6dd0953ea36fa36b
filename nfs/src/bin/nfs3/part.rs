//! The received data of a file that is being fetched, until it is complete.
//!
//! The data is in `NAME.nfs3-part`. `NAME.nfs3-state` records the version of the server's file, and the
//! length and digest of the data. Data beyond that length is fetched again, and so is data that the disk
//! has lost: its digest differs.
//!
//! The lock of the data file covers the state too. Both files are regular files, and links are not
//! followed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use rpcrdma_nfs::cli::nfs3::Sum;
use rpcrdma_nfs::client::RemoteFile;
use rpcrdma_nfs::output::complain;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, umask};
use sha2::{Digest as _, Sha256};

/// Bytes between updates of the state.
const STEP: u64 = 64 << 20;
/// Maximum length of the state, in bytes.
const STATE_MAX: u64 = 1 << 10;

pub(crate) struct Part {
    /// The path of the complete file.
    whole: PathBuf,
    file: File,
    version: String,
    sum: Sha256,
    length: u64,
    saved: u64,
    /// Dropping it changes no file: the copy has not started, or the data has its final name or was
    /// removed.
    settled: bool,
}

/// Maximum length of a name in this machine's file systems, in bytes.
const NAME_MAX: usize = 255;
const DATA: &str = ".nfs3-part";
const STATE: &str = ".nfs3-state";
const NEW_STATE: &str = ".nfs3-state-new";

/// Returns true for names of the files that this module creates.
pub(crate) fn is_own(name: &[u8]) -> bool {
    [DATA, STATE, NEW_STATE].iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// Returns the path of a file next to another one, with a long name truncated.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = name.get(..NAME_MAX.saturating_sub(ending.len())).unwrap_or(name);
    path.with_file_name(OsStr::from_bytes(&[kept, ending.as_bytes()].concat()))
}

/// Returns a text that changes whenever the server's file does.
fn version(of: &RemoteFile) -> String {
    let at = &of.attributes;
    format!(
        "{}.{} {} {}.{:09} {}.{:09}",
        at.fsid, at.fileid, at.size, at.mtime.seconds, at.mtime.nseconds, at.ctime.seconds, at.ctime.nseconds
    )
}

/// Opens an existing file of this module: a regular file of this user.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let refuse = |what: &str| io::Error::other(format!("{}: {what}", path.display()));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Ok(file) => {
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(refuse("is not a regular file"));
            }
            // The owner could read and change the data.
            if metadata.uid() != geteuid().as_raw() {
                return Err(refuse(&format!("another user owns this file (uid {})", metadata.uid())));
            }
            Ok(file)
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Err(refuse("is a symbolic link")),
        Err(error) => Err(error),
    }
}

/// Opens and locks the data file, and keeps its content.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        let file = match options.create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match open_own(options.create_new(false), path) {
                    // The previous holder has finished.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    opened => opened?,
                }
            }
            made => made?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other(format!("{}: another nfs3 is at work on it", path.display())));
            }
            // Some file systems do not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have finished meanwhile: the opened file then has another name, or none.
        let opened = file.metadata()?;
        let is_it = |there: fs::Metadata| (there.dev(), there.ino()) == (opened.dev(), opened.ino());
        if fs::symlink_metadata(path).is_ok_and(is_it) {
            return Ok(file);
        }
    }
}

/// Reads the state: the length, digest and version of the data.
fn read_state(path: &Path) -> io::Result<Option<(u64, Sum, String)>> {
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
    /// Starts a file, or resumes it if there is valid data of this version.
    ///
    /// # Errors
    /// Also if another process is fetching the file.
    pub(crate) fn of(whole: &Path, remote: &RemoteFile, resume: bool) -> io::Result<Self> {
        let file = locked(&beside(whole, DATA))?;
        let mut part = Part {
            whole: whole.to_owned(),
            file,
            version: version(remote),
            sum: Sha256::new(),
            length: 0,
            saved: 0,
            settled: true,
        };
        if !(resume && part.go_on()?) {
            // A remaining state would not match the new data.
            remove(&beside(whole, STATE))?;
            part.file.set_len(0)?;
            part.file.rewind()?;
        }
        part.settled = false;
        Ok(part)
    }

    /// Resumes the data that an earlier run has saved, if it is unchanged.
    fn go_on(&mut self) -> io::Result<bool> {
        let Some((length, expected, version)) = read_state(&beside(&self.whole, STATE))? else {
            return Ok(false);
        };
        if version != self.version {
            return Ok(false);
        }
        let mut sum = Sha256::new();
        let summed = io::copy(&mut (&mut self.file).take(length), &mut Summing(&mut sum))?;
        if summed != length || Sum::from(sum.clone()) != expected {
            return Ok(false);
        }
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        (self.sum, self.length, self.saved) = (sum, length, length);
        Ok(true)
    }

    /// Returns the length of the data.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends data.
    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.sum.update(data);
        self.length = self.length.saturating_add(data.len() as u64);
        if self.length.saturating_sub(self.saved) >= STEP { self.save() } else { Ok(()) }
    }

    /// Saves the state, so that a later run can resume here.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.save_state()
    }

    fn save_state(&mut self) -> io::Result<()> {
        if self.length == self.saved {
            return Ok(());
        }
        let new = beside(&self.whole, NEW_STATE);
        remove(&new)?;
        let mut out = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(out, "{}\n{}\n{}", self.length, Sum::from(self.sum.clone()), self.version)?;
        out.sync_data()?;
        fs::rename(new, beside(&self.whole, STATE))?;
        self.saved = self.length;
        Ok(())
    }

    /// Returns true if the server's file still has this version.
    pub(crate) fn is_of(&self, remote: &RemoteFile) -> bool {
        self.version == version(remote)
    }

    /// Returns the digest of the data.
    pub(crate) fn sum(&self) -> Sum {
        self.sum.clone().into()
    }

    /// Completes the file: renames it, and sets the permissions without those that this process's umask
    /// withholds.
    pub(crate) fn finish(mut self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode & 0o777 & !umask_bits()))?;
        // Even after a crash, the name must refer to the complete data.
        self.file.sync_all()?;
        fs::rename(beside(&self.whole, DATA), &self.whole)?;
        self.settled = true;
        remove(&beside(&self.whole, STATE))
    }

    /// Discards the data.
    pub(crate) fn discard(mut self) -> io::Result<()> {
        self.settled = true;
        remove(&beside(&self.whole, STATE))?;
        remove(&beside(&self.whole, DATA))
    }
}

impl Drop for Part {
    /// Keeps the data of a copy that failed or was interrupted, without waiting for the disk: data that is
    /// lost there has another digest than the state.
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // If the data cannot be kept, the error that ended the copy is the more useful one.
        if self.length == 0 {
            let _ = remove(&beside(&self.whole, STATE)).and(remove(&beside(&self.whole, DATA)));
        } else if self.save_state().is_ok() {
            let kept = HumanBytes(self.length);
            complain("nfs3", format_args!("kept {} bytes ({kept}); --resume continues", self.length));
        }
    }
}

/// Returns the permissions that new files of this process do not get. No other thread creates files.
fn umask_bits() -> u32 {
    // The system returns the umask only when another one is set.
    let withheld = umask(Mode::RWXG | Mode::RWXO);
    umask(withheld);
    withheld.bits()
}

/// Removes a file if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Accepts all data and computes its digest.
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
    use super::*;

    #[test]
    fn long_names_have_room() {
        let long = PathBuf::from("/dir").join("n".repeat(255));
        let part = beside(&long, STATE);
        assert_eq!(part.file_name().unwrap().len(), 255);
        assert!(is_own(part.file_name().unwrap().as_bytes()));
        assert_eq!(beside(Path::new("/dir/a"), DATA), Path::new("/dir/a.nfs3-part"));
    }
}
