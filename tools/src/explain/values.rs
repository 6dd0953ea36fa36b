//! Formats arguments and results as text, after decoding them with the generated types of the RPC program.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};

use bytes::Bytes;
use rpcrdma_runtime::program::{Procedure, Program};
use rpcrdma_runtime::wire::rdma::ChunkLists;
use rpcrdma_runtime::wire::rpc::{CallHeader, decode_reply};
use rpcrdma_runtime::xdr::{Error, Item, Placed, PlacedItem, Reader, Received, Xdr};

use super::keys::{CalledProcedure, Chunk};

/// The maximum number of characters shown for a value.
const SHOWN: usize = 640;
/// The maximum length of a formatted value in bytes, including type names that are removed later.
const FORMATTED: usize = 4096;
/// The maximum stored length of an item, in bytes. `Debug` of opaque data shows no more bytes.
const ITEM_KEPT: usize = 32;
/// The maximum stored length of a message in a Position-Zero Read chunk or Reply chunk, in bytes.
const MESSAGE_KEPT: usize = 64 << 10;
/// The maximum total size of a message's items, in bytes. Decoding needs a buffer of that size.
const ITEMS_MAX: u64 = 16 << 20;

type Show = fn(&mut Reader<'_>) -> Result<String, Error>;

#[derive(Debug)]
pub(super) struct Codec {
    called: CalledProcedure,
    arguments: Show,
    results: Show,
}

const fn codec<P: Procedure>() -> Codec
where
    P::Args: Debug,
    P::Res: Debug,
{
    let (program, version) = (<P::Program as Program>::NUMBER, <P::Program as Program>::VERSION);
    let called = CalledProcedure { program, version, procedure: P::NUMBER };
    Codec { called, arguments: show::<P::Args>, results: show::<P::Res> }
}

macro_rules! codecs {
    ($($crate_name:ident::$program:ident: $($procedure:ident)*;)*) => {
        &[$($(codec::<$crate_name::$program::proc::$procedure>(),)*)*]
    };
}

const CODECS: &[Codec] = codecs! {
    rpcrdma_nfs3::nfs_v3:
        Null Getattr Setattr Lookup Access Readlink Read Write Create Mkdir Symlink Mknod Remove Rmdir Rename Link
        Readdir Readdirplus Fsstat Fsinfo Pathconf Commit;
    rpcrdma_mount3::mount_v3: Null Mnt Dump Umnt Umntall Export;
    rpcrdma_rpcbind::pmap_vers: Null Set Unset Getport Dump Callit;
    rpcrdma_rpcbind::rpcbvers: Null Set Unset Getaddr Dump Callit Gettime Uaddr2taddr Taddr2uaddr;
    rpcrdma_rpcbind::rpcbvers4:
        Null Set Unset Getaddr Dump Bcast Gettime Uaddr2taddr Taddr2uaddr Getversaddr Indirect Getaddrlist Getstat;
    rpcrdma_conf::vers1: ConfRdma;
};

impl Codec {
    pub(super) fn of(called: CalledProcedure) -> Option<&'static Codec> {
        CODECS.iter().find(|codec| codec.called == called)
    }

    /// Formats the arguments of a call. Returns `None` if the call has no arguments, or if its RPC header is
    /// invalid.
    pub(super) fn arguments(&self, message: &Received) -> Option<String> {
        let mut reader = Reader::new(message);
        CallHeader::decode(&mut reader).ok()?;
        shown((self.arguments)(&mut reader))
    }

    /// Formats the results of a reply. Returns `None` if the reply has no results, rejects the call, or has
    /// an invalid RPC header.
    pub(super) fn results(&self, xid: u32, message: &Received) -> Option<String> {
        let mut reader = Reader::new(message);
        decode_reply(&mut reader, xid).ok()?;
        shown((self.results)(&mut reader))
    }
}

fn shown(text: Result<String, Error>) -> Option<String> {
    match text {
        Ok(text) if text == "()" => None,
        Ok(text) => Some(text),
        Err(error) => Some(format!("not decoded: {error}")),
    }
}

