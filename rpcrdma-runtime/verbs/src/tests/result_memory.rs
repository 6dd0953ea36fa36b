//! Results in memory that the caller supplies.

use std::future::pending;

use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::{Client, ClientOptions, Server, ServerOptions};

use super::echo::{EchoBlob, EchoServer, blob};
use super::*;
use crate::VerbsConnector;

#[test]
fn supplied_memory_is_the_sink() {
    const LEN: usize = 20_000;
    for settings in [Settings::CARD, PLAIN] {
        with(settings, async |device| {
            let listener = VerbsListener::bind(any_port(), options()).await.expect("a listener");
            let address = listener.local_addr().expect("an address").to_string();
            let server = Server::with_acceptor(listener, ServerOptions::default()).expect("a server");
            tokio::spawn(server.service(EchoServer).run(pending()));
            let connector = VerbsConnector::new(address, options());
            let client = Client::connect_via(connector, ClientOptions::default()).await.expect("a client");
            let memory = BytesMut::with_capacity(LEN);
            let place = memory.as_ptr().addr();
            let client = client.with_result_memory(memory);
            for len in [LEN, LEN - 1] {
                let sent = blob(7, len);
                let received = client.call::<EchoBlob>(&sent).await.expect("a result");
                assert!(received == sent, "{len} octets");
                assert_eq!((received.data.as_ptr().addr(), device.last_write()), (place, place), "{len}");
            }
        });
    }
}
