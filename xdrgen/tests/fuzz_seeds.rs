//! Runs the document targets of `fuzz/` on their seeds, so that compiler changes that break a
//! target are detected even without a fuzzer.

use std::path::Path;

#[path = "../../fuzz/compiler.rs"]
mod compiler;

#[test]
fn the_seeds_of_the_fuzzer_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/documents");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).expect("a directory of seeds") {
        let seed = std::fs::read(entry.expect("an entry").path()).expect("a readable seed");
        // Runs each seed unchanged, and truncated to each multiple of 97 bytes.
        for end in (0..seed.len()).step_by(97).chain([seed.len()]) {
            compiler::check(&seed[..end]);
            compiler::generate(&seed[..end]);
        }
        seeds += 1;
    }
    assert!(seeds >= 4, "{seeds} seeds");
}
