//! Tests how `nfs3` moves, copies and syncs files, what it prints, and how it handles an interrupt.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn files_and_directories_are_moved() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(served.path().join("dir/below")).unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    for base in daemon.urls() {
        fs::write(served.path().join("file"), "content").unwrap();
        let url = |path: &str| format!("{base}{path}");
        let mv = |from: &str, to: &str| nfs3(here.path(), &["mv", &url(from), &url(to)]);
        succeeds(&mv("/file", "/dir/other"));
        assert_eq!(fs::read(served.path().join("dir/other")).unwrap(), b"content");
        succeeds(&mv("/dir/other", "/dir/below"));
        succeeds(&mv("/dir/below", "/moved"));
        assert!(served.path().join("moved/other").exists());
        let missing = mv("/none", "/x");
        assert_eq!(fails(&missing), (1, "nfs3: /none: no such file or directory (RENAME: NFS3ERR_NOENT)\n"));
        succeeds(&mv("/moved", "/dir/below"));
    }
    let [rdma, tcp] = daemon.urls().map(|base| format!("{base}/dir"));
    let apart = nfs3(here.path(), &["mv", &rdma, &tcp]);
    assert_eq!(fails(&apart), (2, "nfs3: mv needs two URLs on the same server\n"));
    daemon.stop(Signal::TERM);
}

#[test]
fn output_can_be_quiet_or_json() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(served.path().join("a \"b\""), vec![0; 3 << 20]).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/a%20%22b%22", daemon.url);
    let got = nfs3(here, &["get", "--json", &url, "copy"]);
    let line: serde_json::Value = serde_json::from_str(succeeds(&got)).unwrap();
    assert_eq!((&line["name"], line["sha256"].as_str().unwrap().len()), (&"copy".into(), 64));
    let listed = nfs3(here, &["--json", "ls", &daemon.url]);
    let line: serde_json::Value = serde_json::from_str(succeeds(&listed)).unwrap();
    assert_eq!(
        (&line["name"], &line["kind"], &line["size"]),
        (&"a \"b\"".into(), &"file".into(), &(3 << 20).into())
    );
    let quiet = nfs3(here, &["--json", "-q", "ls", &daemon.url]);
    assert_eq!(succeeds(&quiet), succeeds(&listed));
    for option in ["--include=a", "--exclude=a", "--transfers=2"] {
        let refused = nfs3(here, &["get", option, &url, "copy"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("--recursive"), "{refused:?}");
    }
    let info = nfs3(here, &["info", "--json", &url]);
    let line: serde_json::Value = serde_json::from_str(succeeds(&info)).unwrap();
    assert_eq!((&line["export"], &line["transport"]), (&"/".into(), &"rdma".into()));
    for (name, expected) in [("inline_call_max", 4096), ("read_max", 4 << 20), ("name_max", 255)] {
        assert_eq!(line[name], expected, "{line}");
    }
    assert!(line["space"]["total"].as_u64() > line["space"]["free"].as_u64(), "{line}");
    assert_eq!(line["symbolic_links"], true, "{line}");
    for arguments in [
        &["-q", "get", &url, "copy"][..],
        &["put", "--quiet", "--verify", "copy", &url],
        &["-q", "get", "-r", &daemon.url, "tree"],
        &["-q", "put", "-r", "tree", &format!("{}/again", daemon.url)],
        &["-q", "sync", "tree", &format!("{}/synced", daemon.url)],
    ] {
        assert_eq!(succeeds(&nfs3(here, arguments)), "");
    }
    assert_eq!(files(&served.path().join("synced")), ["a \"b\""]);
    std::os::unix::fs::symlink("tree", here.join("link")).unwrap();
    succeeds(&nfs3(here, &["sync", "link", &format!("{}/linked", daemon.url)]));
    assert!(!served.path().join("linked").is_symlink());
    assert_eq!(files(&served.path().join("linked")), ["a \"b\""]);
    for tree in
        [&["--json", "get", "-r", &daemon.url, "second"][..], &["put", "--json", "-r", "tree", &daemon.url]]
    {
        let output = nfs3(here, tree);
        let lines = succeeds(&output).lines();
        let parsed = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert!(parsed.into_iter().filter(|line| line["sha256"].is_string()).count() >= 1, "{output:?}");
    }
    let listed = nfs3(here, &["ls", "-lH", &url]);
    assert!(succeeds(&listed).contains(" 3.00 MiB "), "{listed:?}");
    daemon.stop(Signal::TERM);
}

