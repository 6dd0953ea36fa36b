//! The duplicate-request cache and its limits.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::rpc::duplicates::{
    CacheLookup, CallIdentity, CallerId, DuplicateLimits, Duplicates, Ticket, WAITERS,
};
use rpcrdma_runtime::wire::rpc::{AuthSys, CallHeader, Credential, RpcCall};
use rpcrdma_runtime::xdr::{Encode, Item, Message, Placed, Received, Reducer, Sink};

const HERE: CallerId = CallerId::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
const START: Duration = Duration::from_secs(1000);

fn reduced(xid: u32, credential: Credential, data: &[u8]) -> Message {
    let mut message = Reducer::new(1);
    let header = CallHeader { xid, program: 100, version: 2, procedure: 3, credential };
    header.encode(&mut message).expect("a valid header");
    7u32.encode(&mut message).expect("a word");
    message_item(&mut message, data);
    9u32.encode(&mut message).expect("a word");
    message.into_message()
}

fn message_item(message: &mut Reducer, data: &[u8]) {
    u32::try_from(data.len()).expect("short").encode(message).expect("a word");
    message.put_item(&Bytes::copy_from_slice(data)).expect("an item");
}

fn inline_call(xid: u32, data: &[u8]) -> Received {
    Received::unreduced(reduced(xid, Credential::None, data).flatten())
}

/// Returns the cache key of a message if the message is cacheable.
fn call_of(message: Received, caller: CallerId) -> Option<CallIdentity> {
    CallIdentity::of(&RpcCall::parse(message).ok()?, caller)
}

fn identity(xid: u32) -> CallIdentity {
    identity_of(HERE, xid)
}

fn identity_of(caller: CallerId, xid: u32) -> CallIdentity {
    call_of(inline_call(xid, b"arguments"), caller).expect("a call")
}

fn at(address: &str) -> CallerId {
    CallerId::Address(address.parse().expect("a valid address"))
}

fn reply(len: usize) -> Message {
    Message::unreduced(vec![0x55; len].into())
}

fn limits() -> DuplicateLimits {
    DuplicateLimits {
        max_entries: 3,
        max_running: 1000,
        max_bytes: 100,
        max_reply: 60,
        lifetime: Duration::from_secs(10),
        ..DuplicateLimits::default()
    }
}

struct Cache {
    table: Duplicates<u32>,
    now: Duration,
    next: u32,
}

impl Cache {
    fn new(limits: DuplicateLimits) -> Self {
        Cache { table: Duplicates::new(limits), now: START, next: 0 }
    }

    fn begin(&mut self, call: CallIdentity) -> CacheLookup<u32> {
        self.begin_of(call, 100)
    }

    fn begin_of(&mut self, call: CallIdentity, size: u64) -> CacheLookup<u32> {
        self.next += 1;
        self.table.begin(call, size, self.next, self.now)
    }

    fn run(&mut self, xid: u32) -> Ticket {
        self.run_of(HERE, xid)
    }

    fn run_of(&mut self, caller: CallerId, xid: u32) -> Ticket {
        match self.begin(identity_of(caller, xid)) {
            CacheLookup::Run(ticket) => ticket,
            other => panic!("call {xid} is not new: {other:?}"),
        }
    }

    fn finish(&mut self, ticket: Ticket, reply: Option<&Message>) -> Vec<u32> {
        self.table.finish(ticket, reply, self.now)
    }

    fn answer(&mut self, xid: u32, len: usize) {
        self.answer_to(HERE, xid, len);
    }

    fn answer_to(&mut self, caller: CallerId, xid: u32, len: usize) {
        let ticket = self.run_of(caller, xid);
        assert_eq!(self.finish(ticket, Some(&reply(len))), [self.next]);
    }

    /// Returns the length of the cached reply. If no reply is cached, ends the call without a reply and
    /// returns `None`.
    fn lookup(&mut self, xid: u32) -> Option<usize> {
        self.lookup_of(HERE, xid)
    }

