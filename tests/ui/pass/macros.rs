//! Types that macros define from names, types, numbers and labels in their arguments.

use rpcrdma_runtime::xdr::{Layout, Opaque, Size, Xdr, from_slice, to_bytes};

macro_rules! pair {
    ($name:ident, $first:ident: $ty:ty, $second:ident) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        struct $name {
            $first: $ty,
            second: $second,
            #[xdr(max = 3)]
            some: Vec<$ty>,
            next: Option<Box<$second>>,
        }
    };
}

macro_rules! item {
    ($name:ident of $($ty:tt)*) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        struct $name {
            #[ddp_eligible]
            data: $($ty)*,
        }
    };
}

macro_rules! either {
    ($name:ident($color:literal): $red:literal => $one:ident, $green:literal => $two:ty) => {
        #[derive(Clone, Debug, PartialEq, Xdr)]
        #[xdr(union = $color)]
        enum $name {
            #[xdr(case = $red)]
            One($one),
            #[xdr(case = $green)]
            Two($two),
        }
    };
}

macro_rules! color {
    ($name:ident: $($member:ident = $value:expr),*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Xdr)]
        enum $name {
            $($member = $value),*
        }
    };
}

item!(Data of Opaque<9>);
pair!(Plain, number: u32, Data);
color!(Color: Red = 1, Green = 1 + 1);
either!(Either("Color"): "Color::Red" => Plain, "Color::Green" => Option<Data>);
either!(Number("u32"): 1 => Data, 2 => [u8; 4]);

fn same<T: Xdr + PartialEq + core::fmt::Debug>(value: &T) {
    assert_eq!(from_slice::<T>(&to_bytes(value).unwrap()).unwrap(), *value);
}

fn main() {
    assert_eq!((Plain::HELD.largest, Plain::HELD.count), (Size::Bounded(9), Size::Bounded(2)));
    let data = Data { data: b"abcde"[..].try_into().unwrap() };
    let plain = Plain { number: 1, second: data.clone(), some: vec![2, 3], next: Some(Box::new(data.clone())) };
    same(&Either::One(plain));
    same(&Either::Two(Some(data.clone())));
    same(&Number::One(data));
    same(&Number::Two([1, 2, 3, 4]));
}
