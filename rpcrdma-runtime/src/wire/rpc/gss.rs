//! The credential of RPCSEC_GSS (RFC 2203 section 5).

use bytes::Bytes;

use super::{AuthStat, MAX_AUTH_BYTES};
use crate::wire::generated::rpcsec_gss as xdr;
use crate::xdr::{Error, from_bytes, to_bytes};

/// Upper limit of sequence numbers, exclusive (RFC 2203 section 5).
pub const MAX_SEQUENCE: u32 = xdr::MAXSEQ;
/// Maximum size in bytes of a handle that fits into a credential: the other fields need 20 bytes.
pub const MAX_HANDLE: usize = MAX_AUTH_BYTES as usize - 20;

/// The type of a message with an RPCSEC_GSS credential (RFC 2203 section 5, `rpc_gss_proc_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssControl {
    /// A call to the program.
    Data,
    /// A request with the first token of a new context.
    Init,
    /// A request with a subsequent token of a new context.
    ContinueInit,
    /// A request to destroy the context.
    Destroy,
}

/// The protection of arguments and results (RFC 2203 section 5, `rpc_gss_service_t`), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GssService {
    /// No protection; the caller is still authenticated.
    None,
    /// Modifications are detected.
    Integrity,
    /// The data is also encrypted.
    Privacy,
}

/// The body of an RPCSEC_GSS credential of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssCredential {
    /// The type of the message.
    pub control: GssControl,
    /// The call's sequence number. Ignored during context creation.
    pub sequence: u32,
    /// The protection of the arguments and results, or `None` for an invalid service number, which is allowed
    /// only during context creation.
    pub service: Option<GssService>,
    /// The server's handle for the context: at most [`MAX_HANDLE`] bytes, and empty with the first token.
    pub handle: Bytes,
}

impl GssCredential {
    /// Encodes the body.
    ///
    /// # Errors
    /// Fails if the handle is 4 GiB or longer. Encoding a call header fails if the handle exceeds
    /// [`MAX_HANDLE`].
    pub fn encode(&self) -> Result<Bytes, Error> {
        let gss_proc = match self.control {
            GssControl::Data => xdr::RpcGssProcT::Data,
            GssControl::Init => xdr::RpcGssProcT::Init,
            GssControl::ContinueInit => xdr::RpcGssProcT::ContinueInit,
            GssControl::Destroy => xdr::RpcGssProcT::Destroy,
        };
        let service = match self.service {
            None | Some(GssService::None) => xdr::RpcGssServiceT::None,
            Some(GssService::Integrity) => xdr::RpcGssServiceT::Integrity,
            Some(GssService::Privacy) => xdr::RpcGssServiceT::Privacy,
        };
        to_bytes(&xdr::RpcGssCredT::RpcsecGssVers1(xdr::RpcGssCredVers1T {
            gss_proc,
            seq_num: self.sequence,
            service: (service as i32).cast_unsigned(),
            handle: self.handle.clone().into(),
        }))
    }

    /// Decodes the body of a credential.
    ///
    /// # Errors
    /// - [`AuthStat::RejectedCredential`] if the version is not 1 (RFC 2203 section 5.1).
    /// - [`AuthStat::BadCredential`] if the body cannot be decoded (section 5.3.3.3), or if the service
    ///   number is invalid outside context creation.
    pub fn decode(body: &Bytes) -> Result<Self, AuthStat> {
        let vers_1 = match from_bytes(body) {
            Ok(xdr::RpcGssCredT::RpcsecGssVers1(vers_1)) => vers_1,
            _ if body.first_chunk().is_some_and(|word| *word != xdr::RPCSEC_GSS_VERS_1.to_be_bytes()) => {
                return Err(AuthStat::RejectedCredential);
            }
            _ => return Err(AuthStat::BadCredential),
        };
        let control = match vers_1.gss_proc {
            xdr::RpcGssProcT::Data => GssControl::Data,
            xdr::RpcGssProcT::Init => GssControl::Init,
            xdr::RpcGssProcT::ContinueInit => GssControl::ContinueInit,
            xdr::RpcGssProcT::Destroy => GssControl::Destroy,
        };
        let service = match xdr::RpcGssServiceT::try_from(vers_1.service.cast_signed()) {
            Ok(xdr::RpcGssServiceT::None) => Some(GssService::None),
            Ok(xdr::RpcGssServiceT::Integrity) => Some(GssService::Integrity),
            Ok(xdr::RpcGssServiceT::Privacy) => Some(GssService::Privacy),
            Err(_) => None,
        };
        if service.is_none() && matches!(control, GssControl::Data | GssControl::Destroy) {
            return Err(AuthStat::BadCredential);
        }
        Ok(GssCredential { control, sequence: vers_1.seq_num, service, handle: vers_1.handle.into_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn words(words: &[u32]) -> Bytes {
        words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>().into()
    }

    #[test]
    fn a_credential_round_trips() {
        let credential = GssCredential {
            control: GssControl::Data,
            sequence: 7,
            service: Some(GssService::Privacy),
            handle: Bytes::from_static(b"abcd"),
        };
        let body = credential.encode().unwrap();
        assert_eq!(body[..], [&words(&[1, 0, 7, 3, 4])[..], b"abcd"].concat());
        assert_eq!(GssCredential::decode(&body), Ok(credential));
    }

    #[test]
    fn the_service_is_ignored_only_during_context_creation() {
        for (control, service, taken) in
            [(0, 0, false), (0, 1, true), (0, 4, false), (1, 0, true), (2, 99, true), (3, 0, false)]
        {
            let read = GssCredential::decode(&words(&[1, control, 5, service, 0]));
            assert_eq!(read.is_ok(), taken, "{control} {service}: {read:?}");
        }
    }

    #[test]
    fn invalid_bodies_and_other_versions_are_rejected() {
        assert_eq!(GssCredential::decode(&words(&[2, 0, 0, 1, 0])), Err(AuthStat::RejectedCredential));
        assert_eq!(GssCredential::decode(&words(&[0])), Err(AuthStat::RejectedCredential));
        for bad in [&words(&[])[..], &words(&[1]), &words(&[1, 4, 0, 1, 0]), &words(&[1, 0, 0, 1, 8])] {
            let read = GssCredential::decode(&Bytes::copy_from_slice(bad));
            assert_eq!(read, Err(AuthStat::BadCredential), "{bad:?}");
        }
    }
}
