use crate::proto::counts::counts;

counts! {
    /// What a server answered to calls, by RPC's own status (RFC 5531 section 9). Every call is one of them, those that are
    /// answered from the duplicate-request cache included.
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
        /// GARBAGE_ARGS (R174).
        pub garbage_arguments: "GARBAGE_ARGS",
        /// SYSTEM_ERR.
        pub system_error: "SYSTEM_ERR",
        /// No answer: the message was no call, or its handler was stopped.
        pub nothing: "without an answer",
    }
}

impl RpcCounts {
    /// One reply, by its first words.
    #[must_use]
    pub fn of(reply: Option<&[u8]>) -> Self {
        let mut counts = RpcCounts::default();
        let word = |at: usize| {
            let bytes = reply?.get(at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let count = match (word(4), word(8)) {
            (Some(1), Some(1)) => match word(12) {
                Some(0) => &mut counts.rpc_mismatch,
                _ => &mut counts.auth_error,
            },
            (Some(1), Some(0)) => {
                // Behind the verifier, whose body has a length.
                let verifier =
                    word(16).and_then(|len| usize::try_from(len).ok()?.checked_next_multiple_of(4));
                match verifier.and_then(|len| word(len.checked_add(20)?)) {
                    Some(0) => &mut counts.success,
                    Some(1) => &mut counts.program_unavailable,
                    Some(2) => &mut counts.program_mismatch,
                    Some(3) => &mut counts.procedure_unavailable,
                    Some(4) => &mut counts.garbage_arguments,
                    _ => &mut counts.system_error,
                }
            }
            _ => &mut counts.nothing,
        };
        *count = 1;
        counts
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::wire::rpc::{AuthStat, Reject, ReplyHeader};
    use crate::xdr::Writer;

    fn of(header: ReplyHeader) -> RpcCounts {
        let mut writer = Writer::new();
        header.encode(7, &mut writer).expect("a header");
        RpcCounts::of(Some(writer.as_slice()))
    }

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
            assert_eq!(of(header), counts, "{header:?}");
        }
        assert_eq!(RpcCounts::of(None), RpcCounts { nothing: 1, ..none });
    }

    #[test]
    fn a_verifier_stands_before_the_status() {
        let words = [7u32, 1, 0, 6, 5, 0x0102_0304, 0x0500_0000, 4];
        let reply: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        assert_eq!(RpcCounts::of(Some(&reply)).garbage_arguments, 1);
        assert_eq!(RpcCounts::of(Some(&reply[..28])).system_error, 1, "cut off");
        assert_eq!(of(ReplyHeader::Success).to_string(), "1 with a result");
        assert_eq!(RpcCounts::default().to_string(), "nothing");
    }
}
