//! Accesses and creates files with the caller's identity.
//!
//! Each Linux thread has its own user, group and supplementary groups. A root server switches its thread to
//! the caller, makes the system call, and switches back. Modes, sticky directories, access control lists,
//! quotas and capabilities therefore apply as they would to a process of that user. A root server that cannot
//! switch, as in some containers, refuses to start. A server that is not root cannot switch and has only its
//! own user's rights.

use std::io;
use std::marker::PhantomData;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::export::{NfsCaller, NfsError};

/// An invalid user or group number, which system calls interpret as "unchanged".
const NONE: u32 = u32::MAX;

/// The groups of this process, whose user is root.
#[derive(Debug)]
struct Own {
    gid: Gid,
    groups: Vec<Gid>,
}

#[derive(Debug)]
pub(super) struct Identities {
    /// The groups to restore after a switch, or `None` if the process cannot switch.
    own: Option<Own>,
}

impl Identities {
    /// Determines whether this process can switch to other users.
    ///
    /// # Errors
    /// Fails if the process is root and cannot switch, because calls would run with root's rights.
    pub(super) fn of_this_process() -> io::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Identities { own: None });
        }
        // Tries to switch on a temporary thread. After a switch, a thread's credentials differ from those of
        // its process, and the kernel denies the thread RDMA devices that other threads have opened.
        let tried = std::thread::scope(|scope| scope.spawn(try_to_switch).join());
        tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tries to switch users panicked")))?;
        Ok(Identities { own: Some(Own { gid: getegid(), groups: getgroups()? }) })
    }

    pub(super) fn impersonates_callers(&self) -> bool {
        self.own.is_some()
    }

    /// Returns true if calls of this caller need no switch: the process cannot switch, or already has the
    /// caller's rights.
    pub(super) fn is_as_caller(&self, caller: &NfsCaller) -> bool {
        self.own.as_ref().is_none_or(|own| caller.uid == 0 && caller.gid == own.gid.as_raw())
    }

    /// Switches this thread to the caller, if needed and possible, until the returned value is dropped.
    ///
    /// # Errors
    /// [`NfsError::Acces`] if the switch fails or the caller has an invalid user or group number.
    pub(super) fn impersonate<'a>(&'a self, caller: &'a NfsCaller) -> Result<ThreadIdentity<'a>, NfsError> {
        let switched = self.own.as_ref().filter(|_| !self.is_as_caller(caller));
        let is_caller = self.own.is_some();
        let acting = ThreadIdentity { switched, is_caller, caller, on_this_thread: PhantomData };
        // If only the supplementary groups differ, no switch is needed: they add no rights to root.
        if switched.is_none() {
            return Ok(acting);
        }
        let group = |gid: u32| if gid == NONE { Err(NfsError::Acces) } else { Ok(Gid::from_raw(gid)) };
        if caller.uid == NONE {
            return Err(NfsError::Acces);
        }
        let (uid, gid) = (Uid::from_raw(caller.uid), group(caller.gid)?);
        let groups = caller.gids.iter().map(|gid| group(*gid)).collect::<Result<Vec<_>, _>>()?;
        // The user is switched last, since only root can switch the groups. If a step fails, dropping
        // `acting` undoes the earlier steps.
        set_thread_groups(&groups)
            .and_then(|()| set_thread_res_gid(None, gid, None))
            .and_then(|()| set_thread_res_uid(None, uid, None))
            .map_err(|_| NfsError::Acces)?;
        Ok(acting)
    }
}

/// The user and group numbers to try. A user namespace may map only some of these numbers.
const TRIED: [u32; 2] = [65_534, 1];

