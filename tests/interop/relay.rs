//! A relay between two programs, which cuts the connections that go through it when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::place::address;

/// What is told of the bytes that go through, before they go on: whether they come from who connected, and themselves.
pub(crate) type Watch = Arc<Mutex<dyn FnMut(bool, &[u8]) + Send>>;

/// The relay. Connections that are there when the process ends end with it.
pub(crate) struct Relay {
    /// Where it listens, at this place's address.
    pub(crate) port: u16,
    through: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Leads to a port of this place's address.
    pub(crate) fn to(target: u16) -> Self {
        Relay::watched(target, Arc::new(Mutex::new(|_: bool, _: &[u8]| ())))
    }

    /// The same, with somebody who looks at what goes through.
    pub(crate) fn watched(target: u16, watch: Watch) -> Self {
        let listener = TcpListener::bind((address(), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let through = Arc::new(Mutex::new(Vec::new()));
        let kept = through.clone();
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // Refused there: closed here.
                let Ok(far) = TcpStream::connect((address(), target)) else { continue };
                for socket in [&near, &far] {
                    socket.set_nodelay(true).unwrap();
                    kept.lock().unwrap().push(socket.try_clone().unwrap());
                }
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (forth, back) = (watch.clone(), watch.clone());
                thread::spawn(move || copy(from, to, true, &forth));
                thread::spawn(move || copy(far, near, false, &back));
            }
        });
        Relay { port, through }
    }

    /// Cuts what goes through, at whatever byte it is. Returns whether there was a connection.
    pub(crate) fn cut(&self) -> bool {
        let cut = std::mem::take(&mut *self.through.lock().unwrap());
        cut.iter().filter(|socket| socket.shutdown(Shutdown::Both).is_ok()).count() > 0
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, forth: bool, watch: &Watch) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        (watch.lock().unwrap())(forth, &buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
