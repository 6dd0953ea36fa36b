use std::net::IpAddr;

use ipnet::IpNet;
use rpcrdma_runtime::GssCaller;
use rpcrdma_runtime::program::{AuthSys, CallContext, Credential};

use super::Principals;
use crate::export::NfsCaller;
use crate::security::Security;

/// Which callers become anonymous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Only callers without an identity.
    #[default]
    Strangers,
    /// Callers without an identity, and callers that are root. The root group becomes the anonymous group, so
    /// root on another machine has no root rights here.
    Root,
    /// All callers.
    All,
}

/// Which callers a server admits, and their identities. AUTH_SYS does not authenticate callers: any process
/// that may connect can claim any identity that is not squashed. RPCSEC_GSS authenticates a name, which
/// [`ExportPolicy::principals`] maps to a user.
#[derive(Clone, Debug)]
pub struct ExportPolicy {
    /// The admitted source networks. An empty list admits all addresses.
    pub allow: Vec<IpNet>,
    /// Requires a source port below 1024. If only root may use such ports, ordinary users of an admitted
    /// machine cannot claim another identity.
    pub secure: bool,
    /// Which callers become anonymous.
    pub squash: Squash,
    /// The user and group of anonymous callers.
    pub anonymous: (u32, u32),
    /// The accepted security flavors of NFS calls, most preferred first. Calls with other flavors that the
    /// server supports are rejected with AUTH_TOOWEAK, except calls of the procedure NULL. MOUNT returns
    /// these flavors, and itself accepts calls with any flavor that the server supports.
    pub security: Vec<Security>,
    /// Maps the names of RPCSEC_GSS callers to users.
    pub principals: Principals,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for ExportPolicy {
    /// Admits every caller with AUTH_SYS or AUTH_NONE. A caller with AUTH_SYS has the identity that it
    /// claims.
    fn default() -> Self {
        let anonymous = (NfsCaller::NOBODY.uid, NfsCaller::NOBODY.gid);
        ExportPolicy {
            allow: Vec::new(),
            secure: false,
            squash: Squash::default(),
            anonymous,
            security: vec![Security::Sys],
            principals: Principals::default(),
            non_exhaustive: (),
        }
    }
}

/// The user ID or group ID that denotes no user or no group.
const NONE: u32 = u32::MAX;
/// The first unprivileged port.
const UNRESERVED: u16 = 1024;

impl ExportPolicy {
    /// Returns true if calls from the caller's address and port are allowed.
    #[must_use]
    pub fn admits(&self, context: &CallContext) -> bool {
        if self.secure && context.peer.is_none_or(|peer| peer.port() >= UNRESERVED) {
            return false;
        }
        self.allow.is_empty() || context.peer.is_some_and(|peer| self.allows(peer.ip()))
    }

    /// Returns true if callers with this address are allowed. An IPv4-mapped IPv6 address counts as the IPv4
    /// address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&address))
    }

    /// Returns true if the policy accepts the security flavor of this call.
    #[must_use]
    pub fn accepts(&self, context: &CallContext) -> bool {
        Security::of(context).is_some_and(|security| self.security.contains(&security))
    }

    /// Returns the identity of a caller after squashing. Without AUTH_SYS in [`ExportPolicy::security`], a
    /// caller with AUTH_SYS is anonymous.
    pub async fn caller(&self, context: &CallContext) -> NfsCaller {
        let known = match (context.extensions.get::<GssCaller>(), &context.credential) {
            (Some(caller), _) => self.principals.user(&caller.name).await,
            (None, Credential::Sys(sys)) if self.security.contains(&Security::Sys) => {
                let AuthSys { uid, gid, gids, .. } = sys.clone();
                Some(NfsCaller { uid, gid, gids })
            }
            _ => None,
        };
        self.squashed(known)
    }

