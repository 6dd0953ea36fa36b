//! Protected arguments and results of RPCSEC_GSS (RFC 2203 sections 5.3.2 and 5.3.3.2).

use bytes::Bytes;

use super::{GssContext, GssError, GssFailure, GssService};
use crate::wire::generated::rpcsec_gss as xdr;
use crate::xdr::{Encode, Reader, Reducer, Sink};

/// Returns the reducer that takes the arguments or results to protect. It already contains the sequence
/// number.
pub(super) fn new(sequence: u32) -> Result<Reducer, GssFailure> {
    let mut body = Reducer::disabled();
    body.put_u32(sequence).map_err(GssFailure::Encode)?;
    Ok(body)
}

pub(super) fn protect<S: Sink + ?Sized>(
    context: &dyn GssContext,
    service: GssService,
    body: Reducer,
    sink: &mut S,
) -> Result<(), GssFailure> {
    let body = body.into_message().stream;
    let written = match service {
        GssService::None => sink.put(&body),
        GssService::Integrity => {
            let checksum = context.get_mic(&body)?.into();
            xdr::RpcGssIntegData { databody_integ: body.into(), checksum }.encode(sink)
        }
        GssService::Privacy => {
            xdr::RpcGssPrivData { databody_priv: context.wrap(&body)?.into() }.encode(sink)
        }
    };
    written.map_err(GssFailure::Encode)
}

/// Reads and verifies protected arguments or results, up to the end of the message.
pub(super) fn unprotect(
    context: &dyn GssContext,
    service: GssService,
    sequence: u32,
    reader: Reader<'_>,
) -> Result<Bytes, GssFailure> {
    let body = match service {
        // With `None`, the body has no checksum and no sequence number to verify.
        GssService::None => return Err(GssError::FAILURE.into()),
        GssService::Integrity => {
            let data: xdr::RpcGssIntegData = reader.decode_all().map_err(GssFailure::Decode)?;
            context.verify_mic(&data.databody_integ, &data.checksum)?;
            data.databody_integ.into_bytes()
        }
        GssService::Privacy => {
            let data: xdr::RpcGssPrivData = reader.decode_all().map_err(GssFailure::Decode)?;
            Bytes::from(context.unwrap(&data.databody_priv)?)
        }
    };
    match body.split_first_chunk() {
        Some((number, _)) if *number == sequence.to_be_bytes() => Ok(body.slice(number.len()..)),
        _ => Err(GssFailure::Sequence),
    }
}
