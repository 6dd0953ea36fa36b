//! Kerberos: the kernel's client with `nfs3d`, and `nfs3` with the kernel's server. The KDC runs on the host.

mod repeating;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rpcrdma_nfs::security::Security;
use rustix::process::geteuid;

use crate::guest::{Guest, Siw, guest};
use crate::place::inside;
use crate::realm::{self, Realm, USER};
use crate::relay::Relay;
use crate::served::Served;
use repeating::repeating;

const SERVICES: [Security; 3] = [Security::Krb5, Security::Krb5i, Security::Krb5p];
/// The server's TCP port. Linux's `rpc.gssd` connects to this port to create contexts for a mount over RDMA.
const GSSD_PORT: u16 = 2049;
/// The time limit for a command that must fail, and for the first part of a transfer.
const LIMIT: Duration = Duration::from_secs(120);
/// The time after which a ticket with a lifetime of 30 s has expired.
const EXPIRY: Duration = Duration::from_secs(35);
const GUEST_USER: u32 = 1000;

/// Creates the keys and a ticket, configures the realm in the guest, and starts `rpc.gssd` there.
fn join(guest: &Guest, realm: &Realm, folder: &Path) {
    let at = folder.display();
    // The guest reaches our server on the host as `host`. This program reaches the guest as 127.0.0.1.
    realm.admin(&format!(
        "addprinc -randkey nfs/host\nktadd -k {at}/keytab nfs/host\n\
         addprinc -randkey host/guest\nktadd -k {at}/guest.keytab host/guest\n\
         addprinc -randkey nfs/127.0.0.1\nktadd -k {at}/guest.keytab nfs/127.0.0.1\n"
    ));
    realm::ticket(&mut realm.command(Path::new("kinit")), USER, "1h");
    let client = fs::read_to_string(folder.join("krb5.conf")).unwrap();
    fs::write(folder.join("guest.conf"), client.replace("127.0.0.1", "10.0.2.2")).unwrap();
    for name in ["guest.conf", "guest.keytab", "tickets"] {
        guest.bring(folder.join(name).to_str().unwrap());
    }
    set_clock(guest);
    guest.run(&format!(
        "set -e
         cp /host/guest.conf /etc/krb5.conf; cp /host/guest.keytab /etc/krb5.keytab
         cp /host/tickets /tmp/krb5cc_{GUEST_USER}; chown {GUEST_USER} /tmp/krb5cc_{GUEST_USER}
         modprobe -a sunrpc rpcsec_gss_krb5 cts
         mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
         (rpc.gssd -f -vvv >/run/gssd.log 2>&1 &)"
    ));
}

/// Sets the guest's clock, which starts at the host's time rounded down to a full second. The realm allows
/// clocks to differ by 1 s.
fn set_clock(guest: &Guest) {
    let set = || {
        let now = UNIX_EPOCH.elapsed().unwrap();
        guest.run(&format!("date -s @{}", now.as_secs_f64()));
        UNIX_EPOCH.elapsed().unwrap() - now
    };
    assert!((0..10).any(|_| set() < Duration::from_millis(500)), "setting the guest's clock takes too long");
}

#[test]
fn the_kernels_client_and_server_work_with_each_service() {
    if inside().is_some() {
        return;
    }
    let Some(mut guest) = guest(Siw::Fixed) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(realm) = Realm::start(folder.path()) else { return };
    join(&guest, &realm, folder.path());
    the_client(&guest, &realm, folder.path());
    the_server(&mut guest, &realm, folder.path());
}

