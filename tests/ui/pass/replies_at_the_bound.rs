//! Reply bounds and numbers of items at the limits of their valid ranges.

use rpcrdma_runtime::program::{Binding, Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::xdr::{Opaque, Size, Xdr};
use rpcrdma_runtime::{CallError, Client};

struct Store;

impl Program for Store {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "STORE_V1";
    const PROCEDURES: &'static [(u32, &'static str)] =
        &[(1, "GET"), (2, "ALBUM"), (3, "PAGE"), (4, "LIST"), (5, "ROLL")];
}

impl Binding for Store {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &["rdma"];
}

#[derive(Xdr)]
struct Photo {
    #[ddp_eligible]
    pixels: Opaque<5000>,
}

macro_rules! procedure {
    ($name:ident, $number:literal, $result:ty $(, $constant:item)*) => {
        struct $name;

        impl Procedure for $name {
            type Program = Store;
            type Args = u32;
            type Res = $result;
            const NUMBER: u32 = $number;
            const NAME: &'static str = stringify!($name);
            $($constant)*
        }
    };
}

// `MAX_REPLY` equals the maximum size of the result: a length word and 1000 bytes of data.
procedure!(
    Get,
    1,
    Opaque<1000>,
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Opaque<1000>>().with_unreduced(1004);
);
// The number of items equals the maximum number of Write chunks that a call offers.
procedure!(
    Album,
    2,
    [Photo; 16],
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<[Photo; 16]>().with_item(5000);
);
// `EXCESS_ITEMS` allows the 17th item to stay in the reply.
procedure!(Page, 3, [Photo; 17], const EXCESS_ITEMS: bool = true;);
// The result type has no bound, so a small `MAX_REPLY` is valid.
procedure!(List, 4, Vec<u32>, const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Vec<u32>>().with_unreduced(8););
procedure!(
    Roll,
    5,
    Vec<Photo>,
    const MAX_REPLY: ReplyBounds =
        ReplyBounds { items: Size::Bounded(16), ..ReplyBounds::of::<Vec<Photo>>().with_reduced(1000) };
);

type Call<Q> =
    Box<dyn Fn(&'static Client) -> Box<dyn Future<Output = Result<<Q as Procedure>::Res, CallError>>>>;

fn call<Q: Procedure<Program = Store, Args = u32>>() -> Call<Q> {
    Box::new(|client| Box::new(client.call::<Q>(&7)))
}

fn main() {
    assert_eq!(Get::reply_bounds(&7).unreduced, Size::Bounded(1004));
    assert_eq!(List::reply_bounds(&7).unreduced, Size::Bounded(8));
    assert_eq!(Roll::reply_bounds(&7).items, Size::Bounded(16));
    drop((call::<Get>(), call::<Album>(), call::<Page>(), call::<List>(), call::<Roll>()));
}
