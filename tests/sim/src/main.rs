//! Runs many random simulations: `cargo run --release -p rpcrdma-sim -- 10000`. The argument is a number of
//! seeds or a range of seeds, such as `10000..20000`.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use rpcrdma_sim::many;

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().map_or(Some(0..10_000), |seeds| range(&seeds));
    let (Some(seeds), None) = (seeds, arguments.next()) else {
        writeln!(
            io::stderr(),
            "usage: sim [SEEDS]\nSEEDS: the number of seeds (default 10000) or a range such as 10000..20000"
        )?;
        return Ok(ExitCode::from(2));
    };
    let began = Instant::now();
    let sums = many(seeds.clone());
    let calls = sums.calls();
    writeln!(
        io::stdout(),
        "{:#?}\nseeds {seeds:?}, {calls} calls, in {:.1} s: no rule was broken",
        sums,
        began.elapsed().as_secs_f64()
    )?;
    // Check the counts only if there are at least 300 seeds. With fewer seeds, rare events may be missing.
    if seeds.end - seeds.start >= 300 {
        sums.check();
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a number `N`, which selects the seeds from 0 to `N - 1`, or a range of seeds. Returns `None` if the
/// text is invalid or there are no seeds.
fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once("..").unwrap_or(("0", text));
    let seeds = start.parse().ok()?..end.parse().ok()?;
    (!seeds.is_empty()).then_some(seeds)
}
