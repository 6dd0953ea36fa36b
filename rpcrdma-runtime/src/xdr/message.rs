use alloc::vec::Vec;

use bytes::Bytes;

use super::buffer::Buffer;
use super::sink::put_into;
use super::{Error, ErrorKind, Item, Sink, pad_len, spare};

/// A message to send: the Payload stream, and the items moved out of it.
///
/// Items are in ascending order of position and do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The Payload stream without the items, but with their counts.
    pub stream: Bytes,
    /// The items that were moved out of the stream.
    pub items: Vec<Item>,
}

impl Message {
    /// Creates a message without separate items.
    #[must_use]
    pub fn unreduced(stream: Bytes) -> Self {
        Message { stream, items: Vec::new() }
    }

    /// Returns the length in bytes, including all items and their padding.
    #[must_use]
    pub fn unreduced_len(&self) -> u64 {
        self.items.iter().fold(self.stream.len() as u64, |sum, item| sum.saturating_add(padded(&item.data)))
    }

    /// Returns the stream with every item inserted and padded. Copies only if the message has items.
    #[must_use]
    pub fn flatten(&self) -> Bytes {
        if self.items.is_empty() { self.stream.clone() } else { self.clone().split(|_, _| false).stream }
    }

    /// Returns the content of [`Message::flatten`] in consecutive pieces, without copying.
    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        let Message { mut stream, items } = self;
        // Offset of `stream` in the unreduced stream.
        let mut offset = 0u64;
        let mut pieces = Vec::with_capacity(items.len().saturating_mul(3).saturating_add(1));
        for item in items {
            let before =
                usize::try_from(u64::from(item.position).saturating_sub(offset)).unwrap_or(usize::MAX);
            pieces.push(stream.split_to(before.min(stream.len())));
            offset = u64::from(item.position).saturating_add(padded(&item.data));
            let padding = const { &[0u8; 3] }.split_at(pad_len(item.data.len())).0;
            pieces.extend([item.data, Bytes::from_static(padding)]);
        }
        pieces.push(stream);
        pieces.into_iter().filter(|piece| !piece.is_empty())
    }

    /// Inserts into the stream each item for which `keep_out` returns false. Copies nothing if no item is
    /// inserted.
    #[must_use]
    pub fn split(self, mut keep_out: impl FnMut(usize, &Item) -> bool) -> Message {
        let mut items = self.items.iter().enumerate();
        let Some(first_back) = items.position(|(index, item)| !keep_out(index, item)) else { return self };
        let mut kept = Vec::new();
        let mut stream = Vec::with_capacity(usize::try_from(self.unreduced_len()).unwrap_or(0));
        let mut rest = &self.stream[..];
        // Offset of `rest` in the unreduced stream.
        let mut offset = 0u64;
        for (index, item) in self.items.into_iter().enumerate() {
            let keep = index < first_back || index > first_back && keep_out(index, &item);
            let before =
                usize::try_from(u64::from(item.position).saturating_sub(offset)).unwrap_or(usize::MAX);
            let (head, tail) = rest.split_at_checked(before).unwrap_or((rest, &[]));
            stream.extend_from_slice(head);
            rest = tail;
            offset = u64::from(item.position).saturating_add(padded(&item.data));
            if keep {
                kept.push(item);
            } else {
                stream.extend_from_slice(&item.data);
                stream.extend_from_slice([0u8; 3].split_at(pad_len(item.data.len())).0);
            }
        }
        stream.extend_from_slice(rest);
        Message { stream: stream.into(), items: kept }
    }
}

fn padded(data: &Bytes) -> u64 {
    (data.len() as u64).saturating_add(pad_len(data.len()) as u64)
}

/// A received message: the stream, and the items received by RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The received Payload stream.
    pub stream: Bytes,
    /// The items received by RDMA, which are not in the stream.
    pub items: Placed,
}

impl Received {
    /// Creates a message without separate items.
    #[must_use]
    pub fn unreduced(stream: Bytes) -> Self {
        Received { stream, items: Placed::None }
    }
}

/// The items of a received message, and how they are matched to the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placed {
    /// No items.
    #[default]
    None,
    /// The items of Read chunks, at a responder: in ascending order of position.
    Positioned(Vec<Item>),
    /// The items of Write chunks, at a requester: one entry per chunk, in the order of the Write list.
    InOrder(Vec<PlacedItem>),
}

/// The data received in one Write chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedItem {
    /// The bytes that the responder reports as written.
    pub data: Bytes,
    /// The number of offered segments; 0 requests the item inline (RFC 8166 section 4.3.2.3).
    pub segments: u32,
}

/// A sink that moves DDP-eligible items out of the stream.
///
/// Items are shared by reference count, not copied. Positions refer to the unreduced stream, so the reducer
/// must process the message from its first byte, including the RPC header.
///
/// ```
/// use rpcrdma_runtime::xdr::{DdpItem, Encode, Error, Opaque, Reducer};
///
/// # fn main() -> Result<(), Error> {
/// let mut reducer = Reducer::new(512);
/// 7u32.encode(&mut reducer)?;
/// Opaque::<1024>::from(vec![1; 1000]).encode_eligible(&mut reducer)?;
/// let message = reducer.into_message();
/// // The item's count stays in the stream.
/// assert_eq!((message.stream.len(), message.items[0].data.len()), (8, 1000));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Reducer {
    stream: Buffer,
    items: Vec<Item>,
    /// The number of bytes moved out of the stream, including padding.
    taken: u64,
    min_item: usize,
    /// The error that occurred when a call's results were encoded, if any.
    failure: Option<Error>,
}

impl Reducer {
    /// Creates a reducer that moves out items of at least `min_item` bytes, but never empty items.
    #[must_use]
    pub fn new(min_item: usize) -> Self {
        Reducer {
            stream: spare::buffer(),
            items: Vec::new(),
            taken: 0,
            min_item: min_item.max(1),
            failure: None,
        }
    }

    /// Creates a reducer that keeps all items in the stream.
    #[must_use]
    pub fn disabled() -> Self {
        Reducer::new(usize::MAX)
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }

    pub(crate) fn into_failure(self) -> Option<Error> {
        self.failure
    }

    /// Truncates the unreduced stream to its first `len` bytes. Removes items that start at or after `len`.
    /// `len` must not lie within an item, because items are not shortened.
    pub fn truncate(&mut self, len: u64) {
        self.items.retain(|item| u64::from(item.position) < len);
        self.taken = self.items.iter().fold(0, |sum, item| sum.saturating_add(padded(&item.data)));
        self.stream.truncate(usize::try_from(len.saturating_sub(self.taken)).unwrap_or(usize::MAX));
    }

    /// Returns the message.
    #[must_use]
    pub fn into_message(self) -> Message {
        Message { stream: spare::into_bytes(self.stream, &[]), items: self.items }
    }
}

impl Sink for Reducer {
    put_into!(self => self.stream);

    #[inline]
    fn position(&self) -> u64 {
        self.taken.saturating_add(self.stream.len() as u64)
    }

    fn put_item(&mut self, item: &Bytes) -> Result<(), Error> {
        if item.len() < self.min_item {
            return self.put_padded(item);
        }
        let at = self.position();
        let position = u32::try_from(at).map_err(|_| Error::new(ErrorKind::TooLarge, at))?;
        if self.items.capacity() == 0 {
            self.items = spare::items();
        }
        self.items.push(Item { position, data: item.clone() });
        self.taken = self.taken.saturating_add(padded(item));
        Ok(())
    }
}
