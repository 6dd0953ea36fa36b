//! Files that `nfs3` creates on this machine.

use super::*;

#[test]
fn a_partial_file_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return not_run::not_run("only root can change owners");
    }
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(served.path().join("file"), "content").unwrap();
    let part = here.path().join("file.nfs3-part");
    fs::write(&part, "theirs").unwrap();
    std::os::unix::fs::chown(&part, Some(1234), None).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    for arguments in [&["get", &url][..], &["get", "--resume", &url]] {
        let refused = nfs3(here.path(), arguments);
        let why = "nfs3: file: file.nfs3-part: owned by another user (uid 1234)\n";
        assert_eq!(fails(&refused), (1, why));
        assert_eq!(fs::read(&part).unwrap(), b"theirs");
    }
    fs::remove_file(&part).unwrap();
    succeeds(&nfs3(here.path(), &["get", &url]));
    daemon.stop(Signal::TERM);
}

#[test]
fn fetched_files_obey_the_umask() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = served.path().join("file");
    fs::write(&there, "content").unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o777)).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    for (umask, mode) in [("000", 0o777), ("022", 0o755), ("077", 0o700)] {
        let url = format!("{}/file", daemon.url);
        let get = format!("umask {umask}; exec \"$@\"");
        let got = Command::new("sh")
            .args(["-c", &get, "sh", env!("CARGO_BIN_EXE_nfs3"), "get", &url, umask])
            .current_dir(here.path())
            .output();
        succeeds(&got.unwrap());
        assert_eq!(fs::metadata(here.path().join(umask)).unwrap().mode() & 0o7777, mode, "{umask}");
    }
    daemon.stop(Signal::TERM);
}