    fn squashed(&self, known: Option<NfsCaller>) -> NfsCaller {
        let (uid, gid) = self.anonymous;
        let is_root = |id: u32| id == 0 && self.squash == Squash::Root;
        let is_kept = |of: &NfsCaller| self.squash != Squash::All && !is_root(of.uid) && of.uid != NONE;
        let group = |of: u32| if is_root(of) || of == NONE { gid } else { of };
        match known.filter(is_kept) {
            Some(NfsCaller { uid, gid, gids }) => {
                NfsCaller { uid, gid: group(gid), gids: gids.into_iter().map(group).collect() }
            }
            None => NfsCaller { uid, gid, gids: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_runtime::GssService;
    use rpcrdma_runtime::program::Extensions;

    use super::*;

    fn called(uid: u32, gid: u32, gids: &[u32], squash: Squash) -> (u32, u32, Vec<u32>) {
        let policy = ExportPolicy { squash, anonymous: (7, 8), ..ExportPolicy::default() };
        let NfsCaller { uid, gid, gids } = policy.squashed(Some(NfsCaller { uid, gid, gids: gids.to_vec() }));
        (uid, gid, gids)
    }

    #[test]
    fn remote_root_has_no_root_rights() {
        assert_eq!(called(0, 0, &[0, 4], Squash::Root), (7, 8, vec![]));
        assert_eq!(called(1000, 0, &[0, 4], Squash::Root), (1000, 8, vec![8, 4]));
        assert_eq!(called(1000, 100, &[4], Squash::Root), (1000, 100, vec![4]));
        assert_eq!(called(1000, 100, &[4], Squash::All), (7, 8, vec![]));
        assert_eq!(called(0, 0, &[0], Squash::Strangers), (0, 0, vec![0]));
        assert_eq!(ExportPolicy::default().squashed(None), NfsCaller::NOBODY);
    }

    fn context(credential: Credential, extensions: Extensions) -> CallContext {
        let (xid, program, version, procedure) = (1, 100_003, 3, 1);
        CallContext { xid, program, version, procedure, credential, peer: None, extensions }
    }

    #[tokio::test]
    async fn gss_names_map_to_users_and_disabled_auth_sys_is_anonymous() {
        let alice = NfsCaller { uid: 1000, gid: 100, gids: vec![4] };
        let found = alice.clone();
        let principals = Principals::new(move |name| (name == b"alice@A").then(|| found.clone()));
        let security = vec![Security::Krb5p, Security::Krb5i];
        let policy = ExportPolicy { security, principals, ..ExportPolicy::default() };
        let gss = |name: &'static str, service| {
            let caller = GssCaller { name: name.into(), service };
            let credential = Credential::Other { flavor: 6, body: Default::default() };
            context(credential, Extensions::default().with(caller))
        };
        for (name, user) in [("alice@A", alice), ("alice@B", NfsCaller::NOBODY)] {
            let call = gss(name, GssService::Privacy);
            assert!(policy.accepts(&call));
            assert_eq!(policy.caller(&call).await, user, "{name}");
        }
        assert!(!policy.accepts(&gss("alice@A", GssService::None)));
        let claim = AuthSys { uid: 1000, gid: 100, ..AuthSys::default() };
        let claim = context(Credential::Sys(claim), Extensions::default());
        assert!(!policy.accepts(&claim) && ExportPolicy::default().accepts(&claim));
        assert_eq!(policy.caller(&claim).await, NfsCaller::NOBODY);
        assert_eq!(ExportPolicy::default().caller(&claim).await.uid, 1000);
        let none = context(Credential::None, Extensions::default());
        assert!(!policy.accepts(&none) && ExportPolicy::default().accepts(&none));
    }

    #[test]
    fn nobody_has_a_distinct_uid() {
        assert_eq!(called(NONE, 0, &[], Squash::Strangers), (7, 8, vec![]));
        assert_eq!(called(5, NONE, &[NONE, 6], Squash::Strangers), (5, 8, vec![8, 6]));
    }

    fn admitted(policy: &ExportPolicy, peer: Option<std::net::SocketAddr>) -> bool {
        policy.admits(&CallContext { peer, ..context(Credential::None, Extensions::default()) })
    }

    #[test]
    fn only_allowed_networks_are_admitted() {
        let nets = ["10.1.0.0/16", "192.0.2.7/32", "fd00::/8"];
        let policy =
            ExportPolicy { allow: nets.map(|net| net.parse().unwrap()).to_vec(), ..ExportPolicy::default() };
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
    fn secure_requires_reserved_ports() {
        let policy = ExportPolicy { secure: true, ..ExportPolicy::default() };
        let from = |port| Some(std::net::SocketAddr::from(([10, 0, 0, 1], port)));
        assert!(admitted(&policy, from(1023)));
        assert!(!admitted(&policy, from(1024)) && !admitted(&policy, None));
        let nets = vec!["10.1.0.0/16".parse().unwrap()];
        assert!(!admitted(&ExportPolicy { allow: nets, ..policy }, from(1023)), "the address is not allowed");
    }
}
