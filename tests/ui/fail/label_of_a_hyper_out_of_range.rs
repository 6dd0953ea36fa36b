use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "i64")]
enum Signed {
    #[xdr(case = 9223372036854775808)]
    Above,
    #[xdr(case = -9223372036854775809)]
    Below,
}

#[derive(Xdr)]
#[xdr(union = "u64")]
enum Unsigned {
    #[xdr(case = 18446744073709551616)]
    Above,
}

fn main() {}
