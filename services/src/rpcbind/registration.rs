use std::collections::BTreeSet;
use std::net::SocketAddr;

use rpcrdma_rpcbind::Rpcb;
use tokio::runtime::Handle;
use tracing::debug;

use super::{Error, Netid, Rpcbind, from_universal, to_universal};

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
        // Before anything is known: it may be registered though the answer is lost, or nobody waits for it.
        self.programs.push((program, version));
        if !self.rpcbind.once().set(&entry).await? {
            self.programs.pop();
            return Err(Error::Refused { program, version, netid: self.netid });
        }
        Ok(())
    }

    /// Removes them all. What is registered at another address by now is not this server's any more, and stays.
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
    if programs.is_empty() {
        return Ok(());
    }
    // rpcbind removes whatever has the name, wherever it is: a successor may have it by now.
    let there = registered(rpcbind, netid, address).await?;
    let mut first = Ok(());
    for (program, version) in programs.iter().copied().filter(|program| there.contains(program)) {
        let entry = rpcbind.entry(program, version, netid, address.to_owned());
        let removed = match rpcbind.once().unset(&entry).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Kept { program, version, netid }),
            // The answer is lost; what counts is whether it was done.
            Err(error) => match registered(rpcbind, netid, address).await {
                Ok(there) if !there.contains(&(program, version)) => Ok(()),
                _ => Err(error.into()),
            },
        };
        first = first.and(removed);
    }
    first
}

/// The programs and versions that are registered at an address.
async fn registered(rpcbind: &Rpcbind, netid: Netid, address: &str) -> Result<BTreeSet<(u32, u32)>, Error> {
    let meant = from_universal(address);
    let is_meant = |map: &Rpcb| {
        let said = map.r_addr.to_str().ok();
        &map.r_netid[..] == netid.as_str().as_bytes() && said.and_then(from_universal) == meant
    };
    let list = rpcbind.list().await?;
    Ok(list.iter().filter(|map| is_meant(map)).map(|map| (map.r_prog, map.r_vers)).collect())
}
