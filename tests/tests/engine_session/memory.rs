//! Memory that a caller supplies for the result of a call.

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use rpcrdma_runtime::xdr::ItemMemory;

use super::*;

const LEN: usize = 20_000;

#[derive(Debug)]
struct Lender(Mutex<BytesMut>);

impl ItemMemory for Lender {
    fn acquire(&self) -> Option<BytesMut> {
        let mut share = self.0.lock().expect("no panic");
        share.try_reclaim(LEN).then(|| share.split_off(0))
    }
}

fn sink(client: &Client) -> *const u8 {
    match &client.exposed[..] {
        [(_, Memory::Sink(sink))] => sink.as_ptr(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn supplied_memory_is_the_sink_on_each_connection() {
    let mut client = Client::connected();
    let memory = BytesMut::with_capacity(LEN);
    let place = memory.as_ptr();
    let bounds = ReplyBounds {
        unreduced: Size::Bounded(20_016),
        item: Size::Bounded(20_000),
        items: Size::Bounded(1),
        ..SMALL
    };
    let id =
        client.submit(SessionCall { bounds, memory: Some(Arc::new(Lender(Mutex::new(memory)))), ..call(1) });
    assert_eq!(sink(&client), place);
    client.lose_connection(CloseReason::Peer);
    client.advance(MS(400));
    client.connect(1024);
    assert_eq!(sink(&client), place);
    client.cancel(id);
}
