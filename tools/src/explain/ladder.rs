//! Converts a conversation to the rows of a ladder diagram: calls with their RDMA operations and replies.
//! Rows are shown as text or as a drawing.

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rpcrdma_runtime::wire::rdma::{ChunkLists, WriteChunk};

use super::call::{Call, Chunk, Operation, Peer, Reply, Status};
use super::repeated::{FOLDED, Repeated};
use super::summary::millis;
use super::{CapturedConnection, ConnectionSummary, Note, Trace};

/// The parts of a trace to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// If set, only the connection with this number is shown.
    pub connection: Option<usize>,
    /// If set, only calls with this XID are shown.
    pub xid: Option<u32>,
    /// True to show one line per call, without details.
    pub brief: bool,
    /// True to show every call. By default, one row represents repeated calls.
    pub all: bool,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// An event of the connection.
    Connection,
    /// A call.
    Call,
    /// A detail of the row above.
    Detail,
    /// An RDMA Read or its response.
    Read,
    /// An RDMA Write.
    Write,
    /// A reply.
    Reply,
    /// A problem or a failure.
    Problem,
}

/// A line of the ladder.
#[derive(Clone, Debug)]
pub struct Row {
    /// The time since the connection's first packet, in nanoseconds, or `None` for a row without its own
    /// time.
    pub time: Option<u64>,
    /// The peer that acted, if any.
    pub by: Option<Peer>,
    /// The number of the call; `None` except in the call's first row.
    pub call: Option<usize>,
    /// The subject.
    pub kind: RowKind,
    /// The indentation level, from 0.
    pub depth: usize,
    /// The text.
    pub text: String,
}

impl Selection {
    /// Returns the selected connections. A connection without iWARP must be selected by number.
    pub fn connections<'a>(&self, trace: &'a Trace) -> impl Iterator<Item = &'a CapturedConnection> {
        let wanted = self.connection;
        trace.connections.iter().filter(move |connection| {
            wanted.map_or(connection.is_iwarp, |number| number == connection.number)
        })
    }

    /// Returns the selected calls of a connection.
    pub fn calls<'a>(&self, connection: &'a CapturedConnection) -> impl Iterator<Item = &'a Call> {
        let wanted = self.xid;
        connection.conversation.calls.iter().filter(move |call| wanted.is_none_or(|xid| xid == call.xid))
    }
}

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

    /// Returns the rows. Their times are in nanoseconds since 1970, not yet relative to the first packet.
    fn rows(self, is_brief: bool) -> Vec<Row> {
        let row = |time, by, kind, text| vec![Row { time, by, call: None, kind, depth: 0, text }];
        match self {
            Part::Note(Note { time, by, text, problem }) => {
                let kind = if *problem { RowKind::Problem } else { RowKind::Connection };
                row(Some(*time), *by, kind, text.clone())
            }
            Part::MoreNotes(more) => row(None, None, RowKind::Connection, format!("notes not shown: {more}")),
            Part::Call(call) if is_brief => vec![brief_row(call)],
            Part::Call(call) => call_rows(call),
            Part::Repeated(repeated) => vec![head(repeated.first, repeated.text(&name(repeated.first)))],
        }
    }
}

/// Returns the rows of a connection: calls, each followed by its details, and other events. Calls and events
/// are sorted by time. Rows are built on demand.
pub fn rows<'a>(
    connection: &'a CapturedConnection,
    selection: &Selection,
) -> impl Iterator<Item = Row> + use<'a> {
    let conversation = &connection.conversation;
    let mut parts: Vec<Part<'a>> = Vec::new();
    if selection.xid.is_none() {
        parts.extend(conversation.notes.iter().map(Part::Note));
        parts.extend(Some(conversation.more_notes).filter(|more| *more > 0).map(Part::MoreNotes));
    }
    parts.extend(selection.calls(connection).map(Part::Call));
    // The sort is stable: events with the same time keep their order.
    parts.sort_by_key(Part::time);
    if !selection.brief && !selection.all {
        parts = fold(parts);
    }
    let (is_brief, start) = (selection.brief, connection.start);
    let rows = parts.into_iter().flat_map(move |part| part.rows(is_brief));
    rows.map(move |row| Row { time: row.time.map(|time| time.saturating_sub(start)), ..row })
}