    fn lookup_of(&mut self, caller: CallerId, xid: u32) -> Option<usize> {
        match self.begin(identity_of(caller, xid)) {
            CacheLookup::Cached(_, reply) => Some(reply.stream.len()),
            CacheLookup::Run(ticket) => {
                self.finish(ticket, None);
                None
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn answered_calls_are_replayed() {
    let mut cache = Cache::new(limits());
    let ticket = cache.run(1);
    let item = Item { position: 28, data: Bytes::from_static(b"item") };
    let given = Message { stream: vec![1; 28].into(), items: vec![item] };
    assert_eq!(cache.finish(ticket, Some(&given)), [1]);
    let CacheLookup::Cached(2, again) = cache.begin(identity(1)) else { panic!("expected a cached reply") };
    assert_eq!(again, given);
    assert_eq!((cache.table.cached_replies(), cache.table.running()), (1, 0));
}

#[test]
fn a_cached_reply_retains_only_its_own_bytes() {
    let mut cache = Cache::new(DuplicateLimits { max_bytes: 1000, ..limits() });
    let ticket = cache.run(1);
    let (stream, file) = (Bytes::from(vec![1; 1 << 20]), Bytes::from(vec![2; 1 << 20]));
    let item = |at: usize| Item { position: 8, data: file.slice(at..at + 4) };
    let given = Message { stream: stream.slice(..28), items: vec![item(0), item(1000)] };
    cache.finish(ticket, Some(&given));
    let CacheLookup::Cached(_, again) = cache.begin(identity(1)) else { panic!("expected a cached reply") };
    assert_eq!(again, given);
    drop(given);
    assert!(stream.is_unique() && file.is_unique(), "the cache must not retain the original buffers");
    assert_eq!(cache.table.bytes(), 28 + 2 * (4 + size_of::<Item>()));
}

#[test]
fn waiters_of_a_running_call_get_the_reply_in_order() {
    let mut cache = Cache::new(limits());
    let ticket = cache.run(1);
    assert!(matches!(cache.begin(identity(1)), CacheLookup::Joined { left: None }));
    assert!(matches!(cache.begin(identity(1)), CacheLookup::Joined { left: None }));
    assert_eq!(cache.finish(ticket, None), [1, 2, 3]);
    assert_eq!(cache.lookup(1), None, "a call that ended without a reply runs again");
}

#[test]
fn beyond_the_limit_the_oldest_waiter_leaves() {
    let mut cache = Cache::new(limits());
    let ticket = cache.run(1);
    for _ in 1..WAITERS {
        assert!(matches!(cache.begin(identity(1)), CacheLookup::Joined { left: None }));
    }
    assert!(matches!(cache.begin(identity(1)), CacheLookup::Joined { left: Some(1) }));
    let waited: Vec<u32> = (2..).take(WAITERS).collect();
    assert_eq!(cache.finish(ticket, None), waited);
}

#[test]
fn entries_are_bounded_and_the_least_recently_used_is_evicted() {
    let mut cache = Cache::new(limits());
    (1..=3).for_each(|xid| cache.answer(xid, 10));
    assert_eq!(cache.lookup(1), Some(10), "this lookup makes reply 1 the most recently used");
    cache.answer(4, 10);
    assert_eq!(cache.table.cached_replies(), 3);
    assert_eq!((cache.lookup(1), cache.lookup(3), cache.lookup(4)), (Some(10), Some(10), Some(10)));
    assert_eq!(cache.lookup(2), None);
}

#[test]
fn running_calls_are_never_evicted_and_calls_beyond_the_limit_are_uncached() {
    let mut cache = Cache::new(limits());
    let running = [cache.run(1), cache.run(2), cache.run(3)];
    assert!(matches!(cache.begin(identity(4)), CacheLookup::Uncached(4)));
    assert!(matches!(cache.begin(identity(2)), CacheLookup::Joined { .. }));
    for ticket in running {
        cache.finish(ticket, Some(&reply(10)));
    }
    assert_eq!((1..=3).map(|xid| cache.lookup(xid)).collect::<Vec<_>>(), [Some(10); 3]);
    assert!(matches!(cache.begin(identity(4)), CacheLookup::Run(_)));
}

/// The arguments of running calls are retained even after their connections close.
#[test]
fn running_calls_have_a_limit_in_bytes() {
    let mut cache = Cache::new(limits());
    let CacheLookup::Run(first) = cache.begin_of(identity(1), 600) else { panic!("expected a new call") };
    let CacheLookup::Run(second) = cache.begin_of(identity(2), 400) else { panic!("expected a new call") };
    assert_eq!(cache.table.running_bytes(), 1000);
    assert!(matches!(cache.begin_of(identity(3), 1), CacheLookup::Uncached(3)));
    assert!(matches!(cache.begin_of(identity(2), 400), CacheLookup::Joined { .. }), "a duplicate");
    cache.finish(second, None);
    let CacheLookup::Run(third) = cache.begin_of(identity(3), 400) else { panic!("expected a new call") };
    cache.finish(first, Some(&reply(10)));
    cache.finish(third, Some(&reply(10)));
    assert_eq!((cache.table.running(), cache.table.running_bytes()), (0, 0));
    assert_eq!((cache.lookup(1), cache.lookup(3)), (Some(10), Some(10)));
    assert!(matches!(cache.begin_of(identity(4), 1001), CacheLookup::Uncached(_)));
}

#[test]
fn cached_bytes_are_bounded() {
    let mut cache = Cache::new(limits());
    cache.answer(1, 50);
    cache.answer(2, 50);
    assert_eq!((cache.lookup(1), cache.lookup(2), cache.table.bytes()), (Some(50), Some(50), 100));
    cache.answer(3, 1);
    assert_eq!((cache.lookup(1), cache.lookup(2), cache.lookup(3)), (None, Some(50), Some(1)));
    assert_eq!(cache.table.bytes(), 51);
}

/// Neither many calls nor long replies of one caller evict the replies to callers that use less of the cache.
#[test]
fn the_caller_with_the_most_entries_is_evicted() {
    let (few, many) = (at("10.0.0.1"), at("10.0.0.2"));
    let mut cache =
        Cache::new(DuplicateLimits { max_entries: 8, max_bytes: 1000, max_reply: 1000, ..limits() });
    (1..=2).for_each(|xid| cache.answer_to(few, xid, 10));
    (1..=100).for_each(|xid| cache.answer_to(many, xid, 10));
    assert_eq!(cache.table.cached_replies(), 8);
    let all = |cache: &mut Cache, caller, xids: &[u32], len| {
        xids.iter()
            .for_each(|xid| assert_eq!(cache.lookup_of(caller, *xid), Some(len), "{xid} of {caller:?}"));
    };
    all(&mut cache, few, &[1, 2], 10);
    all(&mut cache, many, &[95, 96, 97, 98, 99, 100], 10);
    // A later caller also gets a share.
    let late = at("10.0.0.3");
    (1..=3).for_each(|xid| cache.answer_to(late, xid, 10));
    assert_eq!(cache.table.cached_replies(), 8);
    all(&mut cache, few, &[1, 2], 10);
    all(&mut cache, late, &[1, 2, 3], 10);
    all(&mut cache, many, &[98, 99, 100], 10);
    (101..=110).for_each(|xid| cache.answer_to(many, xid, 300));
    assert_eq!((cache.table.cached_replies(), cache.table.bytes()), (8, 950));
    all(&mut cache, few, &[1, 2], 10);
    all(&mut cache, late, &[1, 2, 3], 10);
    all(&mut cache, many, &[108, 109, 110], 300);
}

/// A running call cannot be evicted, so it counts toward the caller's share from its start.
#[test]
fn a_caller_beyond_its_share_of_running_calls_is_uncached() {
    let (few, many) = (at("10.0.0.1"), at("10.0.0.2"));
    let mut cache = Cache::new(limits());
    cache.answer_to(few, 1, 10);
    let running = [cache.run_of(many, 1), cache.run_of(many, 2)];
    assert!(matches!(cache.begin(identity_of(many, 3)), CacheLookup::Uncached(_)));
    assert_eq!(cache.lookup_of(few, 1), Some(10));
    for ticket in running {
        cache.finish(ticket, Some(&reply(10)));
    }
    let late = at("10.0.0.3");
    cache.answer_to(late, 1, 10);
    assert_eq!([few, late].map(|caller| cache.lookup_of(caller, 1)), [Some(10); 2]);
    assert_eq!(cache.lookup_of(many, 2), Some(10));
    assert_eq!(cache.table.cached_replies(), 3);
}

/// If the cached replies exceed `max_bytes`, the caller with the most cached bytes loses a reply. If a new
/// reply is this caller's only reply, the new reply is evicted.
#[test]
fn with_equal_shares_the_least_recently_used_is_evicted() {
    let callers = ["10.0.0.3", "10.0.0.1", "10.0.0.2"].map(at);
    let mut cache = Cache::new(limits());
    callers.iter().for_each(|caller| cache.answer_to(*caller, 1, 30));
    assert_eq!(cache.lookup_of(callers[0], 1), Some(30));
    cache.answer_to(at("10.0.0.4"), 1, 10);
    assert_eq!(cache.lookup_of(at("10.0.0.4"), 1), Some(10));
    assert_eq!([callers[0], callers[2]].map(|caller| cache.lookup_of(caller, 1)), [Some(30); 2]);
    assert_eq!(cache.table.cached_replies(), 3);
    cache.answer_to(at("10.0.0.5"), 1, 60);
    assert_eq!(
        (cache.table.cached_replies(), cache.table.bytes()),
        (2, 60),
        "the caller with the most bytes loses its reply"
    );
    assert_eq!([callers[0], callers[2]].map(|caller| cache.lookup_of(caller, 1)), [Some(30); 2]);
}

#[test]
fn an_ipv6_network_has_one_share() {
    let same_network = ["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3"].map(at);
    let others = [at("2001:db8:0:2::1"), at("::ffff:10.0.0.1"), at("::ffff:10.0.0.2")];
    let mut cache = Cache::new(DuplicateLimits { max_entries: 5, ..limits() });
    others.iter().for_each(|caller| cache.answer_to(*caller, 1, 1));
    same_network.iter().for_each(|caller| cache.answer_to(*caller, 1, 1));
    assert_eq!(others.map(|caller| cache.lookup_of(caller, 1)), [Some(1); 3]);
    assert_eq!([same_network[1], same_network[2]].map(|caller| cache.lookup_of(caller, 1)), [Some(1); 2]);
    assert_eq!(cache.table.cached_replies(), 5);
}

#[test]
fn a_cache_that_shrinks_evicts_replies() {
    let mut cache = Cache::new(limits());
    (1..=3).for_each(|xid| cache.answer(xid, 20));
    cache.table.set_limits(DuplicateLimits { max_entries: 2, ..limits() });
    assert_eq!((cache.table.cached_replies(), cache.table.bytes()), (2, 40));
    cache.table.set_limits(DuplicateLimits { max_bytes: 20, ..limits() });
    assert_eq!((cache.table.cached_replies(), cache.table.bytes()), (1, 20));
    assert_eq!(cache.lookup(3), Some(20), "the latest reply stays cached");
}

#[test]
fn long_replies_are_not_cached() {
    let mut cache = Cache::new(limits());
    cache.answer(1, 60);
    cache.answer(2, 61);
    assert_eq!((cache.lookup(1), cache.lookup(2)), (Some(60), None));
    let mut tight = Cache::new(DuplicateLimits { max_bytes: 50, ..limits() });
    tight.answer(1, 50);
    tight.answer(2, 51);
    assert_eq!(
        (tight.lookup(1), tight.lookup(2)),
        (Some(50), None),
        "a reply above `max_bytes` evicts no other reply"
    );
}

#[test]
fn a_reply_expires_after_its_lifetime_without_use() {
    let mut cache = Cache::new(limits());
    cache.answer(1, 10);
    cache.now += Duration::from_millis(9999);
    assert_eq!(cache.lookup(1), Some(10));
    cache.now += Duration::from_millis(9999);
    assert_eq!(cache.lookup(1), Some(10));
    cache.now += Duration::from_secs(10);
    assert_eq!(cache.lookup(1), None);
    assert_eq!((cache.table.cached_replies(), cache.table.bytes()), (0, 0));
}

#[test]
fn a_cache_of_size_zero_stores_no_replies() {
    let mut cache = Cache::new(DuplicateLimits { max_entries: 0, ..limits() });
    assert!(matches!(cache.begin(identity(1)), CacheLookup::Uncached(1)));
    let mut without_bytes = Cache::new(DuplicateLimits { max_bytes: 0, ..limits() });
    without_bytes.answer(1, 1);
    assert_eq!(without_bytes.lookup(1), None);
}

#[test]
fn a_reused_xid_does_not_match_another_call() {
    let machine = |name: &str| Credential::Sys(AuthSys { machine_name: name.into(), ..AuthSys::default() });
    let of = |message: Message| call_of(Received::unreduced(message.flatten()), HERE).expect("a call");
    let call = of(reduced(1, machine("a"), b"data"));
    assert_eq!(call, of(reduced(1, machine("a"), b"data")));
    for (what, other) in [
        ("another XID", of(reduced(2, machine("a"), b"data"))),
        ("other arguments", of(reduced(1, machine("a"), b"datb"))),
        ("longer arguments", of(reduced(1, machine("a"), b"data\0\0\0\0"))),
        ("another machine", of(reduced(1, machine("b"), b"data"))),
    ] {
        assert_ne!(call, other, "{what}");
    }
    let flat = Received::unreduced(reduced(1, machine("a"), b"data").flatten());
    let there = CallerId::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    for elsewhere in [there, CallerId::Connection(0), CallerId::Connection(1)] {
        assert_ne!(call, call_of(flat.clone(), elsewhere).expect("a call"), "{elsewhere:?}");
    }
    for (word, what) in [(3, "another program"), (4, "another version"), (5, "another procedure")] {
        let mut other = flat.stream.to_vec();
        other[word * 4 + 3] ^= 1;
        assert_ne!(Some(&call), call_of(Received::unreduced(other.into()), HERE).as_ref(), "{what}");
    }
}

#[test]
fn a_call_matches_inline_and_in_chunks() {
    for len in [1usize, 3, 4, 5, 900, 1021, 1022, 5000] {
        let data: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).expect("small")).collect();
        let message = reduced(1, Credential::None, &data);
        let inline = call_of(Received::unreduced(message.flatten()), HERE);
        let chunks = |items| Received { stream: message.stream.clone(), items: Placed::Positioned(items) };
        assert_eq!(inline, call_of(chunks(message.items.clone()), HERE), "{len}");
        // A Read chunk may contain the XDR padding of its item.
        let mut padded = data.clone();
        padded.resize(len.next_multiple_of(4), 0);
        let item = Item { position: message.items[0].position, data: padded.into() };
        assert_eq!(inline, call_of(chunks(vec![item]), HERE), "{len} with padding");
    }
}

/// Requirement: H78
#[test]
fn only_the_first_bytes_and_the_length_are_compared() {
    let call = inline_call(1, &[0; 4000]).stream;
    let changed = |at: usize| {
        let mut bytes = call.to_vec();
        bytes[at] ^= 1;
        call_of(Received::unreduced(bytes.into()), HERE)
    };
    let same = call_of(Received::unreduced(call.clone()), HERE);
    assert_ne!(same, changed(CallIdentity::PREFIX - 1));
    assert_eq!(same, changed(CallIdentity::PREFIX));
    // Each call is compared with a call that is 4 bytes shorter. The lengths are above, at and below
    // `CallIdentity::PREFIX`.
    for len in [call.len() - 4, CallIdentity::PREFIX + 4, CallIdentity::PREFIX - 8] {
        let of = |len| call_of(Received::unreduced(call.slice(..len)), HERE).expect("a call");
        assert_ne!(of(len), of(len - 4), "{len} bytes");
    }
}

/// The two differing bits are less than 16 bytes apart, anywhere in the last 64 bytes of the call.
///
/// Requirement: H78
#[test]
fn calls_that_differ_in_two_bits_do_not_match() {
    let call = inline_call(1, &[0; 64]).stream;
    let mut seen = std::collections::HashSet::new();
    let first = call.len() - 64;
    let of = |bits: &[usize]| {
        let mut bytes = call.to_vec();
        bits.iter().for_each(|bit| bytes[first + bit / 8] ^= 0x80 >> (bit % 8));
        call_of(Received::unreduced(bytes.into()), HERE).expect("a call")
    };
    assert!(seen.insert(of(&[])));
    for one in 0..64 * 8 {
        assert!(seen.insert(of(&[one])), "{one}");
        for other in (one + 1..64 * 8).take(127) {
            assert!(seen.insert(of(&[one, other])), "{one} {other}");
        }
    }
}

#[test]
fn other_messages_and_unknown_flavors_bypass_the_cache() {
    let of = |bytes: &[u8]| call_of(Received::unreduced(Bytes::copy_from_slice(bytes)), HERE);
    let call = inline_call(1, b"").stream;
    assert!(of(&call).is_some());
    for len in 0..28 {
        assert_eq!(of(&call[..len]), None, "{len} bytes");
    }
    for (at, what) in [(7, "a reply"), (11, "another version of RPC")] {
        let mut other = call.to_vec();
        other[at] ^= 1;
        assert_eq!(of(&other), None, "{what}");
    }
    let of_flavor = |flavor, body: &'static [u8]| {
        of(&reduced(1, Credential::Other { flavor, body: Bytes::from_static(body) }, b"").flatten())
    };
    assert_eq!(of_flavor(390_003, &[0; 20]), None);
    // In RPCSEC_GSS, a different sequence number identifies a different call.
    let number = |last| of_flavor(6, last).expect("a call");
    assert_eq!(number(&[0, 0, 0, 7]), number(&[0, 0, 0, 7]));
    assert_ne!(number(&[0, 0, 0, 7]), number(&[0, 0, 0, 8]));
}