fn files(top: &Path) -> Vec<String> {
    let mut pending = vec![top.to_owned()];
    let mut files = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                pending.push(entry);
            } else {
                files.push(entry.strip_prefix(top).unwrap().display().to_string());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn patterns_select_the_files_of_a_tree() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["top/x.c", "top/x.h", "top/sub/y.c", "top/sub/deep/z.c", "top/tmp/t.c"] {
        let file = served.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    let daemon = Daemon::start(served.path(), &[]);
    let chosen = ["--include", "*.c", "--exclude", "tmp", "--exclude", "sub/deep/*", "--transfers", "3"];
    let url = format!("{}/top", daemon.url);
    let got = nfs3(here.path(), &[&["get", "-r"][..], &chosen, &[&url, "got"]].concat());
    assert_eq!(succeeds(&got).lines().count(), 2);
    assert_eq!(files(&here.path().join("got")), ["sub/y.c", "x.c"]);
    let local = served.path().join("top").display().to_string();
    let put =
        nfs3(here.path(), &[&["put", "-r"][..], &chosen, &[&local, &format!("{}/put", daemon.url)]].concat());
    assert_eq!(succeeds(&put).lines().count(), 2);
    assert_eq!(files(&served.path().join("put")), ["sub/y.c", "x.c"]);
    let synced = nfs3(here.path(), &[&["sync", "--json"][..], &chosen, &[&url, "synced"]].concat());
    let lines =
        succeeds(&synced).lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(lines.filter(|line| line["sha256"].as_str().unwrap().len() == 64).count(), 2);
    assert_eq!(files(&here.path().join("synced")), ["sub/y.c", "x.c"]);
    daemon.stop(Signal::TERM);
}

#[test]
fn a_sync_copies_changes_only() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(here.path().join("from/sub")).unwrap();
    for index in 0..20 {
        fs::write(here.path().join(format!("from/sub/{index}")), format!("content {index}")).unwrap();
    }
    let daemon = Daemon::start_both(served.path(), &[]);
    let [rdma, tcp] = daemon.urls().map(|base| format!("{base}/copy"));
    let copied = |arguments: &[&str]| {
        let done = nfs3(here.path(), &[&["sync", "--transfers", "4"], arguments].concat());
        succeeds(&done).lines().count()
    };
    assert_eq!(copied(&["from", &rdma]), 20);
    assert_eq!(copied(&["from", &tcp]), 0);
    assert_eq!(copied(&[&tcp, "back"]), 20);
    assert_eq!(copied(&[&rdma, "back"]), 0);
    assert_eq!(files(&here.path().join("back")).len(), 20);
    // One file has a different size. Another file has the same size, but a different time.
    fs::write(here.path().join("from/sub/3"), "longer than before").unwrap();
    fs::write(here.path().join("from/sub/4"), "CONTENT 4").unwrap();
    assert_eq!(copied(&["from", &rdma]), 2);
    assert_eq!(fs::read(served.path().join("copy/sub/4")).unwrap(), b"CONTENT 4");
    // A file with the same size and time is copied only with `--checksum`.
    let changed = served.path().join("copy/sub/5");
    let time = fs::metadata(&changed).unwrap().modified().unwrap();
    fs::write(&changed, "CONTENT 5").unwrap();
    fs::File::options().write(true).open(&changed).unwrap().set_modified(time).unwrap();
    assert_eq!(copied(&["from", &rdma]), 0);
    assert_eq!(copied(&["--checksum", "from", &rdma]), 1);
    assert_eq!(fs::read(&changed).unwrap(), b"content 5");
    let both = nfs3(here.path(), &["sync", "from", "to"]);
    assert_eq!(fails(&both), (2, "nfs3: sync needs one local directory and one URL\n"));
    std::os::unix::fs::symlink("back", here.path().join("link")).unwrap();
    assert_eq!(copied(&[&rdma, "link"]), 2, "a link given as the destination is followed");
    // Only the size of this file differs.
    let longer = here.path().join("from/sub/6");
    let time = fs::metadata(&longer).unwrap().modified().unwrap();
    fs::write(&longer, "content 6 and more").unwrap();
    fs::File::options().write(true).open(&longer).unwrap().set_modified(time).unwrap();
    assert_eq!(copied(&["from", &rdma]), 1);
    daemon.stop(Signal::TERM);
}