/// Switches this thread to another user, and does not switch back.
///
/// # Errors
/// Fails if the system refuses the switch, or if the thread keeps root's capabilities. The error states the
/// cause.
fn try_to_switch() -> io::Result<()> {
    let first = |set: fn(u32) -> rustix::io::Result<()>| {
        TRIED.into_iter().map(set).find(|set| *set != Err(Errno::INVAL)).unwrap_or(Err(Errno::INVAL))
    };
    let groups = set_thread_groups(&[]);
    let group = first(|gid| set_thread_res_gid(None, Gid::from_raw(gid), None));
    let user = first(|uid| set_thread_res_uid(None, Uid::from_raw(uid), None));
    let Err(refused) = groups.and(group).and(user) else { return must_lose_capabilities() };
    let missing: Vec<&str> = [("CAP_SETUID", user), ("CAP_SETGID", groups.and(group))]
        .into_iter()
        .filter(|(_, set)| set.is_err())
        .map(|(capability, _)| capability)
        .collect();
    let why = format!(
        "root needs {} to act as its callers, including anonymous ones (--all-squash): {refused}; add \
         what is missing, or run the server as a user other than root",
        missing.join(" and ")
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Checks that the switch from root removed the capabilities of this thread. With the securebit
/// `no_setuid_fixup`, the thread would keep the capabilities.
fn must_lose_capabilities() -> io::Result<()> {
    if capabilities(None)?.effective.is_empty() {
        return Ok(());
    }
    let why = "root keeps its capabilities when it acts as its callers (securebit no_setuid_fixup); clear the \
               securebit, or run the server as a user other than root";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The identity of this thread. The value cannot move to another thread.
#[derive(Debug)]
pub(super) struct ThreadIdentity<'a> {
    /// The groups to restore, or `None` if the thread did not switch.
    switched: Option<&'a Own>,
    is_caller: bool,
    caller: &'a NfsCaller,
    on_this_thread: PhantomData<*const ()>,
}

impl ThreadIdentity<'_> {
    /// Returns true if the thread has the caller's rights instead of the server's.
    pub(super) fn is_caller(&self) -> bool {
        self.is_caller
    }

    /// Returns the caller if the thread switched to the caller, else `None`.
    pub(super) fn caller(&self) -> Option<&NfsCaller> {
        self.switched.map(|_| self.caller)
    }

    /// Returns true if the caller is root and has root's rights.
    pub(super) fn is_root(&self) -> bool {
        self.is_caller && self.caller.uid == 0
    }

    pub(super) fn is(&self, uid: u32) -> bool {
        self.caller.uid == uid
    }

    /// Runs a closure as the server, for rights that the protocol grants and the system does not.
    ///
    /// # Errors
    /// The error of the closure, or [`NfsError::JukeBox`] if the thread cannot switch to root or back to the
    /// caller.
    pub(super) fn as_server<T>(&self, what: impl FnOnce() -> Result<T, NfsError>) -> Result<T, NfsError> {
        if self.switched.is_none() {
            return what();
        }
        set_thread_res_uid(None, Uid::ROOT, None).map_err(|_| NfsError::JukeBox)?;
        let result = what();
        set_thread_res_uid(None, Uid::from_raw(self.caller.uid), None).map_err(|_| NfsError::JukeBox)?;
        result
    }
}

impl Drop for ThreadIdentity<'_> {
    fn drop(&mut self) {
        let Some(own) = self.switched else { return };
        // The user is restored first, since only root can restore the groups. If the user cannot be restored,
        // the thread rejects all later calls that need a switch.
        let _ = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, own.gid, None))
            .and_then(|()| set_thread_groups(&own.groups));
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

    use super::*;

    #[test]
    fn a_thread_regains_its_credentials() {
        let before = (geteuid(), getegid(), getgroups().unwrap());
        let identities = Identities::of_this_process().unwrap();
        let caller = NfsCaller { uid: 1234, gid: 1235, gids: vec![7, 8] };
        let acting = identities.impersonate(&caller).unwrap();
        if identities.impersonates_callers() {
            assert_eq!((geteuid().as_raw(), getegid().as_raw()), (1234, 1235));
            let groups: Vec<u32> = getgroups().unwrap().into_iter().map(Gid::as_raw).collect();
            assert_eq!(groups, [7, 8]);
            assert!(acting.as_server(|| Ok(geteuid())).unwrap().is_root());
            assert_eq!(geteuid().as_raw(), 1234);
        }
        drop(acting);
        assert_eq!((geteuid(), getegid(), getgroups().unwrap()), before);
        // The rights of a root caller with another group differ from those of this process.
        let root = NfsCaller { uid: 0, gid: 4321, gids: vec![] };
        let acting = identities.impersonate(&root).unwrap();
        if identities.impersonates_callers() {
            assert_eq!((geteuid().as_raw(), getegid().as_raw()), (0, 4321));
        }
        drop(acting);
        assert_eq!((geteuid(), getegid(), getgroups().unwrap()), before);
    }

    /// A call must never run with the server's rights, even if a thread loses a capability after the server
    /// has started.
    #[test]
    fn a_call_fails_if_its_thread_can_no_longer_switch() {
        let identities = Identities::of_this_process().unwrap();
        if !identities.impersonates_callers() {
            return not_run::not_run("only root can act as other users");
        }
        let caller = NfsCaller { uid: 1234, gid: 1235, gids: vec![7] };
        let of_thread = || (geteuid(), getegid(), getgroups().unwrap());
        let before = of_thread();
        for lost in [CapabilitySet::SETUID, CapabilitySet::SETGID] {
            // Each thread has its own capabilities.
            let (refused, after) = std::thread::scope(|scope| {
                let without = || {
                    let CapabilitySets { effective, permitted, inheritable } = capabilities(None).unwrap();
                    let (effective, permitted) = (effective - lost, permitted - lost);
                    set_capabilities(None, CapabilitySets { effective, permitted, inheritable }).unwrap();
                    (identities.impersonate(&caller).map(drop), of_thread())
                };
                scope.spawn(without).join().unwrap()
            });
            assert_eq!((refused, &after), (Err(NfsError::Acces), &before), "without {lost:?}");
        }
    }

    /// System calls interpret `u32::MAX` as "unchanged", so a caller with this number would act as root.
    #[test]
    fn a_caller_without_a_uid_is_not_root() {
        let identities = Identities::of_this_process().unwrap();
        if !identities.impersonates_callers() {
            return not_run::not_run("only root can act as other users");
        }
        let good = NfsCaller { uid: 1, gid: 1, gids: vec![] };
        for bad in [
            NfsCaller { uid: NONE, ..good.clone() },
            NfsCaller { gid: NONE, ..good.clone() },
            NfsCaller { gids: vec![NONE], ..good.clone() },
        ] {
            assert_eq!(identities.impersonate(&bad).map(drop), Err(NfsError::Acces));
            assert!(geteuid().is_root());
        }
    }
}
