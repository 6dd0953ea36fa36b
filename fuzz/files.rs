//! The fuzz targets for the NFS and MOUNT programs and for AUTH_SYS. `tests/tests/fuzz_seeds.rs` also runs
//! them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::export::directory::DirectoryExport;
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::export::{Export, access_bits};
use rpcrdma_nfs::nfs::{ExportPolicy, MountHandler, NfsHandler, Squash};
use rpcrdma_nfs3::*;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{
    AuthSys, CallContext, CallFuture, CallTransport, Caller, Credential, Extensions, Procedure, Program,
};
use rpcrdma_runtime::wire::rpc::{CallHeader, RpcCall, decode_reply};
use rpcrdma_runtime::xdr::{Decode, Encode, Reader, Received, Sink, Writer};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tokio::runtime::{Builder, Runtime};

pub(crate) fn files(data: &[u8]) {
    let abilities =
        Abilities { devices: true, nul_in_links: true, reused_handles: false, directory_links: 2 };
    compare_with_model(data, MemoryExport::default(), abilities);
}

/// Compares an exported directory with a model of its files. The file next to the directory must stay
/// unchanged, and no other file may appear in their parent directory.
pub(crate) fn directory(data: &[u8]) {
    let outer = tempfile::tempdir().expect("a temporary directory");
    let (inside, outside) = (outer.path().join("inside"), outer.path().join("outside"));
    fs::create_dir(&inside).expect("an empty directory");
    fs::write(&outside, "unchanged").expect("a file outside the export");
    let export = DirectoryExport::open(&inside).expect("an export");
    let devices = can_create_devices(outer.path());
    let abilities = Abilities { devices, nul_in_links: false, reused_handles: true, directory_links: 1 };
    compare_with_model(data, export, abilities);
    assert_eq!(fs::read(&outside).expect("the file outside the export"), b"unchanged");
    assert_eq!(fs::read_dir(&outer).expect("a listing").count(), 2, "expected only `inside` and `outside`");
}

/// The device numbers for MKNOD. They are not 0:0, because every process may create the character device 0:0.
const DEVICE: Specdata3 = Specdata3 { specdata1: 1, specdata2: 3 };

fn can_create_devices(folder: &Path) -> bool {
    let (path, device) = (folder.join("device"), makedev(DEVICE.specdata1, DEVICE.specdata2));
    [FileType::CharacterDevice, FileType::BlockDevice]
        .into_iter()
        .all(|kind| mknodat(CWD, &path, kind, Mode::RUSR, device).is_ok() && fs::remove_file(&path).is_ok())
}

#[derive(Clone, Copy)]
struct Abilities {
    /// MKNOD can create device nodes.
    devices: bool,
    /// The target of a symbolic link may contain NUL bytes.
    nul_in_links: bool,
    /// A new file may get the handle of a removed file.
    reused_handles: bool,
    /// The minimum link count of a directory. Some file systems always report 1.
    directory_links: u32,
}

/// Makes the same calls to an export and to a model of its files. Both must agree on which calls succeed, and
/// on names, sizes and content. Then makes one call to the NFS or the MOUNT program with arbitrary arguments.
fn compare_with_model(data: &[u8], export: impl Export, abilities: Abilities) {
    let export = Arc::new(export);
    let mut services = Services::new();
    services.add(nfs_v3::Server(NfsHandler::new(export.clone())));
    services.add(mount_v3::Server(MountHandler::new(export)));
    let server = Direct(services);
    let mut script = Script(data);
    let mut model = Model::of(&server, abilities);
    for _ in 0..script.byte() % 64 {
        model.step(&mut script, &server);
    }
    model.compare(&server);
    let (program, version) = [(100_003, 3), (100_005, 3)][usize::from(script.byte() % 2)];
    let header =
        CallHeader { xid: 1, program, version, procedure: u32::from(script.byte() % 24), credential: root() };
    let mut call = Writer::new();
    header.encode(&mut call).and_then(|()| call.put(script.0)).expect("a writer has no limit");
    let _ = wait(server.0.answer(&Received::unreduced(call.into_bytes()), None));
}

