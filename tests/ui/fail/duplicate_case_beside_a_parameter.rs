use rpcrdma_runtime::xdr::Xdr;

mod kinds {
    #[derive(Clone, PartialEq, Eq, rpcrdma_runtime::xdr::Xdr)]
    pub enum T {
        One = 1,
        Two = 2,
    }
}

const FIRST: kinds::T = kinds::T::One;

#[derive(Xdr)]
#[xdr(union = "kinds::T")]
enum Part<T> {
    #[xdr(case = "kinds::T::One")]
    One(T),
    #[xdr(case = "FIRST")]
    First,
    #[xdr(case = "kinds::T::Two")]
    Two,
}

fn main() {}
