//! Decodes frames of Linux's siw, and encodes them again to the same octets.

use std::path::Path;

use rpcrdma_runtime::wire::iwarp::{Opcode, fpdu};
use rpcrdma_tests::captured::{CapturedFrame, frames, other_files};
use rpcrdma_tests::framed::{reencode_fpdu, reencode_handshake};

fn ours() -> Vec<CapturedFrame> {
    frames(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/linux-iwarp.jsonl"))
}

#[test]
fn handshakes_of_linux_round_trip() {
    let handshakes: Vec<_> = ours().into_iter().filter(|frame| frame.handshake).collect();
    assert_eq!(handshakes.len(), 3, "a request, and replies with and without CRCs");
    for frame in handshakes {
        assert_eq!(reencode_handshake(&frame.bytes), frame.bytes, "{}", frame.name);
    }
}

#[test]
fn fpdus_of_linux_round_trip() {
    let mut seen = Vec::new();
    for frame in ours().iter().filter(|frame| !frame.handshake) {
        let (opcode, again) = reencode_fpdu(&frame.bytes, frame.crc, frame.from_client);
        assert_eq!(again, frame.bytes, "{}, CRCs {}", frame.name, frame.crc);
        seen.push((frame.crc, opcode));
    }
    // The capture without CRCs also contains Read Responses from the client.
    assert!(seen.contains(&(false, Opcode::ReadResponse)));
    for crc in [true, false] {
        for opcode in [Opcode::Write, Opcode::ReadRequest] {
            assert!(seen.contains(&(crc, opcode)), "{opcode:?}, CRCs {crc}");
        }
        for invalidate in [true, false] {
            let sends = |(with, opcode): &(bool, Opcode)| {
                *with == crc && matches!(opcode, Opcode::Send { invalidate: is, .. } if *is == invalidate)
            };
            assert!(seen.iter().any(sends), "Sends, CRCs {crc}, invalidation {invalidate}");
        }
    }
}

#[test]
fn the_crc_detects_any_flipped_bit_in_fpdus_of_linux() {
    let frames: Vec<_> = ours().into_iter().filter(|frame| frame.crc && !frame.handshake).collect();
    assert!(frames.len() > 4);
    for frame in frames {
        let mut octets = frame.bytes.to_vec();
        for bit in 0..octets.len() * 8 {
            octets[bit / 8] ^= 1 << (bit % 8);
            assert!(fpdu::open(&octets, true).is_err(), "{}: bit {bit}", frame.name);
            octets[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn frames_in_rpcrdma_vectors_round_trip() {
    for file in other_files() {
        let frames = frames(&file);
        assert!(frames.len() >= 2, "{}: {} frames", file.display(), frames.len());
        for frame in frames {
            let again = if frame.handshake {
                reencode_handshake(&frame.bytes)
            } else {
                reencode_fpdu(&frame.bytes, frame.crc, frame.from_client).1
            };
            assert_eq!(again, frame.bytes, "{}: {}", file.display(), frame.name);
        }
    }
}