fn show<T: Xdr + Debug>(reader: &mut Reader<'_>) -> Result<String, Error> {
    let value = T::decode(reader)?;
    reader.finish()?;
    Ok(abbreviated(&value))
}

/// Text of at most [`FORMATTED`] bytes. Writing beyond this limit fails.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len().saturating_add(text.len()) > FORMATTED {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn abbreviated(value: &impl Debug) -> String {
    let mut text = Limited(String::new());
    let is_cut = write!(text, "{value:?}").is_err();
    let text = without_type_names(&text.0);
    let mut short: String = text.chars().take(SHOWN).collect();
    if is_cut || short.len() < text.len() {
        short += "...";
    }
    short
}

/// Removes the names of structs: `Diropargs3 { name: "a" }` becomes `{ name: "a" }`.
fn without_type_names(text: &str) -> String {
    let (mut out, mut is_quoted, mut is_escaped) = (String::with_capacity(text.len()), false, false);
    for character in text.chars() {
        if character == '{' && !is_quoted {
            let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
            out.truncate(out.trim_end().trim_end_matches(is_of_name).len());
        }
        is_quoted ^= character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        out.push(character);
    }
    out
}

/// The stored data of a call without a reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The RPC message in the call's Send.
    pub(super) stream: Bytes,
    /// The first bytes of each chunk.
    chunks: HashMap<Chunk, Vec<u8>>,
}

impl Parts {
    /// Stores bytes of a chunk, up to a limit, if `offset` is the end of the stored bytes. Returns the number
    /// of bytes added.
    pub(super) fn add(&mut self, chunk: Chunk, offset: u64, bytes: &[u8]) -> usize {
        let max = match chunk {
            Chunk::Read(0) | Chunk::Reply => MESSAGE_KEPT,
            Chunk::Read(_) | Chunk::Write(_) => ITEM_KEPT,
        };
        let kept = self.chunks.entry(chunk).or_default();
        if u64::try_from(kept.len()) != Ok(offset) {
            return 0;
        }
        let room = max.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
        room
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.values().fold(self.stream.len(), |sum, kept| sum.saturating_add(kept.len()))
    }

    /// Returns the RPC message of a call with the items in its Read chunks, or `None` if the items exceed
    /// [`ITEMS_MAX`].
    pub(super) fn call(&self, lists: &ChunkLists, long: bool) -> Option<Received> {
        let mut items: Vec<Item> = Vec::new();
        let mut room = ITEMS_MAX;
        let of_items = lists.reads.iter().filter(|read| read.position > 0);
        let of_items: Vec<_> = of_items.collect();
        for chunk in of_items.chunk_by(|a, b| a.position == b.position) {
            let position = chunk.first()?.position;
            let len = chunk.iter().fold(0u64, |sum, read| sum.saturating_add(read.segment.length.into()));
            items.push(Item { position, data: self.item(Chunk::Read(position), len, &mut room)? });
        }
        let stream = if long { self.message(Chunk::Read(0)) } else { self.stream.clone() };
        Some(Received { stream, items: Placed::Positioned(items) })
    }

    /// Returns the RPC message of a reply: the stream from its Send or Reply chunk, and the items from its
    /// Write chunks. Returns `None` if the items exceed [`ITEMS_MAX`].
    pub(super) fn reply(
        &self,
        offered: &ChunkLists,
        used: &ChunkLists,
        inline: Option<Bytes>,
    ) -> Option<Received> {
        let mut room = ITEMS_MAX;
        let mut items = Vec::new();
        for ((used, offered), number) in used.writes.iter().zip(&offered.writes).zip(1..) {
            let data = self.item(Chunk::Write(number), used.len(), &mut room)?;
            items.push(PlacedItem { data, segments: u32::try_from(offered.0.len()).ok()? });
        }
        let stream = inline.unwrap_or_else(|| self.message(Chunk::Reply));
        Some(Received { stream, items: Placed::InOrder(items) })
    }

