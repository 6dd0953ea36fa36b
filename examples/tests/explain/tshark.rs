//! The same captures, read by Wireshark.

use super::{captured, wireshark};

#[tokio::test(flavor = "multi_thread")]
async fn wireshark_reads_them_down_to_nfs_and_finds_the_same_chunks() {
    if !wireshark::is_there() {
        return;
    }
    for crc in [true, false] {
        let (capture, reports) = captured(crc).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        std::fs::write(&path, &capture).unwrap();
        wireshark::agrees(&path, &[("nfs", reports.len()), ("mount", 2), ("iwarp_mpa", 2 * reports.len())]);
    }
}
