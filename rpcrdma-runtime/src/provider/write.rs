use std::io::{self, IoSlice};

use tokio::net::TcpStream;

/// Maximum number of buffers per write.
const MAX_BUFFERS: usize = 64;

/// Writes a part of `buffers` to a socket without waiting, and returns the number of octets written. A single
/// buffer is sent with `send`, which costs less than `writev`.
pub(crate) fn try_write<'a>(
    socket: &TcpStream,
    mut buffers: impl ExactSizeIterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    if buffers.len() == 1 {
        return socket.try_write(buffers.next().unwrap_or_default());
    }
    let mut slices = [IoSlice::new(&[]); MAX_BUFFERS];
    let mut count = 0;
    for (slice, buffer) in slices.iter_mut().zip(buffers) {
        *slice = IoSlice::new(buffer);
        count += 1;
    }
    socket.try_write_vectored(slices.get(..count).unwrap_or_default())
}
