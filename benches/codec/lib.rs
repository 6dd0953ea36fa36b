//! No code: `cargo bench -p rpcrdma-benches --features peers` runs the benchmark of the codec.