fn root() -> Credential {
    Credential::Sys(AuthSys::default())
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime without I/O"));

/// Some calls run on the blocking pool, so they need a runtime.
fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// Calls services without a transport.
struct Direct(Services);

impl CallTransport for &Direct {
    type Error = Infallible;
}

impl<P: Program> Caller<P> for &Direct {
    fn call<'a, Q: Procedure<Program = P>>(
        &'a self,
        args: &'a Q::Args,
    ) -> CallFuture<'a, Q::Res, Infallible> {
        Box::pin(async { Ok(self.answer::<Q>(args).await) })
    }
}

impl Direct {
    async fn answer<Q: Procedure>(&self, args: &Q::Args) -> Q::Res {
        let (program, version) = (Q::Program::NUMBER, Q::Program::VERSION);
        let header = CallHeader { xid: 1, program, version, procedure: Q::NUMBER, credential: root() };
        let mut call = Writer::new();
        header
            .encode(&mut call)
            .and_then(|()| args.encode(&mut call))
            .expect("arguments within their bounds");
        let reply = self.0.answer(&Received::unreduced(call.into_bytes()), None).await.expect("a reply");
        let reply = reply.flatten();
        let mut reader = Reader::from_bytes(&reply);
        decode_reply(&mut reader, 1).expect("a result");
        let result = Q::Res::decode(&mut reader).expect("a valid result");
        reader.finish().expect("nothing after the result");
        result
    }
}

/// A sequence of bytes that selects the next steps. After its end, all further bytes are zero.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn name(&mut self) -> &'static [u8] {
        NAMES[usize::from(self.byte()) % NAMES.len()]
    }
}

/// File names. Only the first three are valid for new files.
const NAMES: [&[u8]; 8] = [b"a", b"b", b"c", b".", b"..", b"", b"a/b", &[b'l'; 256]];

fn is_valid(name: &[u8]) -> bool {
    matches!(name, b"a" | b"b" | b"c")
}

enum Body {
    File(Vec<u8>),
    Directory(BTreeMap<&'static [u8], usize>),
    Link(Vec<u8>),
    /// A socket, a FIFO or a device.
    Special,
}

struct Node {
    handle: NfsFh3,
    body: Body,
    /// The parent of a directory. Unused for other files.
    parent: usize,
    /// The number of names. A file without a name does not exist.
    names: u32,
}

struct Model {
    /// The expected files. The first node is the root.
    nodes: Vec<Node>,
    abilities: Abilities,
}

/// Returns the content of a successful result, or `None` for an error status.
macro_rules! ok {
    ($calling:expr, $ok:path) => {
        match wait($calling) {
            Ok($ok(result)) => Some(result),
            Ok(_) => None,
        }
    };
}

impl Model {
    fn of(server: &Direct, abilities: Abilities) -> Self {
        let mounted = wait(mount_v3::Client(server).mnt(&"/".into()));
        let Ok(Mountres3::Mnt3Ok(mounted)) = mounted else { panic!("MNT failed") };
        let handle = NfsFh3 { data: mounted.fhandle };
        let root = Node { handle, body: Body::Directory(BTreeMap::new()), parent: 0, names: 1 };
        Model { nodes: vec![root], abilities }
    }

    fn any(&self, script: &mut Script<'_>) -> usize {
        usize::from(script.byte()) % self.nodes.len()
    }

    fn entries(&self, dir: usize) -> Option<&BTreeMap<&'static [u8], usize>> {
        match &self.nodes[dir] {
            Node { names: 1.., body: Body::Directory(entries), .. } => Some(entries),
            _ => None,
        }
    }

    fn child(&self, dir: usize, name: &[u8]) -> Option<usize> {
        self.entries(dir)?.get(name).copied()
    }

