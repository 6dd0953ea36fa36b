//! No code: the benchmarks are `--bench codec` and `--bench transport`, which need the feature `peers`.
