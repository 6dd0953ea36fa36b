use rpcrdma_runtime::xdr::{self, Error, StringRef, Xdr};

#[derive(Xdr)]
struct Name<'a> {
    name: StringRef<'a>,
}

fn read() -> Result<Name<'static>, Error> {
    let message = vec![0u8; 4];
    xdr::from_slice(&message)
}

fn main() {
    let _ = read().map(|name| name.name.len());
}