    fn is_directory(&self, file: usize) -> bool {
        self.entries(file).is_some()
    }

    fn content(&mut self, file: usize) -> Option<&mut Vec<u8>> {
        match &mut self.nodes[file] {
            Node { names: 1.., body: Body::File(content), .. } => Some(content),
            _ => None,
        }
    }

    fn add_entry(&mut self, dir: usize, name: &'static [u8], file: usize) {
        self.nodes[file].names += 1;
        if self.is_directory(file) {
            self.nodes[file].parent = dir;
        }
        let Body::Directory(entries) = &mut self.nodes[dir].body else { panic!("expected a directory") };
        entries.insert(name, file);
    }

    fn remove_entry(&mut self, dir: usize, name: &[u8]) {
        let Body::Directory(entries) = &mut self.nodes[dir].body else { panic!("expected a directory") };
        let file = entries.remove(name).expect("the name exists");
        self.nodes[file].names -= 1;
    }

    fn can_create(&self, dir: usize, name: &[u8]) -> bool {
        is_valid(name) && self.is_directory(dir) && self.child(dir, name).is_none()
    }

    /// Checks that a file was created if and only if the model allows it. Adds a created file to the model.
    fn created(&mut self, dir: usize, name: &'static [u8], body: Body, created: Option<Option<NfsFh3>>) {
        assert_eq!(created.is_some(), self.can_create(dir, name), "creation of {name:?}");
        if let Some(handle) = created {
            let node = Node { handle: handle.expect("a handle"), body, parent: dir, names: 0 };
            let is_reused = |old: &Node| old.names == 0 && old.handle == node.handle;
            let reused = self.nodes.iter().position(is_reused).filter(|_| self.abilities.reused_handles);
            let file = reused.unwrap_or(self.nodes.len());
            match self.nodes.get_mut(file) {
                Some(old) => *old = node,
                None => self.nodes.push(node),
            }
            self.add_entry(dir, name, file);
        }
    }

