use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use super::{GssContext, GssControl, GssCredential, GssError, GssFailure, GssService, body};
use crate::proto::program::{Procedure, Program, ReplyBounds};
use crate::wire::generated::rpcsec_gss as xdr;
use crate::wire::rpc::{
    CallHeader, Credential, MAX_HANDLE, MAX_SEQUENCE, RPCSEC_GSS, Verifier, decode_verified,
};
use crate::xdr::{Decode, Encode, Message, Reader, Received, Reducer, Size};

/// A client's context with a server. The session does not assign sequence numbers. The caller assigns each
/// call a unique number below 2^31. The difference between this number and the lowest number of an
/// unanswered call must be less than [`GssSession::window`].
#[derive(Clone)]
pub struct GssSession {
    context: Arc<dyn GssContext>,
    handle: Bytes,
    service: GssService,
    window: u32,
}

/// The server's reply during context creation.
#[derive(Clone, Debug)]
pub struct InitAnswer {
    /// The server's handle of the context, for later messages.
    pub handle: Bytes,
    /// The server's token, to be passed to the client's mechanism.
    pub token: Bytes,
    /// The size of the server's sequence window.
    pub window: u32,
    /// Whether the server's context is complete, so that the server accepts no more tokens.
    pub complete: bool,
    verifier: Verifier,
}

impl GssSession {
    /// Creates the message that sends a token to the server. The first message has an empty handle.
    ///
    /// # Errors
    /// [`GssFailure::Encode`] if the token or the handle exceeds its bounds.
    pub fn init_call<P: Program>(xid: u32, handle: &Bytes, token: Bytes) -> Result<Message, GssFailure> {
        let control = if handle.is_empty() { GssControl::Init } else { GssControl::ContinueInit };
        let credential =
            GssCredential { control, sequence: 0, service: Some(GssService::None), handle: handle.clone() };
        let header = CallHeader {
            xid,
            program: P::NUMBER,
            version: P::VERSION,
            procedure: 0,
            credential: credential_of(&credential)?,
        };
        let mut message = Reducer::disabled();
        header.encode(&mut message).map_err(GssFailure::Encode)?;
        let token = xdr::RpcGssInitArg { gss_token: token.into() };
        token.encode(&mut message).map_err(GssFailure::Encode)?;
        Ok(message.into_message())
    }

    /// Returns the bounds of the reply to [`GssSession::init_call`] if the server's token has at most
    /// `longest_token` bytes.
    #[must_use]
    pub fn init_bounds(longest_token: u32) -> ReplyBounds {
        // The fixed part consists of two counts, three numbers and the handle.
        let fixed = Size::Bounded(20).plus(Size::padded(MAX_HANDLE as u64));
        let unreduced = fixed.plus(Size::padded(u64::from(longest_token)));
        ReplyBounds { unreduced, reduced: unreduced, item: Size::ZERO, items: Size::ZERO }
    }

    /// Decodes the reply to [`GssSession::init_call`].
    ///
    /// # Errors
    /// [`GssFailure::Refused`] if the server's mechanism refuses to create a context, or another
    /// [`GssFailure`] if the reply is invalid or rejects the call.
    pub fn init_answer(xid: u32, reply: &Received) -> Result<InitAnswer, GssFailure> {
        let mut reader = Reader::new(reply);
        let (verifier, status) = decode_verified(&mut reader, xid)?;
        status?;
        let answer: xdr::RpcGssInitRes = reader.decode_all().map_err(GssFailure::Decode)?;
        let complete = match answer.gss_major {
            xdr::GSS_S_COMPLETE => true,
            xdr::GSS_S_CONTINUE_NEEDED => false,
            major => return Err(GssFailure::Refused(GssError::new(major, answer.gss_minor))),
        };
        if answer.handle.is_empty() || answer.handle.len() > MAX_HANDLE {
            return Err(GssFailure::Protocol("the context handle is empty or longer than 380 bytes"));
        }
        Ok(InitAnswer {
            handle: answer.handle.into_bytes(),
            token: answer.gss_token.into_bytes(),
            window: answer.seq_window,
            complete,
            verifier: verifier.unwrap_or_default(),
        })
    }