/// If a missing `new/` were treated as the file name `new`, each copied file would replace the previous file.
#[test]
fn a_slash_after_the_target_requires_a_directory() {
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = here.path();
    fs::write(here.join("local"), "of here").unwrap();
    fs::write(served.path().join("there"), "of there").unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = |path: &str| format!("{}{path}", daemon.url);
    let refused = "nfs3: /new/: no such directory\n";
    assert_eq!(fails(&nfs3(here, &["put", "local", &url("/new/")])), (1, refused));
    assert_eq!(fails(&nfs3(here, &["mv", &url("/there"), &url("/new/")])), (1, refused));
    assert_eq!(fails(&nfs3(here, &["get", &url("/there"), "new/"])), (1, "nfs3: new/: no such directory\n"));
    assert_eq!((files(served.path()), files(here)), (vec!["there".to_owned()], vec!["local".to_owned()]));
    succeeds(&nfs3(here, &["mkdir", &url("/new")]));
    succeeds(&nfs3(here, &["put", "local", &url("/new/")]));
    succeeds(&nfs3(here, &["mv", &url("/there"), &url("/new/")]));
    assert_eq!(files(served.path()), ["new/local", "new/there"]);
    succeeds(&nfs3(here, &["mv", &url("/new"), &url("/other/")]));
    assert_eq!(files(served.path()), ["other/local", "other/there"]);
    daemon.stop(Signal::TERM);
}

#[test]
fn a_sync_changes_links() {
    use std::os::unix::fs::symlink;
    let (served, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/copy", daemon.url);
    fs::create_dir_all(here.path().join("copy/one")).unwrap();
    fs::create_dir(here.path().join("got")).unwrap();
    let [from, copy, back] =
        [here.path().join("copy"), served.path().join("copy"), here.path().join("got/copy")];
    let set = |target: &str| {
        for link in ["link", "one/link"].map(|name| from.join(name)) {
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
        }
    };
    let has = |tree: &Path, target: &str| {
        for link in ["link", "one/link"].map(|name| tree.join(name)) {
            assert_eq!(fs::read_link(link).unwrap().to_str(), Some(target));
        }
    };
    let syncs = [["copy", &url], [&url, "got/copy"]];
    let sync = |arguments: [&str; 2]| nfs3(here.path(), &[&["sync"][..], &arguments].concat());
    // With the target `one`, `link` refers to a directory.
    for target in ["one", "two"] {
        set(target);
        for arguments in syncs {
            assert_eq!(succeeds(&sync(arguments)), "", "links are not listed");
        }
        [&copy, &back].iter().for_each(|tree| has(tree, target));
    }
    // A sync removes the temporary link of an interrupted run. If a directory has the temporary name, the
    // sync fails and the old link stays.
    set("three");
    for (tree, arguments) in [(&copy, syncs[0]), (&back, syncs[1])] {
        let temporary = tree.join("link.nfs3-link");
        fs::create_dir(&temporary).unwrap();
        fails(&sync(arguments));
        assert_eq!(fs::read_link(tree.join("link")).unwrap().to_str(), Some("two"));
        fs::remove_dir(&temporary).unwrap();
        symlink("left", &temporary).unwrap();
        succeeds(&sync(arguments));
        has(tree, "three");
        assert!(fs::symlink_metadata(&temporary).is_err());
    }
    // Other commands change no links, and a sync does not replace a file with a link.
    set("four");
    assert_eq!(fails(&nfs3(here.path(), &["put", "-r", "copy", daemon.url.as_str()])).0, 1);
    has(&copy, "three");
    for (tree, arguments) in [(&copy, syncs[0]), (&back, syncs[1])] {
        fs::remove_file(tree.join("link")).unwrap();
        fs::write(tree.join("link"), "file").unwrap();
        assert_eq!(fails(&sync(arguments)).0, 1);
        assert_eq!(fs::read(tree.join("link")).unwrap(), b"file");
        fs::remove_file(tree.join("link")).unwrap();
        succeeds(&sync(arguments));
    }
    set("five");
    succeeds(&sync(syncs[0]));
    assert_eq!(fails(&nfs3(here.path(), &["get", "-r", &url, "got"])).0, 1);
    has(&back, "four");
    daemon.stop(Signal::TERM);
    // A sync of unchanged links needs no write access.
    let daemon = Daemon::start(served.path(), &["--read-only"]);
    succeeds(&sync(["copy", &format!("{}/copy", daemon.url)]));
    daemon.stop(Signal::TERM);
}

#[test]
fn capturing_tcp_or_a_device_causes_a_warning() {
    let served = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    let file = served.path().join("capture.pcap");
    let errors = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).env("RPCRDMA_PCAP", &file).output().unwrap();
        text(&output.stderr).to_owned()
    };
    let [nfs3, nfs3d] = [env!("CARGO_BIN_EXE_nfs3"), env!("CARGO_BIN_EXE_nfs3d")];
    let [rdma, tcp] = daemon.urls();
    assert_eq!(errors(nfs3, &["ls", rdma]), "");
    let warning = |how| format!("RPCRDMA_PCAP is ignored {how}: only iWARP is captured\n");
    assert_eq!(errors(nfs3, &["ls", tcp]), format!("nfs3: {}", warning("for tcp:// URLs")));
    daemon.stop(Signal::TERM);
    // Both programs print the warning before they fail.
    for (program, arguments) in [(nfs3, &["ls", "rdma://127.0.0.1:1/"][..]), (nfs3d, &["/none"])] {
        let errors = errors(program, &[&["--provider", "verbs"], arguments].concat());
        assert!(errors.contains(&warning("with --provider verbs")), "{errors}");
    }
}