    fn step(&mut self, script: &mut Script<'_>, server: &Direct) {
        let nfs = nfs_v3::Client(server);
        let (what, dir, name) = (script.byte(), self.any(script), script.name());
        let at = Diropargs3 { dir: self.nodes[dir].handle, name: Bytes::from_static(name).into() };
        match what % 18 {
            0 => self.lookup(&nfs, dir, name, at),
            1 => {
                let how = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
                let created = ok!(nfs.create(&Create3Args { r#where: at, how }), Create3Res::Nfs3Ok);
                self.created(dir, name, Body::File(Vec::new()), created.map(|created| created.obj));
            }
            2 => {
                let attributes = Sattr3::default();
                let created = ok!(nfs.mkdir(&Mkdir3Args { r#where: at, attributes }), Mkdir3Res::Nfs3Ok);
                self.created(dir, name, Body::Directory(BTreeMap::new()), created.map(|created| created.obj));
            }
            3 => {
                let target = vec![script.byte(); 3];
                let symlink = Symlinkdata3 {
                    symlink_attributes: Sattr3::default(),
                    symlink_data: Bytes::from(target.clone()).into(),
                };
                let created = ok!(nfs.symlink(&Symlink3Args { r#where: at, symlink }), Symlink3Res::Nfs3Ok);
                if target.contains(&0) && !self.abilities.nul_in_links {
                    assert!(created.is_none(), "a link to {target:?}");
                } else {
                    self.created(dir, name, Body::Link(target), created.map(|created| created.obj));
                }
            }
            4 => self.write(&nfs, dir, script),
            5 => self.read(&nfs, dir, script),
            6 => {
                let removed = ok!(nfs.remove(&Remove3Args { object: at }), Remove3Res::Nfs3Ok);
                let child = self.child(dir, name);
                let expected = child.is_some_and(|child| !self.is_directory(child));
                self.check_removed(dir, name, removed.is_some(), expected);
            }
            7 => {
                let removed = ok!(nfs.rmdir(&Rmdir3Args { object: at }), Rmdir3Res::Nfs3Ok);
                let entries = self.child(dir, name).and_then(|child| self.entries(child));
                let expected = entries.is_some_and(BTreeMap::is_empty);
                self.check_removed(dir, name, removed.is_some(), expected);
            }
            8 => self.rename(&nfs, (dir, name), at, script),
            9 => self.link(&nfs, (dir, name), at, script),
            10 => self.list(&nfs, dir),
            11 => self.resize(&nfs, dir, script),
            12 => self.mount(server, dir, name),
            13 => self.list_with_handles(&nfs, dir),
            14 => self.read_link(&nfs, dir),
            15 => self.access(&nfs, dir, script),
            16 => {
                let args = Commit3Args { file: self.nodes[dir].handle, offset: 0, count: 0 };
                let committed = ok!(nfs.commit(&args), Commit3Res::Nfs3Ok);
                assert_eq!(committed.is_some(), self.content(dir).is_some());
            }
            _ => self.create_special(&nfs, (dir, name), at, script),
        }
    }

    fn link(
        &mut self,
        nfs: &nfs_v3::Client<&Direct>,
        (dir, name): (usize, &'static [u8]),
        at: Diropargs3,
        script: &mut Script<'_>,
    ) {
        let file = self.any(script);
        let args = Link3Args { file: self.nodes[file].handle, link: at };
        let linked = ok!(nfs.link(&args), Link3Res::Nfs3Ok).is_some();
        let exists = self.nodes[file].names > 0 && !self.is_directory(file);
        assert_eq!(linked, exists && self.can_create(dir, name));
        if linked {
            self.add_entry(dir, name, file);
        }
    }

    fn resize(&mut self, nfs: &nfs_v3::Client<&Direct>, file: usize, script: &mut Script<'_>) {
        let size = script.byte();
        let new_attributes = Sattr3 { size: Some(size.into()), ..Sattr3::default() };
        let args = Setattr3Args { object: self.nodes[file].handle, new_attributes, guard: None };
        let set = ok!(nfs.setattr(&args), Setattr3Res::Nfs3Ok);
        let content = self.content(file);
        assert_eq!(set.is_some(), content.is_some());
        content.into_iter().for_each(|content| content.resize(size.into(), 0));
    }

    fn check_removed(&mut self, dir: usize, name: &[u8], removed: bool, expected: bool) {
        assert_eq!(removed, expected, "removal of {name:?}");
        if removed {
            self.remove_entry(dir, name);
        }
    }

    fn lookup(&self, nfs: &nfs_v3::Client<&Direct>, dir: usize, name: &[u8], what: Diropargs3) {
        let found = ok!(nfs.lookup(&Lookup3Args { what }), Lookup3Res::Nfs3Ok);
        let expected = self.found(dir, name).map(|file| self.nodes[file].handle);
        assert_eq!(found.map(|found| found.object), expected, "LOOKUP of {name:?}");
    }

    fn found(&self, dir: usize, name: &[u8]) -> Option<usize> {
        match name {
            _ if !self.is_directory(dir) => None,
            b"." => Some(dir),
            b".." => Some(self.nodes[dir].parent),
            name => self.child(dir, name),
        }
    }

    /// Returns the path of a directory. The path is empty for the root, for a removed directory, and for a
    /// file that is not a directory.
    fn path(&self, mut dir: usize) -> Vec<u8> {
        let mut path = Vec::new();
        while dir != 0
            && self.is_directory(dir)
            && let Some(entries) = self.entries(self.nodes[dir].parent)
            && let Some((name, _)) = entries.iter().find(|(_, file)| **file == dir)
        {
            path.splice(0..0, [b"/", *name].concat());
            dir = self.nodes[dir].parent;
        }
        path
    }

    /// Calls MNT for a name in a directory. MNT ignores empty names in the path and accepts only directories.
    fn mount(&self, server: &Direct, dir: usize, name: &[u8]) {
        let path = [&self.path(dir)[..], b"/", name].concat();
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let expected = names.try_fold(0, |at, name| self.found(at, name).filter(|at| self.is_directory(*at)));
        let mounted = ok!(mount_v3::Client(server).mnt(&Bytes::from(path.clone()).into()), Mountres3::Mnt3Ok);
        let mounted = mounted.map(|mounted| NfsFh3 { data: mounted.fhandle });
        assert_eq!(mounted, expected.map(|dir| self.nodes[dir].handle), "MNT of {path:?}");
    }

    fn write(&mut self, nfs: &nfs_v3::Client<&Direct>, file: usize, script: &mut Script<'_>) {
        let (offset, len, byte) = (usize::from(script.byte()), 1 + script.byte() % 64, script.byte());
        let data = vec![byte; len.into()];
        let args = Write3Args {
            file: self.nodes[file].handle,
            offset: offset as u64,
            count: len.into(),
            stable: StableHow::Unstable,
            data: data.clone().into(),
        };
        let written = ok!(nfs.write(&args), Write3Res::Nfs3Ok).map(|written| written.count);
        let content = self.content(file);
        assert_eq!(written, content.is_some().then_some(len.into()));
        if let Some(content) = content {
            let end = offset + data.len();
            content.resize(content.len().max(end), 0);
            content[offset..end].copy_from_slice(&data);
        }
    }

    fn read(&mut self, nfs: &nfs_v3::Client<&Direct>, file: usize, script: &mut Script<'_>) {
        let (offset, count) = (script.byte(), script.byte());
        let args = Read3Args { file: self.nodes[file].handle, offset: offset.into(), count: count.into() };
        let read = ok!(nfs.read(&args), Read3Res::Nfs3Ok);
        let expected = self.content(file).map(|content| {
            let start = usize::from(offset).min(content.len());
            let end = (start + usize::from(count)).min(content.len());
            (content[start..end].to_vec(), end == content.len())
        });
        assert_eq!(read.map(|read| (read.data.to_vec(), read.eof)), expected);
    }

    fn rename(
        &mut self,
        nfs: &nfs_v3::Client<&Direct>,
        (dir, name): (usize, &'static [u8]),
        from: Diropargs3,
        script: &mut Script<'_>,
    ) {
        let (to, new) = (self.any(script), script.name());
        let args = Rename3Args {
            from,
            to: Diropargs3 { dir: self.nodes[to].handle, name: Bytes::from_static(new).into() },
        };
        let renamed = ok!(nfs.rename(&args), Rename3Res::Nfs3Ok).is_some();
        let moved = self.child(dir, name).filter(|_| self.is_directory(to) && is_valid(new));
        let replaced = self.child(to, new);
        let may_replace = |moved: usize, old: usize| match self.entries(old) {
            Some(entries) => self.is_directory(moved) && entries.is_empty(),
            None => !self.is_directory(moved),
        };
        let expected = moved.is_some_and(|moved| {
            replaced == Some(moved)
                || !self.is_above(moved, to) && replaced.is_none_or(|old| may_replace(moved, old))
        });
        assert_eq!(renamed, expected, "RENAME of {name:?} to {new:?}");
        if let Some(moved) = moved.filter(|moved| renamed && replaced != Some(*moved)) {
            if replaced.is_some() {
                self.remove_entry(to, new);
            }
            // Add the new name first, because a file without a name does not exist.
            self.add_entry(to, new, moved);
            self.remove_entry(dir, name);
        }
    }

    /// Returns true if `upper` is `lower` or a directory above `lower`.
    fn is_above(&self, upper: usize, mut lower: usize) -> bool {
        while lower != upper && lower != 0 {
            lower = self.nodes[lower].parent;
        }
        lower == upper
    }

    fn list(&self, nfs: &nfs_v3::Client<&Direct>, dir: usize) {
        let args = Readdir3Args { dir: self.nodes[dir].handle, cookie: 0, cookieverf: [0; 8], count: 4096 };
        let listed = ok!(nfs.readdir(&args), Readdir3Res::Nfs3Ok).map(|listed| {
            assert!(listed.reply.eof, "all names must fit");
            let mut names: Vec<_> = listed.reply.entries.iter().map(|entry| entry.name.to_vec()).collect();
            names.sort();
            names
        });
        let expected = self.entries(dir).map(|entries| {
            let names = [&b"."[..], b".."].into_iter().chain(entries.keys().copied());
            names.map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        assert_eq!(listed, expected);
    }

    fn list_with_handles(&self, nfs: &nfs_v3::Client<&Direct>, dir: usize) {
        let (dircount, maxcount) = (4096, 16_384);
        let args = Readdirplus3Args {
            dir: self.nodes[dir].handle,
            cookie: 0,
            cookieverf: [0; 8],
            dircount,
            maxcount,
        };
        let listed = ok!(nfs.readdirplus(&args), Readdirplus3Res::Nfs3Ok).map(|listed| {
            assert!(listed.reply.eof, "all names must fit");
            let entries = listed.reply.entries.iter();
            let mut found: Vec<_> = entries
                .map(|entry| {
                    assert!(entry.name_attributes.is_some(), "attributes of {:?}", entry.name);
                    (entry.name.to_vec(), entry.name_handle)
                })
                .collect();
            found.sort_by(|one, other| one.0.cmp(&other.0));
            found
        });
        let expected = self.entries(dir).map(|entries| {
            let dots = [(&b"."[..], dir), (b"..", self.nodes[dir].parent)];
            let all = dots.into_iter().chain(entries.iter().map(|(name, file)| (*name, *file)));
            all.map(|(name, file)| (name.to_vec(), Some(self.nodes[file].handle))).collect::<Vec<_>>()
        });
        assert_eq!(listed, expected);
    }

    fn read_link(&self, nfs: &nfs_v3::Client<&Direct>, file: usize) {
        let args = Readlink3Args { symlink: self.nodes[file].handle };
        let target = ok!(nfs.readlink(&args), Readlink3Res::Nfs3Ok).map(|read| read.data.to_vec());
        let expected = match &self.nodes[file] {
            Node { names: 1.., body: Body::Link(target), .. } => Some(target.clone()),
            _ => None,
        };
        assert_eq!(target, expected);
    }

    /// Calls ACCESS with arbitrary rights. The caller is root, so only the right to execute depends on the
    /// mode.
    fn access(&self, nfs: &nfs_v3::Client<&Direct>, file: usize, script: &mut Script<'_>) {
        let wanted = u32::from(script.byte());
        let args = Access3Args { object: self.nodes[file].handle, access: wanted };
        let granted = ok!(nfs.access(&args), Access3Res::Nfs3Ok).map(|granted| granted.access);
        let all = access_bits::READ
            | match self.nodes[file].body {
                Body::Directory(_) => access_bits::LOOKUP | access_bits::CHANGES,
                Body::File(_) | Body::Special => access_bits::MODIFY | access_bits::EXTEND,
                Body::Link(_) => access_bits::MODIFY | access_bits::EXTEND | access_bits::EXECUTE,
            };
        let expected = (self.nodes[file].names > 0).then_some(all & wanted);
        assert_eq!(granted, expected, "ACCESS {wanted:#x}");
    }

    /// Calls MKNOD with one of six file types. MKNOD must reject regular files and directories.
    fn create_special(
        &mut self,
        nfs: &nfs_v3::Client<&Direct>,
        (dir, name): (usize, &'static [u8]),
        at: Diropargs3,
        script: &mut Script<'_>,
    ) {
        let attributes = Sattr3::default();
        let device = Devicedata3 { spec: DEVICE, ..Devicedata3::default() };
        let what = match script.byte() % 6 {
            0 => Mknoddata3::PipeAttributes(Ftype3::Nf3fifo, attributes),
            1 => Mknoddata3::PipeAttributes(Ftype3::Nf3sock, attributes),
            2 => Mknoddata3::Device(Ftype3::Nf3blk, device),
            3 => Mknoddata3::Device(Ftype3::Nf3chr, device),
            4 => Mknoddata3::Default(Ftype3::Nf3reg),
            _ => Mknoddata3::Default(Ftype3::Nf3dir),
        };
        let is_allowed = match what {
            Mknoddata3::PipeAttributes(..) => true,
            Mknoddata3::Device(..) => self.abilities.devices,
            Mknoddata3::Default(_) => false,
        };
        let created = ok!(nfs.mknod(&Mknod3Args { r#where: at, what }), Mknod3Res::Nfs3Ok);
        if is_allowed {
            self.created(dir, name, Body::Special, created.map(|created| created.obj));
        } else {
            assert!(created.is_none(), "MKNOD of {name:?}");
        }
    }

    fn compare(&self, server: &Direct) {
        for node in &self.nodes {
            let args = Getattr3Args { object: node.handle };
            let found = ok!(nfs_v3::Client(server).getattr(&args), Getattr3Res::Nfs3Ok);
            let found = found.map(|found| found.obj_attributes);
            assert_eq!(found.is_some(), node.names > 0, "existence of a file");
            let Some(Fattr3 { size, nlink, .. }) = found else { continue };
            match &node.body {
                Body::File(content) => assert_eq!((size, nlink), (content.len() as u64, node.names)),
                Body::Link(target) => assert_eq!((size, nlink), (target.len() as u64, node.names)),
                Body::Special => assert_eq!((size, nlink), (0, node.names)),
                Body::Directory(_) => assert!(nlink >= self.abilities.directory_links),
            }
        }
    }
}

/// Decodes a call with an arbitrary AUTH_SYS body. A credential that decodes must have at most 16 groups, and
/// the same identity after it is encoded and decoded again. If root is squashed, no ID of the caller may be 0
/// or `u32::MAX`.
pub(crate) fn credentials(data: &[u8]) {
    let body = data.get(..400).unwrap_or(data);
    let mut call = Writer::new();
    let unlimited = "a writer has no limit";
    for word in [7, 0, 2, 100_003, 3, 1, 1] {
        call.put_u32(word).expect(unlimited);
    }
    call.put_count(body.len(), 400).expect("at most 400 bytes");
    call.put_padded(body).and_then(|()| call.put(&[0; 8])).expect(unlimited);
    let Ok(call) = RpcCall::parse(Received::unreduced(call.into_bytes())) else { return };
    let Credential::Sys(sys) = &call.header.credential else { panic!("expected AUTH_SYS") };
    assert!(sys.gids.len() <= 16 && sys.machine_name.chars().count() <= 255);
    let mut again = Writer::new();
    let machine_name = String::new();
    let unnamed = Credential::Sys(AuthSys { machine_name, ..sys.clone() });
    CallHeader { credential: unnamed, ..call.header.clone() }.encode(&mut again).expect("within its bounds");
    let again = RpcCall::parse(Received::unreduced(again.into_bytes())).expect("an encoded call");
    let Credential::Sys(again) = again.header.credential else { panic!("expected AUTH_SYS") };
    assert_eq!((again.uid, again.gid, &again.gids), (sys.uid, sys.gid, &sys.gids));
    let context = CallContext {
        xid: 7,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential: call.header.credential.clone(),
        peer: None,
        extensions: Extensions::default(),
    };
    for squash in [Squash::Root, Squash::All] {
        let policy = ExportPolicy { squash, ..ExportPolicy::default() };
        let caller = wait(policy.caller(&context));
        let ids = [caller.uid, caller.gid].into_iter().chain(caller.gids.iter().copied());
        assert!(ids.into_iter().all(|id| id != 0 && id != u32::MAX), "{caller:?}");
        if squash == Squash::All {
            assert_eq!((caller.uid, caller.gid), policy.anonymous);
        }
    }
}
