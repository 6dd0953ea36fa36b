//! A key-value store over RPC-over-RDMA with a handwritten program.
//!
//! The commands are `kv serve ADDR:PORT`, `kv put ADDR:PORT KEY <file` and `kv get ADDR:PORT KEY >file`. The
//! client prints the RDMA traffic of each call to standard error.

use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write, stderr, stdin, stdout};
use std::pin::Pin;

use rpcrdma_nfs::provider::Provider;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::program::{Binding, CallContext, Caller, Procedure, Program, Reject, Service, answer};
use rpcrdma_runtime::xdr::{Opaque, Reader, Reducer, Xdr, XdrString};
use rpcrdma_runtime::{ClientOptions, Observer, ServerOptions};
use tokio::sync::Mutex;

type Key = XdrString<255>;
type Value = Opaque<1_048_576>; // the maximum is the size of the Write chunk that a Get offers

#[derive(Xdr)]
struct Pair {
    key: Key,
    #[ddp_eligible]
    value: Value,
}

struct KvV1;
impl Program for KvV1 {
    const NUMBER: u32 = 0x2000_4b56;
    const VERSION: u32 = 1;
    const NAME: &'static str = "KV_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(Put::NUMBER, Put::NAME), (Get::NUMBER, Get::NAME)];
}
impl Binding for KvV1 {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &["rdma", "rdma6"];
    const INLINE_THRESHOLD: Option<u32> = Some(8192);
}

struct Put;
impl Procedure for Put {
    type Program = KvV1;
    type Args = Pair;
    type Res = ();
    const NUMBER: u32 = 1;
    const NAME: &'static str = "KV_PUT";
}
struct Get;
impl Procedure for Get {
    type Program = KvV1;
    type Args = Key;
    type Res = Option<Pair>;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "KV_GET";
}

/// Keeps values in their receive buffers, and sends them from these buffers without copying.
#[derive(Default)]
struct Store(Mutex<HashMap<Key, Value>>);
impl Service for Store {
    fn program(&self) -> u32 {
        KvV1::NUMBER
    }
    fn version(&self) -> u32 {
        KvV1::VERSION
    }
    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        match context.procedure {
            Put::NUMBER => Box::pin(answer(args, reply, move |Pair { key, value }| async move {
                self.0.lock().await.insert(key, value);
                Ok(())
            })),
            Get::NUMBER => Box::pin(answer(args, reply, move |key: Key| async move {
                Ok(self.0.lock().await.get(&key).cloned().map(|value| Pair { key, value }))
            })),
            _ => Box::pin(std::future::ready(Err(Reject::ProcedureUnavailable))),
        }
    }
}

async fn connect(address: &str, provider: Provider) -> anyhow::Result<Client> {
    let observer = Observer::new(|call| drop(writeln!(stderr(), "{}", call.traffic.unwrap_or_default())));
    let options = ClientOptions { observer: Some(observer), ..ClientOptions::of::<KvV1>() };
    Ok(provider.connect(address, options).await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<&str> = std::env::args().skip(1).map(|argument| &*argument.leak()).collect();
    let (provider, arguments) = match &*arguments {
        ["--provider", provider, rest @ ..] => (provider.parse()?, rest),
        all => (Provider::default(), all),
    };
    match arguments {
        ["serve", address] => {
            let server = provider.bind(address, ServerOptions::of::<KvV1>()).await?.service(Store::default());
            writeln!(stdout(), "{}", server.local_addr()?)?;
            server.run(std::future::pending()).await?;
        }
        ["put", address, key] => {
            let mut value = Vec::new();
            stdin().read_to_end(&mut value)?;
            let pair = Pair { key: (*key).into(), value: value.into() };
            connect(address, provider).await?.call::<Put>(&pair).await?;
        }
        ["get", address, key] => match connect(address, provider).await?.call::<Get>(&(*key).into()).await? {
            Some(pair) => stdout().write_all(&pair.value)?,
            None => anyhow::bail!("no value for key `{key}`"),
        },
        _ => anyhow::bail!("usage: kv [--provider iwarp|verbs|auto] serve|put|get ADDR:PORT [KEY]"),
    }
    Ok(())
}
