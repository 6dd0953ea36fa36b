//! Compares the trace of a capture with the client's call reports.

use rpcrdma_tools::explain::{Call, Chunk, Selection, Status, read};

use super::{captured, framing, redacted, short, text};

fn moved(call: &Call, which: impl Fn(&Chunk) -> bool) -> u64 {
    let of = call.operations.iter().filter(|operation| operation.chunk.as_ref().is_some_and(&which));
    of.map(|operation| operation.received).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_and_lengths_are_those_that_the_client_reports() {
    for (crc, markers) in [(true, false), (false, false), (true, true), (false, true)] {
        let (capture, reports) = captured(framing(crc, markers)).await;
        let trace = read(&capture[..]).unwrap();
        assert_eq!((trace.connections.len(), &trace.remarks[..]), (1, &[][..]));
        let conversation = &trace.connections[0].conversation;
        assert_eq!(conversation.crc, Some(crc));
        assert_eq!(conversation.calls.len(), reports.len());
        let problems: Vec<_> = conversation.notes.iter().filter(|note| note.problem).collect();
        assert!(problems.is_empty(), "{problems:?}");
        for (call, report) in conversation.calls.iter().zip(&reports) {
            let traffic = report.traffic.unwrap();
            let called = call.procedure.unwrap();
            let reply = call.reply.as_ref().unwrap();
            assert_eq!(call.xid, report.xid);
            assert!(report.procedure.ends_with(&called.procedure_name()), "{}", report.procedure);
            assert_eq!((called.program, called.version), (report.program, report.version));
            let name = report.procedure;
            assert_eq!(
                (call.len as u64, reply.len as u64),
                (traffic.call_inline, traffic.reply_inline),
                "{name}"
            );
            let reads = call.lists.reads.chunk_by(|a, b| a.position == b.position);
            let items = reads.filter(|chunk| chunk[0].position > 0).count();
            assert_eq!(items, traffic.read_chunks as usize, "{name}");
            assert_eq!(moved(call, |chunk| matches!(chunk, Chunk::Read(1..))), traffic.read_bytes, "{name}");
            assert_eq!(moved(call, |chunk| *chunk == Chunk::Read(0)), traffic.position_zero, "{name}");
            assert_eq!(call.long, traffic.position_zero > 0, "{name}");
            assert_eq!(call.lists.writes.len(), traffic.write_chunks as usize, "{name}");
            assert_eq!(moved(call, |chunk| matches!(chunk, Chunk::Write(_))), traffic.write_bytes, "{name}");
            assert_eq!(call.lists.reply.is_some(), traffic.reply_chunk, "{name}");
            assert_eq!(moved(call, |chunk| *chunk == Chunk::Reply), traffic.reply_chunk_bytes, "{name}");
            assert_eq!(call.lists.segments().count(), traffic.segments as usize, "{name}");
            assert_eq!(reply.invalidated.is_some(), traffic.remote_invalidation, "{name}");
            let expected = match name {
                "NFSPROC3_LOOKUP" => Status::Failed("NFS3ERR_NOENT".to_owned()),
                _ => Status::Success,
            };
            assert_eq!(reply.status, expected, "{name}");
            assert!(
                call.operations.iter().all(|operation| operation.done.is_some() && operation.segments > 0)
            );
        }
        let sums = |of: fn(&Call) -> bool| conversation.calls.iter().filter(|call| of(call)).count();
        assert!(sums(|call| call.long) > 0, "a long call");
        assert!(sums(|call| call.reply.as_ref().unwrap().long) > 0, "a long reply");
        assert!(sums(|call| moved(call, |chunk| matches!(chunk, Chunk::Write(_))) == 300_003) == 1, "READ");
        assert!(sums(|call| moved(call, |chunk| matches!(chunk, Chunk::Read(1..))) == 300_003) == 1, "WRITE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ladder_of_a_short_conversation() {
    let trace = read(&short().await[..]).unwrap();
    let expected = include_str!("short.txt");
    assert_eq!(redacted(&trace).trim_end(), expected.trim_end(), "\n{}", redacted(&trace));
}

/// A hidden field requires users to write `..Default::default()`, so that later versions may add fields.
#[test]
fn a_selection_may_have_more_fields_later() {
    let () = Selection::default().non_exhaustive;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_selected_calls_are_shown() {
    let trace = read(&short().await[..]).unwrap();
    let call = &trace.connections[0].conversation.calls[1];
    let lines = |selection| text(&trace, selection).lines().count();
    let only = text(&trace, Selection { xid: Some(call.xid), ..Selection::default() });
    assert!(only.contains("LOOKUP") && !only.contains("MNT") && !only.contains("MPA"), "{only}");
    let brief = text(&trace, Selection { brief: true, ..Selection::default() });
    assert!(brief.contains("WRITE") && brief.contains("1500 by RDMA Read"), "{brief}");
    assert!(lines(Selection { brief: true, ..Selection::default() }) < lines(Selection::default()));
    assert_eq!(lines(Selection { connection: Some(2), ..Selection::default() }), 1);
}

fn values<'a>(calls: &'a [Call], name: &str) -> (&'a str, &'a str) {
    let is_named = |call: &&Call| call.procedure.is_some_and(|called| called.procedure_name() == name);
    let call = calls.iter().find(is_named).unwrap_or_else(|| panic!("no {name}"));
    let results = call.reply.as_ref().and_then(|reply| reply.results.as_deref());
    (call.arguments.as_deref().unwrap_or_default(), results.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_shown_for_every_kind_of_chunk() {
    let (capture, _) = captured(framing(true, false)).await;
    let trace = read(&capture[..]).unwrap();
    let calls = &trace.connections[0].conversation.calls;
    for (name, arguments, results) in [
        ("NULL", "", ""),
        ("MNT", r#""/""#, "Mnt3Ok({ fhandle: 0x"),
        ("CREATE", r#"name: "data" }, how: ObjAttributes(Guarded, {"#, "Nfs3Ok({ obj: Some({ data: 0x"),
        // The data of WRITE is in a Read chunk, and the data of READ in a Write chunk. Their other arguments
        // and results are inline.
        ("WRITE", "stable: FileSync, data: 0x00070e151c23", "Nfs3Ok({ file_wcc: {"),
        ("READ", "offset: 0, count: 300003 }", "eof: true, data: 0x00070e151c23"),
        ("LOOKUP", r#"name: "nowhere" } }"#, "Default(Nfs3errNoent, "),
        // The results of READDIRPLUS are in the Reply chunk, and the arguments of SYMLINK in a Position-Zero
        // Read chunk.
        ("READDIRPLUS", "dircount: 8192, maxcount: 32768 }", r#"name: "."#),
        ("SYMLINK", r#"symlink_data: "far/far/"#, "Nfs3Ok({ obj: Some({ data: 0x"),
    ] {
        let shown = values(calls, name);
        assert!(shown.0.contains(arguments) && shown.1.contains(results), "{name}: {shown:#?}");
        assert_eq!((shown.0.is_empty(), shown.1.is_empty()), (arguments.is_empty(), results.is_empty()));
    }
    assert!(values(calls, "WRITE").0.ends_with("... (300003 bytes) }"));
    assert!(values(calls, "READDIRPLUS").1.len() == 643 && values(calls, "READDIRPLUS").1.ends_with("..."));
    let text = text(&trace, Selection::default());
    assert!(text.contains(r#"arguments { what: { dir: { data: 0x"#), "{text}");
    assert!(text.contains("results Default(Nfs3errNoent, "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_repeat_are_one_row() {
    let (capture, _) = captured(framing(true, false)).await;
    let mut trace = read(&capture[..]).unwrap();
    let shown = text(&trace, Selection::default());
    let folded: Vec<_> = shown.lines().filter(|line| line.contains(" more NFSv3 CREATE calls")).collect();
    let [folded] = folded[..] else { panic!("{shown}") };
    let conversation = &trace.connections[0].conversation;
    let is_create = |call: &&Call| call.procedure.is_some_and(|called| called.procedure == 8);
    let last = conversation.calls.iter().rfind(is_create).unwrap().number;
    assert!(folded.contains(&format!("... 19 more NFSv3 CREATE calls, up to #{last}; all OK, mean ")));
    assert!(folded.trim_start().starts_with(&format!("#{} ", last - 18)), "{folded}");
    let names = |selection| text(&trace, selection).matches("name: \"a name that is a little longer").count();
    let all = names(Selection { all: true, ..Selection::default() });
    assert!(all >= 20 && names(Selection::default()) < all, "{all}");
    let brief = text(&trace, Selection { brief: true, ..Selection::default() });
    assert!(!brief.contains(" more NFSv3 CREATE calls"), "{brief}");
    // A call whose reply could not be decoded has its own row.
    let calls = &mut trace.connections[0].conversation.calls;
    let call = calls.iter_mut().find(|call| call.number == last - 9).unwrap();
    call.reply.as_mut().unwrap().status = Status::Unknown;
    let shown = text(&trace, Selection::default());
    assert!(!shown.contains("... 19 more NFSv3 CREATE calls"), "{shown}");
}
