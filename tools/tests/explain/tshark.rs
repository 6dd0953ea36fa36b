//! Decodes captures with Wireshark, and compares the results with those of `rpcrdma explain`.

use std::fs;

use rpcrdma_nfs3::*;
use rpcrdma_tools::explain::read;

use super::{captured, client, create, framing, root, serve, wireshark};

#[tokio::test(flavor = "multi_thread")]
async fn wireshark_decodes_nfs_and_finds_the_same_chunks() {
    if !wireshark::is_available() {
        return;
    }
    for crc in [true, false] {
        let (capture, reports) = captured(framing(crc, false)).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        std::fs::write(&path, &capture).unwrap();
        wireshark::agrees(&path, &[("nfs", reports.len()), ("mount", 2), ("iwarp_mpa", 2 * reports.len())]);
    }
}

/// Creates a file of 1001 bytes and reads it with a READ of 4096 bytes. Returns a capture of these calls, and
/// the file's handle. The capture has no CRCs, so a test can replace bytes in it.
async fn read_with_room_left() -> (Vec<u8>, NfsFh3) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let iwarp = framing(false, false);
    let (client, _) = client(serve(iwarp.clone()).await, &path, iwarp).await;
    let nfs = nfs_v3::Client(client.clone());
    let file = create(&nfs, root(&client).await, "data").await;
    let (data, stable) = (vec![7; 1001].into(), StableHow::FileSync);
    nfs.write(&Write3Args { file, offset: 0, count: 1001, stable, data }).await.unwrap();
    let read = nfs.read(&Read3Args { file, offset: 0, count: 4096 }).await.unwrap();
    assert!(matches!(read, Read3Res::Nfs3Ok(read) if read.data.len() == 1001));
    client.drain().await;
    (fs::read(&path).unwrap(), file)
}

/// Replaces `old`, which must occur exactly once in the capture, with `new` of the same length. Returns the
/// packets of the changed capture that Wireshark correctly reports as malformed.
fn malformed_with(capture: &[u8], old: &[u8], new: &[u8]) -> Vec<String> {
    let places: Vec<_> =
        capture.windows(old.len()).enumerate().filter(|(_, octets)| *octets == old).collect();
    assert_eq!((places.len(), old.len()), (1, new.len()), "{old:x?}");
    let mut spoilt = capture.to_vec();
    spoilt[places[0].0..][..new.len()].copy_from_slice(new);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    fs::write(&path, &spoilt).unwrap();
    wireshark::malformed(&path, &read(&spoilt[..]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_are_found_despite_padding_missed_by_wireshark() {
    if !wireshark::is_available() {
        return;
    }
    let (capture, file) = read_with_room_left().await;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let call = |len: usize| [&words(&[len as u32]), &file.data[..], &words(&[0, 0, 4096])].concat();
    let reply = |len: u32| words(&[1001, 1, len]);
    let len = file.data.len();
    assert_eq!(malformed_with(&capture, &call(len), &call(len)), [""; 0], "the capture is valid");
    // One capture has a wrong handle length in the READ call, the other a wrong data length in the reply.
    for found in [
        malformed_with(&capture, &call(len), &call(60)),
        malformed_with(&capture, &reply(1001), &reply(1005)),
    ] {
        assert!(found.len() == 1 && found[0].contains("[Malformed Packet: NFS]"), "{found:?}");
    }
}
