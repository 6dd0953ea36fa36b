use super::auth::{self, AuthStat, Credential, Verifier};
use crate::wire::generated::rpc_msg as xdr;
use crate::xdr::{Decode, Encode, Error, Reader, Received, Sink};

/// The only supported version of RPC (RFC 5531 section 9).
pub const RPC_VERSION: u32 = xdr::RPC_VERSION;

/// The type of an RPC message (RFC 5531 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A call.
    Call,
    /// A reply.
    Reply,
}

impl MessageKind {
    /// Returns the type given by the word after the XID, or `None` if this word is missing or invalid.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::from_slice(message);
        let _xid = reader.u32().ok()?;
        match xdr::MsgType::decode(&mut reader).ok()? {
            xdr::MsgType::Call => Some(MessageKind::Call),
            xdr::MsgType::Reply => Some(MessageKind::Reply),
        }
    }
}

/// The header of a call, up to the arguments (RFC 5531 section 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// Transaction id.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// The caller's credential. [`CallHeader::encode`] adds an AUTH_NONE verifier.
    pub credential: Credential,
}

/// The numbers that identify a call in log events. The rest of the call's header may be invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNumbers {
    /// Transaction id.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
}

impl CallNumbers {
    /// Reads the first 24 bytes of a message. Returns `None` if these bytes are incomplete or are not the
    /// start of a call of RPC version 2.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::from_slice(message);
        let mut word = || reader.u32().ok();
        let (xid, kind, rpc_version) = (word()?, word()?, word()?);
        let (program, version, procedure) = (word()?, word()?, word()?);
        let is_call = kind == xdr::MsgType::Call as u32 && rpc_version == RPC_VERSION;
        is_call.then_some(CallNumbers { xid, program, version, procedure })
    }
}

/// The reason why a message is not a valid call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallRefusal {
    /// The message is not a call, or is too short to determine its type: no reply is possible.
    NotACall,
    /// RPC_MISMATCH: the call has an unsupported RPC version.
    RpcMismatch {
        /// The received XID.
        xid: u32,
    },
    /// GARBAGE_ARGS: the call ends before its credential.
    Truncated {
        /// The received XID.
        xid: u32,
    },
    /// AUTH_ERROR: the credential or the verifier is malformed.
    Auth {
        /// The received XID.
        xid: u32,
        /// The `auth_stat` of the reply.
        stat: AuthStat,
    },
}

impl CallHeader {
    /// Writes the header. The arguments must follow.
    ///
    /// # Errors
    /// Fails if the credential exceeds the bounds of its flavor, or with the sink's error.
    pub fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        let body = xdr::CallBody {
            rpcvers: RPC_VERSION,
            prog: self.program,
            vers: self.version,
            proc: self.procedure,
            cred: auth::encode(&self.credential)?,
            verf: Verifier::default().to_xdr(),
        };
        xdr::RpcMsg { xid: self.xid, body: xdr::RpcBody::Call(body) }.encode(sink)
    }

    /// Writes the header up to and including the credential. An RPCSEC_GSS verifier is a checksum of these
    /// bytes.
    ///
    /// # Errors
    /// Fails if the credential exceeds the bounds of its flavor, or with the sink's error.
    pub fn encode_unverified<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        let kind = (xdr::MsgType::Call as i32).cast_unsigned();
        for word in [self.xid, kind, RPC_VERSION, self.program, self.version, self.procedure] {
            sink.put_u32(word)?;
        }
        auth::encode(&self.credential)?.encode(sink)
    }

    /// Writes the verifier, which completes a header.
    ///
    /// # Errors
    /// Fails if the body of the verifier exceeds 400 bytes, or with the sink's error.
    pub fn encode_verifier<S: Sink + ?Sized>(verifier: &Verifier, sink: &mut S) -> Result<(), Error> {
        verifier.to_xdr().encode(sink)
    }

    /// Reads the header, up to the arguments.
    ///
    /// # Errors
    /// Returns [`CallRefusal`] if the message is not a valid call.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CallRefusal> {
        CallHeader::decode_verified(reader).map(|(header, _, _)| header)
    }

    /// Reads the header. Also returns the verifier, and the size in bytes of the part of the header that
    /// precedes the verifier.
    fn decode_verified(reader: &mut Reader<'_>) -> Result<(Self, Verifier, usize), CallRefusal> {
        let before = reader.remaining();
        // Reads single words, because the error depends on how much of the header is present.
        let mut word = || reader.u32().map_err(|_| CallRefusal::NotACall);
        let (xid, kind) = (word()?, word()?);
        if kind != xdr::MsgType::Call as u32 {
            return Err(CallRefusal::NotACall);
        }
        let mut word = || reader.u32().map_err(|_| CallRefusal::Truncated { xid });
        if word()? != RPC_VERSION {
            return Err(CallRefusal::RpcMismatch { xid });
        }
        let (program, version, procedure) = (word()?, word()?, word()?);
        let malformed = |stat| move |_: Error| CallRefusal::Auth { xid, stat };
        let credential = xdr::OpaqueAuth::decode(reader).map_err(malformed(AuthStat::BadCredential))?;
        let unverified = before.saturating_sub(reader.remaining());
        let verifier = xdr::OpaqueAuth::decode(reader).map_err(malformed(AuthStat::BadVerifier))?;
        let credential = auth::decode(&credential).map_err(|stat| CallRefusal::Auth { xid, stat })?;
        Ok((CallHeader { xid, program, version, procedure, credential }, verifier.into(), unverified))
    }
}

/// A received call with its parsed header.
#[derive(Clone, Debug)]
pub struct RpcCall {
    /// The header with the caller's credential.
    pub header: CallHeader,
    /// The caller's verifier.
    pub verifier: Verifier,
    message: Received,
    /// The size in bytes of the part of the header that precedes the verifier.
    unverified: usize,
    header_len: usize,
}

impl RpcCall {
    /// Parses the header of a message.
    ///
    /// # Errors
    /// Returns [`CallRefusal`] if the message is not a valid call.
    /// [`RpcReply::refuse`](super::RpcReply::refuse) creates the reply, if any.
    pub fn parse(message: Received) -> Result<Self, CallRefusal> {
        let mut reader = Reader::new(&message);
        let (header, verifier, unverified) = CallHeader::decode_verified(&mut reader)?;
        let header_len = message.stream.len().saturating_sub(reader.remaining());
        Ok(RpcCall { header, verifier, message, unverified, header_len })
    }

    /// Returns the complete message.
    #[must_use]
    pub fn message(&self) -> &Received {
        &self.message
    }

    /// Returns the header up to and including the credential. An RPCSEC_GSS verifier is a checksum of these
    /// bytes.
    #[must_use]
    pub fn unverified(&self) -> &[u8] {
        self.message.stream.get(..self.unverified).unwrap_or_default()
    }

    /// Returns a reader positioned at the arguments.
    #[must_use]
    pub fn args(&self) -> Reader<'_> {
        let mut reader = Reader::new(&self.message);
        // Cannot fail: the header was read from the same bytes.
        let _ = reader.take(self.header_len);
        reader
    }
}
