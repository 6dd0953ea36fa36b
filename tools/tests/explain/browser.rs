//! Renders the page of `rpcrdma explain --html` in a browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use rpcrdma_tools::explain::{Selection, html, read};

use super::{captured, framing};

/// The names of Chromium's executables in Debian's packages.
const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// A script that adds a JSON report to the page: errors, overflows, and the numbers of elements.
const PROBE: &str = r#"<script>
let errors = 0;
addEventListener("error", () => errors++);
addEventListener("load", () => {
  const width = document.documentElement.clientWidth;
  const outside = [...document.querySelectorAll("h2, p, div, svg")]
    .filter(element => element.getBoundingClientRect().right > width);
  const divisions = [...document.querySelectorAll("div")];
  const texts = [...document.querySelectorAll("svg text")];
  const drawing = element => element.ownerSVGElement.getBoundingClientRect();
  const clipped = texts.filter(element => {
    const [inner, outer] = [element.getBoundingClientRect(), drawing(element)];
    return inner.left < outer.left || inner.right > outer.right || inner.bottom > outer.bottom;
  });
  const words = list => list.map(element => element.textContent.slice(0, 40)).join(" | ");
  const result = document.createElement("pre");
  result.id = "probe";
  result.textContent = JSON.stringify({
    errors, scripts: document.scripts.length, scrolls: document.documentElement.scrollWidth > width,
    outside: words(outside), scrolling: words(divisions.filter(element => element.scrollWidth > element.clientWidth)), clipped: words(clipped), texts: texts.length,
    ticks: document.querySelectorAll("svg .tick").length, bars: document.querySelectorAll("svg rect.bar").length,
    legend: [...document.querySelectorAll("svg .legend text")].map(text => text.textContent).join(),
    arrows: document.querySelectorAll("svg path").length, rows: document.querySelectorAll("tr").length,
  });
  document.body.append(result);
});
</script>"#;

fn browser() -> Option<&'static str> {
    let runs =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    BROWSERS.into_iter().find(runs)
}

fn command(browser: &str, profile: &Path, width: u32) -> Command {
    let mut command = Command::new(browser);
    // The sandbox is off because tests may run as root. The page is trusted.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.arg(format!("--window-size={width},1600")).arg(format!("--user-data-dir={}", profile.display()));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overflows_and_no_script_fails() {
    let Some(browser) = browser() else {
        return not_run::not_run("chromium is not installed");
    };
    let work = tempfile::tempdir().unwrap();
    let (capture, _) = captured(framing(true, false)).await;
    let trace = read(&capture[..]).unwrap();
    let selection = Selection { all: true, ..Selection::default() };
    let page = html(&trace, &selection).unwrap();
    let folded_page = html(&trace, &Selection::default()).unwrap();
    assert!(folded_page.contains("... 19 more NFSv3 CREATE calls"), "{folded_page}");
    let written = |name: &str, page: &str| {
        let path = work.path().join(name);
        fs::write(&path, page).unwrap();
        path
    };
    let probing = |page: &str| page.replace("</head>", &format!("{PROBE}</head>"));
    let probed = written("probed.html", &probing(&page));
    let folded = written("folded.html", &probing(&folded_page));
    let probe = |page: &Path, width: u32| -> serde_json::Value {
        let mut command = command(browser, work.path(), width);
        let output = command.arg("--dump-dom").arg(page).output().unwrap();
        let dom = String::from_utf8(output.stdout).unwrap();
        let (_, found) = dom.split_once(r#"<pre id="probe">"#).unwrap_or_else(|| panic!("{dom}"));
        serde_json::from_str(found.split_once("</pre>").unwrap().0).unwrap()
    };
    let calls = trace.connections[0].conversation.calls.len() as u64;
    for width in [1280, 640] {
        let found = probe(&folded, width);
        assert_eq!((&found["outside"], &found["clipped"]), (&"".into(), &"".into()), "{width}");
        // The folded row represents 19 calls. The drawing has a bar for each of these calls, but one text row
        // for all of them.
        assert_eq!((&found["errors"], &found["bars"]), (&0.into(), &calls.into()), "{width}: {found}");
        let folded_texts = found["texts"].as_u64().unwrap();
        let found = probe(&probed, width);
        for (key, expected) in [("errors", 0), ("scripts", 1), ("bars", calls)] {
            assert_eq!(found[key], expected, "{width}: {found}");
        }
        assert_eq!((&found["outside"], &found["clipped"]), (&"".into(), &"".into()), "{width}");
        assert!(width < 1280 || found["scrolling"] == "", "{found}");
        assert_eq!((&found["scrolls"], found["rows"].as_u64()), (&false.into(), Some(9)), "{width}: {found}");
        assert_eq!(found["legend"], "call,reply,RDMA Read,RDMA Write,detail,connection,failure");
        let at_least = |key: &str, least| assert!(found[key].as_u64() >= Some(least), "{key}: {found}");
        at_least("ticks", 3);
        at_least("texts", 5 * calls);
        at_least("texts", folded_texts + 18);
        at_least("arrows", 2 * calls);
    }
    check_pictures(browser, work.path(), &[("page", page.as_str()), ("folded", folded_page.as_str())]);
}

/// Takes screenshots of pages at two widths, and compares each with a screenshot of an empty page.
fn check_pictures(browser: &str, work: &Path, pages: &[(&str, &str)]) {
    let shown = work.join("shown.html");
    let screenshot = |name: &str, text: &str, width: u32| {
        let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("explain-{name}-{width}.png"));
        let _ = fs::remove_file(&picture);
        fs::write(&shown, text).unwrap();
        let mut command = command(browser, work, width);
        command.arg(format!("--screenshot={}", picture.display())).arg(&shown).output().unwrap();
        fs::read(&picture).unwrap()
    };
    for width in [1280, 640] {
        let blank = screenshot("blank", "<!DOCTYPE html><html></html>", width);
        for (name, text) in pages {
            let picture = screenshot(name, text, width);
            // The header of a PNG file contains the width of the picture.
            assert_eq!(picture.get(16..20), Some(&width.to_be_bytes()[..]), "{name}, {width}");
            // Both pictures have the same size in pixels. Text and drawings compress less well than an empty
            // page.
            assert_eq!(picture.get(16..24), blank.get(16..24), "{name}, {width}");
            let sizes = [picture.len(), blank.len()];
            assert!(sizes[0] > 2 * sizes[1], "{name}, {width}: {sizes:?} bytes");
        }
    }
}
