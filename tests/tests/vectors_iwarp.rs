//! Frames of Linux's siw decode, and encode again to the same octets.

use std::path::Path;

use rpcrdma_runtime::wire::iwarp::{Opcode, fpdu};
use rpcrdma_tests::captured::{CapturedFrame, frames, other_files};
use rpcrdma_tests::framed::{reencode_fpdu, reencode_opening};

fn ours() -> Vec<CapturedFrame> {
    frames(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/linux-iwarp.jsonl"))
}

#[test]
fn openings_of_linux_are_read_and_written_alike() {
    let openings: Vec<_> = ours().into_iter().filter(|frame| frame.opening).collect();
    assert_eq!(openings.len(), 3, "a request, and replies with and without CRCs");
    for frame in openings {
        assert_eq!(reencode_opening(&frame.bytes), frame.bytes, "{}", frame.name);
    }
}

#[test]
fn fpdus_of_linux_are_read_and_written_alike() {
    let mut seen = Vec::new();
    for frame in ours().iter().filter(|frame| !frame.opening) {
        let (opcode, again) = reencode_fpdu(&frame.bytes, frame.crc, frame.from_client);
        assert_eq!(again, frame.bytes, "{}, CRCs {}", frame.name, frame.crc);
        seen.push((frame.crc, opcode));
    }
    // The client, whose Linux requests no CRCs, answers Reads.
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
fn an_fpdu_of_linux_with_any_bit_flipped_is_known_by_its_crc() {
    let frames: Vec<_> = ours().into_iter().filter(|frame| frame.crc && !frame.opening).collect();
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
fn every_frame_in_the_folder_that_the_environment_names() {
    for file in other_files() {
        let frames = frames(&file);
        assert!(frames.len() >= 2, "{}: {} frames", file.display(), frames.len());
        for frame in frames {
            let again = if frame.opening {
                reencode_opening(&frame.bytes)
            } else {
                reencode_fpdu(&frame.bytes, frame.crc, frame.from_client).1
            };
            assert_eq!(again, frame.bytes, "{}: {}", file.display(), frame.name);
        }
    }
}
