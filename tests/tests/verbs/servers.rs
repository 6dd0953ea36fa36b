//! Calls over RDMA devices to servers of this library and of the kernel.

use super::*;

/// Runs `rdma link` of iproute2 with a time limit. Returns true if the command succeeded.
async fn rdma_link(arguments: &[&str], limit: Duration) -> bool {
    let mut command = tokio::process::Command::new("rdma");
    let run = command.arg("link").args(arguments).kill_on_drop(true).status();
    matches!(timeout(limit, run).await, Ok(Ok(status)) if status.success())
}

/// `RPCRDMA_VERBS_LINK` contains the device's name, kind and network device, for example `rxe0 rxe eth0`. The
/// test deletes the device under load and adds it again. Calls fail or wait while the device is missing. The
/// same client and server then continue.
#[tokio::test(flavor = "multi_thread")]
async fn calls_continue_once_the_device_is_back() {
    let Ok(link) = std::env::var("RPCRDMA_VERBS_LINK") else {
        return not_run::not_run("RPCRDMA_VERBS_LINK is not set: no device to delete and add again");
    };
    let Some(at) = device() else { return };
    for verbs in ways(at).await {
        let options = ClientOptions { timeout: Duration::from_secs(2), ..ClientOptions::default() };
        delete_and_add_device(at, verbs, options, &link).await;
    }
}

async fn delete_and_add_device(at: SocketAddr, verbs: VerbsOptions, options: ClientOptions, link: &str) {
    let [name, kind, network] = link.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{link}") };
    let server = Server::with_acceptor(listener(at, VerbsOptions::default()).await, ServerOptions::default());
    let server = server.expect("a server").service(Echo);
    let address = server.local_addr().expect("a local address");
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopping.await) }));
    let connector = VerbsConnector::new(address.to_string(), verbs);
    let client = Client::connect_via(connector, options).await.expect("the client connects");
    let caller = client.clone();
    let call = move |number| {
        let client = caller.clone();
        let args = Args::new(number, [5000, 10, 0], ResultLengths { note: 10, item: 5000, other: 0 });
        async move { client.call::<Echo>(&args).await.map(|result| assert_eq!(result, args.result())) }
    };
    call(1).await.expect("a result");
    let deleted = Arc::new(AtomicBool::new(false));
    // Makes sequential calls until the device is deleted. Returns the number of failed calls.
    let load = |number: u32| {
        let (call, deleted) = (call.clone(), deleted.clone());
        tokio::spawn(async move {
            let mut failed = 0;
            while !deleted.load(Ordering::Relaxed) {
                failed += u32::from(call(number).await.is_err());
            }
            failed
        })
    };
    let loads: Vec<_> = (2..40).map(load).collect();
    assert!(rdma_link(&["delete", name], Duration::from_secs(30)).await, "the device is not deleted");
    deleted.store(true, Ordering::Relaxed);
    let mut failed = 0;
    for calls in loads {
        failed += calls.await.expect("no panic");
    }
    assert!(failed > 0, "no call failed while the device was deleted");
    assert!(call(40).await.is_err(), "a call without a device must fail");
    assert!(rdma_link(&["add", name, "type", kind, "netdev", network], Duration::from_secs(30)).await);
    let mut succeeded = false;
    for number in 41..71 {
        succeeded = call(number).await.is_ok();
        if succeeded {
            break;
        }
    }
    assert!(succeeded, "no call succeeds over the restored device");
    client.close();
    drop(stop);
    serving.await.expect("no panic").expect("the server stops without an error");
}

fn windows() -> VerbsOptions {
    VerbsOptions { windows: MemoryWindows::Always, ..VerbsOptions::default() }
}

/// Each call has one chunk, and the server invalidates the chunk's handle. Client and server count the
/// invalidations.
///
/// Requirement: R286
#[tokio::test(flavor = "multi_thread")]
async fn a_server_invalidates_the_windows_of_calls() {
    let Some(at) = device() else { return };
    if ways(at).await.len() < 2 {
        return not_run::not_run("the device has no memory windows of type 2");
    }
    let server = Server::with_acceptor(listener(at, VerbsOptions::default()).await, ServerOptions::default());
    let server = server.expect("a server").service(Echo);
    let (address, stats) = (server.local_addr().expect("a local address"), server.stats());
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopping.await) }));
    let connector = VerbsConnector::new(address.to_string(), windows());
    let client = Client::connect_via(connector, ClientOptions::default()).await.expect("the client connects");
    let calls = (1..=50).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let args = Args::new(number, [0, 70_000, 0], ResultLengths { note: 10, item: 0, other: 0 });
            assert_eq!(client.call::<Echo>(&args).await.expect("a result"), args.result());
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("a result");
    }
    assert!(client.negotiated().remote_invalidation);
    let invalidated = client.stats().traffic.remote_invalidations;
    assert_eq!(invalidated, 50);
    assert_eq!(stats.snapshot().traffic.remote_invalidations, invalidated);
    client.close();
    drop(stop);
    serving.await.expect("no panic").expect("the server stops without an error");
}

