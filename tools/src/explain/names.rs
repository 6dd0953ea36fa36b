//! Names of programs, procedures and errors. The names of the procedures and errors of NFSv3 and MOUNT come
//! from the generated crates.

use rpcrdma_mount3::{Mountstat3, mount_v3::MountV3};
use rpcrdma_nfs3::{Nfsstat3, nfs_v3::NfsV3};
use rpcrdma_runtime::program::Program;

use super::call::{CalledProcedure, Status};

const PROGRAMS: [(u32, &str); 8] = [
    (100_000, "rpcbind"),
    (100_003, "NFS"),
    (100_005, "MOUNT"),
    (100_021, "NLM"),
    (100_024, "NSM"),
    (100_227, "NFS_ACL"),
    (100_417, "CONF"),
    (0x4000_0000, "NFS4_CB"),
];

impl CalledProcedure {
    /// Returns the program and version, such as `NFSv3`. An unknown program is shown by number.
    #[must_use]
    pub fn program_name(&self) -> String {
        let name = PROGRAMS.iter().find(|(number, _)| *number == self.program).map(|(_, name)| *name);
        name.map_or_else(
            || format!("program {} version {}", self.program, self.version),
            |name| format!("{name}v{}", self.version),
        )
    }

    /// Returns the procedure, such as `GETATTR`. An unknown procedure is shown by number.
    #[must_use]
    pub fn procedure_name(&self) -> String {
        let named = |procedures: &[(u32, &str)]| {
            let (_, name) = procedures.iter().find(|(number, _)| *number == self.procedure)?;
            Some(name.split_once("PROC3_").map_or(*name, |(_, short)| short).to_owned())
        };
        let name = if self.is_nfs3() {
            named(NfsV3::PROCEDURES)
        } else if self.is_mount3() {
            named(MountV3::PROCEDURES)
        } else if (self.program, self.version, self.procedure) == (NfsV3::NUMBER, 4, 1) {
            Some("COMPOUND".to_owned())
        } else {
            None
        };
        match name {
            Some(name) => name,
            None if self.procedure == 0 => "NULL".to_owned(),
            None => format!("procedure {}", self.procedure),
        }
    }

    fn is_nfs3(&self) -> bool {
        (self.program, self.version) == (NfsV3::NUMBER, NfsV3::VERSION)
    }

    fn is_mount3(&self) -> bool {
        (self.program, self.version) == (MountV3::NUMBER, MountV3::VERSION)
    }

    /// Returns the status in the first word of results. The results of MOUNT's MNT and of NFSv3 procedures
    /// except NULL begin with a status; other results count as successful.
    #[must_use]
    pub fn status(&self, results: &[u8]) -> Status {
        const MNT: u32 = 1;
        let Some(word) = results.first_chunk().map(|word| i32::from_be_bytes(*word)) else {
            return Status::Success;
        };
        let name = match word {
            0 => return Status::Success,
            _ if self.is_nfs3() && self.procedure != 0 => {
                Nfsstat3::try_from(word).map(|status| document_name(&format!("{status:?}"))).ok()
            }
            _ if self.is_mount3() && self.procedure == MNT => {
                Mountstat3::try_from(word).map(|status| document_name(&format!("{status:?}"))).ok()
            }
            _ => return Status::Success,
        };
        Status::Failed(name.unwrap_or_else(|| format!("status {word}")))
    }
}

/// Converts the Rust name of a variant to its name in the XDR document, such as `Nfs3errBadCookie` to
/// `NFS3ERR_BAD_COOKIE`.
fn document_name(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(character.to_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documents() {
        let called = |program, version, procedure| CalledProcedure { program, version, procedure };
        let names =
            |called: CalledProcedure| format!("{} {}", called.program_name(), called.procedure_name());
        assert_eq!(names(called(100_003, 3, 17)), "NFSv3 READDIRPLUS");
        assert_eq!(names(called(100_005, 3, 1)), "MOUNTv3 MNT");
        assert_eq!(names(called(100_003, 4, 1)), "NFSv4 COMPOUND");
        assert_eq!(names(called(100_227, 3, 0)), "NFS_ACLv3 NULL");
        assert_eq!(names(called(77, 1, 9)), "program 77 version 1 procedure 9");
        let lookup = called(100_003, 3, 3);
        assert_eq!(lookup.status(&[0, 0, 0, 2]), Status::Failed("NFS3ERR_NOENT".to_owned()));
        let bad_cookie = 10_003_u32.to_be_bytes();
        assert_eq!(lookup.status(&bad_cookie), Status::Failed("NFS3ERR_BAD_COOKIE".to_owned()));
        assert_eq!(lookup.status(&[0, 0, 0, 99]), Status::Failed("status 99".to_owned()));
        assert_eq!(lookup.status(&[0; 8]), Status::Success);
        assert_eq!(called(100_003, 3, 0).status(&[0, 0, 0, 2]), Status::Success, "NULL has no results");
    }
}
