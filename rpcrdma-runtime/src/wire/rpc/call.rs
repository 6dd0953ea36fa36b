use super::auth::{self, AuthStat, Credential, Verifier};
use crate::wire::generated::rpc_msg as xdr;
use crate::xdr::{Decode, Encode, Error, Reader, Received, Sink};

/// The only version of RPC (RFC 5531 section 9).
pub const RPC_VERSION: u32 = xdr::RPC_VERSION;

/// What an RPC message is (RFC 5531 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A call.
    Call,
    /// A reply.
    Reply,
}

impl MessageKind {
    /// Tells it by the word behind the XID. Nothing, if the message is neither.
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

/// A call's header (RFC 5531 section 9). The arguments follow it.
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
    /// Who calls. The verifier is AUTH_NONE's.
    pub credential: Credential,
}

/// Why a message is no call that can be run.
#[derive(Clone, Debug, PartialEq)]
pub enum CallRefusal {
    /// It is a reply, or too short to say what it is: there is nobody to answer.
    NotACall,
    /// RPC_MISMATCH: it speaks another version of RPC.
    RpcMismatch {
        /// The XID as it came.
        xid: u32,
    },
    /// GARBAGE_ARGS: it is a call and ends within its header.
    Truncated {
        /// The XID as it came.
        xid: u32,
    },
    /// AUTH_ERROR: its credential or its verifier is malformed.
    Auth {
        /// The XID as it came.
        xid: u32,
        /// In which way.
        stat: AuthStat,
    },
}

impl CallHeader {
    /// Writes the header; the arguments go behind it.
    ///
    /// # Errors
    /// A credential that breaks the bounds of its flavor.
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

    /// Writes the header up to and including the credential: what a verifier is computed of.
    ///
    /// # Errors
    /// A credential that breaks the bounds of its flavor.
    pub fn encode_unverified<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        let kind = (xdr::MsgType::Call as i32).cast_unsigned();
        for word in [self.xid, kind, RPC_VERSION, self.program, self.version, self.procedure] {
            sink.put_u32(word)?;
        }
        auth::encode(&self.credential)?.encode(sink)
    }

    /// Writes the rest of a header.
    ///
    /// # Errors
    /// A verifier of more than 400 bytes.
    pub fn encode_verifier<S: Sink + ?Sized>(verifier: &Verifier, sink: &mut S) -> Result<(), Error> {
        verifier.to_xdr().encode(sink)
    }

    /// Reads the header; the reader stands at the arguments then.
    ///
    /// # Errors
    /// [`CallRefusal`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CallRefusal> {
        CallHeader::decode_verified(reader).map(|(header, _, _)| header)
    }

    /// The same, and the verifier, and how long the header is in front of the verifier, in bytes.
    fn decode_verified(reader: &mut Reader<'_>) -> Result<(Self, Verifier, usize), CallRefusal> {
        let before = reader.remaining();
        // Word by word, because what is answered depends on how far it can be read.
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

/// A call that arrived. Its header is read once, for all that asks what the call is.
#[derive(Clone, Debug)]
pub struct RpcCall {
    /// The header with the caller's credential.
    pub header: CallHeader,
    /// The caller's verifier.
    pub verifier: Verifier,
    message: Received,
    /// How long the header is in front of the verifier, and to its end, in bytes.
    unverified: usize,
    header_len: usize,
}

impl RpcCall {
    /// Reads the header of a message.
    ///
    /// # Errors
    /// [`CallRefusal`]: [`RpcReply::refuse`](super::RpcReply::refuse) makes the answer of it.
    pub fn parse(message: Received) -> Result<Self, CallRefusal> {
        let mut reader = Reader::new(&message);
        let (header, verifier, unverified) = CallHeader::decode_verified(&mut reader)?;
        let header_len = message.stream.len().saturating_sub(reader.remaining());
        Ok(RpcCall { header, verifier, message, unverified, header_len })
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &Received {
        &self.message
    }

    /// What the verifier is computed of: the header in front of it.
    #[must_use]
    pub fn unverified(&self) -> &[u8] {
        self.message.stream.get(..self.unverified).unwrap_or_default()
    }

    /// Stands at the arguments.
    #[must_use]
    pub fn args(&self) -> Reader<'_> {
        let mut reader = Reader::new(&self.message);
        // The header was read from there.
        let _ = reader.take(self.header_len);
        reader
    }
}
