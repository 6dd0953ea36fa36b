//! `rpcrdma-xdrgen sizes`: the maximum sizes of a program's messages.

use clap::Args;
use serde::Serialize;

use super::report::Reporting;
use super::{Failure, Inputs, json_line, print};
use crate::generate::Options;
use crate::sizes::{self, Assumed, Bound, MessageSizes, Needs, ProcedureSizes, Size, VersionSizes};

/// The input files, the inline threshold, and the assumed sizes of credentials and verifiers.
#[derive(Args, Debug)]
#[command(after_help = "\
The output lists for each procedure the maximum sizes of arguments and result in bytes, complete and without the eligible
items (`reduced`), and the chunks that such messages need over RPC-over-RDMA version 1 (RFC 8166 section 3.5). A bound that
the binding computes from the arguments of the call is shown as a sum. `unbounded` means that neither the XDR nor the
binding has a bound.

Headers count towards the inline threshold. The transport header has 28 bytes, with 24 more for each Read or Write chunk
and 20 for a Reply chunk, each of one segment; a call includes the chunks that it offers for its reply. The RPC header has
40 bytes plus the credential's body in a call, and 24 bytes plus the verifier's body in a reply.

With --message-format json, each procedure is a JSON object on one line of standard output. Its `kind` is `procedure`,
followed by `program`, `version`, `procedure`, `number`, `call` and `reply`. `call` and `reply` have `unreduced` and
`reduced` (each a number, a string, or null if unbounded), `inline`, `chunks` (null if unbounded), `long` and
`unbounded`.")]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// Inline threshold in bytes; the default is that of the binding, or 1024. A common value is 4096.
    #[arg(long, value_name = "BYTES")]
    inline: Option<u32>,
    /// Size of the credential's body in a call, in bytes; at most 340 for AUTH_SYS, 0 for AUTH_NONE.
    #[arg(long, value_name = "BYTES", default_value_t = Assumed::default().credential)]
    credential: u32,
    /// Size of the verifier's body in a reply, in bytes; at most 400, 0 for AUTH_NONE.
    #[arg(long, value_name = "BYTES", default_value_t = Assumed::default().verifier)]
    verifier: u32,
}

pub(super) fn run(arguments: &Arguments, reporting: &Reporting) -> Result<(), Failure> {
    let sources = arguments.inputs.read()?;
    let options = arguments.inputs.options(Options::module("measured"));
    let Arguments { inline, credential, verifier, .. } = *arguments;
    let assumed = Assumed { inline, credential, verifier, ..Assumed::default() };
    let found = sizes::sizes(&sources, &options, &assumed);
    reporting.report(&sources, &found.diagnostics)?;
    if reporting.is_json() {
        return print(&json(&found.versions));
    }
    let tables: Vec<String> = found.versions.iter().map(|version| table(version, &assumed)).collect();
    print(&tables.join("\n"))
}

const HEADINGS: [&str; 7] = ["procedure", "call", "reduced", "sent", "reply", "reduced", "returned"];

fn table(version: &VersionSizes, assumed: &Assumed) -> String {
    let VersionSizes { program, name, bound, backward, inline, procedures } = version;
    let binding = match (bound, backward) {
        (false, _) => ", without a binding",
        (true, true) => ", called by the server",
        (true, false) => "",
    };
    let Assumed { credential, verifier, .. } = assumed;
    let mut text = format!(
        "{program} {name}{binding}; inline threshold {inline}, credential {credential}, verifier {verifier}\n\n"
    );
    let rows: Vec<[String; 7]> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(procedures.iter().map(row)).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(procedure: &ProcedureSizes) -> [String; 7] {
    let ProcedureSizes { name, call, reply, .. } = procedure;
    [
        name.clone(),
        call.unreduced.to_string(),
        call.reduced.to_string(),
        transfer(&call.needs, "Read chunk", "Position-Zero Read chunk"),
        reply.unreduced.to_string(),
        reply.reduced.to_string(),
        match reply.needs.unbounded {
            true => "not over RDMA: unbounded".to_owned(),
            false => transfer(&reply.needs, "Write chunk", "Reply chunk"),
        },
    ]
}

fn transfer(needs: &Needs, chunk: &str, long: &str) -> String {
    if needs.inline() {
        return "inline".to_owned();
    }
    let chunks = match needs.chunks {
        Size::ZERO => None,
        Size::Bounded(1) => Some(chunk.to_owned()),
        Size::Bounded(count) => Some(format!("{count} {chunk}s")),
        Size::Unbounded => Some(format!("{chunk}s")),
    };
    let long = needs.long.then(|| long.to_owned());
    chunks.into_iter().chain(long).collect::<Vec<_>>().join(" and ")
}

/// One line of JSON. Future versions may add fields but never remove them.
#[derive(Serialize)]
struct Line<'a> {
    kind: &'static str,
    program: &'a str,
    version: &'a str,
    procedure: &'a str,
    number: u32,
    call: Side<'a>,
    reply: Side<'a>,
}

#[derive(Serialize)]
struct Side<'a> {
    unreduced: &'a Bound,
    reduced: &'a Bound,
    inline: bool,
    chunks: Option<u64>,
    long: bool,
    unbounded: bool,
}

fn json(versions: &[VersionSizes]) -> String {
    let mut text = String::new();
    for version in versions {
        for procedure in &version.procedures {
            let line = Line {
                kind: "procedure",
                program: &version.program,
                version: &version.name,
                procedure: &procedure.name,
                number: procedure.number,
                call: side(&procedure.call),
                reply: side(&procedure.reply),
            };
            text.push_str(&json_line(&line));
        }
    }
    text
}

fn side(message: &MessageSizes) -> Side<'_> {
    let MessageSizes { unreduced, reduced, needs } = message;
    Side {
        unreduced,
        reduced,
        inline: needs.inline(),
        chunks: needs.chunks.bound(),
        long: needs.long,
        unbounded: needs.unbounded,
    }
}
