use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_runtime::ProcedureId;
use rpcrdma_runtime::program::Program;

/// Returns true for the NFSv3 procedures that must not run twice for one call: a second run could fail or
/// undo later changes. Returns false for all other procedure numbers and all other programs. Ignores the
/// version. Pass this function to [`CachePolicy::only`](rpcrdma_runtime::CachePolicy::only).
#[must_use]
pub fn must_not_run_twice(called: ProcedureId) -> bool {
    /// SETATTR, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME and LINK.
    const CHANGES: [u32; 10] = [2, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    called.program == NfsV3::NUMBER && CHANGES.contains(&called.procedure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_that_change_files_are_cached() {
        let cached: Vec<&str> = NfsV3::PROCEDURES
            .iter()
            .filter(|(procedure, _)| {
                let (program, version, procedure) = (NfsV3::NUMBER, NfsV3::VERSION, *procedure);
                must_not_run_twice(ProcedureId { program, version, procedure })
            })
            .map(|(_, name)| name.trim_start_matches("NFSPROC3_"))
            .collect();
        let changes =
            ["SETATTR", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK"];
        assert_eq!(cached, changes);
    }
}
