//! Kerberos with the kernel's client and server, in both directions. The KDC runs on the host.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rpcrdma_nfs::security::Security;
use rustix::process::geteuid;

use crate::guest::{Guest, Siw, guest};
use crate::place::inside;
use crate::realm::{self, Realm, USER};
use crate::served::Served;

const SERVICES: [Security; 3] = [Security::Krb5, Security::Krb5i, Security::Krb5p];
/// The port at which Linux's client creates its contexts over TCP if it uses NFS over RDMA (`rpc.gssd`).
const GSSD_PORT: u16 = 2049;
/// The time limit of a mount that fails.
const LIMIT: Duration = Duration::from_secs(120);
/// The user ID of the guest's user with a ticket.
const GUEST_USER: u32 = 1000;

/// Creates the keys of the servers and of the guest, and starts the guest's side of the realm.
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
    guest.run(&format!(
        "set -e
         cp /host/guest.conf /etc/krb5.conf; cp /host/guest.keytab /etc/krb5.keytab
         cp /host/tickets /tmp/krb5cc_{GUEST_USER}; chown {GUEST_USER} /tmp/krb5cc_{GUEST_USER}
         modprobe -a sunrpc rpcsec_gss_krb5 cts
         mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
         (rpc.gssd -f -vvv >/run/gssd.log 2>&1 &)"
    ));
}

#[test]
fn the_kernels_client_and_server_work_with_each_service() {
    if inside().is_some() {
        return;
    }
    let Some(mut guest) = guest(Siw::Mended) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(realm) = Realm::start(folder.path()) else { return };
    join(&guest, &realm, folder.path());
    the_client(&guest, &realm, folder.path());
    the_server(&mut guest, &realm, folder.path());
}

/// Linux's client and `nfs3d`, over RDMA and TCP.
fn the_client(guest: &Guest, realm: &Realm, folder: &Path) {
    let dir = folder.join("served");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = realm.command(Path::new(env!("CARGO_BIN_EXE_nfs3d")));
    command.arg(&dir).args(["--sec", "krb5,krb5i,krb5p"]).env("XDG_STATE_HOME", folder);
    let served = Served::run(&mut command, 0, GSSD_PORT);
    let (rdma, tcp) = (served.rdma, served.tcp);
    for sec in SERVICES {
        for (proto, port) in [("rdma", rdma), ("tcp", tcp)] {
            let name = format!("{sec}-{proto}");
            guest.run(&format!(
                "modprobe -a rpcrdma nfs nfsv3
                 options=vers=3,sec={sec},proto={proto},port={port},nolock,mountproto=tcp,mountport={tcp}
                 mount -t nfs -o $options host:/ /mnt || {{ tail -n 40 /run/gssd.log; exit 1; }}
                 grep ' /mnt nfs .*proto={proto}.*sec={sec},' /proc/mounts || exit 1
                 head -c 300000 /dev/urandom >/tmp/data; chmod 644 /tmp/data
                 su -s /bin/sh user -c 'cp /tmp/data /mnt/{name}' || {{ tail -n 40 /run/gssd.log; exit 1; }}
                 umount /mnt; mount -t nfs -o $options host:/ /mnt; cmp /tmp/data /mnt/{name} && umount /mnt"
            ));
            let created = fs::metadata(dir.join(&name)).unwrap();
            assert_eq!(created.len(), 300_000, "{name}");
            if geteuid().is_root() {
                assert_eq!(created.uid(), 1, "{name}: the user of the principal");
            }
        }
    }
    let options = format!("vers=3,sec=sys,proto=rdma,port={rdma},nolock,mountproto=tcp,mountport={tcp}");
    let (status, output) = guest.try_run(&format!("mount -t nfs -o {options} host:/ /mnt"), LIMIT);
    assert_ne!(status, 0, "AUTH_SYS must be rejected: {output}");
}

/// `nfs3` and Linux's server, over RDMA.
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
    fs::write(&data, vec![7; 300_000]).unwrap();
    for sec in SERVICES {
        let at = format!("rdma://127.0.0.1:{}/export/{sec}", ports.nfs_rdma);
        let url = format!("{at}?mountport={}&sec={sec}", ports.mount);
        let copy = folder.join(format!("copy-{sec}"));
        nfs3(realm, guest, &["put", data.to_str().unwrap(), &url]);
        nfs3(realm, guest, &["get", &url, copy.to_str().unwrap()]);
        assert_eq!(fs::read(copy).unwrap(), fs::read(&data).unwrap(), "{sec}");
    }
    guest.stop_serving();
    guest.run(
        "kill $(pidof rpc.svcgssd) $(pidof rpc.gssd); cp /run/exports /etc/exports; rm -f /export/krb5*",
    );
}

fn nfs3(realm: &Realm, guest: &Guest, arguments: &[&str]) {
    let mut command = realm.command(Path::new(env!("CARGO_BIN_EXE_nfs3")));
    let output = command.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}\n{}", guest.run("tail -n 40 /run/svcgssd.log"));
}
