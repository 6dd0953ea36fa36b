//! Structs and unions nested without a `Box`, deeper than in real documents. They compile in reasonable time
//! only if the code of an encoder grows linearly with the number of fields, not exponentially with the depth.
//! Their encoding is the same for every sink.

#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/plain.rs"]
mod plain;

use bytes::Bytes;
use rpcrdma_runtime::xdr::{Sink, Writer, Xdr, XdrString, encoded_len, from_bytes, to_bytes};

use plain::Plain;

/// Declares a struct for each name. Each struct contains the next struct without a `Box`. The last struct
/// contains a value of the type `$last`.
macro_rules! nested {
    ($(#[$mark:meta])? $last:ty: $name:ident) => {
        #[derive(Clone, Debug, PartialEq, Xdr)]
        pub(super) struct $name {
            pub(super) level: u32,
            $(#[$mark])?
            pub(super) next: $last,
        }
    };
    ($(#[$mark:meta])? $last:ty: $name:ident $next:ident $($rest:ident)*) => {
        #[derive(Clone, Debug, PartialEq, Xdr)]
        pub(super) struct $name {
            pub(super) level: u32,
            pub(super) next: $next,
        }
        nested!($(#[$mark])? $last: $next $($rest)*);
    };
}

/// Creates a value of the first named struct. `$level` is the level of this struct.
macro_rules! value {
    ($level:expr, $last:expr, $module:ident: $name:ident) => {
        $module::$name { level: $level, next: $last }
    };
    ($level:expr, $last:expr, $module:ident: $name:ident $($rest:ident)+) => {
        $module::$name { level: $level, next: value!($level + 1, $last, $module: $($rest)+) }
    };
}

/// Passes twenty-four names to a macro.
macro_rules! levels {
    ($then:ident!($($front:tt)*)) => { $then! { $($front)* A B C D E F G H I J K L M N O P Q R S T U V W X } };
}

mod fixed {
    use super::*;
    levels!(nested!([u64; 2]:));
}

/// Structs of variable size.
mod text {
    use super::*;
    levels!(nested!(XdrString<64>:));
}

/// Structs in a cycle.
mod back {
    use super::*;
    levels!(nested!(#[xdr(recursive)] Option<Box<A>>:));
}

/// Unions whose arms all contain the union of the next level.
mod arms {
    use super::*;

    macro_rules! arms {
        ($last:ty: $($name:ident)*) => { arms!(@ $($name)*); type Last = $last; };
        (@ $name:ident of $next:ty) => {
            #[derive(Clone, Debug, PartialEq, Xdr)]
            #[xdr(union = "u32")]
            pub(super) enum $name {
                #[xdr(case = 0)]
                Zero($next),
                #[xdr(case = 1)]
                One($next),
                #[xdr(case = 2)]
                Two($next),
            }
        };
        (@ $name:ident) => { arms!(@ $name of Last); };
        (@ $name:ident $next:ident $($rest:ident)*) => { arms!(@ $name of $next); arms!(@ $next $($rest)*); };
    }

    levels!(arms!(u64:));
}

/// Returns the encoded numbers of the levels, followed by the encoded words of the innermost value.
fn words(last: impl IntoIterator<Item = u32>) -> Vec<u8> {
    (0..24).chain(last).flat_map(u32::to_be_bytes).collect()
}

fn check_all_sinks<T: Xdr + PartialEq + core::fmt::Debug>(value: &T, wire: &[u8]) {
    assert_eq!(&to_bytes(value).unwrap()[..], wire);
    assert_eq!(encoded_len(value).unwrap(), wire.len() as u64);
    let mut plain = Plain(Vec::new());
    value.encode(&mut plain as &mut dyn Sink).unwrap();
    assert_eq!(plain.0, wire);
    // In the first pass the writer grows. In the second pass it overwrites the memory of the first pass.
    let mut writer = Writer::with_capacity(8);
    for _ in 0..2 {
        writer.clear();
        value.encode(&mut writer).unwrap();
        assert_eq!(writer.as_slice(), wire);
    }
    assert_eq!(&from_bytes::<T>(&Bytes::copy_from_slice(wire)).unwrap(), value);
}

#[test]
fn twenty_four_levels_of_fixed_size() {
    let value = levels!(value!(0, [7, 8], fixed:));
    check_all_sinks(&value, &words([0, 7, 0, 8]));
    // In the second pass, the elements of the array are encoded into the memory that `Sink::ahead` returns.
    check_all_sinks(
        &vec![value.clone(), value],
        &[&[0, 0, 0, 2], &words([0, 7, 0, 8])[..], &words([0, 7, 0, 8])].concat(),
    );
}

#[test]
fn twenty_four_levels_of_variable_size() {
    let value = levels!(value!(0, "XDR!".into(), text:));
    check_all_sinks(&value, &words([4, u32::from_be_bytes(*b"XDR!")]));
}

#[test]
fn twenty_four_levels_of_unions() {
    macro_rules! two {
        ($last:expr, $($name:ident)*) => { two!(@ $last, $($name)*) };
        (@ $last:expr, $name:ident $($rest:ident)*) => { arms::$name::Two(two!(@ $last, $($rest)*)) };
        (@ $last:expr,) => { $last };
    }
    let value = levels!(two!(9,));
    check_all_sinks(
        &value,
        &[[2u32; 24].map(u32::to_be_bytes).concat(), 9u64.to_be_bytes().to_vec()].concat(),
    );
}

#[test]
fn twenty_four_levels_in_a_cycle() {
    let inner = levels!(value!(0, None, back:));
    let outer = levels!(value!(0, Some(Box::new(inner)), back:));
    check_all_sinks(&outer, &[words([1]), words([0])].concat());
}
