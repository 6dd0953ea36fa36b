/// Who found the error (RFC 5040 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// RDMAP.
    Rdmap = 0,
    /// DDP.
    Ddp = 1,
    /// The lower layer: MPA.
    Llp = 2,
}

/// An error that ends the stream, as a Terminate message says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who found it.
    pub layer: Layer,
    /// The kind, within the layer.
    pub etype: u8,
    /// Which, within the kind.
    pub code: u8,
    /// In words.
    pub why: &'static str,
}

const CONTROL: usize = 4;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = ($layer:ident, $etype:literal, $code:literal, $why:literal);)*) => {
        /// The faults that this implementation finds.
        impl Fault {
            $($(#[$doc])* pub const $name: Fault = Fault { layer: Layer::$layer, etype: $etype, code: $code, why: $why };)*
        }
    };
}

faults! {
    /// RDMAP, remote protection.
    INVALID_STAG = (Rdmap, 1, 0x00, "a Read Request for memory that is not advertised");
    /// RDMAP, remote protection.
    READ_BOUNDS = (Rdmap, 1, 0x01, "a Read Request beyond the end of its memory");
    /// RDMAP, remote protection.
    ACCESS = (Rdmap, 1, 0x02, "memory that is not advertised for this");
    /// RDMAP, remote protection.
    READ_WRAP = (Rdmap, 1, 0x04, "a Read Request whose offset wraps");
    /// RDMAP, remote protection.
    CANNOT_INVALIDATE = (Rdmap, 1, 0x09, "a Send that invalidates memory that is not advertised");
    /// RDMAP, remote operation.
    RDMAP_VERSION = (Rdmap, 2, 0x05, "another version of RDMAP");
    /// RDMAP, remote operation.
    UNEXPECTED_OPCODE = (Rdmap, 2, 0x06, "an opcode that is unknown, not expected, or has the wrong T bit");
    /// RDMAP, remote operation.
    CATASTROPHIC = (Rdmap, 2, 0x07, "more Read Requests than were agreed on");
    /// RDMAP, remote operation: said of what the layer above found.
    UPPER_LAYER = (Rdmap, 2, 0xff, "the layer above refused the peer");
    /// DDP, tagged buffer.
    TAGGED_STAG = (Ddp, 1, 0x00, "a tagged segment for memory that is not advertised");
    /// DDP, tagged buffer.
    TAGGED_BOUNDS = (Ddp, 1, 0x01, "a tagged segment beyond the end of its memory");
    /// DDP, tagged buffer.
    TAGGED_WRAP = (Ddp, 1, 0x03, "a tagged segment whose offset wraps");
    /// DDP, tagged buffer.
    TAGGED_VERSION = (Ddp, 1, 0x04, "another version of DDP");
    /// DDP, untagged buffer.
    QUEUE_NUMBER = (Ddp, 2, 0x01, "a queue number that is not the opcode's");
    /// DDP, untagged buffer.
    NO_BUFFER = (Ddp, 2, 0x02, "a Send for which no Receive is posted");
    /// DDP, untagged buffer.
    MSN_RANGE = (Ddp, 2, 0x03, "a message sequence number out of order");
    /// DDP, untagged buffer.
    MESSAGE_OFFSET = (Ddp, 2, 0x04, "a message offset out of order");
    /// DDP, untagged buffer.
    TOO_LONG = (Ddp, 2, 0x05, "a message longer than its Receive");
    /// DDP, untagged buffer.
    UNTAGGED_VERSION = (Ddp, 2, 0x06, "another version of DDP");
    /// MPA.
    CRC = (Llp, 0, 0x02, "a wrong CRC");
    /// MPA.
    FPDU = (Llp, 0, 0x03, "an FPDU shorter than its header");
}

impl Fault {
    /// The payload of a Terminate message, without the optional copies of headers.
    #[must_use]
    pub fn encode(&self) -> [u8; CONTROL] {
        [(self.layer as u8) << 4 | (self.etype & 0x0f), self.code, 0, 0]
    }

    /// Layer, type and code of a Terminate message's payload. What it says is for people; Linux's siw swaps the
    /// halves of the first octet, which cannot be told apart for certain, so it is given as it came.
    #[must_use]
    pub fn decode(payload: &[u8]) -> (u8, u8, u8) {
        match payload {
            [first, code, ..] => (first >> 4, first & 0x0f, *code),
            [first] => (first >> 4, first & 0x0f, 0),
            [] => (0, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_stands_in_the_high_half() {
        assert_eq!(Fault::NO_BUFFER.encode(), [0x12, 0x02, 0, 0]);
        assert_eq!(Fault::CRC.encode(), [0x20, 0x02, 0, 0]);
        assert_eq!(Fault::decode(&Fault::MSN_RANGE.encode()), (1, 2, 3));
    }

    #[test]
    fn h59_anything_is_a_terminate() {
        // Linux's siw, in its own bit order.
        assert_eq!(Fault::decode(&[0x21, 0x07, 0x03, 0x00]), (2, 1, 7));
        assert_eq!(Fault::decode(&[]), (0, 0, 0));
    }
}
