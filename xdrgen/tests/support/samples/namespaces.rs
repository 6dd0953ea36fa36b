//! Types with the same name in different namespaces.

use emitted::namespaces::{a, b, namespaces};
use rpcrdma_runtime::program::{Procedure, Program};
use rpcrdma_runtime::xdr::{from_slice, to_bytes};

#[test]
fn names_are_those_of_their_namespaces() {
    let (own, other) = (a::Key { id: [1, 2] }, b::Key { id: 3, other: a::Key { id: [4, 5] } });
    let key = namespaces::Key { inner: other, outer: own };
    assert_eq!(from_slice::<namespaces::Key>(&to_bytes(&key).unwrap()).unwrap(), key);
    let found = b::Found::Ok(vec![own; 2]);
    assert_eq!(from_slice::<b::Found>(&to_bytes(&found).unwrap()).unwrap(), found);
    assert!(to_bytes(&b::Found::Ok(vec![own; 3])).is_err() && to_bytes(&a::Keys(vec![own; 3])).is_err());
    let both = b::Both {
        mine: b::Status::Moved,
        theirs: a::Status::Lost,
        data: (&[1, 2, 3][..]).try_into().unwrap(),
        text: "ab".into(),
        id: [1, 2],
    };
    assert_eq!(from_slice::<b::Both>(&to_bytes(&both).unwrap()).unwrap(), both);
    assert_eq!((a::LIMIT, b::LIMIT), (2, 3));
    assert_eq!((a::store_v1::StoreV1::NUMBER, b::store_v1::StoreV1::NUMBER), (300, 301));
    assert_eq!(a::store_v1::StoreV1::PROGRAM_NAME, "STORE");
    assert_eq!(<b::store_v1::proc::Find as Procedure>::NUMBER, 1);
}
