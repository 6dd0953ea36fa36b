//! Fields whose names in error messages differ from their Rust names.

use rpcrdma_runtime::xdr::{SmallOpaque, Xdr, from_slice, to_bytes};

#[derive(Xdr)]
struct Lookup {
    #[xdr(name = "what.dir")]
    directory: SmallOpaque<64>,
    #[xdr(name = "what.names", max = 1)]
    names: Vec<u32>,
}

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Found(#[xdr(name = "resok")] Lookup),
    #[xdr(case = 1)]
    Lost(bool),
}

fn main() {
    let error = |bytes: &[u8]| from_slice::<Reply>(bytes).map(|_| ()).unwrap_err().to_string();
    let found = error(&[0, 0, 0, 0, 0, 0, 0, 65]);
    assert!(found.starts_with("at resok.what.dir, "), "{found}");
    let lost = error(&[0, 0, 0, 1, 0, 0, 0, 2]);
    assert!(lost.starts_with("at Lost, "), "{lost}");
    let long = Lookup { directory: SmallOpaque::default(), names: vec![1, 2] };
    assert!(to_bytes(&long).unwrap_err().to_string().starts_with("at what.names, "));
}
