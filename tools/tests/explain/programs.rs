//! Runs `rpcrdma` as a user would.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::short;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma")).arg("explain").args(arguments).output().unwrap()
}

fn utf8(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// A closed pipe, as in `rpcrdma explain FILE | head -1`, causes no error message.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_standard_output_ends_the_program_silently() {
    let work = tempfile::tempdir().unwrap();
    let capture = work.path().join("a.pcap");
    fs::write(&capture, short().await).unwrap();
    let capture = capture.to_str().unwrap();
    let runs: [&[&str]; 3] =
        [&["explain", capture], &["explain", "--html", capture], &["info", "127.0.0.1:1"]];
    for arguments in runs {
        let unread = std::io::pipe().unwrap().1;
        let ended =
            Command::new(env!("CARGO_BIN_EXE_rpcrdma")).args(arguments).stdout(unread).output().unwrap();
        // The exit status is 141, which a shell also reports for a program that SIGPIPE terminated.
        assert_eq!((ended.status.code(), utf8(&ended.stderr)), (Some(141), String::new()), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drawings_are_complete_and_self_contained() {
    let work = tempfile::tempdir().unwrap();
    let capture = work.path().join("a.pcap");
    fs::write(&capture, short().await).unwrap();
    let capture = capture.to_str().unwrap();
    let drawing = utf8(&explain(&["--svg", capture]).stdout);
    assert!(drawing.starts_with("<svg xmlns=") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
    for text in ["NFSv3 LOOKUP", "NFS3ERR_NOENT", "RDMA Read of 1500 bytes", "invalidates", "MPA request"] {
        assert!(drawing.contains(text), "{text}");
    }
    for words in ["call", "reply", "RDMA Read", "RDMA Write", "detail", "connection", "failure"] {
        let entry = format!(r#"y="20">{words}</text>"#);
        assert_eq!(drawing.matches(&entry).count(), 1, "legend: {words}");
    }
    // The axis begins with a tick at 0, all further ticks have units, and each call has a bar.
    assert!(drawing.contains(r#"<text class="tick" x="190" y="46">0</text>"#), "{drawing}");
    let ticks: Vec<_> = drawing.split(r#"<text class="tick" "#).skip(2).collect();
    let has_unit =
        |tick: &&str| ["s</text>", "ms</text>", "us</text>"].iter().any(|unit| tick.contains(unit));
    assert!(!ticks.is_empty() && ticks.iter().all(has_unit), "{ticks:?}");
    assert_eq!(drawing.matches(r#"<rect class="bar "#).count(), 4);
    let times = drawing.split(r#"<text class="time""#).skip(1);
    let times = times.map(|time| time.split_once('>').unwrap().1.split_once('<').unwrap().0);
    let times: Vec<_> = times.filter(|time| time.starts_with(|first: char| first.is_ascii_digit())).collect();
    assert!(!times.is_empty() && times.iter().all(|time| time.ends_with(" ms")), "{times:?}");
    // A tooltip contains the complete text of a truncated line.
    assert!(drawing.contains("...<title>results Nfs3Ok("), "{drawing}");
    let text = utf8(&explain(&[capture]).stdout);
    let (_, begun) = text.lines().next().unwrap().split_once(", at ").unwrap();
    assert!(drawing.contains(begun), "{begun}: {drawing}");
    // The arrow of a call points to the server's lane, and the arrow of a reply to the client's lane.
    for tip in [r#"<path class="call" d="M1130 "#, r#"<path class="reply" d="M190 "#] {
        assert!(drawing.contains(tip), "{tip}");
    }
    let lanes =
        drawing.matches(r#"<line class="lane""#).count() + drawing.matches(r#"<line class="axis""#).count();
    assert_eq!(drawing.matches("<line").count() - lanes, drawing.matches("<path").count());
    let page = work.path().join("page.html");
    let done = explain(&["--html", "-o", page.to_str().unwrap(), capture]);
    assert!(done.status.success() && done.stdout.is_empty());
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("<td>NFSv3 WRITE</td>")
    );
    assert!(page.contains(begun), "the local time");
    assert!(page.contains("<th>mean, ms</th>") && page.contains("<th>RDMA Read, bytes</th>"), "units");
    assert!(!page.contains(" id="), "no `id` attributes: the drawings on a page would repeat them");
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http") && !links.contains("src="), "the page loads no external resources");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_state_the_cause_on_standard_error_alone() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("a.pcap"), short().await).unwrap();
    fs::write(path("text"), "this is text and not a capture").unwrap();
    fs::write(path("empty"), "").unwrap();
    let refused = |arguments: &[&str]| {
        let output = explain(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        utf8(&output.stderr)
    };
    assert!(refused(&[&path("nowhere")]).contains("nowhere: No such file"));
    assert!(refused(&[&path("text")]).contains("not a capture: neither pcap nor pcapng"));
    assert!(refused(&[&path("empty")]).contains("the file is empty"));
    assert!(
        refused(&["--connection", "7", &path("a.pcap")])
            .contains("no connection 7: the capture has 1 TCP connection\n")
    );
    assert!(refused(&["--xid", "blue", &path("a.pcap")]).contains("expected a 32-bit number"));
    assert!(refused(&[work.path().to_str().unwrap()]).contains("cannot be read"));
}

/// The heading shows the local time, and columns have units.
#[tokio::test(flavor = "multi_thread")]
async fn times_are_local() {
    let work = tempfile::tempdir().unwrap();
    let capture = work.path().join("a.pcap");
    fs::write(&capture, short().await).unwrap();
    let heading = |zone: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
        let shown = utf8(&command.arg("explain").arg(&capture).env("TZ", zone).output().unwrap().stdout);
        let header = shown.lines().nth(4).unwrap_or_default();
        assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["call", "ms"], "{shown}");
        for unit in ["mean, ms", "max, ms", "inline, B", "Read, B", "Write, B"] {
            assert!(shown.contains(unit), "{unit}: {shown}");
        }
        shown.lines().next().unwrap_or_default().to_owned()
    };
    let (utc, west) = (heading("UTC"), heading("XST+3"));
    assert!(utc.ends_with(" +00:00") && west.ends_with(" -03:00"), "{utc}\n{west}");
    let hour = |heading: &str| -> i32 {
        let (_, time) = heading.rsplit_once(", at ").unwrap();
        time[11..13].parse().unwrap()
    };
    assert_eq!((hour(&utc) - hour(&west)).rem_euclid(24), 3, "{utc}\n{west}");
    if !Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists() {
        return not_run::not_run("no time zones are installed (package tzdata)");
    }
    let named = heading("Asia/Tokyo");
    assert!(named.ends_with(" +09:00"), "{named}");
}
