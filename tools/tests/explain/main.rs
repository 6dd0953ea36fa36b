//! Checks that `rpcrdma explain` shows the traffic in a capture correctly.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod browser;
mod hostile;
mod links;
mod problems;
mod programs;
mod traffic;
mod tshark;
mod vectors;
mod wireshark;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::*;
use rpcrdma_runtime::Config;
use rpcrdma_runtime::provider::iwarp::{self, Capture, CaptureFile};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::{CallReport, ClientOptions, Observer, ServerOptions};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_tools::explain::{self, Selection, Trace};

type Reports = Arc<Mutex<Vec<CallReport>>>;

fn framing(crc: bool, markers: bool) -> iwarp::IwarpOptions {
    iwarp::IwarpOptions { crc, markers, ..iwarp::IwarpOptions::default() }
}

async fn serve(iwarp: iwarp::IwarpOptions) -> SocketAddr {
    let export = Arc::new(MemoryExport::default());
    let server = Server::bind_with("127.0.0.1:0", ServerOptions { iwarp, ..ServerOptions::default() })
        .await
        .unwrap()
        .service(nfs_v3::Server(NfsHandler::new(export.clone())))
        .service(mount_v3::Server(MountHandler::new(export)));
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Returns a client that writes a capture to `path`, and the list of its call reports.
async fn client(address: SocketAddr, path: &Path, iwarp: iwarp::IwarpOptions) -> (Client, Reports) {
    let reports = Reports::default();
    let heard = reports.clone();
    // The minimum inline threshold, so that even short messages need chunks.
    let private_data = PrivateData::new(true, 1024, 1024);
    let capture = Capture::File(CaptureFile::create(path).unwrap());
    let options = ClientOptions {
        config: Config { private_data, ..Config::default() },
        iwarp: iwarp::IwarpOptions { capture, ..iwarp },
        observer: Some(Observer::new(move |report| heard.lock().unwrap().push(report.clone()))),
        ..ClientOptions::default()
    };
    (Client::connect_with(address, options).await.unwrap(), reports)
}

async fn root(client: &Client) -> NfsFh3 {
    let mount = mount_v3::Client(client.clone());
    let Mountres3::Mnt3Ok(mounted) = mount.mnt(&"/".into()).await.unwrap() else { panic!("MNT") };
    NfsFh3 { data: mounted.fhandle }
}

fn place(dir: NfsFh3, name: &str) -> Diropargs3 {
    Diropargs3 { dir, name: name.into() }
}

async fn create(nfs: &nfs_v3::Client<Client>, dir: NfsFh3, name: &str) -> NfsFh3 {
    let how = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
    let made = nfs.create(&Create3Args { r#where: place(dir, name), how }).await.unwrap();
    let Create3Res::Nfs3Ok(made) = made else { panic!("CREATE") };
    made.obj.unwrap()
}

/// Makes calls of every kind: inline calls, calls with Read, Write and Reply chunks, a call with a
/// Position-Zero Read chunk, and a call that fails.
async fn every_kind(client: &Client) {
    let nfs = nfs_v3::Client(client.clone());
    nfs.null().await.unwrap();
    let root = root(client).await;
    let file = create(&nfs, root, "data").await;
    let data: Vec<u8> = (0..300_003u32).map(|at| (at * 7 % 251) as u8).collect();
    let count = data.len() as u32;
    let args = Write3Args { file, offset: 0, count, stable: StableHow::FileSync, data: data.clone().into() };
    assert!(matches!(nfs.write(&args).await.unwrap(), Write3Res::Nfs3Ok(_)));
    let Read3Res::Nfs3Ok(read) = nfs.read(&Read3Args { file, offset: 0, count }).await.unwrap() else {
        panic!("READ")
    };
    assert!(*read.data == data);
    let lookup = nfs.lookup(&Lookup3Args { what: place(root, "nowhere") }).await.unwrap();
    assert!(matches!(lookup, Lookup3Res::Default(Nfsstat3::Nfs3errNoent, _)));
    for number in 0..20 {
        create(&nfs, root, &format!("a name that is a little longer {number}")).await;
    }
    let args =
        Readdirplus3Args { dir: root, cookie: 0, cookieverf: [0; 8], dircount: 8192, maxcount: 32_768 };
    assert!(matches!(nfs.readdirplus(&args).await.unwrap(), Readdirplus3Res::Nfs3Ok(_)));
    let symlink_data = "far/".repeat(240);
    let symlink =
        Symlinkdata3 { symlink_attributes: Sattr3::default(), symlink_data: symlink_data.as_str().into() };
    let args = Symlink3Args { r#where: place(root, "link"), symlink };
    assert!(matches!(nfs.symlink(&args).await.unwrap(), Symlink3Res::Nfs3Ok(_)));
}

/// Returns a capture of the calls of [`every_kind`], and the client's reports of these calls.
async fn captured(iwarp: iwarp::IwarpOptions) -> (Vec<u8>, Vec<CallReport>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let address = serve(iwarp.clone()).await;
    let (client, reports) = client(address, &path, iwarp).await;
    every_kind(&client).await;
    client.drain().await;
    let reports = reports.lock().unwrap().clone();
    (fs::read(&path).unwrap(), reports)
}

/// Returns a capture of a few calls, one of which fails.
async fn short() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let iwarp = framing(true, false);
    let address = serve(iwarp.clone()).await;
    let (client, _) = client(address, &path, iwarp).await;
    let nfs = nfs_v3::Client(client.clone());
    let root = root(&client).await;
    let lookup = nfs.lookup(&Lookup3Args { what: place(root, "nowhere") }).await.unwrap();
    assert!(matches!(lookup, Lookup3Res::Default(Nfsstat3::Nfs3errNoent, _)));
    let file = create(&nfs, root, "data").await;
    let args =
        Write3Args { file, offset: 0, count: 1500, stable: StableHow::FileSync, data: vec![7; 1500].into() };
    nfs.write(&args).await.unwrap();
    client.drain().await;
    fs::read(&path).unwrap()
}

fn text(trace: &Trace, selection: Selection) -> String {
    let mut out = Vec::new();
    explain::text(trace, &selection, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the text of a trace. Replaces or removes the parts that vary between runs, such as times, handles,
/// XIDs and ports.
fn redacted(trace: &Trace) -> String {
    let mut text = text(trace, Selection::default());
    for connection in &trace.connections {
        text = text.replace(&format!(":{}", connection.client.port()), ":CLIENT");
        text = text.replace(&format!(":{}", connection.server.port()), ":SERVER");
    }
    // The capture may end before the server has closed the connection.
    let words = text.lines().filter(|line| !line.ends_with("closes")).map(|line| {
        let line = line.split_once(", at 20").map_or(line, |(before, _)| before);
        let mut is_time = false;
        let redact = |word: &str| {
            // The files are created by this run, so their times vary.
            let was_time = std::mem::replace(&mut is_time, word.ends_with("seconds:"));
            if was_time { "N".to_owned() } else { redacted_word(word) }
        };
        let mut words: Vec<String> = line.split_whitespace().map(redact).collect();
        if ["arguments", "results"].contains(&words.first().map_or("", String::as_str)) {
            // The position where a value is truncated depends on the number of digits in its times.
            words.truncate(30);
        }
        if line.starts_with(' ') {
            words.insert(0, String::new());
        }
        words.join(" ")
    });
    words.collect::<Vec<_>>().join("\n")
}

fn redacted_word(word: &str) -> String {
    let bare = word.trim_end_matches([',', ';']);
    let rest = &word[bare.len()..];
    let is_time = bare.split_once('.').is_some_and(|(whole, part)| {
        part.len() == 3 && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit())
    });
    match bare {
        _ if is_time => format!("T{rest}"),
        _ if bare.starts_with("0x") => format!("0x{rest}"),
        // The `fsid` of the in-memory export varies between runs.
        _ if bare.len() > 8 && bare.bytes().all(|byte| byte.is_ascii_digit()) => format!("N{rest}"),
        _ => word.to_owned(),
    }
}
