//! Reads packets from a capture file in pcap or pcapng format.

use std::io::Read;

use pcap_parser::{Block, InterfaceDescriptionBlock, PcapBlockOwned, PcapError, create_reader};

/// The maximum length of a block, in bytes. tcpdump and Wireshark write packets of at most 262,144 bytes.
const LONGEST: usize = 1 << 20;
/// The maximum number of interfaces in a section of a pcapng file. Packets of further interfaces are omitted.
const INTERFACES: usize = 65_536;
const NANOS: u64 = 1_000_000_000;

/// Why a file cannot be read as a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file does not start with a pcap or pcapng header.
    #[error("not a capture: neither pcap nor pcapng")]
    NoCapture,
    /// Reading the file failed.
    #[error("the file cannot be read")]
    Unreadable,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// The time, in nanoseconds since 1970.
    pub(super) time: u64,
    /// The LINKTYPE number of the outermost header.
    pub(super) link: i32,
    pub(super) data: &'a [u8],
}

/// Passes each packet of a known interface to `take`. Returns the problem that ended the read, if any. The
/// packets before the problem are valid.
///
/// # Errors
/// Returns [`ReadError`] if the file is empty, unreadable or not a capture.
pub(super) fn read(
    file: impl Read + Send,
    mut take: impl FnMut(Packet<'_>),
) -> Result<Option<&'static str>, ReadError> {
    let mut reader = create_reader(LONGEST, file).map_err(|error| match error {
        PcapError::Eof => ReadError::Empty,
        PcapError::ReadError => ReadError::Unreadable,
        _ => ReadError::NoCapture,
    })?;
    let mut links = Links::default();
    loop {
        let problem = match reader.next() {
            Ok((offset, block)) => {
                links.dispatch(&block, &mut take);
                reader.consume(offset);
                continue;
            }
            Err(PcapError::Eof) => return Ok(None),
            Err(PcapError::Incomplete(_)) => match reader.refill() {
                Ok(()) => continue,
                Err(_) => "the file could not be read to its end",
            },
            Err(PcapError::UnexpectedEof) => "the file ends in the middle of a packet",
            Err(PcapError::BufferTooSmall) => {
                "the file has a packet of more than 1 MiB; the rest was not read"
            }
            Err(_) => "the file is damaged; the rest was not read",
        };
        return Ok(Some(problem));
    }
}

#[derive(Default)]
struct Links {
    /// For a pcap file: the link type, and the unit of timestamp fractions, in nanoseconds (1 or 1000).
    only: Option<(i32, u64)>,
    many: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    kind: i32,
    /// The number of time units in a second.
    resolution: u64,
    /// The offset to add to the time, in seconds.
    offset: i64,
}

impl Links {
    fn dispatch(&mut self, block: &PcapBlockOwned<'_>, take: &mut impl FnMut(Packet<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
                self.only = Some((header.network.0, unit));
            }
            PcapBlockOwned::Legacy(frame) => {
                let Some((link, unit)) = self.only else { return };
                let fraction = u64::from(frame.ts_usec).saturating_mul(unit);
                let time = u64::from(frame.ts_sec).saturating_mul(NANOS).saturating_add(fraction);
                take(Packet { time, link, data: kept(frame.data, frame.caplen) });
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.many.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if self.many.len() < INTERFACES {
                    self.many.push(Link::of(interface));
                }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let link = usize::try_from(packet.if_id).ok().and_then(|id| self.many.get(id));
                let Some(link) = link else { return };
                let units = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
                let data = kept(packet.data, packet.caplen);
                take(Packet { time: link.nanoseconds(units), link: link.kind, data });
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                // A simple packet block has no timestamp.
                let Some(link) = self.many.first() else { return };
                take(Packet { time: 0, link: link.kind, data: kept(packet.data, packet.origlen) });
            }
            PcapBlockOwned::NG(_) => {}
        }
    }
}

/// Removes the padding of the block.
fn kept(data: &[u8], len: u32) -> &[u8] {
    usize::try_from(len).ok().and_then(|len| data.get(..len)).unwrap_or(data)
}

impl Link {
    fn of(interface: &InterfaceDescriptionBlock<'_>) -> Self {
        let resolution = interface.ts_resolution().filter(|units| *units > 0).unwrap_or(1_000_000);
        Link { kind: interface.linktype.0, resolution, offset: interface.ts_offset() }
    }

    fn nanoseconds(&self, units: u64) -> u64 {
        let nanoseconds = u128::from(units) * u128::from(NANOS) / u128::from(self.resolution);
        let time = i128::try_from(nanoseconds).unwrap_or(i128::MAX);
        let time = time.saturating_add(i128::from(self.offset).saturating_mul(i128::from(NANOS)));
        u64::try_from(time).unwrap_or(0)
    }
}