async fn file_at(
    server: (&str, u16, u16),
    path: [&str; 2],
    verbs: VerbsOptions,
    credential: Credential,
) -> (Client, nfs_v3::Client<Client>, NfsFh3) {
    let ((host, port, mount_port), [export, name]) = (server, path);
    let mount = TcpClientOptions { credential: credential.clone(), ..TcpClientOptions::default() };
    let mount = TcpClient::connect_with(format!("{host}:{mount_port}"), mount).await.expect("mountd");
    let found = mount_v3::Client(mount).mnt(&Dirpath::from(export.to_owned())).await.expect("a reply");
    let Mountres3::Mnt3Ok(found) = found else { panic!("{found:?}") };
    let connector = VerbsConnector::new(format!("{host}:{port}"), verbs);
    let options = ClientOptions { credential, ..ClientOptions::default() };
    let client = Client::connect_via(connector, options).await.expect("the client connects");
    let nfs = nfs_v3::Client(client.clone());
    let what = Diropargs3 { dir: NfsFh3 { data: found.fhandle }, name: name.to_owned().into() };
    let found = nfs.lookup(&Lookup3Args { what }).await.expect("a reply");
    let Lookup3Res::Nfs3Ok(Lookup3Resok { object: file, .. }) = found else { panic!("{found:?}") };
    (client, nfs, file)
}

fn user(uid: u32) -> Credential {
    Credential::Sys(AuthSys { machine_name: "here".into(), uid, gid: uid, ..AuthSys::default() })
}

/// `RPCRDMA_VERBS_NFS3D` is the address of an `nfs3d` that runs as root on ports 20050 and 20051. This server
/// serves a file `long` that all users may write. For each call, a thread of the server assumes the caller's
/// identity. The kernel then rejects device requests from this thread. Long regions are registered while
/// threads with a caller's identity start and end.
#[tokio::test(flavor = "multi_thread")]
async fn long_calls_of_another_user() {
    let Ok(server) = std::env::var("RPCRDMA_VERBS_NFS3D") else {
        return not_run::not_run("RPCRDMA_VERBS_NFS3D is not set: no server to write to");
    };
    const LONG: u32 = 4 << 20;
    let (client, nfs, file) =
        file_at((&server, 20050, 20051), ["/", "long"], VerbsOptions::default(), user(1234)).await;
    let callers = (0..4u8).map(|caller| {
        let nfs = nfs.clone();
        tokio::spawn(async move {
            let offset = u64::from(caller) * u64::from(LONG);
            for round in 0..4 {
                let data = Bytes::from(vec![caller + 4 * round; LONG as usize]);
                let stable = StableHow::Unstable;
                let args = Write3Args { file, offset, count: LONG, stable, data: data.clone().into() };
                let written = nfs.write(&args).await.expect("a reply");
                assert!(matches!(&written, Write3Res::Nfs3Ok(done) if done.count == LONG), "{written:?}");
                let read = nfs.read(&Read3Args { file, offset, count: LONG }).await.expect("a reply");
                assert!(matches!(&read, Read3Res::Nfs3Ok(read) if read.data[..] == data), "round {round}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    assert_eq!(client.stats().reconnects(), 0);
}

/// `RPCRDMA_VERBS_KNFSD` is the address of the kernel's NFS server, which serves a file `/export/windowed` of
/// 1 MiB.
#[tokio::test]
async fn the_kernels_server_invalidates_windows() {
    let Ok(server) = std::env::var("RPCRDMA_VERBS_KNFSD") else {
        return not_run::not_run("RPCRDMA_VERBS_KNFSD is not set: no kernel server to write to");
    };
    let (client, nfs, file) =
        file_at((&server, 20049, 20048), ["/export", "windowed"], windows(), user(0)).await;
    let count = 1 << 16;
    for round in 0..32u8 {
        let offset = u64::from(round) % 16 * u64::from(count);
        let data = Bytes::from(vec![round; 1 << 16]);
        let args = Write3Args { file, offset, count, stable: StableHow::Unstable, data: data.clone().into() };
        let written = nfs.write(&args).await.expect("a reply");
        assert!(matches!(&written, Write3Res::Nfs3Ok(done) if done.count == count), "{written:?}");
        let read = nfs.read(&Read3Args { file, offset, count }).await.expect("a reply");
        assert!(matches!(&read, Read3Res::Nfs3Ok(read) if read.data[..] == data), "round {round}");
    }
    let traffic = client.stats().traffic;
    eprintln!("{traffic:?}");
    assert_eq!(traffic.remote_invalidations, 64);
}
