//! Draws the ladder as SVG, and creates an HTML page with drawings and totals. Templates escape all text from
//! the capture.

use askama::Template;

use super::call::Peer;
use super::ladder::{Row, RowKind, Selection, empty_report, rows, title};
use super::scale::Scale;
use super::summary::{ConnectionSummary, millis, name};
use super::{CapturedConnection, Trace};

/// Positions and distances in pixels.
const TOP: usize = 180;
const STEP: usize = 20;
const WIDTH: usize = 1180;
const CLIENT: usize = 190;
const SERVER: usize = 1130;
const INDENT: usize = 18;
/// The width of two characters. Characters of a 12-pixel monospace font are at most 0.61 em wide.
const TWO_CHARACTERS: usize = 15;

/// The kinds of rows, with their classes in the style sheet and their descriptions in the legend.
const KINDS: [(RowKind, &str, &str); 7] = [
    (RowKind::Call, "call", "call"),
    (RowKind::Reply, "reply", "reply"),
    (RowKind::Read, "read", "RDMA Read"),
    (RowKind::Write, "write", "RDMA Write"),
    (RowKind::Detail, "detail", "detail"),
    (RowKind::Connection, "connection", "connection"),
    (RowKind::Problem, "problem", "failure"),
];

#[derive(Template)]
#[template(path = "ladder.svg")]
struct Drawing {
    width: usize,
    height: usize,
    client: usize,
    server: usize,
    bottom: usize,
    title: String,
    client_address: String,
    server_address: String,
    legend: Vec<(usize, &'static str, &'static str)>,
    scale: Scale,
    rows: Vec<Line>,
}

struct Line {
    y: usize,
    text_x: usize,
    text_y: usize,
    number: String,
    time: String,
    class: &'static str,
    /// The x-coordinates of the arrow's tail and tip, if the row has an arrow.
    arrow: Option<(usize, usize)>,
    text: String,
    /// The full text, if `text` was truncated.
    full_text: Option<String>,
}

#[derive(Template)]
#[template(path = "explain.html")]
struct Page {
    connections: Vec<Section>,
    remarks: Vec<String>,
}

struct Section {
    title: String,
    drawing: String,
    heading: String,
    procedures: Vec<[String; 8]>,
}

impl Drawing {
    fn of(connection: &CapturedConnection, selection: &Selection) -> Self {
        let rows: Vec<Line> = rows(connection, selection).enumerate().map(Line::of).collect();
        let bottom = TOP.saturating_add(rows.len().saturating_mul(STEP)).saturating_add(STEP);
        Drawing {
            width: WIDTH,
            height: bottom.saturating_add(STEP),
            client: CLIENT,
            server: SERVER,
            bottom,
            title: title(connection),
            client_address: connection.client.to_string(),
            server_address: connection.server.to_string(),
            legend: legend(),
            scale: Scale::of(connection, selection),
            rows,
        }
    }
}

impl Line {
    fn of((at, row): (usize, Row)) -> Self {
        let y = TOP.saturating_add(at.saturating_add(1).saturating_mul(STEP));
        let arrow = row.by.map(|by| match by {
            Peer::Client => (CLIENT, SERVER),
            Peer::Server => (SERVER, CLIENT),
        });
        let text_x = CLIENT.saturating_add(INDENT.saturating_mul(row.depth.saturating_add(1)));
        let (text, full_text) = shortened(row.text, SERVER.saturating_sub(text_x));
        let class = KINDS.iter().find(|(kind, ..)| *kind == row.kind).map_or("", |(_, class, _)| class);
        Line {
            y,
            text_x,
            text_y: y.saturating_sub(4),
            number: row.call.map(|number| format!("#{number}")).unwrap_or_default(),
            time: row.time.map(|time| format!("{} ms", millis(time))).unwrap_or_default(),
            class,
            arrow,
            text,
            full_text,
        }
    }
}

/// Truncates a text to a width in pixels. Returns the shown text, and the full text if it was truncated.
fn shortened(text: String, width: usize) -> (String, Option<String>) {
    let characters = width.saturating_mul(2).checked_div(TWO_CHARACTERS).unwrap_or(0);
    if text.chars().count() <= characters {
        return (text, None);
    }
    let shown: String = text.chars().take(characters.saturating_sub(3)).collect();
    (shown + "...", Some(text))
}

fn legend() -> Vec<(usize, &'static str, &'static str)> {
    const DISTANCE: usize = 130;
    let places = (0..).map(|at: usize| CLIENT.saturating_add(at.saturating_mul(DISTANCE)));
    places.zip(KINDS).map(|(x, (_, class, words))| (x, class, words)).collect()
}

/// Draws the first selected connection as SVG.
///
/// # Errors
/// Returns a message if no connection is selected or rendering fails.
pub fn svg(trace: &Trace, selection: &Selection) -> Result<String, String> {
    let Some(connection) = selection.connections(trace).next() else {
        return Err(empty_report(trace, selection));
    };
    Drawing::of(connection, selection).render().map_err(|error| error.to_string())
}

/// Creates a self-contained HTML page with a drawing and the totals of each selected connection.
///
/// # Errors
/// Returns a message if no connection is selected or rendering fails.
pub fn html(trace: &Trace, selection: &Selection) -> Result<String, String> {
    let mut connections = Vec::new();
    for connection in selection.connections(trace) {
        let summary = ConnectionSummary::of(connection);
        let drawing = Drawing::of(connection, selection).render().map_err(|error| error.to_string())?;
        let procedures = summary.procedures.iter().map(|(called, line)| {
            let (mean, max) = line.times();
            let count = |number: u64| number.to_string();
            [
                name(called.as_ref()),
                count(line.calls),
                count(line.failed),
                mean,
                max,
                count(line.inline),
                count(line.read),
                count(line.written),
            ]
        });
        connections.push(Section {
            title: title(connection),
            drawing,
            heading: summary.heading(),
            procedures: procedures.collect(),
        });
    }
    if connections.is_empty() {
        return Err(empty_report(trace, selection));
    }
    Page { connections, remarks: trace.remarks.clone() }.render().map_err(|error| error.to_string())
}