    /// Creates the session. The contexts of the client and of the server must be complete. Verifies that the
    /// last answer comes from the server.
    ///
    /// # Errors
    /// [`GssFailure::Unverified`] if the verification fails.
    pub fn new(
        context: Arc<dyn GssContext>,
        service: GssService,
        last: InitAnswer,
    ) -> Result<Self, GssFailure> {
        verify(&*context, &last.window.to_be_bytes(), &last.verifier)?;
        Ok(GssSession { context, handle: last.handle, service, window: last.window.max(1) })
    }

    /// Returns the protection of arguments and results.
    #[must_use]
    pub fn service(&self) -> GssService {
        self.service
    }

    /// Returns the size of the server's sequence window (RFC 2203 section 5.2.3.1).
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Returns the server's name, in the mechanism's format.
    #[must_use]
    pub fn peer(&self) -> &[u8] {
        self.context.peer()
    }

    /// Encodes a call. Moves eligible items of at least `min_item` bytes out of the stream if the service
    /// allows reduction.
    ///
    /// # Errors
    /// [`GssFailure::Exhausted`] if the sequence number is 2^31 or more, [`GssFailure::Mechanism`] if the
    /// mechanism fails, or [`GssFailure::Encode`] if the call cannot be encoded.
    pub fn call<Q: Procedure>(
        &self,
        xid: u32,
        sequence: u32,
        args: &Q::Args,
        min_item: usize,
    ) -> Result<Message, GssFailure> {
        let mut message = match self.service {
            GssService::None => Reducer::new(min_item),
            GssService::Integrity | GssService::Privacy => Reducer::disabled(),
        };
        self.encode_header::<Q::Program>(xid, sequence, GssControl::Data, Q::NUMBER, &mut message)?;
        if self.service == GssService::None {
            args.encode(&mut message).map_err(GssFailure::Encode)?;
        } else {
            let mut body = body::new(sequence)?;
            args.encode(&mut body).map_err(GssFailure::Encode)?;
            body::protect(&*self.context, self.service, body, &mut message)?;
        }
        Ok(message.into_message())
    }

    /// Creates the message that destroys the context. The message has no arguments, and its reply has no
    /// results.
    ///
    /// # Errors
    /// Fails as [`GssSession::call`] does.
    pub fn destroy<P: Program>(&self, xid: u32, sequence: u32) -> Result<Message, GssFailure> {
        let mut message = Reducer::disabled();
        self.encode_header::<P>(xid, sequence, GssControl::Destroy, 0, &mut message)?;
        Ok(message.into_message())
    }

    /// Encodes the header, with its checksum in the verifier.
    fn encode_header<P: Program>(
        &self,
        xid: u32,
        sequence: u32,
        control: GssControl,
        procedure: u32,
        message: &mut Reducer,
    ) -> Result<(), GssFailure> {
        if sequence >= MAX_SEQUENCE {
            return Err(GssFailure::Exhausted);
        }
        let service = Some(self.service);
        let credential = GssCredential { control, sequence, service, handle: self.handle.clone() };
        let credential = credential_of(&credential)?;
        let header = CallHeader { xid, program: P::NUMBER, version: P::VERSION, procedure, credential };
        let mut unverified = Reducer::disabled();
        header.encode_unverified(&mut unverified).map_err(GssFailure::Encode)?;
        let unverified = unverified.into_message().stream;
        let verifier = Verifier { flavor: RPCSEC_GSS, body: self.context.get_mic(&unverified)?.into() };
        crate::xdr::Sink::put(message, &unverified).map_err(GssFailure::Encode)?;
        CallHeader::encode_verifier(&verifier, message).map_err(GssFailure::Encode)
    }

