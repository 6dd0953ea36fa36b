use crate::proto::counts::counts;
use crate::wire::rpc::{Reject, ReplyHeader};

counts! {
    /// Replies of a server, by RPC status (RFC 5531 section 9). Each call counts once, including calls
    /// answered from the duplicate-request cache.
    pub struct RpcCounts {
        /// SUCCESS.
        pub success: "with a result",
        /// RPC_MISMATCH.
        pub rpc_mismatch: "RPC_MISMATCH",
        /// AUTH_ERROR.
        pub auth_error: "AUTH_ERROR",
        /// PROG_UNAVAIL.
        pub program_unavailable: "PROG_UNAVAIL",
        /// PROG_MISMATCH.
        pub program_mismatch: "PROG_MISMATCH",
        /// PROC_UNAVAIL.
        pub procedure_unavailable: "PROC_UNAVAIL",
        /// GARBAGE_ARGS.
        pub garbage_arguments: "GARBAGE_ARGS",
        /// SYSTEM_ERR.
        pub system_error: "SYSTEM_ERR",
        /// No reply, for example because the message is not a call or the handler was stopped.
        pub nothing: "without a reply",
    }
}

impl RpcCounts {
    /// Returns counters in which only the counter of this status is 1. `None` stands for no reply.
    #[must_use]
    pub fn of(status: Option<ReplyHeader>) -> Self {
        let mut counts = RpcCounts::default();
        let count = match status {
            Some(ReplyHeader::Success) => &mut counts.success,
            Some(ReplyHeader::ProgramUnavailable) => &mut counts.program_unavailable,
            Some(ReplyHeader::ProgramMismatch { .. }) => &mut counts.program_mismatch,
            Some(ReplyHeader::RpcMismatch) => &mut counts.rpc_mismatch,
            Some(ReplyHeader::Rejected(reject)) => match reject {
                Reject::ProcedureUnavailable => &mut counts.procedure_unavailable,
                Reject::GarbageArguments => &mut counts.garbage_arguments,
                Reject::SystemError => &mut counts.system_error,
                Reject::AuthError(_) => &mut counts.auth_error,
            },
            None => &mut counts.nothing,
        };
        *count = 1;
        counts
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::wire::rpc::AuthStat;

    #[test]
    fn every_status_has_its_count() {
        let none = RpcCounts::default();
        for (header, counts) in [
            (ReplyHeader::Success, RpcCounts { success: 1, ..none }),
            (ReplyHeader::RpcMismatch, RpcCounts { rpc_mismatch: 1, ..none }),
            (
                ReplyHeader::Rejected(Reject::AuthError(AuthStat::TooWeak)),
                RpcCounts { auth_error: 1, ..none },
            ),
            (ReplyHeader::ProgramUnavailable, RpcCounts { program_unavailable: 1, ..none }),
            (ReplyHeader::ProgramMismatch { low: 1, high: 2 }, RpcCounts { program_mismatch: 1, ..none }),
            (
                ReplyHeader::Rejected(Reject::ProcedureUnavailable),
                RpcCounts { procedure_unavailable: 1, ..none },
            ),
            (ReplyHeader::Rejected(Reject::GarbageArguments), RpcCounts { garbage_arguments: 1, ..none }),
            (ReplyHeader::Rejected(Reject::SystemError), RpcCounts { system_error: 1, ..none }),
        ] {
            assert_eq!(RpcCounts::of(Some(header)), counts, "{header:?}");
        }
        assert_eq!(RpcCounts::of(None), RpcCounts { nothing: 1, ..none });
        assert_eq!(RpcCounts::of(Some(ReplyHeader::Success)).to_string(), "1 with a result");
        assert_eq!(none.to_string(), "nothing");
    }
}