struct LinuxClient<'a> {
    guest: &'a Guest,
    realm: &'a Realm,
    folder: &'a Path,
    dir: PathBuf,
    transports: [(&'static str, u16); 2],
}

fn the_client(guest: &Guest, realm: &Realm, folder: &Path) {
    let dir = folder.join("served");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut served = nfs3d(realm, folder, 0);
    let (rdma, tcp) = (served.rdma, served.tcp);
    let client = LinuxClient { guest, realm, folder, dir, transports: [("rdma", rdma), ("tcp", tcp)] };
    client.copies_files();
    client.repeats_calls(tcp);
    for (sec, transport) in SERVICES.into_iter().flat_map(|sec| client.transports.map(|to| (sec, to))) {
        client.mount(sec, transport);
        guest.run(&as_user("touch /mnt/before"));
        served.kill();
        served = nfs3d(realm, folder, rdma);
        guest.run(&as_user("touch /mnt/after; rm /mnt/before /mnt/after"));
        guest.run("umount /mnt");
    }
    client.needs_a_new_ticket();
    let options = format!("vers=3,sec=sys,proto=rdma,port={rdma},nolock,mountproto=tcp,mountport={tcp}");
    let (status, output) = guest.try_run(&format!("mount -t nfs -o {options} host:/ /mnt"), LIMIT);
    assert_ne!(status, 0, "AUTH_SYS must be rejected: {output}");
}

fn nfs3d(realm: &Realm, folder: &Path, rdma: u16) -> Served {
    let mut command = realm.command(Path::new(env!("CARGO_BIN_EXE_nfs3d")));
    command.arg(folder.join("served")).args(["--sec", "krb5,krb5i,krb5p"]).env("XDG_STATE_HOME", folder);
    Served::run(&mut command, rdma, GSSD_PORT)
}

impl LinuxClient<'_> {
    fn mount(&self, sec: Security, (proto, port): (&str, u16)) {
        let [_, (_, tcp)] = self.transports;
        self.guest.run(&format!(
            "modprobe -a rpcrdma nfs nfsv3
             options=vers=3,sec={sec},proto={proto},port={port},nolock,mountproto=tcp,mountport={tcp}
             mount -t nfs -o $options host:/ /mnt || {{ tail -n 40 /run/gssd.log; exit 1; }}
             grep ' /mnt nfs .*proto={proto}.*sec={sec},' /proc/mounts"
        ));
    }

    fn copies_files(&self) {
        self.guest.run("head -c 300000 /dev/urandom >/tmp/data; chmod 644 /tmp/data");
        for sec in SERVICES {
            for transport in self.transports {
                let name = format!("{sec}-{}", transport.0);
                self.mount(sec, transport);
                self.guest.run(&as_user(&format!("cp /tmp/data /mnt/{name}")));
                self.guest.run("umount /mnt");
                self.mount(sec, transport);
                self.guest.run(&format!("cmp /tmp/data /mnt/{name} && umount /mnt"));
                let made = fs::metadata(self.dir.join(&name)).unwrap();
                assert_eq!(made.len(), 300_000, "{name}");
                if geteuid().is_root() {
                    assert_eq!(made.uid(), 1, "{name} must belong to the user of the principal");
                }
            }
        }
    }

    /// Sends each call in a GSS context to our server twice, over TCP. The calls change no files, so their
    /// replies are not cached, and the server must drop the repeated calls (RFC 2203 section 5.3.3.1).
    fn repeats_calls(&self, tcp: u16) {
        for sec in SERVICES {
            let (relay, records) = repeating(tcp);
            self.mount(sec, ("tcp", relay.port));
            self.guest.run(&as_user(
                "for name in 1 2 3 4 5 6 7 8 9 10 11 12; do test ! -e /mnt/missing-$name || exit 1; done",
            ));
            self.guest.run("umount /mnt");
            let [calls, replies] = records.counts();
            assert_eq!(replies, calls, "{sec}: each call gets one reply");
        }
    }

    fn needs_a_new_ticket(&self) {
        for (sec, transport) in SERVICES.into_iter().flat_map(|sec| self.transports.map(|to| (sec, to))) {
            self.bring_ticket(&format!("short-{sec}-{}", transport.0), "30s");
            self.mount(sec, transport);
            self.guest.run(&as_user("touch /mnt/before"));
            thread::sleep(EXPIRY);
            let (status, output) = self.guest.try_run(&as_user("touch /mnt/expired"), LIMIT);
            let made = self.dir.join("expired").exists();
            assert!(status != 0 && !made, "{transport:?}: a call with an expired ticket must fail: {output}");
            let reasons = ["Permission denied", "Key has expired"];
            assert!(reasons.iter().any(|reason| output.contains(reason)), "{transport:?}: {output}");
            self.bring_ticket(&format!("long-{sec}-{}", transport.0), "1h");
            self.guest.run(&as_user("touch /mnt/after; rm /mnt/before /mnt/after"));
            self.guest.run("umount /mnt");
        }
    }

    /// Gets a ticket and installs it for the guest's user. The guest caches shared files, so each ticket
    /// needs a new `name`.
    fn bring_ticket(&self, name: &str, lifetime: &str) {
        realm::ticket(&mut self.realm.command(Path::new("kinit")), USER, lifetime);
        let copy = self.folder.join(name);
        fs::copy(self.folder.join("tickets"), &copy).unwrap();
        let shared = self.guest.bring(copy.to_str().unwrap());
        self.guest.run(&format!(
            "cp {shared} /tmp/new; chown {GUEST_USER} /tmp/new; mv /tmp/new /tmp/krb5cc_{GUEST_USER}"
        ));
    }
}

