//! A TCP relay that can observe, hold and cut its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::place::address;

/// A callback that receives all bytes before they are forwarded. Its first argument is true for bytes from
/// the client to the server.
pub(crate) type Watch = Arc<Mutex<dyn FnMut(bool, &[u8]) + Send>>;

/// A TCP relay, which runs until the process exits.
pub(crate) struct Relay {
    /// The port on which the relay listens, at [`address`].
    pub(crate) port: u16,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub(crate) fn to(target: u16) -> Self {
        Relay::watched(target, Arc::new(Mutex::new(|_: bool, _: &[u8]| ())))
    }

    pub(crate) fn watched(target: u16, watch: Watch) -> Self {
        Relay::start(target, move |client, server| {
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (to_server, to_client) = (watch.clone(), watch.clone());
            thread::spawn(move || copy(from, to, true, &to_server));
            thread::spawn(move || copy(server, client, false, &to_client));
        })
    }

    /// Starts a relay that connects to `target` for each client and passes both sockets to `connect`.
    pub(crate) fn start(target: u16, connect: impl Fn(TcpStream, TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind((address(), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let kept = sockets.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect((address(), target)) else { continue };
                for socket in [&client, &server] {
                    socket.set_nodelay(true).unwrap();
                    kept.lock().unwrap().push(socket.try_clone().unwrap());
                }
                connect(client, server);
            }
        });
        Relay { port, sockets }
    }

    /// Starts a relay that blocks once it has received at least `limit` bytes from the server.
    ///
    /// The returned receiver reports when the limit is reached. The relay continues when the returned sender
    /// is dropped.
    pub(crate) fn holding(target: u16, limit: usize) -> (Self, Receiver<()>, Sender<()>) {
        let (reached, is_reached) = channel();
        let (release, released) = channel::<()>();
        let mut through = 0;
        let watch = move |to_server: bool, bytes: &[u8]| {
            let before = through;
            through += if to_server { 0 } else { bytes.len() };
            if before < limit && through >= limit {
                reached.send(()).unwrap();
                let _ = released.recv();
            }
        };
        (Relay::watched(target, Arc::new(Mutex::new(watch))), is_reached, release)
    }

    /// Cuts all connections at an arbitrary byte. Returns true if any connection was open.
    pub(crate) fn cut(&self) -> bool {
        let cut = std::mem::take(&mut *self.sockets.lock().unwrap());
        cut.iter().filter(|socket| socket.shutdown(Shutdown::Both).is_ok()).count() > 0
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, to_server: bool, watch: &Watch) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        (watch.lock().unwrap())(to_server, &buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
