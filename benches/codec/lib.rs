//! This library is empty. The benchmarks are `--bench codec` and `--bench transport`, which need the feature
//! `peers`.
