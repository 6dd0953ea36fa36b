//! The exports of a process share one limit on cached descriptors. This file has only one test, because the
//! exports of another test in the same process would also count.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs::export::{CreateHow, Export, NfsCaller, SetAttributes, Stability};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

struct Served {
    directory: TempDir,
    export: DirectoryExport,
}

impl Served {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let export = DirectoryExport::open(directory.path()).unwrap();
        Served { directory, export }
    }

    fn write(&self, name: usize) {
        let (caller, how) = (NfsCaller::ROOT, CreateHow::Guarded(SetAttributes::default()));
        let name = name.to_string();
        let made = self.export.create(&caller, &self.export.root(), name.as_bytes(), &how).result.unwrap();
        let data = Bytes::from_static(b"content");
        self.export.write(&caller, &made.handle, 0, &data, Stability::Unstable).result.unwrap();
    }

    fn open(&self) -> usize {
        let path = self.directory.path().canonicalize().unwrap();
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let links = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        // The directory itself is always open and does not count.
        links.filter(|link| link.starts_with(&path) && *link != path).count()
    }

    /// Like `open`, but waits until at most `max` files are open: the cache stops counting a descriptor
    /// shortly before it closes the descriptor. The wait is shorter than the idle timeout.
    fn open_up_to(&self, max: usize) -> usize {
        let counts = (0..40).map(|turn| {
            std::thread::sleep(Duration::from_millis(turn));
            self.open()
        });
        counts.into_iter().find(|open| *open <= max).expect("more files than the maximum are open")
    }

    /// Writes files until `max` are open, which may take more than `max` files if the machine is so busy that
    /// some become idle. Then writes more files, and checks that no more than `max` are open.
    fn fill(&self, max: usize) {
        let is_full = |name| {
            self.write(max * 10_000 + name);
            self.open_up_to(max) == max
        };
        let last = (1..5_000).find(|name| is_full(*name)).expect("fewer files than the maximum are open");
        for name in 1..=max {
            is_full(last + name);
        }
    }
}

#[test]
fn exports_share_a_quarter_of_the_open_files() {
    let limit = Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let first = Served::new();
    first.fill(32);

    let second = Served::new();
    second.fill(16);
    // When the first export opens its next file, it closes the descriptors above its new maximum.
    first.fill(16);

    // The remaining export can use the share of a dropped export.
    drop(first);
    second.fill(32);
}
