use std::net::IpAddr;

use ipnet::IpNet;
use rpcrdma_runtime::proto::program::{CallContext, Credential};

use crate::export::Caller;

/// Which callers become anonymous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Only callers without an identity.
    #[default]
    Strangers,
    /// Also root and root's groups: root on another machine has no root rights here.
    Root,
    /// All callers.
    All,
}

/// Which callers a server admits, and their identities. AUTH_SYS proves nothing: any process that can call
/// from an admitted address can claim any identity that is not squashed.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The admitted source networks; empty admits all.
    pub allow: Vec<IpNet>,
    /// Requires a source port below 1024. Where only root may use such ports, another user of an admitted
    /// machine cannot claim another identity.
    pub secure: bool,
    /// Which callers become anonymous.
    pub squash: Squash,
    /// The user and group of anonymous callers.
    pub anonymous: (u32, u32),
}

impl Default for Policy {
    /// Admits every caller with its claimed identity.
    fn default() -> Self {
        let anonymous = (Caller::NOBODY.uid, Caller::NOBODY.gid);
        Policy { allow: Vec::new(), secure: false, squash: Squash::default(), anonymous }
    }
}

/// The number that stands for no user and no group.
const NONE: u32 = u32::MAX;
/// The first port that any user may use.
const UNRESERVED: u16 = 1024;

impl Policy {
    /// Returns true if calls from the caller's address and port are allowed.
    #[must_use]
    pub fn admits(&self, context: &CallContext) -> bool {
        if self.secure && context.peer.is_none_or(|peer| peer.port() >= UNRESERVED) {
            return false;
        }
        self.allow.is_empty() || context.peer.is_some_and(|peer| self.allows(peer.ip()))
    }

    /// Returns true if callers with this address are allowed. A mapped IPv4 address counts as the IPv4 address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&address))
    }

    /// Returns the identity of a caller.
    #[must_use]
    pub fn caller(&self, credential: &Credential) -> Caller {
        let (uid, gid) = self.anonymous;
        let anonymous = Caller { uid, gid, gids: Vec::new() };
        let Credential::Sys(sys) = credential else { return anonymous };
        let is_root = |id: u32| id == 0 && self.squash == Squash::Root;
        if self.squash == Squash::All || is_root(sys.uid) || sys.uid == NONE {
            return anonymous;
        }
        let group = |of: u32| if is_root(of) || of == NONE { gid } else { of };
        Caller { uid: sys.uid, gid: group(sys.gid), gids: sys.gids.iter().map(|of| group(*of)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_runtime::proto::program::AuthSys;

    use super::*;

    fn called(uid: u32, gid: u32, gids: &[u32], squash: Squash) -> (u32, u32, Vec<u32>) {
        let sys = AuthSys { uid, gid, gids: gids.to_vec(), ..AuthSys::default() };
        let policy = Policy { squash, anonymous: (7, 8), ..Policy::default() };
        let Caller { uid, gid, gids } = policy.caller(&Credential::Sys(sys));
        (uid, gid, gids)
    }

    #[test]
    fn root_elsewhere_is_not_root_here() {
        assert_eq!(called(0, 0, &[0, 4], Squash::Root), (7, 8, vec![]));
        assert_eq!(called(1000, 0, &[0, 4], Squash::Root), (1000, 8, vec![8, 4]));
        assert_eq!(called(1000, 100, &[4], Squash::Root), (1000, 100, vec![4]));
        assert_eq!(called(1000, 100, &[4], Squash::All), (7, 8, vec![]));
        assert_eq!(called(0, 0, &[0], Squash::Strangers), (0, 0, vec![0]));
        let stranger = Policy::default().caller(&Credential::None);
        assert_eq!(stranger, Caller::NOBODY);
    }

    #[test]
    fn nobody_has_the_number_of_nobody_at_all() {
        assert_eq!(called(NONE, 0, &[], Squash::Strangers), (7, 8, vec![]));
        assert_eq!(called(5, NONE, &[NONE, 6], Squash::Strangers), (5, 8, vec![8, 6]));
    }

    fn admitted(policy: &Policy, peer: Option<std::net::SocketAddr>) -> bool {
        let (credential, extensions) = (Credential::None, Default::default());
        let (xid, program, version, procedure) = (1, 100_003, 3, 1);
        policy.admits(&CallContext { xid, program, version, procedure, credential, peer, extensions })
    }

    #[test]
    fn calls_come_from_where_they_may() {
        let nets = ["10.1.0.0/16", "192.0.2.7/32", "fd00::/8"];
        let policy = Policy { allow: nets.map(|net| net.parse().unwrap()).to_vec(), ..Policy::default() };
        let admitted =
            |from: &str| admitted(&policy, Some(std::net::SocketAddr::new(from.parse().unwrap(), 40_000)));
        for from in ["10.1.255.1", "::ffff:10.1.2.3", "192.0.2.7", "fd12::1"] {
            assert!(admitted(from), "{from}");
        }
        for from in ["10.2.0.1", "192.0.2.8", "127.0.0.1", "::1", "fe80::1", "::ffff:192.0.2.8"] {
            assert!(!admitted(from), "{from}");
        }
    }

    #[test]
    fn calls_come_from_reserved_ports_if_they_must() {
        let policy = Policy { secure: true, ..Policy::default() };
        let from = |port| Some(std::net::SocketAddr::from(([10, 0, 0, 1], port)));
        assert!(admitted(&policy, from(1023)));
        assert!(!admitted(&policy, from(1024)) && !admitted(&policy, None));
        let nets = vec!["10.1.0.0/16".parse().unwrap()];
        assert!(!admitted(&Policy { allow: nets, ..policy }, from(1023)), "from elsewhere");
    }
}
