use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// The reason why bytes cannot be decoded or a value cannot be encoded.
///
/// An error is one pointer wide, which keeps each `Result` small. It contains the kind, the byte offset (in
/// the unreduced stream, from the start of the reader or the sink) and the path of fields.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    offset: u64,
    path: Vec<Step>,
}

#[derive(Clone, Copy)]
enum Step {
    Field(&'static str),
    Index(usize),
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end too early.
    Truncated {
        /// The number of bytes needed.
        needed: u64,
        /// The number of bytes left.
        left: u64,
    },
    /// Padding bytes that are not zero (RFC 4506 sections 4.9 to 4.11).
    Padding,
    /// A bool or a presence flag of optional data that is neither 0 nor 1.
    BadBool(u32),
    /// A value that is not a member of the enum.
    UnknownEnum {
        /// The name of the enum.
        type_name: &'static str,
        /// The value.
        value: i32,
    },
    /// A number that does not fit the narrow integer type.
    OutOfRange {
        /// The type's name in rpcgen.
        type_name: &'static str,
        /// The number.
        value: i64,
    },
    /// A discriminant without an arm in the union or, when encoding, a stored discriminant that selects
    /// another arm.
    UnknownDiscriminant {
        /// The name of the union.
        type_name: &'static str,
        /// The discriminant.
        value: i128,
    },
    /// A length that exceeds its bound, in decoding or encoding.
    TooLong {
        /// The length.
        len: u64,
        /// The bound.
        max: u64,
    },
    /// Text that is not UTF-8, read as a `&str`.
    NotUtf8,
    /// Nesting that exceeds the reader's limit.
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// This number of bytes follows the value.
    Trailing(u64),
    /// A chunk's length that does not match the count in the stream (RFC 8166 sections 3.4.5.2 and 3.4.6.2).
    ItemLength {
        /// The count in the stream.
        count: u32,
        /// The chunk's length.
        chunk: u64,
    },
    /// A Read chunk at a position where no eligible item starts (RFC 8166 section 3.4.5), a Write chunk that
    /// matches no item, or a chunk that contains part of a value that must be contiguous.
    ItemUnused {
        /// The position of the Read chunk in the unreduced stream, the list index of the Write chunk, or the
        /// offset of the contiguous value.
        position: u64,
    },
    /// The message exceeds 4 GiB (the range of a position), or a list exceeds 2^32 - 1 elements.
    TooLarge,
}

impl Error {
    /// Creates an error at an offset in the stream.
    #[cold]
    #[must_use]
    pub fn new(kind: ErrorKind, offset: u64) -> Self {
        Error(Box::new(Inner { kind, offset, path: Vec::new() }))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the byte offset in the unreduced stream, from the start of the reader or the sink. The offset
    /// is 0 for errors without a reader or sink, such as those of [`super::SmallOpaque::new`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Adds the enclosing field to the path. Callers start with the innermost field.
    #[cold]
    #[must_use]
    pub fn within(mut self, field: &'static str) -> Self {
        self.0.path.push(Step::Field(field));
        self
    }

    /// Adds the enclosing element's index to the path. Callers start with the innermost element.
    #[cold]
    #[must_use]
    pub fn at_index(mut self, index: usize) -> Self {
        self.0.path.push(Step::Index(index));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.path.iter().rev().enumerate() {
            match step {
                Step::Field(name) if place == 0 => write!(f, "at {name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) if place == 0 => write!(f, "at [{index}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if !self.0.path.is_empty() {
            f.write_str(", ")?;
        }
        write!(f, "byte {}: {}", self.0.offset, self.0.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Truncated { needed, left } => write!(f, "{needed} bytes needed, {left} left"),
            ErrorKind::Padding => f.write_str("padding is not zero"),
            ErrorKind::BadBool(value) => write!(f, "{value} is neither FALSE (0) nor TRUE (1)"),
            ErrorKind::UnknownEnum { type_name, value } => write!(f, "{type_name} has no value {value}"),
            ErrorKind::OutOfRange { type_name, value } => {
                write!(f, "{value} is out of range for {type_name}")
            }
            ErrorKind::UnknownDiscriminant { type_name, value } => {
                write!(f, "{type_name} has no arm for {value}")
            }
            ErrorKind::TooLong { len, max } => write!(f, "a length of {len} exceeds the bound of {max}"),
            ErrorKind::NotUtf8 => f.write_str("the string is not UTF-8"),
            ErrorKind::TooDeep { limit } => write!(f, "nested deeper than {limit} levels"),
            ErrorKind::Trailing(left) => write!(f, "bytes left over: {left}"),
            ErrorKind::ItemLength { count, chunk } => {
                write!(f, "the count in the stream is {count}, but the chunk has {chunk} bytes")
            }
            ErrorKind::ItemUnused { position } => {
                write!(f, "no eligible item matches the chunk at position or index {position}")
            }
            ErrorKind::TooLarge => {
                f.write_str("the message exceeds 4 GiB, or a list exceeds 2^32 - 1 elements")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xdr::Error({self})")
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.0.kind == other.0.kind && self.0.offset == other.0.offset
    }
}

impl core::error::Error for Error {}
