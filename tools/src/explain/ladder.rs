//! A conversation as rows, the source of text and drawings: each call with its RDMA operations, and its
//! reply.

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rpcrdma_runtime::wire::rdma::{ChunkLists, WriteChunk};

use super::call::{Call, Chunk, Operation, Reply, Side, Status};
use super::repeated::{FOLDED, Repeated};
use super::summary::millis;
use super::{Connection, Note, Summary, Trace};

/// The parts of a trace to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Only the connection of this number.
    pub connection: Option<usize>,
    /// Only calls with this XID.
    pub xid: Option<u32>,
    /// One line per call, without details.
    pub brief: bool,
    /// Every call, even if it repeats the one before it.
    pub all: bool,
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connection itself.
    Connection,
    /// A call.
    Call,
    /// A detail of the row above.
    Detail,
    /// An RDMA Read, or its answer.
    Read,
    /// An RDMA Write.
    Write,
    /// A reply.
    Reply,
    /// A problem.
    Trouble,
}

/// A line of the ladder.
#[derive(Clone, Debug)]
pub struct Row {
    /// Nanoseconds from the connection's beginning on; a detail has none.
    pub time: Option<u64>,
    /// The peer that acted.
    pub by: Option<Side>,
    /// The number of the call, where it begins.
    pub call: Option<usize>,
    /// The subject.
    pub kind: Kind,
    /// The indentation.
    pub depth: usize,
    /// In words.
    pub text: String,
}

impl Selection {
    /// The selected connections. Those without iWARP are included only on request.
    pub fn connections<'a>(&self, trace: &'a Trace) -> impl Iterator<Item = &'a Connection> {
        let wanted = self.connection;
        trace.connections.iter().filter(move |connection| {
            wanted.map_or(connection.is_iwarp, |number| number == connection.number)
        })
    }

    /// The calls that are shown.
    pub fn calls<'a>(&self, connection: &'a Connection) -> impl Iterator<Item = &'a Call> {
        let wanted = self.xid;
        connection.conversation.calls.iter().filter(move |call| wanted.is_none_or(|xid| xid == call.xid))
    }
}

/// The source of rows.
#[derive(Clone, Copy)]
enum Part<'a> {
    Note(&'a Note),
    MoreNotes(u64),
    Call(&'a Call),
    Repeated(Repeated<'a>),
}

impl<'a> Part<'a> {
    fn call(&self) -> Option<&'a Call> {
        match *self {
            Part::Call(call) => Some(call),
            _ => None,
        }
    }

    fn time(&self) -> u64 {
        match self {
            Part::Note(note) => note.time,
            Part::MoreNotes(_) => u64::MAX,
            Part::Call(call) => call.time,
            Part::Repeated(repeated) => repeated.first.time,
        }
    }

    /// With times since 1970.
    fn rows(self, is_brief: bool) -> Vec<Row> {
        let row = |time, by, kind, text| vec![Row { time, by, call: None, kind, depth: 0, text }];
        match self {
            Part::Note(Note { time, by, text, trouble }) => {
                let kind = if *trouble { Kind::Trouble } else { Kind::Connection };
                row(Some(*time), *by, kind, text.clone())
            }
            Part::MoreNotes(more) => {
                row(None, None, Kind::Connection, format!("{more} more notes are not shown"))
            }
            Part::Call(call) if is_brief => vec![brief(call)],
            Part::Call(call) => whole(call),
            Part::Repeated(repeated) => vec![repeated.row()],
        }
    }
}

/// The rows of a connection: calls in order of their start, each with its details, and other events. Each
/// row is built on demand.
pub fn rows<'a>(connection: &'a Connection, selection: &Selection) -> impl Iterator<Item = Row> + use<'a> {
    let conversation = &connection.conversation;
    let mut parts: Vec<Part<'a>> = Vec::new();
    if selection.xid.is_none() {
        parts.extend(conversation.notes.iter().map(Part::Note));
        parts.extend(Some(conversation.more_notes).filter(|more| *more > 0).map(Part::MoreNotes));
    }
    parts.extend(selection.calls(connection).map(Part::Call));
    // Stable: events with the same time keep their order.
    parts.sort_by_key(Part::time);
    if !selection.brief && !selection.all {
        parts = fold(parts);
    }
    let (is_brief, begun) = (selection.brief, connection.begun);
    let rows = parts.into_iter().flat_map(move |part| part.rows(is_brief));
    rows.map(move |row| Row { time: row.time.map(|time| time.saturating_sub(begun)), ..row })
}