    fn message(&self, chunk: Chunk) -> Bytes {
        self.chunks.get(&chunk).cloned().unwrap_or_default().into()
    }

    /// Returns an item: its stored first bytes, then zeros. Subtracts the item's length from `room`. Returns
    /// `None` if the item exceeds `room`.
    fn item(&self, chunk: Chunk, len: u64, room: &mut u64) -> Option<Bytes> {
        *room = room.checked_sub(len)?;
        let mut data = vec![0; usize::try_from(len).ok()?];
        let kept = self.chunks.get(&chunk).map(Vec::as_slice).unwrap_or_default();
        for (place, byte) in data.iter_mut().zip(kept) {
            *place = *byte;
        }
        Some(data.into())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn every_procedure_of_a_program_has_a_codec() {
        let programs = [
            (rpcrdma_nfs3::nfs_v3::NfsV3::NUMBER, 3, rpcrdma_nfs3::nfs_v3::NfsV3::PROCEDURES),
            (rpcrdma_mount3::mount_v3::MountV3::NUMBER, 3, rpcrdma_mount3::mount_v3::MountV3::PROCEDURES),
            (100_000, 2, rpcrdma_rpcbind::pmap_vers::PmapVers::PROCEDURES),
            (100_000, 3, rpcrdma_rpcbind::rpcbvers::Rpcbvers::PROCEDURES),
            (100_000, 4, rpcrdma_rpcbind::rpcbvers4::Rpcbvers4::PROCEDURES),
            (100_417, 1, rpcrdma_conf::vers1::Vers1::PROCEDURES),
        ];
        let mut count = 0;
        for (program, version, procedures) in programs {
            for (procedure, name) in procedures {
                let called = CalledProcedure { program, version, procedure: *procedure };
                assert!(Codec::of(called).is_some(), "{program} {version} {name}");
                count += 1;
            }
        }
        assert_eq!(count, CODECS.len());
    }

    #[test]
    fn a_value_is_abbreviated() {
        #[derive(Debug)]
        struct Place<'a> {
            #[expect(dead_code, reason = "formatted")]
            name: &'a str,
        }
        assert_eq!(abbreviated(&Some(Place { name: r#"a "{" b"# })), r#"Some({ name: "a \"{\" b" })"#);
        assert_eq!(abbreviated(&[Place { name: "x" }]), r#"[{ name: "x" }]"#);
        let long = "y".repeat(SHOWN * 2);
        assert_eq!(abbreviated(&Place { name: &long }).len(), SHOWN + 3);
        let many = vec![0u8; 1 << 20];
        let shown = abbreviated(&many);
        assert!(shown.ends_with("...") && shown.len() == SHOWN + 3, "{shown}");
    }

    #[test]
    fn oversized_items_are_not_allocated() {
        let parts = Parts::default();
        let mut room = ITEMS_MAX;
        assert_eq!(parts.item(Chunk::Write(1), ITEMS_MAX, &mut room).unwrap().len() as u64, ITEMS_MAX);
        assert_eq!(parts.item(Chunk::Write(2), 1, &mut room), None);
    }

    #[test]
    fn only_contiguous_bytes_are_kept() {
        let mut parts = Parts::default();
        assert_eq!(parts.add(Chunk::Reply, 0, b"abc"), 3);
        assert_eq!(parts.add(Chunk::Reply, 4, b"e"), 0);
        assert_eq!(parts.add(Chunk::Reply, 3, b"d"), 1);
        assert_eq!(parts.message(Chunk::Reply), "abcd");
        assert_eq!(parts.add(Chunk::Write(1), 0, &[7; 100]), ITEM_KEPT);
        assert_eq!(parts.add(Chunk::Reply, 4, &vec![0; MESSAGE_KEPT]), MESSAGE_KEPT - 4);
        assert_eq!(parts.len(), MESSAGE_KEPT + ITEM_KEPT);
    }
}
