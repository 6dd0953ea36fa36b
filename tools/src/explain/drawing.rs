//! The ladder as a drawing, and a page with drawings and sums. Templates escape whatever comes from the
//! capture.

use askama::Template;

use super::call::Side;
use super::ladder::{Kind, Row, Selection, nothing, rows, title};
use super::summary::millis;
use super::summary::{Summary, name};
use super::{Connection, Trace};

/// Where things stand, in pixels.
const TOP: usize = 60;
const STEP: usize = 20;
const WIDTH: usize = 1180;
const CLIENT: usize = 190;
const SERVER: usize = 1130;
const INDENT: usize = 18;

#[derive(Template)]
#[template(path = "ladder.svg")]
struct Drawing {
    width: usize,
    height: usize,
    client: usize,
    server: usize,
    floor: usize,
    title: String,
    client_address: String,
    server_address: String,
    rows: Vec<Line>,
}

/// A row with its place.
struct Line {
    y: usize,
    text_x: usize,
    text_y: usize,
    number: String,
    time: String,
    class: &'static str,
    /// From where to where the arrow goes, if there is one.
    arrow: Option<(usize, usize)>,
    text: String,
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
    fn of(connection: &Connection, selection: &Selection) -> Self {
        let rows: Vec<Line> = rows(connection, selection).enumerate().map(Line::of).collect();
        let floor = TOP.saturating_add(rows.len().saturating_mul(STEP)).saturating_add(STEP);
        Drawing {
            width: WIDTH,
            height: floor.saturating_add(STEP),
            client: CLIENT,
            server: SERVER,
            floor,
            title: title(connection),
            client_address: connection.client.to_string(),
            server_address: connection.server.to_string(),
            rows,
        }
    }
}

impl Line {
    fn of((at, row): (usize, Row)) -> Self {
        let y = TOP.saturating_add(at.saturating_add(1).saturating_mul(STEP));
        let arrow = row.by.map(|by| match by {
            Side::Client => (CLIENT, SERVER),
            Side::Server => (SERVER, CLIENT),
        });
        Line {
            y,
            text_x: CLIENT.saturating_add(INDENT.saturating_mul(row.depth.saturating_add(1))),
            text_y: y.saturating_sub(4),
            number: row.call.map(|number| format!("#{number}")).unwrap_or_default(),
            time: row.time.map(|time| format!("{} ms", millis(time))).unwrap_or_default(),
            class: match row.kind {
                Kind::Connection => "connection",
                Kind::Call => "call",
                Kind::Detail => "detail",
                Kind::Read => "read",
                Kind::Write => "write",
                Kind::Reply => "reply",
                Kind::Trouble => "trouble",
            },
            arrow,
            text: row.text,
        }
    }
}

/// A drawing of one connection: the first that is selected. In its place an error in words, if there is none.
///
/// # Errors
/// What is there instead.
pub fn svg(trace: &Trace, selection: &Selection) -> Result<String, String> {
    let Some(connection) = selection.connections(trace).next() else { return Err(nothing(trace, selection)) };
    Drawing::of(connection, selection).render().map_err(|error| error.to_string())
}

/// A page with a drawing and the sums of each connection that is selected. It needs nothing else to be shown.
///
/// # Errors
/// What is there instead.
pub fn html(trace: &Trace, selection: &Selection) -> Result<String, String> {
    let mut connections = Vec::new();
    for connection in selection.connections(trace) {
        let summary = Summary::of(connection);
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
        return Err(nothing(trace, selection));
    }
    Page { connections, remarks: trace.remarks.clone() }.render().map_err(|error| error.to_string())
}
