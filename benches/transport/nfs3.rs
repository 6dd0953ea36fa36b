//! The crates `nfs3_client` and `nfs3_server`, over TCP. `nfs3_client` supports only one outstanding call.

use nfs3_client::tokio::{TokioConnector, TokioIo};
use nfs3_client::{Nfs3Connection, Nfs3ConnectionBuilder};
use nfs3_server::memfs::{MemFs, MemFsConfig};
use nfs3_server::tcp::{NFSTcp, NFSTcpListener};
use nfs3_types::nfs3::{
    GETATTR3args, LOOKUP3args, Nfs3Result, READ3args, WRITE3args, diropargs3, filename3, nfs_fh3, stable_how,
};
use nfs3_types::xdr_codec::Opaque;
use tokio::net::TcpStream;

use super::rows::{Call, Row};
use super::{Batch, Transport};

pub(crate) struct Crates {
    connection: Nfs3Connection<TokioIo<TcpStream>>,
    file: nfs_fh3,
    data: Vec<u8>,
}

impl Crates {
    pub(crate) async fn connect() -> Self {
        let mut config = MemFsConfig::default();
        config.add_file("/data.bin", vec![7; 1 << 20]);
        let listener = NFSTcpListener::bind("127.0.0.1:0", MemFs::new(config).unwrap()).await.unwrap();
        let port = listener.get_listen_port();
        tokio::spawn(async move { listener.handle_forever().await });
        let mut connection = Nfs3ConnectionBuilder::new(TokioConnector, "127.0.0.1", "/")
            .connect_from_privileged_port(false)
            .mount_port(port)
            .nfs3_port(port)
            .mount()
            .await
            .unwrap();
        let what =
            diropargs3 { dir: connection.root_nfs_fh3(), name: filename3(Opaque::borrowed(b"data.bin")) };
        let file = ok(connection.lookup(&LOOKUP3args { what }).await.unwrap()).object;
        Crates { connection, file, data: vec![7; 1 << 20] }
    }

    async fn call(&mut self, call: Call) {
        let (connection, file) = (&mut self.connection, self.file.clone());
        match call {
            Call::Null => connection.null().await.unwrap(),
            Call::Getattr => drop(ok(connection.getattr(&GETATTR3args { object: file }).await.unwrap())),
            Call::Read(count) => {
                let reply = ok(connection.read(&READ3args { file, offset: 0, count }).await.unwrap());
                assert_eq!(reply.data.len(), count as usize);
            }
            Call::Write(count) => {
                let data = Opaque::borrowed(&self.data[..count as usize]);
                let write = WRITE3args { file, offset: 0, count, stable: stable_how::FILE_SYNC, data };
                assert_eq!(ok(connection.write(&write).await.unwrap()).count, count);
            }
        }
    }
}

fn ok<T, E>(result: Nfs3Result<T, E>) -> T {
    let Nfs3Result::Ok(value) = result else { panic!("the nfs3_server crate returned an error") };
    value
}

impl Transport for Crates {
    fn run<'a>(&'a mut self, row: &'a Row) -> Option<Batch<'a>> {
        if row.outstanding > 1 {
            return None;
        }
        Some(Box::pin(async move {
            for _ in 0..row.calls {
                self.call(row.call).await;
            }
        }))
    }
}