    /// Returns the bounds of a protected reply, given its bounds without RPCSEC_GSS.
    #[must_use]
    pub fn reply_bounds(&self, bounds: ReplyBounds) -> ReplyBounds {
        let overhead = self.context.overhead();
        let mic = Size::padded(u64::from(overhead.mic));
        // Integrity adds the sequence number, the checksum and two counts. Privacy adds the sequence number,
        // one count, padding and the mechanism's overhead.
        let more = match self.service {
            GssService::None => return bounds,
            GssService::Integrity => Size::Bounded(4 + 4 + 4).plus(mic),
            GssService::Privacy => Size::Bounded(4 + 4 + 3).plus(Size::Bounded(u64::from(overhead.wrap))),
        };
        let unreduced = bounds.unreduced.plus(more);
        ReplyBounds { unreduced, reduced: unreduced, item: Size::ZERO, items: Size::ZERO }
    }

    /// Checks the reply to [`GssSession::destroy`].
    ///
    /// # Errors
    /// Returns [`GssFailure`] if the reply is invalid or rejects the call.
    pub fn ended(&self, xid: u32, sequence: u32, reply: &Received) -> Result<(), GssFailure> {
        let mut reader = Reader::new(reply);
        self.verify_reply(&mut reader, xid, sequence)?;
        if reader.remaining() == 0 || self.service == GssService::None {
            return reader.finish().map_err(GssFailure::Decode);
        }
        // Some servers protect this reply, although it has no results.
        self.unprotect(sequence, reader).map(drop)
    }

    /// Returns the result of a call. Checks the verifier of an accepted reply (MSG_ACCEPTED). A denied reply
    /// (MSG_DENIED) has no verifier.
    ///
    /// # Errors
    /// Returns [`GssFailure`] if the call has no result.
    pub fn result<Res: for<'de> Decode<'de>>(
        &self,
        xid: u32,
        sequence: u32,
        reply: &Received,
    ) -> Result<Res, GssFailure> {
        let mut reader = Reader::new(reply);
        self.verify_reply(&mut reader, xid, sequence)?;
        if self.service == GssService::None {
            return reader.decode_all().map_err(GssFailure::Decode);
        }
        let body = self.unprotect(sequence, reader)?;
        Reader::from_bytes(&body).decode_all().map_err(GssFailure::Decode)
    }
}

impl GssSession {
    /// Reads a reply's header and checks its verifier, if any. Fails unless the reply's status is SUCCESS.
    fn verify_reply(&self, reader: &mut Reader<'_>, xid: u32, sequence: u32) -> Result<(), GssFailure> {
        let (verifier, status) = decode_verified(reader, xid)?;
        if let Some(verifier) = verifier {
            verify(&*self.context, &sequence.to_be_bytes(), &verifier)?;
        }
        Ok(status?)
    }

    /// Verifies protected results. If the mechanism rejects the results, returns [`GssFailure::Unverified`],
    /// since the reply may be forged.
    fn unprotect(&self, sequence: u32, reader: Reader<'_>) -> Result<Bytes, GssFailure> {
        body::unprotect(&*self.context, self.service, sequence, reader).map_err(|failure| match failure {
            GssFailure::Mechanism(_) => GssFailure::Unverified,
            failure => failure,
        })
    }
}

fn credential_of(credential: &GssCredential) -> Result<Credential, GssFailure> {
    let body = credential.encode().map_err(GssFailure::Encode)?;
    Ok(Credential::Other { flavor: RPCSEC_GSS, body })
}

fn verify(context: &dyn GssContext, message: &[u8], verifier: &Verifier) -> Result<(), GssFailure> {
    if verifier.flavor != RPCSEC_GSS {
        return Err(GssFailure::Unverified);
    }
    context.verify_mic(message, &verifier.body).map_err(|_| GssFailure::Unverified)
}

impl fmt::Debug for GssSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssSession")
            .field("handle", &self.handle)
            .field("service", &self.service)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}
