//! Protects handles from being guessed, with a checksum that only a server with the key can compute.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use siphasher::sip128::{Hasher128, SipHasher24};

const LEN: usize = 16;

/// The key of a server's handles. All handles become stale if the key changes, so the key must survive
/// restarts.
#[derive(Clone)]
pub struct HandleKey([u8; LEN]);

impl HandleKey {
    /// Returns a new key.
    ///
    /// # Errors
    /// Fails if the system provides no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut key = [0; LEN];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(HandleKey(key))
    }

    /// Returns the key in a file. If the file does not exist, creates it with a new key and the mode 0600.
    /// Servers that create the file concurrently get the same key.
    ///
    /// # Errors
    /// Fails if the file can be neither read nor created, is not a key, grants rights to other users, or does
    /// not belong to the process's user.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match HandleKey::load(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                HandleKey::random()?.keep(path)?;
                HandleKey::load(path)
            }
            loaded => loaded,
        }
    }

    /// Loads the key from a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a key, grants rights to other users, or does not belong to
    /// the process's user.
    pub fn load(path: &Path) -> io::Result<Self> {
        // With O_NONBLOCK, opening a FIFO does not wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a handle key: not a regular file"));
        }
        if metadata.uid() != geteuid().as_raw() {
            let why = format!("another user owns the key file (uid {})", metadata.uid());
            return Err(io::Error::other(why));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::other("other users can access the key file; run chmod 600"));
        }
        let mut key = Vec::new();
        file.take(LEN as u64 + 1).read_to_end(&mut key)?;
        let key = key.try_into().map_err(|_| io::Error::other("not a handle key: expected 16 bytes"))?;
        Ok(HandleKey(key))
    }

    /// Derives the key of the export at a path. Exports with different paths have different keys, so each
    /// export recognizes its own handles. The export at `/` uses this key unchanged.
    #[must_use]
    pub fn of_export(&self, path: &str) -> Self {
        if path == "/" { self.clone() } else { HandleKey(self.sum(path.as_bytes()).to_be_bytes()) }
    }

    /// Stores the key atomically, unless the file exists.
    fn keep(&self, path: &Path) -> io::Result<()> {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            DirBuilder::new().recursive(true).mode(0o700).create(above)?;
        }
        let mut new = path.as_os_str().to_owned();
        // The unpredictable name and `create_new` prevent writing through another user's link.
        new.push(format!(".{:016x}-new", getrandom::u64().map_err(io::Error::other)?));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let made = file.write_all(&self.0).and_then(|()| file.sync_all()).and_then(|()| {
            match fs::hard_link(&new, path) {
                // Another server created the file first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            }
        });
        made.and(fs::remove_file(&new))
    }

    /// Returns the 128-bit SipHash-2-4 of the content.
    pub(super) fn sum(&self, content: &[u8]) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(content);
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleKey(..)")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/below/key");
        let first = HandleKey::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(HandleKey::load_or_create(&path).unwrap().0, first.0);
        assert_ne!(HandleKey::random().unwrap().0, first.0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
        assert!(!format!("{first:?}").contains(&first.0[0].to_string()));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(HandleKey::load_or_create(&path).unwrap_err().to_string().contains("chmod 600"));
        assert!(HandleKey::load(dir.path()).unwrap_err().to_string().contains("not a regular file"));
        for wrong in [&b""[..], b"fifteen octets.", b"of seventeen octe"] {
            fs::write(&path, wrong).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(
                HandleKey::load_or_create(&path).unwrap_err().to_string().contains("not a handle key"),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_key_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("key"), dir.path().join("elsewhere"));
        let guessed = dir.path().join(format!("key.{}-new", std::process::id()));
        std::os::unix::fs::symlink(&elsewhere, &guessed).unwrap();
        HandleKey::load_or_create(&path).unwrap();
        assert!(!elsewhere.exists());
    }

    #[test]
    fn a_key_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        HandleKey::load_or_create(&path).unwrap();
        if !geteuid().is_root() {
            return not_run::not_run("only root can change the owner of files");
        }
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        assert!(
            HandleKey::load_or_create(&path)
                .unwrap_err()
                .to_string()
                .contains("another user owns the key file (uid 1234)")
        );
    }

    #[test]
    fn concurrently_created_keys_are_equal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let rival = HandleKey::random().unwrap();
        rival.keep(&path).unwrap();
        HandleKey::random().unwrap().keep(&path).unwrap();
        assert_eq!(HandleKey::load_or_create(&path).unwrap().0, rival.0);
    }

    #[test]
    fn exports_at_different_paths_have_different_keys() {
        let key = HandleKey::random().unwrap();
        let of = |path| key.of_export(path).0;
        assert_eq!(of("/"), key.0);
        assert_eq!(of("/a"), of("/a"));
        assert!(of("/a") != of("/b") && of("/a") != key.0);
    }

    #[test]
    fn the_checksum_is_siphash() {
        // The first 8 bytes of the first 128-bit test vector in the reference implementation of SipHash-2-4.
        let key = HandleKey(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        assert_eq!(key.sum(b"").to_le_bytes()[..8], [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6]);
        assert_ne!(key.sum(b"a"), key.sum(b"b"));
    }
}
