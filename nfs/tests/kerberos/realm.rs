//! A Kerberos realm for a test: a KDC on loopback, with all files in a temporary directory.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use not_run::not_run;

/// The environment variable that contains the path of the realm's directory.
pub(crate) const DIRECTORY: &str = "RPCRDMA_REALM";
const PASSWORD: &str = "secret";
/// Debian installs the programs of a KDC in this directory, which is not in the PATH of users.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";

/// A principal whose user has user ID 1 on Debian.
pub(crate) const USER: &str = "daemon";
/// A principal without a user.
pub(crate) const STRANGER: &str = "stranger";

pub(crate) struct Realm {
    folder: PathBuf,
    kdc: Child,
}

impl Realm {
    /// Starts a realm with the principals [`USER`] and [`STRANGER`], the key of `nfs/localhost` in `keytab`,
    /// and the key of `nfs/elsewhere` in `elsewhere.keytab`. If the programs are missing, records that the
    /// test did not run, and returns `None`.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let programs = ["krb5kdc", "kdb5_util", "kadmin.local", "kinit"].map(find);
        let [Some(krb5kdc), Some(kdb5_util), Some(_), Some(_)] = programs else {
            not_run("missing packages: krb5-kdc krb5-admin-server krb5-user");
            return None;
        };
        let at = folder.display();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let client = format!(
            "[libdefaults]\n default_realm = RPCRDMA.TEST\n dns_lookup_kdc = false\n dns_lookup_realm = false\n \
             dns_canonicalize_hostname = false\n rdns = false\n clockskew = 1\n\
             [realms]\n RPCRDMA.TEST = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        );
        let server = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n RPCRDMA.TEST = {{\n  database_name = {at}/principals\n  key_stash_file = {at}/stash\n }}\n\
             [logging]\n kdc = FILE:{at}/kdc.log\n"
        );
        fs::write(folder.join("krb5.conf"), client).unwrap();
        fs::write(folder.join("kdc.conf"), server).unwrap();
        feed(command(folder, &kdb5_util).args(["create", "-s", "-P", PASSWORD]), "");
        let mut kdc = command(folder, &krb5kdc);
        let kdc = kdc.args(["-n", "-P"]).arg(folder.join("pid")).stdout(Stdio::null()).spawn().unwrap();
        let realm = Realm { folder: folder.to_owned(), kdc };
        realm.admin(&format!(
            "addprinc -pw {PASSWORD} {USER}\naddprinc -pw {PASSWORD} {STRANGER}\n\
             addprinc -randkey nfs/localhost\nktadd -k {at}/keytab nfs/localhost\n\
             addprinc -randkey nfs/elsewhere\nktadd -k {at}/elsewhere.keytab nfs/elsewhere\n"
        ));
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < deadline, "the KDC is not listening");
            thread::sleep(Duration::from_millis(20));
        }
        Some(realm)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        command(&self.folder, program)
    }

    pub(crate) fn admin(&self, commands: &str) {
        feed(&mut self.command(&find("kadmin.local").unwrap()), commands);
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = self.kdc.kill();
        let _ = self.kdc.wait();
    }
}

pub(crate) fn ticket(kinit: &mut Command, principal: &str, lifetime: &str) {
    feed(kinit.args(["-l", lifetime, principal]), &format!("{PASSWORD}\n"));
}

fn command(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("KRB5_CONFIG", folder.join("krb5.conf"));
    command.env("KRB5_KDC_PROFILE", folder.join("kdc.conf"));
    command.env("KRB5_KTNAME", folder.join("keytab"));
    command.env("KRB5CCNAME", folder.join("tickets"));
    command.env("KRB5RCACHEDIR", folder);
    command.env(DIRECTORY, folder);
    command
}

fn feed(command: &mut Command, input: &str) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([SYSTEM_PROGRAMS.into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}
