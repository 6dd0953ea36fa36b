//! The key-value store, as people run it.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by panicking

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

fn kv(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kv"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = kv(arguments).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// What a run that succeeds gives, and what it says of how the call travelled.
fn succeeds(arguments: &[&str], input: &[u8]) -> (Vec<u8>, String) {
    let output = run(arguments, input);
    assert!(output.status.success(), "{output:?}");
    (output.stdout, String::from_utf8(output.stderr).unwrap())
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn values_are_placed_directly_both_ways() {
    let mut serving = Serving(kv(&["serve", "127.0.0.1:0"]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();

    let large: Vec<u8> = (0..1_000_003u32).map(|at| at.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect();
    let (_, travelled) = succeeds(&["put", address, "large"], &large);
    assert!(travelled.contains("1000003 by 1 Read chunk"), "{travelled}");
    let (value, travelled) = succeeds(&["get", address, "large"], b"");
    assert!(value == large, "{} bytes of another value", value.len());
    assert!(travelled.contains("1000003 by Write chunk"), "{travelled}");

    // What is small travels in the call, and fits beside the key.
    let (_, travelled) = succeeds(&["put", address, "small"], b"7");
    assert!(!travelled.contains("chunk"), "{travelled}");
    assert_eq!(succeeds(&["get", address, "small"], b"").0, b"7");
    assert_eq!(succeeds(&["put", address, "large"], b"").0, b"");
    assert_eq!(succeeds(&["get", address, "large"], b"").0, b"", "the later value");

    let absent = run(&["get", address, "absent"], b"");
    assert!(!absent.status.success());
    assert!(String::from_utf8_lossy(&absent.stderr).contains("there is no `absent`"), "{absent:?}");
    let too_long = run(&["put", address, "huge"], &vec![0; 1_048_577]);
    assert!(String::from_utf8_lossy(&too_long.stderr).contains("1048577"), "{too_long:?}");
}