/// Returns a script that runs a command as `user`, the guest's user that has the ticket.
fn as_user(command: &str) -> String {
    format!("su -s /bin/sh user -c '{command}' || {{ tail -n 40 /run/gssd.log; exit 1; }}")
}

fn the_server(guest: &mut Guest, realm: &Realm, folder: &Path) {
    guest.stop_serving();
    guest.run(
        "cp /etc/exports /run/exports
         echo '/export *(rw,fsid=1,sec=krb5:krb5i:krb5p,no_subtree_check,insecure)' >/etc/exports
         modprobe -a nfsd; mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null
         mkdir -p /var/tmp
         (rpc.svcgssd -f -vvv -n >/run/svcgssd.log 2>&1 &)",
    );
    guest.serve();
    let ports = guest.ports();
    let data = folder.join("data");
    fs::write(&data, vec![7; 4_000_000]).unwrap();
    let transports = [("rdma", ports.nfs_rdma), ("tcp", ports.nfs_tcp)];
    let url = |sec: Security, transport: &str, port: u16| {
        let query = format!("mountport={}&sec={sec}", ports.mount);
        format!("{transport}://127.0.0.1:{port}/export/{sec}-{transport}?{query}")
    };
    for sec in SERVICES {
        for (transport, port) in transports {
            let url = url(sec, transport, port);
            let copy = folder.join(format!("copy-{sec}-{transport}"));
            succeed(guest, nfs3(realm, &["put", data.to_str().unwrap(), &url]));
            succeed(guest, nfs3(realm, &["get", &url, copy.to_str().unwrap()]));
            assert_eq!(fs::read(copy).unwrap(), fs::read(&data).unwrap(), "{url}");
        }
    }
    for sec in SERVICES {
        let (relay, records) = repeating(ports.nfs_tcp);
        let url = url(sec, "tcp", relay.port);
        // When a call is repeated, the kernel's server does not drop it but closes the connection.
        let output = nfs3(realm, &["put", data.to_str().unwrap(), &url]).wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("closed by the peer"), "{sec}: {message}");
        let [calls, replies] = records.counts();
        assert!(replies <= calls, "{sec}: {replies} replies to {calls} calls");
    }
    for (sec, (transport, port)) in SERVICES.into_iter().flat_map(|sec| transports.map(|to| (sec, to))) {
        let copy = folder.join(format!("interrupted-{sec}-{transport}"));
        let get = |event: &dyn Fn()| {
            let (relay, is_reached, release) = Relay::holding(port, 1_000_000);
            let url = url(sec, transport, relay.port);
            let child = nfs3(realm, &["get", &url, copy.to_str().unwrap()]);
            let blocked = is_reached.recv_timeout(LIMIT).map(|()| event()).is_ok();
            drop(release);
            succeed(guest, child);
            assert!(blocked, "{url}: the relay must block");
            assert_eq!(fs::read(&copy).unwrap(), fs::read(&data).unwrap(), "{url}");
            fs::remove_file(&copy).unwrap();
        };
        // The server deletes its contexts while the relay blocks.
        get(&|| drop(guest.run("date +%s >/proc/net/rpc/auth.rpcsec.context/flush")));
        // The first ticket expires while the relay blocks. The relay blocks for less than the client's stall
        // timeout.
        realm::ticket(&mut realm.command(Path::new("kinit")), USER, "15s");
        get(&|| {
            realm::ticket(&mut realm.command(Path::new("kinit")), USER, "1h");
            thread::sleep(Duration::from_secs(18));
        });
    }
    guest.stop_serving();
    guest.run(
        "kill $(pidof rpc.svcgssd) $(pidof rpc.gssd); cp /run/exports /etc/exports; rm -f /export/krb5*",
    );
}

fn nfs3(realm: &Realm, arguments: &[&str]) -> Child {
    let mut command = realm.command(Path::new(env!("CARGO_BIN_EXE_nfs3")));
    command.args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn succeed(guest: &Guest, program: Child) {
    let output = program.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}\n{}", guest.run("tail -n 40 /run/svcgssd.log"));
}
