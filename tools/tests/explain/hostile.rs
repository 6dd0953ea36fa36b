//! Captures that somebody made to do harm.

use proptest::prelude::*;
use rpcrdma_tools::explain::{ReadError, Selection, html, read, svg};

use super::{short, text};

/// Whatever is in a file, it is shown or refused.
fn show(file: &[u8]) -> usize {
    let Ok(trace) = read(file) else { return 0 };
    let selection = Selection::default();
    let shown = text(&trace, selection);
    for brief in [true, false] {
        let selection = Selection { brief, ..selection };
        let _ = svg(&trace, &selection);
        if let Ok(page) = html(&trace, &selection) {
            assert!(!page.contains("<script") && page.ends_with("</html>"));
        }
    }
    assert!(shown.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "{shown:?}");
    trace.connections.iter().map(|connection| connection.conversation.calls.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_beginning_of_a_capture_shows_what_is_in_it() {
    let capture = short().await;
    let all = show(&capture);
    let mut before = 0;
    for len in 0..=capture.len() {
        let calls = show(&capture[..len]);
        assert!(calls >= before, "{len} octets show less than fewer do");
        before = calls;
    }
    assert_eq!((before, all), (4, 4));
    let cut = read(&capture[..capture.len() - 1]).unwrap();
    assert_eq!(cut.remarks, ["the file ends in the middle of a packet"]);
}

#[test]
fn what_is_no_capture_is_refused() {
    assert_eq!(read(&b""[..]).unwrap_err(), ReadError::Empty);
    assert_eq!(read(&b"MPA ID Req Frame, and what follows it"[..]).unwrap_err(), ReadError::NoCapture);
    let nothing = read(&short_head()[..]).unwrap();
    assert!(text(&nothing, Selection::default()).contains("no iWARP in 0 packets"));
}

fn short_head() -> Vec<u8> {
    let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn capture() -> &'static [u8] {
    static CAPTURE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    CAPTURE.get_or_init(|| tokio::runtime::Runtime::new().unwrap().block_on(short()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_capture_with_changed_octets_is_shown_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut file = capture().to_vec();
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        show(&file);
    }

    #[test]
    fn a_capture_of_anything_is_shown_or_refused(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        link in prop::sample::select(vec![0u8, 1, 12, 101, 113]),
    ) {
        let mut file = short_head();
        file[20] = link;
        for packet in packets {
            let len = u32::try_from(packet.len()).unwrap();
            for word in [0, 0, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(packet);
        }
        show(&file);
    }
}
