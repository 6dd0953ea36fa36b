//! A mechanism for tests of RPCSEC_GSS. The mechanism provides no security: its checksum is weak, and both
//! peers share a fixed key. Tests check which parts of a message are protected, and which peer verifies them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rpcrdma_runtime::proto::rpc::gss::{
    GssContext, GssError, GssExchange, GssMechanism, GssOverhead, GssStep,
};

/// The length of a checksum in bytes.
const SUM: usize = 37;

/// The test mechanism of a client or server.
#[derive(Clone, Debug)]
pub struct TestMechanism {
    /// The name of the client or server.
    pub name: &'static str,
    /// The shared key.
    pub key: u64,
    /// The number of tokens that the mechanism expects from its peer.
    pub rounds: usize,
    /// The length of the padding in each token, in bytes.
    pub token: usize,
    /// The number of started contexts.
    pub started: Arc<AtomicUsize>,
    /// If true, all contexts of the mechanism count as expired.
    pub expired: Arc<AtomicBool>,
}

impl TestMechanism {
    /// Returns a mechanism with this name and the default key.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let (started, expired) = (Arc::default(), Arc::default());
        TestMechanism { name, key: 0x0123_4567_89ab_cdef, rounds: 1, token: 40, started, expired }
    }
}

struct Exchange {
    mechanism: TestMechanism,
    seen: usize,
}

impl GssMechanism for TestMechanism {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Exchange { mechanism: self.clone(), seen: 0 }))
    }
}

impl GssExchange for Exchange {
    /// Processes a token, which consists of the name of its sender, a colon, and padding.
    fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError> {
        let own = format!("{}:{}", self.mechanism.name, "x".repeat(self.mechanism.token)).into_bytes();
        if token.is_empty() && self.seen == 0 {
            // In its first step, the client sends its token. The context is complete if the client expects no
            // token.
            return Ok(match self.mechanism.rounds {
                0 => GssStep::Done(own, self.context(b"a server")),
                _ => GssStep::Continue(own),
            });
        }
        let peer = token.split(|byte| *byte == b':').next().ok_or(GssError::DEFECTIVE_TOKEN)?;
        if peer == b"unknown" {
            return Err(GssError { minor: 77, ..GssError::FAILURE });
        }
        self.seen += 1;
        if self.seen < self.mechanism.rounds {
            return Ok(GssStep::Continue(own));
        }
        let context = self.context(peer);
        let last = if self.mechanism.name == "server" { own } else { Vec::new() };
        Ok(GssStep::Done(last, context))
    }
}

impl Exchange {
    fn context(&self, peer: &[u8]) -> Arc<dyn GssContext> {
        Arc::new(Context {
            key: self.mechanism.key,
            peer: peer.to_vec(),
            expired: self.mechanism.expired.clone(),
        })
    }
}

struct Context {
    key: u64,
    peer: Vec<u8>,
    expired: Arc<AtomicBool>,
}

impl Context {
    fn sum(&self, message: &[u8]) -> Vec<u8> {
        let mut sum = self.key;
        for byte in message {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
        }
        sum.to_be_bytes().into_iter().cycle().take(SUM).collect()
    }

    fn check(&self) -> Result<(), GssError> {
        if self.expired.load(Ordering::Relaxed) { Err(GssError::CONTEXT_EXPIRED) } else { Ok(()) }
    }

    fn mask(&self, message: &[u8]) -> Vec<u8> {
        message.iter().zip(self.key.to_be_bytes().into_iter().cycle()).map(|(a, b)| a ^ b ^ 0x5a).collect()
    }
}

impl GssContext for Context {
    fn get_mic(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.check()?;
        Ok(self.sum(message))
    }

    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.check()?;
        if mic == self.sum(message) { Ok(()) } else { Err(GssError::BAD_MIC) }
    }

    fn wrap(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.check()?;
        Ok([self.sum(message), self.mask(message)].concat())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Vec<u8>, GssError> {
        self.check()?;
        let (sum, masked) = wrapped.split_at_checked(SUM).ok_or(GssError::DEFECTIVE_TOKEN)?;
        let message = self.mask(masked);
        if sum == self.sum(&message) { Ok(message) } else { Err(GssError::BAD_MIC) }
    }

    fn overhead(&self) -> GssOverhead {
        GssOverhead { mic: 37, wrap: 37 }
    }

    fn peer(&self) -> &[u8] {
        &self.peer
    }
}
