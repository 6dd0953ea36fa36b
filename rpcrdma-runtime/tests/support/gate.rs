//! A program whose only procedure waits for a gate.
#![allow(dead_code, unreachable_pub)] // each test uses only a part of this module

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rpcrdma_runtime::program::{Binding, CallContext, Procedure, Program, Reject, Service};
use rpcrdma_runtime::xdr::{Encode, Reader, Reducer};
use tokio::sync::Semaphore;

pub struct Gate;

impl Program for Gate {
    const NUMBER: u32 = 0x2000_0002;
    const VERSION: u32 = 1;
    const NAME: &'static str = "GATE";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "GATE_PASS")];
}

impl Binding for Gate {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
}

pub struct Pass;

impl Procedure for Pass {
    type Program = Gate;
    type Args = ();
    type Res = u32;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "GATE_PASS";
}

/// Delays all replies until the gate opens, and counts the calls that arrive.
#[derive(Clone)]
pub struct GateServer {
    pub open: Arc<Semaphore>,
    pub arrived: Arc<AtomicU32>,
}

impl GateServer {
    pub fn new(open: bool) -> Self {
        let permits = if open { Semaphore::MAX_PERMITS } else { 0 };
        GateServer { open: Arc::new(Semaphore::new(permits)), arrived: Arc::default() }
    }

    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Service for GateServer {
    fn program(&self) -> u32 {
        Gate::NUMBER
    }

    fn version(&self) -> u32 {
        Gate::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        _: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            let number = self.arrived.fetch_add(1, Ordering::Relaxed);
            let _passes = self.open.acquire().await;
            number.encode(reply).map_err(|_| Reject::SystemError)
        })
    }
}
