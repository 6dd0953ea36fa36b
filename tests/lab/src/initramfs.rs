//! Writes initramfs images: cpio archives in the "newc" format, which the kernel unpacks at boot.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An archive writer. All files in the archive belong to root.
pub(super) struct Archive<W: Write> {
    out: W,
    /// The number of entries so far, which is also the inode number of the last entry. In this format, files
    /// with the same inode number can be hard links, so each entry has its own number.
    files: u32,
}

impl Archive<BufWriter<File>> {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Archive { out: BufWriter::new(File::create(path)?), files: 0 })
    }
}

impl<W: Write> Archive<W> {
    /// Adds a file, directory or symbolic link. `mode` includes the file type. `name` has no leading slash.
    pub(super) fn add(&mut self, name: &[u8], mode: u32, content: &[u8]) -> io::Result<()> {
        self.files += 1;
        let size = u32::try_from(content.len()).map_err(|_| io::Error::other("file of at least 4 GiB"))?;
        let name_size =
            u32::try_from(name.len() + 1).map_err(|_| io::Error::other("name of at least 4 GiB"))?;
        let fields = [self.files, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name)?;
        // The header with the null-terminated name is padded to a multiple of four bytes, and so is the
        // content.
        self.out.write_all(&[0; 4][..1 + padding(110 + name.len() + 1)])?;
        self.out.write_all(content)?;
        self.out.write_all(&[0; 4][..padding(content.len())])
    }

    /// Adds all files, directories and symbolic links below `root`, in a fixed order so that the same tree
    /// produces the same archive.
    pub(super) fn add_tree(&mut self, root: &Path) -> io::Result<()> {
        self.add_tree_at(root, b"")
    }

    /// Like [`Archive::add_tree`], but prepends `prefix` to all names. The prefix must be empty or end with a
    /// slash.
    pub(super) fn add_tree_at(&mut self, root: &Path, prefix: &[u8]) -> io::Result<()> {
        let mut pending = vec![root.to_path_buf()];
        while let Some(folder) = pending.pop() {
            let mut entries = fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                let about = path.symlink_metadata()?;
                let content = if about.is_symlink() {
                    fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
                } else if about.is_file() {
                    fs::read(&path)?
                } else {
                    Vec::new()
                };
                let name = path.strip_prefix(root).map_err(io::Error::other)?;
                let name = [prefix, name.as_os_str().as_bytes()].concat();
                self.add(&name, about.mode(), &content)?;
                if about.is_dir() {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.add(b"TRAILER!!!", 0, b"")?;
        self.out.flush()
    }
}

fn padding(len: usize) -> usize {
    len.next_multiple_of(4) - len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_padded_to_a_multiple_of_four() {
        let mut bytes = Vec::new();
        let mut archive = Archive { out: &mut bytes, files: 0 };
        archive.add(b"dir", 0o040_755, b"").unwrap();
        archive.add(b"dir/file", 0o100_644, b"hello").unwrap();
        archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let second = 110 + 4 + 2;
        assert_eq!(&bytes[110..second], b"dir\0\0\0");
        assert_eq!(&bytes[second..second + 6], b"070701");
        assert_eq!(&bytes[second + 54..second + 62], b"00000005", "the size of the file");
        let content = second + 110 + 9 + 1;
        assert_eq!(&bytes[content..content + 8], b"hello\0\0\0");
    }
}