/// Starts a program and waits until `ready` returns true. Then calls `silence`, which may stop the server.
/// Then interrupts the program. Returns the program's output, and the time from the signal to the program's
/// end.
fn interrupted(mut command: Command, ready: impl Fn() -> bool, silence: impl Fn()) -> (Output, Duration) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < deadline, "not ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    silence();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let began = Instant::now();
    // The output is read only after the program has ended.
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("an interrupted program has not ended after 30 s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    (output, took)
}

/// Asserts that one of at most 20 interrupted runs ends within a second. A busy machine can delay individual
/// runs, but a fixed delay of at least a second affects every run.
fn assert_ends_promptly(run: impl Fn() -> Duration) {
    let runs: Vec<Duration> =
        (0..20).map(|_| run()).take_while(|took| *took >= Duration::from_secs(1)).collect();
    assert!(runs.len() < 20, "{runs:?}");
}

#[test]
fn an_interrupted_run_ends_promptly_and_keeps_its_results() {
    let here = tempfile::tempdir().unwrap();
    // This server never replies.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}/file", silent.local_addr().unwrap());
    assert_ends_promptly(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3"));
        command.args(["get", &url]);
        let began = Instant::now();
        interrupted(command, || began.elapsed() > Duration::from_millis(500), || ()).1
    });

    let served = tempfile::tempdir().unwrap();
    fs::File::create(served.path().join("file")).unwrap().set_len(8 << 30).unwrap();
    let daemon = Daemon::start(served.path(), &[]);
    let url = format!("{}/file", daemon.url);
    let [part, state] = ["file.nfs3-part", "file.nfs3-state"].map(|name| here.path().join(name));
    assert_ends_promptly(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3"));
        command.current_dir(here.path()).args(["get", &url]);
        let signal = |signal| kill_process(Pid::from_child(&daemon.child), signal).unwrap();
        let has_data = || fs::metadata(&part).is_ok_and(|part| part.len() > 8 << 20);
        let (output, took) = interrupted(command, has_data, || signal(Signal::STOP));
        signal(Signal::CONT);
        let kept = "iB) of file; continue with `nfs3 get --resume`, `get -r` or `sync`";
        assert!(text(&output.stderr).contains(kept), "{output:?}");
        for file in [&part, &state] {
            fs::remove_file(file).unwrap();
        }
        took
    });

    // The program waits because nothing reads its output.
    assert_ends_promptly(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3"));
        command.args(["cat", &url]);
        let began = Instant::now();
        interrupted(command, || began.elapsed() > Duration::from_secs(1), || ()).1
    });
    daemon.stop(Signal::TERM);
}

#[tokio::test]
async fn the_empty_path_is_the_root() {
    let served = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_both(served.path(), &[]);
    let tcp = TcpClient::connect(tcp_of(&daemon.line)).await.unwrap();
    let mount = mount_v3::Client(tcp);
    let (empty, root) = (mount.mnt(&"".into()).await.unwrap(), mount.mnt(&"/".into()).await.unwrap());
    let (Mountres3::Mnt3Ok(empty), Mountres3::Mnt3Ok(root)) = (empty, root) else { panic!("not mounted") };
    assert_eq!(empty.fhandle, root.fhandle);
    daemon.stop(Signal::TERM);
}
