//! Both engines over the fabric: a test program, a pair of engines, and random runs of them.

mod echo;
mod pair;
mod run;

pub use echo::{Args, Echo, Res, Want, call, pattern};
pub use pair::{Pair, Settings, left_config, right_config};
pub use run::{Outcome, run};
