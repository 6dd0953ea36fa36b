//! The client's calls.

use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use rpcrdma_mount3::{Dirpath, Fhandle3, Mountres3, mount_v3};
use rpcrdma_nfs3::{self as nfs3, Createhow3, Createmode3, Diropargs3, Fattr3, NfsFh3, Sattr3, nfs_v3};
use rpcrdma_nfs3::{StableHow, Symlinkdata3};
use rpcrdma_runtime::program::{AuthSys, Credential};
use rpcrdma_runtime::{Client, ClientOptions, Config, PrivateData};
use sha2::{Digest, Sha256};

use crate::report::{Check, Report};

/// 1 MiB and 3 bytes. The length is not a multiple of four, so that the padding rules of chunks apply.
pub(crate) const FILE_LEN: usize = (1 << 20) + 3;
const ENTRIES: u32 = 2_000;
/// The maximum size of the READDIRPLUS reply in bytes, enough for all entries with their attributes.
const DIRECTORY_REPLY: u32 = 1 << 20;
/// The length of the symlink's target in bytes. With its headers, the call exceeds the inline threshold of
/// 1,024 bytes. The target is too short for a separate Read chunk.
const TARGET_LEN: usize = 960;

type Nfs = nfs_v3::Client<Client>;

pub(crate) async fn run(address: SocketAddr) -> Result<(Report, Vec<Check>)> {
    let report = Report::default();
    // Every implementation supports inline messages of 1,024 bytes in each direction. The small threshold
    // makes chunks necessary.
    let inline = PrivateData { remote_invalidation: true, send_size: 1024, receive_size: 1024 };
    let options = ClientOptions {
        config: Config { private_data: inline, ..Config::default() },
        credential: Credential::Sys(AuthSys { machine_name: "tour".to_owned(), ..AuthSys::default() }),
        observer: Some(report.observer()),
        ..ClientOptions::default()
    };
    let quiet = Client::connect_with(address, ClientOptions { observer: None, ..options.clone() }).await?;
    let client = Client::connect_with(address, options).await?;
    let nfs = nfs_v3::Client(client.clone());
    let mut checks = Vec::new();

    nfs.null().await?;
    let root = mount(&client).await?;
    file(&nfs, &root, &mut checks).await?;
    directory(&nfs, &nfs_v3::Client(quiet), &root, &mut checks).await?;
    symlink(&nfs, &root, &mut checks).await?;
    Ok((report, checks))
}

async fn mount(client: &Client) -> Result<NfsFh3> {
    let mount = mount_v3::Client(client.clone());
    let Mountres3::Mnt3Ok(mounted) = mount.mnt(&Dirpath::from("/")).await? else { bail!("MNT failed") };
    let handle: Fhandle3 = mounted.fhandle;
    Ok(NfsFh3 { data: handle })
}

