//! What has come of a file that is fetched, until it is whole.
//!
//! The data is in `NAME.nfs3-part`, and `NAME.nfs3-state` says which version of the server's file it is of, and how much of it is
//! on the disk with which sum. The state is written anew only when that data is on the disk, so it never says too much; what
//! lies behind is fetched again.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rpcrdma_examples::client::RemoteFile;
use sha2::{Digest as _, Sha256};

use crate::ending::Sum;

/// The state is written after so many bytes.
const STEP: u64 = 64 << 20;

pub(crate) struct Part {
    /// What it is to become.
    whole: PathBuf,
    file: File,
    version: String,
    sum: Sha256,
    length: u64,
    saved: u64,
}

/// The longest name that this machine's file systems take, in bytes.
const NAME_MAX: usize = 255;
const DATA: &str = ".nfs3-part";
const STATE: &str = ".nfs3-state";
const NEW_STATE: &str = ".nfs3-state-new";

/// Whether a name is one of those that are made here.
pub(crate) fn is_own(name: &[u8]) -> bool {
    [DATA, STATE, NEW_STATE].iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// A file beside another one; of a long name it has the beginning.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = name.get(..NAME_MAX.saturating_sub(ending.len())).unwrap_or(name);
    path.with_file_name(OsStr::from_bytes(&[kept, ending.as_bytes()].concat()))
}

/// What changes when a server's file does.
fn version(of: &RemoteFile) -> String {
    let at = &of.attributes;
    format!(
        "{}.{} {} {}.{:09} {}.{:09}",
        at.fsid, at.fileid, at.size, at.mtime.seconds, at.mtime.nseconds, at.ctime.seconds, at.ctime.nseconds
    )
}

impl Part {
    /// Begins a file, or goes on with it if there is something of this version and it can be.
    pub(crate) fn of(whole: &Path, remote: &RemoteFile, resume: bool) -> io::Result<Self> {
        let version = version(remote);
        if resume && let Some(part) = Part::saved(whole, &version)? {
            return Ok(part);
        }
        // A state that is left would be of other data.
        remove(&beside(whole, STATE))?;
        let options = File::options().read(true).write(true).create(true).truncate(true).mode(0o600).clone();
        let file = options.open(beside(whole, DATA))?;
        Ok(Part { whole: whole.to_owned(), file, version, sum: Sha256::new(), length: 0, saved: 0 })
    }

    /// What an earlier run has saved, if it is still that.
    fn saved(whole: &Path, version: &str) -> io::Result<Option<Self>> {
        let state = match fs::read_to_string(beside(whole, STATE)) {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut lines = state.lines();
        let length = lines.next().and_then(|line| line.parse::<u64>().ok());
        let expected = lines.next().and_then(|line| line.parse::<Sum>().ok());
        let (Some(length), Some(expected), Some(said)) = (length, expected, lines.next()) else {
            return Ok(None);
        };
        let mut file = match File::options().read(true).write(true).open(beside(whole, DATA)) {
            Ok(file) if said == version => file,
            _ => return Ok(None),
        };
        let mut sum = Sha256::new();
        let summed = io::copy(&mut (&mut file).take(length), &mut Summing(&mut sum))?;
        if summed != length || Sum::from(sum.clone()) != expected {
            return Ok(None);
        }
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        let (whole, version) = (whole.to_owned(), version.to_owned());
        Ok(Some(Part { whole, file, version, sum, length, saved: length }))
    }

    /// How much there is.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Takes what comes next.
    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.sum.update(data);
        self.length = self.length.saturating_add(data.len() as u64);
        if self.length.saturating_sub(self.saved) >= STEP { self.save() } else { Ok(()) }
    }

    /// Makes sure that a later run can go on from here.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.length == self.saved {
            return Ok(());
        }
        self.file.sync_data()?;
        let new = beside(&self.whole, NEW_STATE);
        let mut out = File::create(&new)?;
        writeln!(out, "{}\n{}\n{}", self.length, Sum::from(self.sum.clone()), self.version)?;
        out.sync_data()?;
        fs::rename(new, beside(&self.whole, STATE))?;
        self.saved = self.length;
        Ok(())
    }

    /// Whether the server's file is still the one that this is of.
    pub(crate) fn is_of(&self, remote: &RemoteFile) -> bool {
        self.version == version(remote)
    }

    /// The sum of what there is.
    pub(crate) fn sum(&self) -> Sum {
        self.sum.clone().into()
    }

    /// It is whole: gives it its name and permissions.
    pub(crate) fn finish(self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode & 0o777))?;
        fs::rename(beside(&self.whole, DATA), &self.whole)?;
        remove(&beside(&self.whole, STATE))
    }

    /// Forgets it.
    pub(crate) fn discard(self) -> io::Result<()> {
        remove(&beside(&self.whole, STATE))?;
        remove(&beside(&self.whole, DATA))
    }
}

/// Removes a file, unless there is none.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes everything, and sums it up.
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
