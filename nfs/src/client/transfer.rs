use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_nfs3::nfs_v3::{Client, proc};
use rpcrdma_nfs3::{
    Commit3Args, Create3Args, Createhow3, Createmode3, Diropargs3, Ftype3, NfsFh3, Read3Args, Sattr3,
    StableHow, Write3Args, Writeverf3,
};
use rpcrdma_runtime::{CallError, ResultMemoryError};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{CHUNK_MAX, ClientError, Remote, RemoteFile, ServerConnection, WINDOW, below};

/// Maximum number of attempts to write a source if the server restarts before the COMMIT.
const ATTEMPTS: u32 = 3;
const WORKAROUND_TIMEOUT: Duration = Duration::from_secs(1);

/// A SHA-256 digest, displayed in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl From<Sha256> for Digest {
    fn from(sum: Sha256) -> Self {
        Digest(sum.finalize().into())
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Called with the file offset that the transfer has reached, in bytes.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Consumes the next bytes and returns whether to continue.
pub type Take<'a> = &'a mut (dyn FnMut(Bytes) -> io::Result<ControlFlow<()>> + Send);

/// Outstanding calls. Results are returned in the order of the calls. Dropping the window abandons the
/// remaining calls.
struct Window<T>(VecDeque<JoinHandle<Result<T, ClientError>>>);

impl<T: Send + 'static> Window<T> {
    fn new() -> Self {
        Window(VecDeque::with_capacity(WINDOW))
    }

    fn is_full(&self) -> bool {
        self.0.len() >= WINDOW
    }

    fn start(&mut self, call: impl Future<Output = Result<T, ClientError>> + Send + 'static) {
        self.0.push_back(tokio::spawn(call));
    }

    async fn next(&mut self) -> Option<Result<T, ClientError>> {
        let task = self.0.front_mut()?;
        let result = task.await.unwrap_or(Err(ClientError::Stopped));
        self.0.pop_front();
        Some(result)
    }
}

impl<T> Drop for Window<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Remote {
    /// Reads a regular file from start to end, and passes its data to `take` in order. Returns the digest of
    /// the data.
    ///
    /// # Errors
    /// A [`ClientError`]. An error of `take` is returned as [`ClientError::Local`].
    pub async fn read_file(
        &self,
        file: &RemoteFile,
        take: &mut (dyn FnMut(Bytes) -> io::Result<()> + Send),
    ) -> Result<Digest, ClientError> {
        let mut sum = Sha256::new();
        let mut sum_and_take = |data: Bytes| {
            sum.update(&data);
            take(data).map(ControlFlow::Continue)
        };
        self.read_from(file, 0, &mut sum_and_take).await?;
        Ok(sum.into())
    }

    /// Waits for the outstanding READs and calls NULL, so that a READ is not the last call before an RDMA
    /// connection closes. Linux 6.12's server releases the resources of RDMA Writes on another thread after
    /// the reply, and crashes if the connection no longer exists (`svc_rdma_write_info_free_async`). The
    /// transfer has ended by then, so the results are ignored and the timeout is short.
    async fn end_with_null(&self, mut window: Window<(Bytes, bool)>) {
        if matches!(self.connection, ServerConnection::Rdma(_)) {
            let calls = async {
                while window.next().await.is_some() {}
                self.nfs.null().await
            };
            let _ = timeout(WORKAROUND_TIMEOUT, calls).await;
        }
    }

