//! Raw TCP: a request of a fixed size, followed by a reply of a fixed size.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::rows::Row;
use super::{Batch, Transport};

/// One connection for each pair of request and reply size.
#[derive(Default)]
pub(crate) struct Raw(Vec<Connection>);

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Raw {
    async fn connection(&mut self, request: usize, reply: usize) -> &mut Connection {
        let same = |open: &Connection| open.request.len() == request && open.reply.len() == reply;
        let index = match self.0.iter().position(same) {
            Some(index) => index,
            None => {
                self.0.push(Connection::open(request, reply).await);
                self.0.len() - 1
            }
        };
        &mut self.0[index]
    }
}

impl Connection {
    async fn open(request: usize, reply: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut request, reply) = (vec![0; request], vec![1; reply]);
            while stream.read_exact(&mut request).await.is_ok() {
                stream.write_all(&reply).await.unwrap();
            }
        });
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, request: vec![2; request], reply: vec![0; reply] }
    }
}

impl Transport for Raw {
    fn run<'a>(&'a mut self, row: &'a Row) -> Option<Batch<'a>> {
        if row.outstanding > 1 {
            return None;
        }
        Some(Box::pin(async move {
            let (request, reply) = row.call.raw_sizes();
            let Connection { stream, request, reply } = self.connection(request, reply).await;
            for _ in 0..row.calls {
                stream.write_all(request).await.unwrap();
                stream.read_exact(reply).await.unwrap();
            }
        }))
    }
}
