use rpcrdma_runtime::proto::work::{Action, Memory, Token};
use rpcrdma_runtime::provider::Connection;

fn advertise(connection: &mut impl Connection, memory: Memory) -> usize {
    connection.submit(Action::Register { token: Token(1), memory });
    memory.len()
}

fn main() {}