    /// Checks that a file is a regular file.
    ///
    /// # Errors
    /// [`ClientError::Kind`] for any other file.
    pub fn must_be_regular(&self, file: &RemoteFile) -> Result<(), ClientError> {
        match file.attributes.r#type {
            Ftype3::Nf3reg => Ok(()),
            Ftype3::Nf3dir => Err(kind(file, "is a directory")),
            Ftype3::Nf3lnk => Err(kind(file, "is a symbolic link, which is not followed")),
            _ => Err(kind(file, "is not a regular file")),
        }
    }

    /// Reads a regular file from an offset to its end, or until `take` returns [`ControlFlow::Break`].
    ///
    /// # Errors
    /// The errors of [`Remote::read_file`].
    pub async fn read_from(&self, file: &RemoteFile, offset: u64, take: Take<'_>) -> Result<(), ClientError> {
        self.must_be_regular(file)?;
        let mut window = Window::new();
        let outcome = self.read_in_order(file, offset, take, &mut window).await;
        self.end_with_null(window).await;
        outcome
    }

    async fn read_in_order(
        &self,
        file: &RemoteFile,
        offset: u64,
        take: Take<'_>,
        window: &mut Window<(Bytes, bool)>,
    ) -> Result<(), ClientError> {
        let mut next_offset = offset;
        // Clients that each have memory for one READ. The least recently used client comes first.
        let mut readers = VecDeque::with_capacity(WINDOW);
        // The file may have grown. Beyond the known size, READs run one at a time up to the end of the file.
        while next_offset < file.attributes.size || window.0.is_empty() {
            let range = Range { handle: file.handle, offset: next_offset, count: self.read_size };
            let free = if readers.len() < WINDOW { None } else { readers.pop_front() };
            let reader = free.unwrap_or_else(|| {
                let memory = BytesMut::with_capacity(self.read_size as usize);
                Remote { nfs: Client(self.nfs.0.with_result_memory(memory)), ..self.clone() }
            });
            readers.push_back(reader.clone());
            window.start(read_range([reader, self.clone()], range, file.path.clone()));
            next_offset = next_offset.saturating_add(u64::from(self.read_size));
            let is_before_known_end = next_offset < file.attributes.size;
            while (window.is_full() || !is_before_known_end)
                && let Some(read) = window.next().await
            {
                let (data, eof) = read?;
                if take(data)?.is_break() || eof {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the length of the common prefix of a file and a source. On return, the prefix is on the
    /// server's stable storage.
    ///
    /// # Errors
    /// A [`ClientError`]. An error of the source is returned as [`ClientError::Local`].
    pub async fn common_prefix(
        &self,
        file: &RemoteFile,
        source: &mut (impl Read + Seek + Send),
        progress: Progress<'_>,
    ) -> Result<u64, ClientError> {
        self.commit(file).await?;
        source.rewind()?;
        let (mut same, mut local) = (0_u64, Vec::new());
        let mut compare = |data: Bytes| {
            local.clear();
            (&mut *source).take(data.len() as u64).read_to_end(&mut local)?;
            let equal = data.iter().zip(&local).take_while(|(remote, local)| remote == local).count();
            same = same.saturating_add(equal as u64);
            progress(same);
            let continues = equal == data.len();
            Ok(if continues { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        self.read_from(file, 0, &mut compare).await?;
        Ok(same)
    }

    /// Creates a regular file with the permissions in `mode`, or truncates an existing file.
    ///
    /// # Errors
    /// [`ClientError::Call`] and [`ClientError::Status`].
    pub async fn create(&self, dir: &RemoteFile, name: Bytes, mode: u32) -> Result<RemoteFile, ClientError> {
        let path = below(dir, &name);
        let new = Sattr3 { mode: Some(mode & 0o7777), size: Some(0), ..Sattr3::default() };
        let args = Create3Args {
            r#where: Diropargs3 { dir: dir.handle, name: name.clone().into() },
            how: Createhow3::ObjAttributes(Createmode3::Unchecked, new),
        };
        let made = self.call::<proc::Create>(&args, &path).await?;
        self.made(dir, name, path, made.obj.zip(made.obj_attributes)).await
    }

    /// Writes the data of a source and commits the data to stable storage. Writes all data again if the
    /// server restarts meanwhile, with at most three attempts in total. Returns the digest of the data. Does
    /// not truncate a longer file.
    ///
    /// # Errors
    /// A [`ClientError`]. An error of the source is returned as [`ClientError::Local`].
    pub async fn write_file(
        &self,
        file: &RemoteFile,
        source: &mut (impl Read + Seek + Send),
        progress: Progress<'_>,
    ) -> Result<Digest, ClientError> {
        self.write_from(file, source, 0, progress).await
    }

    /// Writes the data of a source from `offset` to the end of the source, and keeps the file's data before
    /// `offset`. The digest covers the whole source.
    ///
    /// # Errors
    /// The errors of [`Remote::write_file`].
    pub async fn write_from(
        &self,
        file: &RemoteFile,
        source: &mut (impl Read + Seek + Send),
        offset: u64,
        progress: Progress<'_>,
    ) -> Result<Digest, ClientError> {
        let sum_before = sum_of_first(source, offset)?;
        for _ in 0..ATTEMPTS {
            source.seek(SeekFrom::Start(offset))?;
            let start = (offset, sum_before.clone());
            let (sum, written) = self.write_once(file, source, start, progress).await?;
            if written.is_stored(self.commit(file).await?) {
                return Ok(sum);
            }
        }
        Err(ClientError::server("COMMIT", &file.path, "the server repeatedly lost written data"))
    }

    /// Writes a source once, from its position to its end. Returns the digest of the whole source, and the
    /// verifiers of uncommitted data.
    async fn write_once(
        &self,
        file: &RemoteFile,
        source: &mut (impl Read + Send),
        (mut offset, mut sum): (u64, Sha256),
        progress: Progress<'_>,
    ) -> Result<(Digest, Unstable), ClientError> {
        let mut window = Window::new();
        let mut written = Unstable::default();
        let mut done = offset;
        loop {
            let data = next_chunk(source, self.write_size)?;
            let last = data.is_empty();
            if !last {
                sum.update(&data);
                let len = data.len() as u64;
                window.start(write_range(self.clone(), file.handle, offset, data, file.path.clone()));
                offset = offset.saturating_add(len);
            }
            while (window.is_full() || last)
                && let Some(result) = window.next().await
            {
                let (len, verifiers) = result?;
                verifiers.into_iter().for_each(|verifier| written.add(verifier));
                done = done.saturating_add(len);
                progress(done);
            }
            if last {
                return Ok((sum.into(), written));
            }
        }
    }

    async fn commit(&self, file: &RemoteFile) -> Result<Writeverf3, ClientError> {
        let args = Commit3Args { file: file.handle, offset: 0, count: 0 };
        Ok(self.call::<proc::Commit>(&args, &file.path).await?.verf)
    }
}

/// The first write verifier of uncommitted data, and whether a later verifier differs from it.
#[derive(Default)]
struct Unstable {
    first: Option<Writeverf3>,
    differ: bool,
}

impl Unstable {
    fn add(&mut self, verifier: Writeverf3) {
        self.differ |= *self.first.get_or_insert(verifier) != verifier;
    }

    /// Returns true if the COMMIT that returned `committed` stored all data, that is, if every unstable write
    /// returned `committed` too.
    fn is_stored(&self, committed: Writeverf3) -> bool {
        self.first.is_none_or(|first| !self.differ && first == committed)
    }
}

fn kind(file: &RemoteFile, what: &'static str) -> ClientError {
    ClientError::Kind { path: file.path.clone(), what }
}

fn sum_of_first(source: &mut (impl Read + Seek), len: u64) -> io::Result<Sha256> {
    let mut sum = Sha256::new();
    source.rewind()?;
    let mut left = len;
    while left > 0 {
        let piece = next_chunk(source, u32::try_from(left).unwrap_or(u32::MAX).min(CHUNK_MAX))?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sum.update(&piece);
        left = left.saturating_sub(piece.len() as u64);
    }
    Ok(sum)
}

/// Reads `size` bytes, or fewer at the end of the source.
fn next_chunk(source: &mut impl Read, size: u32) -> io::Result<Bytes> {
    let mut data = Vec::with_capacity(size as usize);
    source.take(u64::from(size)).read_to_end(&mut data)?;
    Ok(data.into())
}

#[derive(Clone, Copy)]
struct Range {
    handle: NfsFh3,
    offset: u64,
    count: u32,
}

/// Reads a range. After a short reply, calls READ again for the rest. Returns the data, and whether the range
/// reaches the end of the file. `reader` has memory for one result; `remote` makes the call if that memory is
/// in use.
///
/// The data of short replies is copied. Otherwise, each reply would keep memory for a complete range, and a
/// hostile server could exhaust memory with replies of a few bytes.
async fn read_range(
    [reader, remote]: [Remote; 2],
    range: Range,
    path: String,
) -> Result<(Bytes, bool), ClientError> {
    let violation = |what| ClientError::server("READ", &path, what);
    let mut short = BytesMut::new();
    let Range { handle: file, mut offset, mut count } = range;
    let last = loop {
        let args = Read3Args { file, offset, count };
        let read = match reader.call::<proc::Read>(&args, &path).await {
            Err(ClientError::Call { source: CallError::ResultMemory(ResultMemoryError::InUse), .. }) => {
                remote.call::<proc::Read>(&args, &path).await?
            }
            read => read?,
        };
        let len = u32::try_from(read.data.len()).ok().filter(|len| *len <= count && *len == read.count);
        let len = len.ok_or_else(|| {
            violation("the count differs from the length of the data or exceeds the requested count")
        })?;
        if len == 0 && !read.eof {
            return Err(violation("the reply contains no data before the end of the file"));
        }
        offset = offset.saturating_add(u64::from(len));
        count = count.saturating_sub(len);
        if read.eof || count == 0 {
            break read;
        }
        short.extend_from_slice(&read.data);
    };
    if short.is_empty() {
        return Ok((last.data.into_bytes(), last.eof));
    }
    short.extend_from_slice(&last.data);
    Ok((short.freeze(), last.eof))
}

/// Writes a range. After a partial write, calls WRITE again for the rest. Returns the number of written
/// bytes, and the verifiers of uncommitted data.
async fn write_range(
    remote: Remote,
    file: NfsFh3,
    mut offset: u64,
    mut data: Bytes,
    path: String,
) -> Result<(u64, Vec<Writeverf3>), ClientError> {
    let len = data.len() as u64;
    let mut verifiers = Vec::new();
    while !data.is_empty() {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let stable = StableHow::Unstable;
        let args = Write3Args { file, offset, count, stable, data: data.clone().into() };
        let done = remote.call::<proc::Write>(&args, &path).await?;
        if done.count == 0 || done.count > count {
            return Err(ClientError::server(
                "WRITE",
                &path,
                "the count of written bytes is zero or exceeds the length of the data",
            ));
        }
        if done.committed != StableHow::FileSync {
            verifiers.push(done.verf);
        }
        offset = offset.saturating_add(u64::from(done.count));
        data = data.split_off(done.count as usize);
    }
    Ok((len, verifiers))
}
