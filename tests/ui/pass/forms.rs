//! Types defined by a macro, and types with bounds, several attributes, keywords as names, or parts removed
//! by `cfg`.

use rpcrdma_runtime::xdr::{Layout, Opaque, Size, Xdr, XdrString, from_slice, to_bytes};

/// A declarative macro passes its fragments in groups with invisible delimiters.
macro_rules! record {
    ($name:ident, $union:ident, $value:ty, $max:expr, $label:literal, $low:expr) => {
        #[derive(Clone, Debug, PartialEq, Xdr)]
        struct $name {
            value: $value,
            #[xdr(max = $max)]
            several: Vec<$value>,
            #[xdr(list)]
            chain: Vec<$value>,
        }

        #[derive(Clone, Debug, PartialEq, Xdr)]
        #[xdr(union = "i32")]
        enum $union {
            #[xdr(case = $label)]
            First($value),
            #[xdr(case = $low)]
            Low,
            #[xdr(default)]
            Other(i32, $value),
        }
    };
}

record!(Record, Choice, u64, 3, 7, -2);

const LIMIT: u32 = 2;
const SEVEN: u32 = 7;

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Attributes {
    #[cfg(any())]
    nowhere: NoSuchType,
    #[cfg(all())]
    #[xdr(max = LIMIT)]
    #[doc = "This field has several attributes."]
    here: Vec<u32>,
    #[ddp_eligible]
    #[allow(dead_code)]
    r#type: Opaque<8>,
    #[xdr(max = "LIMIT + 1")]
    r#match: Vec<Opaque<4>>,
    nested: Option<Option<XdrString<4>>>,
    deep: Vec<Vec<Option<[u16; 2]>>>,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "u32")]
enum Labels {
    #[cfg(any())]
    #[xdr(case = 1)]
    Nowhere(NoSuchType),
    #[xdr(case = 1, case = 2)]
    #[xdr(case = "SEVEN")]
    Few(u32, Option<u64>),
    #[xdr(case = "self::numbers::EIGHT")]
    Eight(Record),
    #[xdr(default)]
    r#Else(u32),
}

mod numbers {
    pub const EIGHT: u32 = 8;
}

const MANY: i64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
#[repr(i64)]
enum Sizes {
    Least = i32::MIN as i64,
    Many = MANY,
    More,
    Largest = (1 << 31) - 1,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Bounded<'a, T: Clone + 'a, const N: usize>
where
    T: core::fmt::Debug,
    [T; N]: PartialEq,
{
    fixed: [T; N],
    #[xdr(max = 5)]
    name: &'a str,
}

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: T) {
    let bytes = to_bytes(&value).unwrap();
    assert_eq!(from_slice::<T>(&bytes).unwrap(), value);
}

fn main() {
    let record = Record { value: 1, several: vec![2, 3], chain: vec![4] };
    same(record.clone());
    assert!(to_bytes(&Record { several: vec![0; 4], ..record.clone() }).is_err());
    same([Choice::First(1), Choice::Low, Choice::Other(0, 2)]);
    same(Attributes {
        here: vec![1, 2],
        r#type: vec![1].into(),
        r#match: vec![Opaque::default(); 3],
        nested: Some(Some("x".into())),
        deep: vec![vec![Some([1, 2]), None]],
    });
    assert_eq!(
        (<Attributes as Layout>::HELD.largest, <Attributes as Layout>::HELD.count),
        (Size::Bounded(8), Size::Bounded(1))
    );
    same([Labels::Few(7, Some(1)), Labels::Few(1, None), Labels::Eight(record), Labels::Else(3)]);
    assert!(to_bytes(&Labels::Else(7)).is_err() && to_bytes(&Labels::Few(8, None)).is_err());
    same([Sizes::Least, Sizes::Many, Sizes::More, Sizes::Largest]);
    assert_eq!([i32::from(Sizes::More), i32::from(Sizes::Least)], [(1 << 20) + 1, i32::MIN]);
    let bounded = Bounded { fixed: [1u32, 2], name: "names" };
    assert_eq!(from_slice::<Bounded<'_, u32, 2>>(&to_bytes(&bounded).unwrap()).unwrap(), bounded);
}
