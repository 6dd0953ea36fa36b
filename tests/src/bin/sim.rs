//! Random runs of both engines in large numbers: `cargo run --release -p rpcrdma-tests --bin sim -- 10000`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use rpcrdma_tests::sim::many;

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().map_or(Ok(10_000), |seeds| seeds.parse());
    let (Ok(seeds), None) = (seeds, arguments.next()) else {
        writeln!(io::stderr(), "usage: sim [SEEDS]: a number, 10000 if it is left out")?;
        return Ok(ExitCode::from(2));
    };
    let began = Instant::now();
    let sums = many(seeds);
    let calls = sums.calls();
    writeln!(
        io::stdout(),
        "{:#?}\n{seeds} seeds, {calls} calls, in {:.1} s: nothing was broken",
        sums,
        began.elapsed().as_secs_f64()
    )?;
    sums.check();
    Ok(ExitCode::SUCCESS)
}
