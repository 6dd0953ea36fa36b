//! Runs the key-value store as a user would.
#![allow(clippy::unwrap_used)] // a test may panic

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
fn large_values_are_placed_directly_in_both_directions() {
    let mut serving = Serving(kv(&["serve", "127.0.0.1:0"]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();

    let large: Vec<u8> = (0..1_000_003u32).map(|at| at.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect();
    let (_, traffic) = succeeds(&["put", address, "large"], &large);
    assert!(traffic.contains("1000003 bytes in 1 Read chunk"), "{traffic}");
    let (value, traffic) = succeeds(&["get", address, "large"], b"");
    assert!(value == large, "got {} bytes that differ from the stored value", value.len());
    assert!(traffic.contains("1000003 bytes in Write chunks"), "{traffic}");

    // A small value fits inline, next to the key.
    let (_, traffic) = succeeds(&["put", address, "small"], b"7");
    assert!(!traffic.contains("chunk"), "{traffic}");
    assert_eq!(succeeds(&["get", address, "small"], b"").0, b"7");
    assert_eq!(succeeds(&["put", address, "large"], b"").0, b"");
    assert_eq!(succeeds(&["get", address, "large"], b"").0, b"", "expected the later value");

    let absent = run(&["get", address, "absent"], b"");
    assert!(!absent.status.success());
    assert!(String::from_utf8_lossy(&absent.stderr).contains("no value for key `absent`"), "{absent:?}");
    let too_long = run(&["put", address, "huge"], &vec![0; 1_048_577]);
    assert!(String::from_utf8_lossy(&too_long.stderr).contains("1048577"), "{too_long:?}");
}
