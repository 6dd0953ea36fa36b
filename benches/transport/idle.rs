//! Measures a server's memory per idle iWARP connection, and how fast a server with 10,000 idle connections
//! serves a new client.
//!
//! The server is a separate process, so that its resident memory excludes the clients.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::NfsHandler;
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ServerOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SERVE: &str = "RPCRDMA_BENCH_SERVE";
/// The number of connections over which the memory is averaged.
const MEASURED: usize = 1000;
/// The number of idle connections while a new client connects.
const CROWD: usize = 10_000;
/// The goal for the server's memory per idle connection, in KiB.
const GOAL_KIB: f64 = 16.0;

/// In the server process, serves until a line or the end of standard input arrives, and returns true. In any
/// other process, returns false.
#[expect(clippy::print_stdout, reason = "the parent reads the address from standard output")]
pub(crate) fn serve_if_child() -> bool {
    if std::env::var_os(SERVE).is_none() {
        return false;
    }
    raise_descriptor_limit();
    let runtime = super::Flavour::Spawned.runtime();
    let options = ServerOptions {
        max_connections: 2 * CROWD,
        max_connections_per_address: 2 * CROWD,
        ..ServerOptions::default()
    };
    let server = runtime.block_on(Server::bind_with("127.0.0.1:0", options)).unwrap();
    let server = server.service(nfs_v3::Server(NfsHandler::new(MemoryExport::default().into())));
    println!("{}", server.local_addr().unwrap());
    runtime.spawn(server.run(std::future::pending()));
    drop(std::io::stdin().lines().next());
    true
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
pub(crate) fn measure() {
    let descriptors = raise_descriptor_limit();
    let runtime = super::Flavour::Spawned.runtime();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(SERVE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address: SocketAddr = line.trim().parse().unwrap();

    println!("\nIdle iWARP connections");
    let mut clients = runtime.block_on(connect(address, 10));
    let before = resident_kib(&child);
    clients.extend(runtime.block_on(connect(address, MEASURED)));
    std::thread::sleep(Duration::from_millis(500));
    let each = (resident_kib(&child) - before) / MEASURED as f64;
    println!(
        "  the server's resident memory: {each:.1} KiB for each of {MEASURED} connections (goal: below {GOAL_KIB})"
    );
    // Reserve descriptors for everything except the clients.
    let crowd = CROWD.min(descriptors.saturating_sub(100)).max(clients.len());
    let more = crowd - clients.len();
    clients.extend(runtime.block_on(connect(address, more)));
    let start = Instant::now();
    runtime.block_on(connect(address, 1));
    println!("  a new client's first reply with {crowd} idle connections takes {:.0?}", start.elapsed());
    if crowd < CROWD {
        println!("  fewer than {CROWD} connections: the limit on open files is {descriptors}");
    }
    drop(child.stdin.take().map(|mut stdin| stdin.write_all(b"\n")));
    drop(child.wait());
}

/// Returns clients that have completed one call and stay connected.
async fn connect(address: SocketAddr, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let options = ClientOptions { idle: None, ..ClientOptions::default() };
        let client = Client::connect_with(address, options).await.unwrap();
        nfs_v3::Client(client.clone()).null().await.unwrap();
        clients.push(client);
    }
    clients
}

fn resident_kib(process: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX))
}
