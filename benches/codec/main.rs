//! Compares the codec with other implementations on the same messages, and prints the ratios of the medians.
//!
//! `cargo bench -p rpcrdma-benches --bench codec --features peers`

#![allow(clippy::unwrap_used)] // a benchmark that cannot continue panics

mod messages;
mod peers;
mod ratios;
mod tirpc;

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use rpcrdma_runtime::xdr::{self, Bytes, Encode, ListRef, Message, Reducer, Writer};

use peers::{
    borrowed, decode_fastxdr, decode_jsgf, decode_nfs3, encode_jsgf, encode_jsgf_fresh, encode_nfs3,
    encode_nfs3_fresh, fastxdr, jsgf,
};
use tirpc::Tirpc;

const ESTIMATES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/codec");

const TIRPC: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/tirpc");

fn main() {
    // Remove the estimates of an earlier run, if any, so that they are not reported as results of this run.
    drop(std::fs::remove_dir_all(ESTIMATES));
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(900))
        .sample_size(50)
        .output_directory(Path::new(ESTIMATES))
        .configure_from_args();
    let tirpc = Tirpc::start(Path::new(TIRPC));
    let absent = tirpc.as_ref().err().cloned();
    let mut tirpc = tirpc.ok();
    let run = &mut (&mut criterion, &mut tirpc);
    getattr(run);
    lookup(run);
    read(run, "READ 64 KiB", 64 << 10);
    read(run, "READ 1 MiB", 1 << 20);
    write(run, "WRITE 64 KiB", 64 << 10);
    write(run, "WRITE 1 MiB", 1 << 20);
    write_reduced(run);
    readdirplus(run);
    criterion.final_summary();
    ratios::print(Path::new(ESTIMATES), absent.as_deref());
}

type Run<'r> = (&'r mut Criterion, &'r mut Option<Tirpc>);

macro_rules! bench_c {
    ($run:ident, $group:ident, $what:literal, $bytes:ident, $name3:ident) => {
        if let Some(tirpc) = $run.1 {
            let name = stringify!($name3);
            tirpc.load(name, &$bytes);
            $group.bench_function("libtirpc", |b| b.iter_custom(|count| tirpc.time($what, name, count)));
        }
    };
}

macro_rules! decode {
    ($run:ident, $name:expr, $bytes:ident, $type:ident, $name3:ident, $fastxdr:ty) => {
        let mut group = $run.0.benchmark_group(format!("{} decode", $name));
        let shared = bytes::Bytes::copy_from_slice(&$bytes);
        group.bench_function("bytes", |b| {
            b.iter(|| xdr::from_bytes::<rpcrdma_nfs3::$type>(black_box(&$bytes)).unwrap());
        });
        group.bench_function("borrowed", |b| {
            b.iter(|| xdr::from_slice::<borrowed::$type>(black_box(&$bytes)).unwrap());
        });
        group.bench_function("nfs3_types", |b| {
            b.iter(|| decode_nfs3::<nfs3_types::nfs3::$name3>(black_box(&$bytes)));
        });
        group.bench_function("xdr-codec", |b| b.iter(|| decode_jsgf::<jsgf::$name3>(black_box(&$bytes))));
        group.bench_function("fastxdr", |b| b.iter(|| decode_fastxdr::<$fastxdr>(black_box(&shared))));
        bench_c!($run, group, "decode", $bytes, $name3);
        group.finish();
    };
}

