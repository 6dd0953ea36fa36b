use std::net::SocketAddr;

use tokio::runtime::Handle;
use tracing::debug;

use super::{Error, Netid, Rpcbind, to_universal};

/// What a server has registered. It is removed by [`Registration::remove`]; a registration that is dropped is removed by
/// a task of its own, which a program that ends at once may not wait for.
#[derive(Debug)]
pub struct Registration {
    rpcbind: Rpcbind,
    netid: Netid,
    address: String,
    programs: Vec<(u32, u32)>,
}

impl Registration {
    pub(super) fn new(rpcbind: Rpcbind, netid: Netid, address: &SocketAddr) -> Self {
        Registration { rpcbind, netid, address: to_universal(address), programs: Vec::new() }
    }

    /// The programs and versions.
    #[must_use]
    pub fn programs(&self) -> &[(u32, u32)] {
        &self.programs
    }

    /// Registers one more.
    pub(super) async fn add(&mut self, program: u32, version: u32) -> Result<(), Error> {
        let entry = self.rpcbind.entry(program, version, self.netid, self.address.clone());
        if !self.rpcbind.rpcbvers().set(&entry).await? {
            return Err(Error::Refused { program, version, netid: self.netid });
        }
        self.programs.push((program, version));
        Ok(())
    }

    /// Removes them all.
    ///
    /// # Errors
    /// The first that could not be removed: [`Error::Call`], [`Error::Kept`].
    pub async fn remove(mut self) -> Result<(), Error> {
        let programs = std::mem::take(&mut self.programs);
        remove(&self.rpcbind, self.netid, &self.address, &programs).await
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let programs = std::mem::take(&mut self.programs);
        if programs.is_empty() {
            return;
        }
        let (rpcbind, netid, address) = (self.rpcbind.clone(), self.netid, std::mem::take(&mut self.address));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = remove(&rpcbind, netid, &address, &programs).await {
                    debug!(%error, "a registration is left");
                }
            });
        } else {
            debug!("a registration is left: it was dropped outside of the runtime");
        }
    }
}

async fn remove(
    rpcbind: &Rpcbind,
    netid: Netid,
    address: &str,
    programs: &[(u32, u32)],
) -> Result<(), Error> {
    let mut first = Ok(());
    for (program, version) in programs.iter().copied() {
        let entry = rpcbind.entry(program, version, netid, address.to_owned());
        let removed = match rpcbind.rpcbvers().unset(&entry).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Kept { program, version, netid }),
            Err(error) => Err(error.into()),
        };
        first = first.and(removed);
    }
    first
}
