//! If a call runs out of file descriptors after it has created a file, the call removes the file. This
//! source file has only one test, because another test in the same process would also use descriptors.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use bytes::Bytes;
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs::export::{Export, FileKind, Found, NfsCaller, NfsError, SetAttributes};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs a call while only one descriptor is free. The call uses this descriptor for the directory.
fn with_one_descriptor<T>(call: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    // The system always assigns the lowest free number, so only `next` is free below the new limit.
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    let low = Rlimit { current: Some(u64::try_from(next).unwrap() + 1), ..limit };
    setrlimit(Resource::Nofile, low).unwrap();
    let result = call();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}

#[test]
fn a_call_without_descriptors_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let export = DirectoryExport::open(dir.path()).unwrap();
    let (caller, root, new) = (NfsCaller::ROOT, export.root(), SetAttributes::default());
    let target = Bytes::from_static(b"target");
    let fifo = (FileKind::Fifo, (0, 0));
    let calls: [&dyn Fn() -> Result<Found, NfsError>; 3] = [
        &|| export.mkdir(&caller, &root, b"name", &new).result,
        &|| export.symlink(&caller, &root, b"name", &target, &new).result,
        &|| export.mknod(&caller, &root, b"name", fifo, &new).result,
    ];
    for call in calls {
        assert_eq!(with_one_descriptor(call).unwrap_err(), NfsError::JukeBox);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    calls[0]().unwrap();
}
