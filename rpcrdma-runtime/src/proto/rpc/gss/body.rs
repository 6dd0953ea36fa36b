//! Arguments and results as RPCSEC_GSS protects them (RFC 2203 section 5.3.2).

use bytes::Bytes;

use super::{GssContext, GssError, GssFailure, GssService};
use crate::wire::generated::rpcsec_gss as xdr;
use crate::xdr::{Decode, Encode, Reader, Reducer, Sink};

/// Where the arguments or results go that are to be protected: behind their sequence number.
pub(super) fn begin(sequence: u32) -> Result<Reducer, GssFailure> {
    let mut body = Reducer::disabled();
    body.put_u32(sequence).map_err(GssFailure::Encode)?;
    Ok(body)
}

/// Puts what was begun into a message, protected.
pub(super) fn seal<S: Sink + ?Sized>(
    context: &dyn GssContext,
    service: GssService,
    body: Reducer,
    sink: &mut S,
) -> Result<(), GssFailure> {
    let body = body.into_message().stream;
    let sealed = match service {
        GssService::None => sink.put(&body),
        GssService::Integrity => {
            let checksum = context.get_mic(&body)?.into();
            xdr::RpcGssIntegData { databody_integ: body.into(), checksum }.encode(sink)
        }
        GssService::Privacy => {
            xdr::RpcGssPrivData { databody_priv: context.wrap(&body)?.into() }.encode(sink)
        }
    };
    sealed.map_err(GssFailure::Encode)
}

/// Takes protected arguments or results out of a message, of which they are the rest.
pub(super) fn open(
    context: &dyn GssContext,
    service: GssService,
    sequence: u32,
    mut reader: Reader<'_>,
) -> Result<Bytes, GssFailure> {
    let body = match service {
        // They are not protected; who asks for this does not know its own service.
        GssService::None => return Err(GssError::FAILURE.into()),
        GssService::Integrity => {
            let data = xdr::RpcGssIntegData::decode(&mut reader).map_err(GssFailure::Decode)?;
            reader.finish().map_err(GssFailure::Decode)?;
            context.verify_mic(&data.databody_integ, &data.checksum)?;
            data.databody_integ.into_bytes()
        }
        GssService::Privacy => {
            let data = xdr::RpcGssPrivData::decode(&mut reader).map_err(GssFailure::Decode)?;
            reader.finish().map_err(GssFailure::Decode)?;
            Bytes::from(context.unwrap(&data.databody_priv)?)
        }
    };
    match body.split_first_chunk() {
        Some((number, _)) if *number == sequence.to_be_bytes() => Ok(body.slice(number.len()..)),
        _ => Err(GssFailure::Sequence),
    }
}