/// Measures how long each implementation except fastxdr takes to encode a message. fastxdr has no encoder.
///
/// The first group encodes into reused memory. The second group allocates memory for each message.
macro_rules! encode {
    ($run:ident, $name:expr, $bytes:ident, $type:ident, $name3:ident, $borrowed:expr) => {
        let ours: rpcrdma_nfs3::$type = xdr::from_bytes(&$bytes).unwrap();
        let borrowed = $borrowed;
        let nfs3 = decode_nfs3::<nfs3_types::nfs3::$name3>(&$bytes);
        let theirs = decode_jsgf::<jsgf::$name3>(&$bytes);

        let mut group = $run.0.benchmark_group(format!("{} encode", $name));
        let mut writer = Writer::with_capacity($bytes.len());
        write_reused(&mut writer, &ours);
        assert_eq!(writer.as_slice(), $bytes);
        group.bench_function("bytes", |b| b.iter(|| write_reused(&mut writer, black_box(&ours))));
        write_reused(&mut writer, &borrowed);
        assert_eq!(writer.as_slice(), $bytes);
        group.bench_function("borrowed", |b| b.iter(|| write_reused(&mut writer, black_box(&borrowed))));
        let mut out = Vec::with_capacity($bytes.len());
        encode_nfs3(&mut out, &nfs3);
        assert_eq!(out, $bytes);
        group.bench_function("nfs3_types", |b| b.iter(|| encode_nfs3(&mut out, black_box(&nfs3))));
        encode_jsgf(&mut out, &theirs);
        assert_eq!(out, $bytes);
        group.bench_function("xdr-codec", |b| b.iter(|| encode_jsgf(&mut out, black_box(&theirs))));
        bench_c!($run, group, "encode", $bytes, $name3);
        group.finish();

        let mut group = $run.0.benchmark_group(format!("{} encode, fresh", $name));
        group.bench_function("bytes", |b| b.iter(|| write_fresh(black_box(&ours))));
        group.bench_function("borrowed", |b| b.iter(|| write_fresh(black_box(&borrowed))));
        group.bench_function("nfs3_types", |b| b.iter(|| encode_nfs3_fresh(black_box(&nfs3))));
        group.bench_function("xdr-codec", |b| b.iter(|| encode_jsgf_fresh(black_box(&theirs))));
        bench_c!($run, group, "encode-fresh", $bytes, $name3);
        group.finish();
    };
}

fn write_reused<T: Encode>(writer: &mut Writer, value: &T) {
    writer.clear();
    value.encode(writer).unwrap();
    black_box(writer);
}

fn write_fresh<T: Encode>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    value.encode(&mut writer).unwrap();
    writer.into_vec()
}

fn getattr(run: &mut Run<'_>) {
    let bytes = messages::getattr();
    decode!(run, "GETATTR", bytes, Getattr3Res, GETATTR3res, fastxdr::GETATTR3res);
    encode!(run, "GETATTR", bytes, Getattr3Res, GETATTR3res, {
        xdr::from_slice::<borrowed::Getattr3Res>(&bytes).unwrap()
    });
}

fn lookup(run: &mut Run<'_>) {
    let bytes = messages::lookup();
    decode!(run, "LOOKUP", bytes, Lookup3Res, LOOKUP3res, fastxdr::LOOKUP3res<_>);
    encode!(run, "LOOKUP", bytes, Lookup3Res, LOOKUP3res, {
        xdr::from_slice::<borrowed::Lookup3Res>(&bytes).unwrap()
    });
}

fn read(run: &mut Run<'_>, name: &str, len: u32) {
    let bytes = messages::read(len);
    decode!(run, name, bytes, Read3Res, READ3res, fastxdr::READ3res<_>);
}

fn write(run: &mut Run<'_>, name: &str, len: u32) {
    let bytes = messages::write(len);
    decode!(run, name, bytes, Write3Args, WRITE3args, fastxdr::WRITE3args<_>);
}

/// Measures the encoding of a message without its DDP-eligible data, which is not copied. The other
/// implementations have no reduced encoding.
fn write_reduced(run: &mut Run<'_>) {
    let args: rpcrdma_nfs3::Write3Args = xdr::from_bytes(&messages::write(1 << 20)).unwrap();
    let message = reduce(&args);
    assert_eq!((message.items.len(), message.items[0].data.as_ptr()), (1, args.data.as_ptr()));
    let mut group = run.0.benchmark_group("WRITE 1 MiB encode, reduced");
    group.bench_function("bytes", |b| b.iter(|| reduce(black_box(&args))));
    group.finish();
}

fn reduce<T: Encode>(value: &T) -> Message {
    let mut reducer = Reducer::new(1);
    value.encode(&mut reducer).unwrap();
    reducer.into_message()
}

fn readdirplus(run: &mut Run<'_>) {
    let bytes: Bytes = messages::readdirplus(100);
    decode!(run, "READDIRPLUS of 100", bytes, Readdirplus3Res, READDIRPLUS3res, fastxdr::READDIRPLUS3res<_>);
    let borrowed::Readdirplus3Res::Nfs3Ok(mut reply) = xdr::from_slice(&bytes).unwrap() else {
        unreachable!("the message is a successful reply")
    };
    // Encode decoded entries, as a server does. An undecoded list would be copied as a single block.
    let entries = reply.reply.entries.to_vec();
    reply.reply.entries = ListRef::new(&entries);
    encode!(run, "READDIRPLUS of 100", bytes, Readdirplus3Res, READDIRPLUS3res, {
        borrowed::Readdirplus3Res::Nfs3Ok(reply)
    });
}