/// In each run of at least [`FOLDED`] consecutive similar calls, replaces all calls after the first with one
/// row.
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
    Row { time: None, by: None, call: None, kind: RowKind::Detail, depth: 2, text }
}

fn name(call: &Call) -> String {
    match call.procedure {
        Some(called) => format!("{} {}", called.program_name(), called.procedure_name()),
        None => "call with an unreadable RPC header".to_owned(),
    }
}

fn head(call: &Call, text: String) -> Row {
    Row { time: Some(call.time), by: call.by, call: Some(call.number), kind: RowKind::Call, depth: 0, text }
}

fn brief_row(call: &Call) -> Row {
    let (read, written) = call.rdma_bytes();
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
    Row { kind: if failed { RowKind::Problem } else { RowKind::Call }, ..head(call, text) }
}

fn values(what: &str, text: Option<&String>) -> Option<Row> {
    Some(detail(format!("{what} {}", text?)))
}

fn call_rows(call: &Call) -> Vec<Row> {
    let long = if call.long { ", long" } else { "" };
    let text = format!(
        "{}  xid {:#010x}, {} bytes{long}, requests {} credits",
        name(call),
        call.xid,
        call.len,
        call.credits
    );
    let mut rows = vec![head(call, text)];
    rows.extend(values("arguments", call.arguments.as_ref()));
    rows.extend(chunk_rows(&call.lists));
    for operation in &call.operations {
        rows.extend(operation_rows(call, operation));
    }
    match &call.reply {
        Some(reply) => rows.extend(reply_rows(call, reply)),
        None => rows.push(Row { kind: RowKind::Problem, ..detail("no reply in the capture".to_owned()) }),
    }
    rows
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn handles(chunk: &WriteChunk) -> String {
    const SHOWN: usize = 3;
    let handles: Vec<_> = chunk.0.iter().take(SHOWN).map(|s| format!("{:#010x}", s.handle)).collect();
    let more = if chunk.0.len() > SHOWN { ", ..." } else { "" };
    format!("{}, {}{more}", counted(chunk.0.len(), "segment"), handles.join(", "))
}

fn chunk_rows(lists: &ChunkLists) -> Vec<Row> {
    let mut rows = Vec::new();
    // Adjacent segments with the same position form a chunk.
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

fn operation_rows(call: &Call, operation: &Operation) -> Vec<Row> {
    let chunk = match operation.chunk {
        Some(Chunk::Read(0)) => "the Position-Zero Read chunk".to_owned(),
        Some(Chunk::Read(position)) => format!("the Read chunk at {position}"),
        Some(Chunk::Write(number)) => format!("Write chunk {number}"),
        Some(Chunk::Reply) => "the Reply chunk".to_owned(),
        None => "memory outside the chunks of the call".to_owned(),
    };
    let kind = match (operation.chunk, operation.is_read) {
        (None, _) => RowKind::Problem,
        (_, true) => RowKind::Read,
        (_, false) => RowKind::Write,
    };
    let Operation { handle, len, received, .. } = *operation;
    let by = call.by.map(Peer::other);
    let frames = counted(usize::try_from(operation.segments).unwrap_or(usize::MAX), "DDP segment");
    let row = |time, by, text| Row { time, by, call: None, kind, depth: 1, text };
    let start = Some(operation.time);
    if !operation.is_read {
        return vec![row(
            start,
            by,
            format!("RDMA Write of {len} bytes to {chunk}, {handle:#010x}, in {frames}"),
        )];
    }
    let request = row(start, by, format!("RDMA Read of {len} bytes of {chunk}, {handle:#010x}"));
    let response = match operation.done {
        Some(time) => row(Some(time), call.by, format!("response of {received} bytes in {frames}")),
        None => Row { kind: RowKind::Problem, ..detail("no response in the capture".to_owned()) },
    };
    vec![request, response]
}

fn reply_rows(call: &Call, reply: &Reply) -> Vec<Row> {
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
    let kind = if failed { RowKind::Problem } else { RowKind::Reply };
    let by = call.by.map(Peer::other);
    let mut rows = vec![Row { time: Some(reply.time), by, call: None, kind, depth: 1, text }];
    rows.extend(values("results", reply.results.as_ref()));
    let offered = call.lists.writes.iter().map(Some).chain(std::iter::repeat(None));
    for (at, (used, offered)) in reply.lists.writes.iter().zip(offered).enumerate() {
        let room = offered.map_or_else(|| "none".to_owned(), |chunk| chunk.len().to_string());
        rows.push(detail(format!(
            "Write chunk {}: {} bytes used, {room} offered",
            at.saturating_add(1),
            used.len()
        )));
    }
    if let Some(used) = &reply.lists.reply {
        let room =
            call.lists.reply.as_ref().map_or_else(|| "none".to_owned(), |chunk| chunk.len().to_string());
        rows.push(detail(format!("Reply chunk: {} bytes used, {room} offered", used.len())));
    }
    rows
}

/// Writes the ladder and a summary of each selected connection, then the remarks of the trace. Omits the
/// summary if calls are selected by XID.
///
/// # Errors
/// Returns an error if writing to `out` fails.
pub fn text(trace: &Trace, selection: &Selection, out: &mut dyn Write) -> io::Result<()> {
    let mut is_empty = true;
    for connection in selection.connections(trace) {
        is_empty = false;
        writeln!(out, "{}\n", title(connection))?;
        writeln!(out, "{LEGEND}\n")?;
        writeln!(out, "{:>6} {:>12}", "call", "ms")?;
        for row in rows(connection, selection) {
            writeln!(out, "{}", line(&row))?;
        }
        writeln!(out)?;
        if selection.xid.is_none() {
            writeln!(out, "{}", ConnectionSummary::of(connection))?;
        }
    }
    if is_empty {
        writeln!(out, "{}", empty_report(trace, selection))?;
    }
    for remark in &trace.remarks {
        writeln!(out, "note: {remark}")?;
    }
    Ok(())
}

/// Returns the message for a selection that contains no connection.
#[must_use]
pub fn empty_report(trace: &Trace, selection: &Selection) -> String {
    let connections = trace.connections.len().saturating_add(trace.more_connections);
    let plural = |is_one: bool| if is_one { "" } else { "s" };
    let counted = format!("{connections} TCP connection{}", plural(connections == 1));
    match selection.connection {
        Some(number) if (1..=connections).contains(&number) => format!("connection {number} was omitted"),
        Some(number) => {
            format!("no connection {number}: the capture has {counted}")
        }
        None => format!(
            "no iWARP in {} packet{} and {counted}; RPC over TCP is not shown",
            trace.packets,
            plural(trace.packets == 1)
        ),
    }
}

#[must_use]
pub(super) fn title(connection: &CapturedConnection) -> String {
    let CapturedConnection { number, client, server, start, is_iwarp, .. } = connection;
    let what = if *is_iwarp { "" } else { ", not iWARP" };
    let clock = clock(*start, TimeZone::system());
    format!("connection {number}: client {client}, server {server}{what}, at {clock}")
}

fn clock(time: u64, zone: TimeZone) -> String {
    let time = Timestamp::from_nanosecond(time.into()).unwrap_or(Timestamp::MAX);
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S.%6f %:z").to_string()
}

const LEGEND: &str = "--> from the client, <-- from the server, ! failure; ms since the first packet";

fn line(row: &Row) -> String {
    let number = row.call.map(|number| format!("#{number}")).unwrap_or_default();
    let time = row.time.map(millis).unwrap_or_default();
    let arrow = match row.by {
        Some(Peer::Client) => "-->",
        Some(Peer::Server) => "<--",
        None => "   ",
    };
    let mark = if row.kind == RowKind::Problem { "! " } else { "" };
    let indent = "  ".repeat(row.depth);
    format!("{number:>6} {time:>12}  {arrow}  {indent}{mark}{}", row.text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_time_zone() {
        // 2026-07-14 12:00:00 UTC.
        const TIME: u64 = 1_784_030_400_123_456_789;
        assert_eq!(clock(TIME, TimeZone::UTC), "2026-07-14 12:00:00.123456 +00:00");
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(clock(TIME, zone), "2026-07-14 14:00:00.123456 +02:00");
        assert!(clock(u64::MAX, TimeZone::UTC).starts_with("2554-07-21"));
    }
}
