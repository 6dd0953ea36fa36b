//! Raw TCP: a request of a fixed size, followed by a reply of a fixed size.
//!
//! All rows share one connection, as on the other transports, because congestion control (BBR in particular)
//! derives its rate from earlier messages.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::rows::{LARGEST, Row, SMALLEST};
use super::{Batch, Transport};

pub(crate) struct Raw {
    stream: TcpStream,
    octets: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream).await;
        });
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, octets: vec![2; LARGEST] }
    }

    async fn call(&mut self, request: usize, reply: usize) {
        let Raw { stream, octets } = self;
        let sizes = [request, reply].map(|size| u32::try_from(size).unwrap().to_le_bytes());
        octets[..8].copy_from_slice(sizes.as_flattened());
        stream.write_all(&octets[..request]).await.unwrap();
        stream.read_exact(&mut octets[..reply]).await.unwrap();
    }
}

/// Replies to requests. Each request starts with its own size and the size of the reply.
async fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let (mut octets, reply) = (vec![0; LARGEST], vec![1; LARGEST]);
    while stream.read_exact(&mut octets[..SMALLEST]).await.is_ok() {
        let size = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().unwrap()) as usize;
        let sizes = [size(0), size(4)];
        stream.read_exact(&mut octets[SMALLEST..sizes[0]]).await.unwrap();
        stream.write_all(&reply[..sizes[1]]).await.unwrap();
    }
}

impl Transport for Raw {
    fn run<'a>(&'a mut self, row: &'a Row) -> Option<Batch<'a>> {
        if row.outstanding > 1 {
            return None;
        }
        Some(Box::pin(async move {
            let (request, reply) = row.call.raw_sizes();
            for _ in 0..row.calls {
                self.call(request, reply).await;
            }
        }))
    }
}
