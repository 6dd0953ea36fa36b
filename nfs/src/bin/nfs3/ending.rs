//! How a run ends: what people are told, and what scripts can tell apart.

use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;

use rpcrdma_nfs::client::{ClientError, Digest};
use rpcrdma_nfs::output;
use sha2::{Digest as _, Sha256};

/// The data is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Differs(pub(crate) String);

/// Somebody has had enough of it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// A SHA-256 that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 32]);

impl FromStr for Sum {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a SHA-256 has 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Sum(bytes))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl From<Sha256> for Sum {
    fn from(sum: Sha256) -> Self {
        Sum(sum.finalize().into())
    }
}

impl From<Digest> for Sum {
    fn from(Digest(sum): Digest) -> Self {
        Sum(sum)
    }
}

/// # Errors
/// [`Differs`], if there is an expected sum and it is another one.
pub(crate) fn must_be(expected: Option<Sum>, sum: impl Into<Sum>, name: &str) -> anyhow::Result<()> {
    let sum = sum.into();
    match expected {
        Some(expected) if expected != sum => {
            Err(Differs(format!("{name}: has the SHA-256 {sum}, and not {expected}")).into())
        }
        _ => Ok(()),
    }
}

/// Says what went wrong, and which status that is.
pub(crate) fn code(done: anyhow::Result<()>) -> ExitCode {
    output::status("nfs3", done, |error| match () {
        () if error.is::<Differs>() => 4,
        () if error.is::<Interrupted>() => 130,
        () if error.downcast_ref().is_some_and(ClientError::is_unreached) => 3,
        () => 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_64_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(text.to_uppercase().parse::<Sum>().unwrap().to_string(), text);
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<Sum>().is_err(), "{wrong}");
        }
    }
}