async fn file(nfs: &Nfs, root: &NfsFh3, checks: &mut Vec<Check>) -> Result<()> {
    let place = || Diropargs3 { dir: *root, name: "data.bin".into() };
    let how = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
    let nfs3::Create3Res::Nfs3Ok(_) = nfs.create(&nfs3::Create3Args { r#where: place(), how }).await? else {
        bail!("CREATE failed")
    };
    let nfs3::Lookup3Res::Nfs3Ok(found) = nfs.lookup(&nfs3::Lookup3Args { what: place() }).await? else {
        bail!("LOOKUP failed")
    };
    let file = found.object;

    let data: Bytes = noise(FILE_LEN).into();
    let count = u32::try_from(data.len())?;
    let args =
        nfs3::Write3Args { file, offset: 0, count, stable: StableHow::FileSync, data: data.clone().into() };
    let nfs3::Write3Res::Nfs3Ok(written) = nfs.write(&args).await? else { bail!("WRITE failed") };
    ensure!(written.count == count, "WRITE wrote {} of {count} bytes", written.count);
    let attributes = getattr(nfs, &file).await?;
    checks.push(Check::new(format!("GETATTR reports {FILE_LEN} bytes"), attributes.size == FILE_LEN as u64));

    let args = nfs3::Read3Args { file, offset: 0, count };
    let nfs3::Read3Res::Nfs3Ok(read) = nfs.read(&args).await? else { bail!("READ failed") };
    let (sent, received) = (Sha256::digest(&data), Sha256::digest(&read.data));
    let what = format!(
        "the SHA-256 of the data read, {}, equals that of the data written, {}",
        hex(&received),
        hex(&sent)
    );
    checks.push(Check::new(what, sent == received && read.eof));
    Ok(())
}

async fn directory(nfs: &Nfs, quiet: &Nfs, root: &NfsFh3, checks: &mut Vec<Check>) -> Result<()> {
    let place = Diropargs3 { dir: *root, name: "many".into() };
    let args = nfs3::Mkdir3Args { r#where: place, attributes: Sattr3::default() };
    let nfs3::Mkdir3Res::Nfs3Ok(made) = nfs.mkdir(&args).await? else { bail!("MKDIR failed") };
    let Some(many) = made.obj else { bail!("MKDIR returned no handle") };
    // `quiet` has no observer, because 2,000 calls would not fit in the table.
    for number in 0..ENTRIES {
        let place = Diropargs3 { dir: many, name: format!("entry-{number:04}").as_str().into() };
        let how = Createhow3::ObjAttributes(Createmode3::Unchecked, Sattr3::default());
        let nfs3::Create3Res::Nfs3Ok(_) = quiet.create(&nfs3::Create3Args { r#where: place, how }).await?
        else {
            bail!("CREATE failed")
        };
    }
    let args = nfs3::Readdirplus3Args {
        dir: many,
        cookie: 0,
        cookieverf: [0; 8],
        dircount: DIRECTORY_REPLY,
        maxcount: DIRECTORY_REPLY,
    };
    let nfs3::Readdirplus3Res::Nfs3Ok(listed) = nfs.readdirplus(&args).await? else {
        bail!("READDIRPLUS failed")
    };
    let mut names: Vec<String> = listed.reply.entries.iter().map(|entry| entry.name.to_string()).collect();
    names.retain(|name| name.starts_with("entry-"));
    names.sort();
    let expected = (0..ENTRIES).map(|number| format!("entry-{number:04}"));
    let complete = names.into_iter().eq(expected) && listed.reply.eof;
    checks.push(Check::new(format!("READDIRPLUS lists all {ENTRIES} entries in one reply"), complete));
    Ok(())
}

async fn symlink(nfs: &Nfs, root: &NfsFh3, checks: &mut Vec<Check>) -> Result<()> {
    let target: String = "far/".chars().cycle().take(TARGET_LEN).collect();
    let args = nfs3::Symlink3Args {
        r#where: Diropargs3 { dir: *root, name: "link".into() },
        symlink: Symlinkdata3 { symlink_attributes: Sattr3::default(), symlink_data: target.as_str().into() },
    };
    let nfs3::Symlink3Res::Nfs3Ok(made) = nfs.symlink(&args).await? else { bail!("SYMLINK failed") };
    let Some(link) = made.obj else { bail!("SYMLINK returned no handle") };
    let nfs3::Readlink3Res::Nfs3Ok(read) = nfs.readlink(&nfs3::Readlink3Args { symlink: link }).await? else {
        bail!("READLINK failed")
    };
    let equal = Sha256::digest(target.as_bytes()) == Sha256::digest(&read.data);
    checks.push(Check::new("READLINK returns the target that SYMLINK set", equal));
    Ok(())
}

async fn getattr(nfs: &Nfs, object: &NfsFh3) -> Result<Fattr3> {
    match nfs.getattr(&nfs3::Getattr3Args { object: *object }).await? {
        nfs3::Getattr3Res::Nfs3Ok(found) => Ok(found.obj_attributes),
        other => bail!("GETATTR failed: {other:?}"),
    }
}

/// Returns pseudorandom bytes, so that misplaced data is detected.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut next).take(len.div_ceil(8)).flatten().collect();
    bytes.truncate(len);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() + "..."
}
