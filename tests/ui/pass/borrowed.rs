//! Structs and unions that borrow from the decoded message, with one or more lifetimes and with a type
//! parameter.

use rpcrdma_runtime::xdr::{self, ArrayRef, BoxRef, ListRef, OpaqueRef, StringRef, Xdr};

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct Unit<'a>(OpaqueRef<'a, 8>);

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Both<'a, 'b, T> {
    handle: OpaqueRef<'a, 64>,
    #[xdr(max = 255)]
    name: &'b str,
    value: T,
    units: ArrayRef<'a, Unit<'a>, 3>,
    fixed: [Unit<'b>; 2],
    maybe: Option<Unit<'a>>,
    list: ListRef<'b, Unit<'b>>,
    #[xdr(max = 2)]
    owned: Vec<Unit<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
#[xdr(union = "i32")]
enum Expression<'a> {
    #[xdr(case = 0)]
    Text(StringRef<'a>),
    #[xdr(case = 1, case = 2)]
    Unary(i32, BoxRef<'a, Expression<'a>>),
    #[xdr(default)]
    Many(i32, ArrayRef<'a, Expression<'a>>),
}

fn main() {
    let bytes = [1, 2, 3];
    let unit = Unit(OpaqueRef::from(&bytes));
    let units = [unit; 2];
    let both = Both {
        handle: (&bytes).into(),
        name: "name",
        value: 7u64,
        units: ArrayRef::new(&units),
        fixed: [unit; 2],
        maybe: Some(unit),
        list: ListRef::new(&units),
        owned: vec![unit],
    };
    let encoded = xdr::to_bytes(&both).unwrap();
    assert_eq!(xdr::from_slice::<Both<'_, '_, u64>>(&encoded).unwrap(), both);

    let text = Expression::Text("x".into());
    let several = [text, Expression::Unary(2, (&text).into())];
    let expression = Expression::Many(9, (&several).into());
    let encoded = xdr::to_bytes(&expression).unwrap();
    assert_eq!(xdr::from_slice::<Expression<'_>>(&encoded).unwrap(), expression);
}
