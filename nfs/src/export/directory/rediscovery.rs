use rustix::fs::{Dir, Mode, OFlags, openat};

use super::stat::Stat;
use super::sweep::open_directory;
use super::{DirectoryExport, FileKind, names};

/// Maximum number of files to record: about 150 MB of memory.
const FILES_MAX: u32 = 1 << 20;

impl DirectoryExport {
    /// Records the location of every served file, up to [`FILES_MAX`], so that handles from before a restart
    /// of the server can be resolved. Skips unreadable directories.
    pub(super) fn record_all(&self) {
        self.record_up_to(FILES_MAX);
    }

    fn record_up_to(&self, max: u32) {
        // Stores no paths: a client can create many directories with long paths.
        let mut pending = vec![self.root.key];
        let mut learnt = 0;
        while let Some(key) = pending.pop() {
            let Ok(path) = self.table.path(key, self.root.key) else { continue };
            let Ok(dir) = open_directory(&self.top, &path) else { continue };
            // cap-std opens directories only for lookups, not for reading.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let listed = openat(&dir, c".", flags, Mode::empty()).and_then(Dir::new);
            let (Ok(of), Ok(listed)) = (Stat::of(&dir), listed) else { continue };
            for entry in listed.map_while(Result::ok) {
                let name = entry.file_name().to_bytes();
                if names::is_dot(name) {
                    continue;
                }
                let Ok(stat) = Stat::of_name(&dir, name) else { continue };
                // With `cross_mounts`, the root may also be mounted below itself.
                if self.must_be_served(&stat).is_err() || stat.key == self.root.key {
                    continue;
                }
                self.table.record(stat.key, stat.is(FileKind::Directory), of.key, name);
                if stat.is(FileKind::Directory) {
                    pending.push(stat.key);
                }
                learnt += 1;
                if learnt >= max {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_ends_at_the_maximum_number_of_files() {
        assert_eq!(FILES_MAX, 1_048_576);
        let dir = tempfile::tempdir().unwrap();
        let export = DirectoryExport::open(dir.path()).unwrap();
        let before = export.table.len();
        for number in 0..4 {
            std::fs::create_dir(dir.path().join(number.to_string())).unwrap();
            std::fs::write(dir.path().join(format!("{number}/file")), "").unwrap();
        }
        export.record_up_to(6);
        assert_eq!(export.table.len(), before + 6);
        export.record_all();
        assert_eq!(export.table.len(), before + 8);
    }
}
