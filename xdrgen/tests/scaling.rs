//! Tests that the compiler's work and memory are linear in the length of a document. The tests count
//! allocations, so that they do not depend on the speed of the machine;
//! `cargo bench -p rpcrdma-xdrgen --bench speed` shows times.

#[path = "../benches/support/shapes.rs"]
mod shapes;

use std::collections::BTreeSet;

use allocation_counter::{AllocationInfo, measure};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, check, diag, generate, include};
use shapes::{SHAPES, Shape};

/// The number of parts, such as definitions or members, of the smaller document. This number exceeds the
/// maximum number of similarity searches, so the larger document causes no more of them.
const SMALL: usize = 128;
/// The ratio of the larger to the smaller number of parts. Quadratic work would grow by the square of this
/// ratio.
const TIMES: usize = 8;

/// Returns the results of a run: the length of the text, and the allocations.
fn run(shape: &Shape, parts: usize) -> (f64, AllocationInfo) {
    let text = (shape.text)(parts);
    let length = text.len() as f64;
    let mut sources = Sources::default();
    sources.add(Source::new(shape.file, text));
    let info = measure(|| {
        let generated = generate(&sources, &Options::module("a"));
        let findings = diag::render(&generated.diagnostics, &sources, false);
        assert_eq!(shape.is_valid, !generated.has_errors(), "{}:\n{findings}", shape.name);
        if !shape.is_valid {
            assert!(generated.diagnostics.len() >= parts, "{}:\n{findings}", shape.name);
        }
    });
    (length, info)
}

#[test]
fn work_grows_with_the_document() {
    // The first run initializes shared state.
    run(&SHAPES[0], SMALL);
    for shape in SHAPES {
        let (small, few) = run(shape, SMALL);
        let (large, many) = run(shape, SMALL * TIMES);
        let times = large / small;
        let grown = |of: fn(&AllocationInfo) -> u64| of(&many) as f64 / of(&few) as f64;
        let (count, bytes, peak) =
            (grown(|info| info.count_total), grown(|info| info.bytes_total), grown(|info| info.bytes_max));
        let found = format!("{count:.1}x allocations, {bytes:.1}x allocated bytes, {peak:.1}x peak memory");
        let name = shape.name;
        // A buffer that doubles may be half empty in one of the runs.
        let fits = count <= times * 1.1 && bytes <= times * 1.5 && peak <= times * 1.5;
        assert!(fits, "{name}: {found}, for {times:.1}x the text");
    }
}

fn missing(count: usize) -> AllocationInfo {
    let includes: String = (0..count).map(|at| format!("#include \"f{at}.x\"\n")).collect();
    let mut sources = Sources::default();
    sources.add(Source::new("missing/a.x", format!("{includes}struct a {{ b c; }};\n")));
    measure(|| {
        include::load(&mut sources, &BTreeSet::new());
        assert_eq!(check(&sources, &Options::module("a")).diagnostics.len(), count);
    })
}

#[test]
fn work_for_missing_files_grows_with_their_number() {
    missing(1);
    let (few, many) = (missing(SMALL), missing(SMALL * TIMES));
    let limit = TIMES as f64 * 1.2;
    let grown = many.count_total as f64 / few.count_total as f64;
    assert!(grown <= limit, "{grown:.1}x allocations for {TIMES}x the files");
    let grown = many.bytes_total as f64 / few.bytes_total as f64;
    assert!(grown <= limit, "{grown:.1}x allocated bytes for {TIMES}x the files");
}

fn enumeration(members: usize) -> Sources {
    let members: Vec<String> = (0..members).map(|value| format!("MEMBER_{value} = {value}")).collect();
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", format!("enum many {{ {} }};", members.join(", "))));
    sources
}

/// The number of enum members. A small number suffices, since the memory limit grows with the emitted text.
const MEMBERS: usize = 900;

#[test]
fn emission_allocates_no_more_than_its_text() {
    let sources = enumeration(MEMBERS);
    let options = Options::module("a");
    let checked = measure(|| drop(check(&sources, &options)));
    let mut text = 0;
    let generated = measure(|| text = generate(&sources, &options).files[0].1.len());
    // A growing buffer may have twice the needed capacity.
    let limit = checked.bytes_max + 2 * text as u64;
    assert!(generated.bytes_max <= limit, "peak memory: {} bytes (limit {limit})", generated.bytes_max);
}

/// The number of enum members: an eighth of 300,000, so that hash tables have the same load factor as with
/// 300,000 members.
const MANY: usize = 37_500;
/// Maximum peak memory per member, in bytes.
const FOR_EACH: u64 = 360;

#[test]
fn a_large_enum_needs_little_memory_per_member() {
    let sources = enumeration(MANY);
    let checked = measure(|| drop(check(&sources, &Options::module("a"))));
    let for_each = checked.bytes_max / MANY as u64;
    assert!(for_each <= FOR_EACH, "peak memory: {for_each} bytes per member (limit {FOR_EACH})");
}
