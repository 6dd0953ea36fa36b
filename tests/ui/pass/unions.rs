//! Unions with enum, integer and bool discriminants, labels of every form, and both ways to mark eligible
//! payloads.

use rpcrdma_runtime::xdr::{Layout, Opaque, Size, Xdr, XdrString, from_slice, to_bytes};

mod status {
    #[derive(Clone, Copy, Debug, PartialEq, rpcrdma_runtime::xdr::Xdr)]
    pub enum Status {
        Ok,
        Stale = 70,
        Worst = -1,
    }
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "status::Status")]
enum Read {
    #[xdr(case = "status::Status::Ok")]
    #[ddp_eligible]
    Data(Opaque),
    #[xdr(default)]
    Failed(status::Status),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "i32")]
enum Link {
    #[xdr(case = -5)]
    Below(#[ddp_eligible] XdrString<1024>),
    #[xdr(case = "LIMIT")]
    Limit,
    #[xdr(case = 0x10, case = 17)]
    Several(i32),
    #[xdr(default)]
    Other(i32, u64),
}

const LIMIT: i32 = 9;

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "bool")]
enum Attributes {
    #[xdr(case = true)]
    Known(#[xdr(max = 2)] Vec<u32>),
    #[xdr(case = false)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "i64")]
enum Signed {
    #[xdr(case = -5_000_000_000)]
    Below,
    #[xdr(case = "FAR")]
    Far(u32),
    #[xdr(default)]
    Other(i64, u32),
}

const FAR: i64 = i64::MAX;

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u64")]
enum Unsigned {
    #[xdr(case = 0xffff_ffff_ffff_fffe, case = 1)]
    Few(u64, bool),
    #[xdr(case = 4_294_967_296)]
    Large,
}

type Wide = i64;

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "Wide")]
enum ByAlias {
    #[xdr(case = -5_000_000_000)]
    Below,
    #[xdr(case = -1)]
    Minus,
    #[xdr(case = 5_000_000_000)]
    Above(u32),
}

/// An expression tree: a value, a negation or a sum.
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Expression {
    #[xdr(case = 0)]
    Value(u32),
    #[xdr(case = 1)]
    Negated(Box<Expression>),
    #[xdr(case = 2)]
    Sum(#[xdr(list)] Vec<Expression>),
}

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: T) {
    let bytes = to_bytes(&value).unwrap();
    assert_eq!(from_slice::<T>(&bytes).unwrap(), value);
}

fn main() {
    same(Read::Data(vec![1; 9].into()));
    same(Read::Failed(status::Status::Worst));
    same(Link::Below("target".into()));
    same(Link::Limit);
    same(Link::Several(17));
    same(Link::Other(0, 1));
    same(Attributes::Known(vec![1, 2]));
    same(Attributes::Unknown);
    for value in [Signed::Below, Signed::Far(1), Signed::Other(0, 2)] {
        same(value);
    }
    same(Unsigned::Few(u64::MAX - 1, true));
    same(Unsigned::Large);
    for value in [ByAlias::Below, ByAlias::Minus, ByAlias::Above(3)] {
        same(value);
    }
    assert_eq!(to_bytes(&ByAlias::Below).unwrap()[..], (-5_000_000_000i64).to_be_bytes());
    assert_eq!(Signed::LENGTHS.max, Size::Bounded(12));
    assert_eq!(
        from_slice::<Unsigned>(&[0xff; 8]).unwrap_err().to_string(),
        "byte 0: Unsigned has no arm for 18446744073709551615"
    );
    same(Expression::Sum(vec![Expression::Value(1), Expression::Negated(Box::new(Expression::Value(2)))]));
    assert_eq!(<Read as Layout>::LENGTHS.max_reduced, Size::Bounded(8));
    assert_eq!(<Link as Layout>::HELD.largest, Size::Bounded(1024));
    assert_eq!(<Attributes as Layout>::LENGTHS.max, Size::Bounded(4 + 4 + 8));
}
