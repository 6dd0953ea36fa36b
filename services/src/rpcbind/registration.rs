use std::collections::BTreeSet;
use std::net::SocketAddr;

use rpcrdma_rpcbind::Rpcb;
use tokio::runtime::Handle;
use tracing::debug;

use super::{Netid, Rpcbind, RpcbindError, from_universal, to_universal};

/// The registrations of a server. [`Registration::remove`] removes them.
///
/// Dropping the value removes the registrations in a background task, which may not finish if the process
/// exits immediately. Outside a Tokio runtime, the registrations remain.
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

    /// Returns the registered programs and versions.
    #[must_use]
    pub fn programs(&self) -> &[(u32, u32)] {
        &self.programs
    }

    pub(super) async fn add(&mut self, program: u32, version: u32) -> Result<(), RpcbindError> {
        let entry = self.rpcbind.entry(program, version, self.netid, self.address.clone());
        // The program is recorded before the call, because rpcbind may register it even if the reply is lost
        // or the call is cancelled.
        self.programs.push((program, version));
        if !self.rpcbind.without_retransmission().set(&entry).await? {
            self.programs.pop();
            return Err(RpcbindError::Refused { program, version, netid: self.netid });
        }
        Ok(())
    }

    /// Removes all registrations. A registration with another address belongs to another server and remains.
    ///
    /// # Errors
    /// Returns the first error: [`RpcbindError::Call`] if a call fails, or [`RpcbindError::Kept`] if rpcbind
    /// refuses the removal.
    pub async fn remove(mut self) -> Result<(), RpcbindError> {
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
                    debug!(%error, "removing a registration failed");
                }
            });
        } else {
            debug!(
                %netid,
                %address,
                "the programs remain registered: the registration was dropped outside a Tokio runtime"
            );
        }
    }
}

async fn remove(
    rpcbind: &Rpcbind,
    netid: Netid,
    address: &str,
    programs: &[(u32, u32)],
) -> Result<(), RpcbindError> {
    if programs.is_empty() {
        return Ok(());
    }
    // rpcbind ignores the address in a removal, so a removal could affect the new registration of another
    // server. Only programs that are still registered with this address are removed.
    let current = registered(rpcbind, netid, address).await?;
    let mut first = Ok(());
    for (program, version) in programs.iter().copied().filter(|program| current.contains(program)) {
        let entry = rpcbind.entry(program, version, netid, address.to_owned());
        let removed = match rpcbind.without_retransmission().unset(&entry).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(RpcbindError::Kept { program, version, netid }),
            // The call may have succeeded even if the reply was lost.
            Err(error) => match registered(rpcbind, netid, address).await {
                Ok(current) if !current.contains(&(program, version)) => Ok(()),
                _ => Err(error.into()),
            },
        };
        first = first.and(removed);
    }
    first
}

async fn registered(
    rpcbind: &Rpcbind,
    netid: Netid,
    address: &str,
) -> Result<BTreeSet<(u32, u32)>, RpcbindError> {
    let wanted = from_universal(address);
    let matches = |map: &Rpcb| {
        let address = map.r_addr.to_str().ok();
        &map.r_netid[..] == netid.as_str().as_bytes() && address.and_then(from_universal) == wanted
    };
    let list = rpcbind.list().await?;
    Ok(list.iter().filter(|map| matches(map)).map(|map| (map.r_prog, map.r_vers)).collect())
}