/// Replaces all but the first of consecutive calls that repeat it.
fn fold(parts: Vec<Part<'_>>) -> Vec<Part<'_>> {
    let mut folded = Vec::new();
    let repeats = |a: &Part<'_>, b: &Part<'_>| match (a, b) {
        (Part::Call(a), Part::Call(b)) => Repeated::is_alike(a, b),
        _ => false,
    };
    for run in parts.chunk_by(repeats) {
        match run {
            [first, Part::Call(second), ..] if run.len() >= FOLDED => {
                let calls = run.iter().filter_map(Part::call);
                folded.extend([*first, Part::Repeated(Repeated::of(second, calls.skip(1)))]);
            }
            _ => folded.extend(run),
        }
    }
    folded
}

fn detail(text: String) -> Row {
    Row { time: None, by: None, call: None, kind: Kind::Detail, depth: 2, text }
}

pub(super) fn name(call: &Call) -> String {
    match call.procedure {
        Some(called) => format!("{} {}", called.program_name(), called.procedure_name()),
        None => "a call whose RPC header cannot be read".to_owned(),
    }
}

pub(super) fn head(call: &Call, text: String) -> Row {
    Row { time: Some(call.time), by: call.by, call: Some(call.number), kind: Kind::Call, depth: 0, text }
}

fn brief(call: &Call) -> Row {
    let (read, written) = call.moved();
    let mut text = format!("{}  xid {:#010x}, {} bytes", name(call), call.xid, call.len);
    if read > 0 {
        text += &format!(", {read} by RDMA Read");
    }
    if written > 0 {
        text += &format!(", {written} by RDMA Write");
    }
    match &call.reply {
        Some(reply) => {
            text += &format!("; {}, {} bytes", reply.status, reply.len);
            text += &call.latency().map(|time| format!(", {} ms", millis(time))).unwrap_or_default();
        }
        None => text += "; no reply",
    }
    let failed = call.has_failed() || call.reply.is_none();
    Row { kind: if failed { Kind::Trouble } else { Kind::Call }, ..head(call, text) }
}

fn values(what: &str, text: Option<&String>) -> Option<Row> {
    Some(detail(format!("{what} {}", text?)))
}

fn whole(call: &Call) -> Vec<Row> {
    let long = if call.long { ", long" } else { "" };
    let text = format!(
        "{}  xid {:#010x}, {} bytes{long}, asks for {} credits",
        name(call),
        call.xid,
        call.len,
        call.credits
    );
    let mut rows = vec![head(call, text)];
    rows.extend(values("arguments", call.arguments.as_ref()));
    rows.extend(offers(&call.lists));
    for operation in &call.operations {
        rows.extend(moved(call, operation));
    }
    match &call.reply {
        Some(reply) => rows.extend(answer(call, reply)),
        None => rows.push(Row { kind: Kind::Trouble, ..detail("no reply in the capture".to_owned()) }),
    }
    rows
}

fn segments(count: usize) -> String {
    if count == 1 { "1 segment".to_owned() } else { format!("{count} segments") }
}

fn handles(chunk: &WriteChunk) -> String {
    const SHOWN: usize = 3;
    let handles: Vec<_> = chunk.0.iter().take(SHOWN).map(|s| format!("{:#010x}", s.handle)).collect();
    let more = if chunk.0.len() > SHOWN { ", ..." } else { "" };
    format!("{}, {}{more}", segments(chunk.0.len()), handles.join(", "))
}

/// The chunks of a call.
fn offers(lists: &ChunkLists) -> Vec<Row> {
    let mut rows = Vec::new();
    // Adjacent segments of one position form a chunk.
    for chunk in lists.reads.chunk_by(|a, b| a.position == b.position) {
        let segments = WriteChunk(chunk.iter().map(|read| read.segment).collect());
        let position = chunk.first().map_or(0, |read| read.position);
        let what = match position {
            0 => "Position-Zero Read chunk".to_owned(),
            position => format!("Read chunk at {position}"),
        };
        rows.push(detail(format!("{what}: {} bytes in {}", segments.len(), handles(&segments))));
    }
    for (at, chunk) in lists.writes.iter().enumerate() {
        let number = at.saturating_add(1);
        rows.push(detail(format!(
            "Write chunk {number}: room for {} bytes in {}",
            chunk.len(),
            handles(chunk)
        )));
    }
    if let Some(chunk) = &lists.reply {
        rows.push(detail(format!("Reply chunk: room for {} bytes in {}", chunk.len(), handles(chunk))));
    }
    rows
}

/// An RDMA Read with its answer, or a Write.
fn moved(call: &Call, operation: &Operation) -> Vec<Row> {
    let chunk = match operation.chunk {
        Some(Chunk::Read(0)) => "the Position-Zero Read chunk".to_owned(),
        Some(Chunk::Read(position)) => format!("the Read chunk at {position}"),
        Some(Chunk::Write(number)) => format!("Write chunk {number}"),
        Some(Chunk::Reply) => "the Reply chunk".to_owned(),
        None => "memory that the call does not offer there".to_owned(),
    };
    let kind = match (operation.chunk, operation.is_read) {
        (None, _) => Kind::Trouble,
        (_, true) => Kind::Read,
        (_, false) => Kind::Write,
    };
    let Operation { handle, len, came, .. } = *operation;
    let by = call.by.map(Side::other);
    let frames = segments(usize::try_from(operation.segments).unwrap_or(usize::MAX));
    let row = |time, by, text| Row { time, by, call: None, kind, depth: 1, text };
    let begun = Some(operation.time);
    if !operation.is_read {
        return vec![row(
            begun,
            by,
            format!("RDMA Write of {len} bytes to {chunk}, {handle:#010x}, in {frames} of DDP"),
        )];
    }
    let asked = row(begun, by, format!("RDMA Read of {len} bytes of {chunk}, {handle:#010x}"));
    let answer = match operation.done {
        Some(time) => row(Some(time), call.by, format!("answer of {came} bytes in {frames} of DDP")),
        None => Row { kind: Kind::Trouble, ..detail("no answer in the capture".to_owned()) },
    };
    vec![asked, answer]
}

/// A reply, and the offered memory that it used.
fn answer(call: &Call, reply: &Reply) -> Vec<Row> {
    let Reply { len, credits, status, .. } = reply;
    let mut text = format!("reply {status}, {len} bytes");
    if reply.long {
        text += ", long";
    }
    text += &format!(", grants {credits} credits");
    if let Some(handle) = reply.invalidated {
        text += &format!(", invalidates {handle:#010x}");
    }
    text += &call.latency().map(|time| format!("; {} ms", millis(time))).unwrap_or_default();
    let failed = matches!(status, Status::Rejected(_) | Status::Transport(_) | Status::Failed(_));
    let kind = if failed { Kind::Trouble } else { Kind::Reply };
    let by = call.by.map(Side::other);
    let mut rows = vec![Row { time: Some(reply.time), by, call: None, kind, depth: 1, text }];
    rows.extend(values("results", reply.results.as_ref()));
    let offered = call.lists.writes.iter().map(Some).chain(std::iter::repeat(None));
    for (at, (used, offered)) in reply.lists.writes.iter().zip(offered).enumerate() {
        let room = offered.map_or_else(|| "none".to_owned(), |chunk| chunk.len().to_string());
        rows.push(detail(format!(
            "Write chunk {}: {} of {room} bytes used",
            at.saturating_add(1),
            used.len()
        )));
    }
    if let Some(used) = &reply.lists.reply {
        let room =
            call.lists.reply.as_ref().map_or_else(|| "none".to_owned(), |chunk| chunk.len().to_string());
        rows.push(detail(format!("Reply chunk: {} of {room} bytes used", used.len())));
    }
    rows
}

/// Writes the ladder of the selection, and a summary of each connection.
///
/// # Errors
/// Errors of `out`.
pub fn text(trace: &Trace, selection: &Selection, out: &mut dyn Write) -> io::Result<()> {
    let mut some = false;
    for connection in selection.connections(trace) {
        some = true;
        writeln!(out, "{}\n", title(connection))?;
        writeln!(out, "{LEGEND}\n")?;
        writeln!(out, "{:>6} {:>12}", "call", "ms")?;
        for row in rows(connection, selection) {
            writeln!(out, "{}", line(&row))?;
        }
        writeln!(out)?;
        if selection.xid.is_none() {
            writeln!(out, "{}", Summary::of(connection))?;
        }
    }
    if !some {
        writeln!(out, "{}", nothing(trace, selection))?;
    }
    for remark in &trace.remarks {
        writeln!(out, "note: {remark}")?;
    }
    Ok(())
}

/// The text for an empty selection.
#[must_use]
pub fn nothing(trace: &Trace, selection: &Selection) -> String {
    let connections = trace.connections.len().saturating_add(trace.more_connections);
    match selection.connection {
        Some(number) if (1..=connections).contains(&number) => format!("connection {number} is not kept"),
        Some(number) => format!("no connection {number}: the capture has {connections} of TCP"),
        None => format!(
            "no iWARP in {} packets and {connections} connections of TCP; RPC over TCP itself is not shown",
            trace.packets
        ),
    }
}

/// The heading of a connection.
#[must_use]
pub(super) fn title(connection: &Connection) -> String {
    let Connection { number, client, server, begun, is_iwarp, .. } = connection;
    let what = if *is_iwarp { "" } else { ", not iWARP" };
    let clock = clock(*begun, TimeZone::system());
    format!("connection {number}: client {client}, server {server}{what}, at {clock}")
}

/// A time in nanoseconds since 1970, as a clock in this zone shows it.
fn clock(time: u64, zone: TimeZone) -> String {
    let time = Timestamp::from_nanosecond(time.into()).unwrap_or(Timestamp::MAX);
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S.%6f %:z").to_string()
}

/// What columns and marks of the text mean.
const LEGEND: &str = "--> from the client, <-- from the server, ! failure; ms since the first packet";

fn line(row: &Row) -> String {
    let number = row.call.map(|number| format!("#{number}")).unwrap_or_default();
    let time = row.time.map(millis).unwrap_or_default();
    let arrow = match row.by {
        Some(Side::Client) => "-->",
        Some(Side::Server) => "<--",
        None => "   ",
    };
    let mark = if row.kind == Kind::Trouble { "! " } else { "" };
    let indent = "  ".repeat(row.depth);
    format!("{number:>6} {time:>12}  {arrow}  {indent}{mark}{}", row.text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_zone() {
        // 2026-07-14 12:00:00 UTC.
        const TIME: u64 = 1_784_030_400_123_456_789;
        assert_eq!(clock(TIME, TimeZone::UTC), "2026-07-14 12:00:00.123456 +00:00");
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(clock(TIME, zone), "2026-07-14 14:00:00.123456 +02:00");
        assert!(clock(u64::MAX, TimeZone::UTC).starts_with("2554-07-21"));
    }
}
