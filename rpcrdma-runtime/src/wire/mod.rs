//! The formats as values, without state.

pub mod rdma;
