//! The exported directories, which a reload can replace.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ipnet::IpNet;
use rpcrdma_nfs::cli::nfs3d::ExportOptions;
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::kerberos;
use rpcrdma_nfs::nfs::{ExportPolicy, NfsHandler, Squash};
use rpcrdma_nfs::output;
use rpcrdma_nfs::security::Security;
use rustix::thread::CapabilitySet;

pub(crate) struct Directory {
    pub(crate) options: ExportOptions,
    handler: NfsHandler<DirectoryExport>,
    /// The device and inode numbers of the directory.
    identity: (u64, u64),
    pub(crate) impersonates_callers: bool,
}

const NEEDS: [(CapabilitySet, &str, &str); 5] = [
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "bypass file modes for root and owners"),
    (CapabilitySet::CHOWN, "CAP_CHOWN", "change owners"),
    (CapabilitySet::FOWNER, "CAP_FOWNER", "change the modes of other users' files"),
    (CapabilitySet::FSETID, "CAP_FSETID", "keep setgid bits on files of other groups"),
    (CapabilitySet::MKNOD, "CAP_MKNOD", "create devices"),
];

/// Opens the exported directories. Reuses a directory of `before`, with its open files, if its identity and
/// the options with which it was opened are unchanged. The identity of an inaccessible directory counts as
/// unchanged.
pub(crate) fn open(
    exports: &[ExportOptions],
    key: Option<&HandleKey>,
    before: &[Directory],
) -> anyhow::Result<Vec<Directory>> {
    let of_directory = |of: &ExportOptions| (of.dir.clone(), of.path.clone(), of.cross_mounts, of.read_only);
    let opened = exports.iter().map(|options| {
        let dir = options.dir.as_deref().unwrap_or(Path::new("."));
        let there = std::fs::metadata(dir).with_context(|| dir.display().to_string());
        let identity = there.map(|there| (there.dev(), there.ino()));
        let kept = before.iter().find(|kept| of_directory(&kept.options) == of_directory(options));
        if let Some(Directory { handler, identity: before, impersonates_callers, .. }) = kept
            && identity.as_ref().map_or(true, |now| now == before)
        {
            if let Err(error) = &identity {
                output::warn("nfs3d", format_args!("{error:#}: the reload keeps the open directory"));
            }
            let (handler, impersonates_callers) = (handler.clone(), *impersonates_callers);
            return Ok(Directory {
                options: options.clone(),
                handler,
                identity: *before,
                impersonates_callers,
            });
        }
        let identity = identity?;
        let export = DirectoryExport::open(dir).with_context(|| dir.display().to_string())?;
        let export = export.cross_mounts(options.cross_mounts).read_only(options.read_only);
        let export = match key {
            Some(key) => export.keyed(key.of_export(&options.path)),
            None => export,
        };
        let impersonates_callers = export.impersonates_callers();
        let handler = NfsHandler::new(Arc::new(export)).read_only(options.read_only);
        Ok(Directory { options: options.clone(), handler, identity, impersonates_callers })
    });
    opened.collect()
}

impl Directory {
    pub(crate) fn has_kerberos(&self) -> bool {
        self.options.sec.iter().any(|security| security.service().is_some())
    }

    pub(crate) fn access(&self, capabilities: CapabilitySet) -> String {
        let options = &self.options;
        let (uid, gid) = options.anon;
        let identity = match (self.impersonates_callers, options.all_squash) {
            (false, _) => "acts as the server's user for every caller".to_owned(),
            (true, true) => format!("acts as user {uid} and group {gid} for every caller"),
            (true, false) if options.no_root_squash => "acts as each caller, including root".to_owned(),
            (true, false) => "acts as each caller; root is squashed".to_owned(),
        };
        let security = options.sec.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut access = format!("{}: {identity}; accepts {security}", options.path);
        for (_, name, what) in NEEDS.iter().filter(|(needed, ..)| !capabilities.contains(*needed)) {
            access += &format!("; cannot {what} ({name} is missing)");
        }
        access
    }

    /// Returns the path and the handler. Without `--allow`, the handler serves only `this_machine`.
    pub(crate) fn served(&self, this_machine: &[IpNet]) -> (String, NfsHandler<DirectoryExport>) {
        let options = &self.options;
        let squash = match (options.all_squash, options.no_root_squash) {
            (true, _) => Squash::All,
            (_, true) => Squash::Strangers,
            _ => Squash::Root,
        };
        let policy = ExportPolicy {
            allow: admitted(options, this_machine),
            secure: options.secure,
            squash,
            anonymous: options.anon,
            security: options.sec.clone(),
            principals: kerberos::principals(),
            ..ExportPolicy::default()
        };
        (options.path.clone(), self.handler.clone().policy(Arc::new(policy)))
    }
}

fn admitted(options: &ExportOptions, this_machine: &[IpNet]) -> Vec<IpNet> {
    if options.allow.is_empty() { this_machine.to_vec() } else { options.allow.clone() }
}

/// Returns a description of the users that unverified callers can claim to be, or `None` if every export
/// verifies or squashes its callers.
pub(crate) fn claimable_users<'a>(exports: impl Iterator<Item = &'a ExportOptions>) -> Option<&'static str> {
    let is_unverified =
        |options: &&ExportOptions| !options.all_squash && options.sec.contains(&Security::Sys);
    let mut unverified = exports.filter(is_unverified).peekable();
    unverified.peek()?;
    let admits_root = unverified.any(|options| options.no_root_squash);
    Some(if admits_root { "any user" } else { "any user except root" })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ExportOptions,
    }

    #[test]
    fn without_allow_an_export_admits_only_this_machine() {
        let this_machine: [IpNet; 1] = ["127.0.0.0/8".parse().unwrap()];
        let admitted = |line: &[&str]| admitted(&Line::try_parse_from(line).unwrap().options, &this_machine);
        assert_eq!(admitted(&["nfs3d", "dir"]), this_machine);
        let other: IpNet = "192.0.2.0/24".parse().unwrap();
        assert_eq!(admitted(&["nfs3d", "dir", "--allow", "192.0.2.0/24"]), [other]);
    }
    #[test]
    fn only_unverified_callers_can_claim_to_be_a_user() {
        let export =
            |line: &[&str]| Line::try_parse_from([&["nfs3d", "dir"], line].concat()).unwrap().options;
        let (verified, trusted) = (["--sec", "krb5", "--no-root-squash"], ["--no-root-squash"]);
        let users = |lines: &[&[&str]]| {
            let exports: Vec<_> = lines.iter().map(|line| export(line)).collect();
            claimable_users(exports.iter())
        };
        assert_eq!(users(&[&verified, &["--all-squash"]]), None);
        assert_eq!(users(&[&verified, &[]]), Some("any user except root"));
        assert_eq!(users(&[&[], &trusted]), Some("any user"));
    }
}
