//! User types with the names of standard library types.

use rpcrdma_runtime::xdr::{Layout, Size, Xdr, from_slice, to_bytes};

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Vec {
    len: u32,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Box {
    left: Vec,
    right: Vec,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct String {
    #[xdr(max = 4)]
    words: std::vec::Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
enum Option {
    None = 0,
    Some = 1,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "Option")]
enum Result {
    #[xdr(case = "Option::None")]
    Ok(String),
    #[xdr(default)]
    Err(Option, Box),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct All {
    vec: Vec,
    boxed: Box,
    string: String,
    option: Option,
    result: Result,
    #[xdr(max = 2)]
    vecs: std::vec::Vec<Vec>,
    #[xdr(list)]
    strings: std::vec::Vec<String>,
    maybe: std::option::Option<Option>,
    pair: [Box; 2],
    next: std::option::Option<std::boxed::Box<All>>,
}

fn main() {
    let (vec, string) = (Vec { len: 1 }, String { words: vec![1, 2] });
    let boxed = Box { left: vec.clone(), right: vec.clone() };
    let all = All {
        vec: vec.clone(),
        boxed: boxed.clone(),
        string: string.clone(),
        option: Option::Some,
        result: Result::Err(Option::Some, boxed.clone()),
        vecs: vec![vec],
        strings: vec![string],
        maybe: std::option::Option::Some(Option::None),
        pair: [boxed.clone(), boxed],
        next: std::option::Option::None,
    };
    assert_eq!(from_slice::<All>(&to_bytes(&all).unwrap()).unwrap(), all);
    assert_eq!(String::LENGTHS.max, Size::Bounded(4 + 16));
    assert_eq!(Result::LENGTHS.max, Size::Bounded(4 + 20));
}
