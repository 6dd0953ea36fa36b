/// Defines a struct of `u64` counters, each with a label for [`Display`](core::fmt::Display). `Display` omits
/// counters that are 0, and prints `nothing` if all are 0.
macro_rules! counts {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// The number of counters.
            pub const LEN: usize = [$($label),*].len();

            /// The names of the counters in declaration order.
            pub const NAMES: [&'static str; Self::LEN] = [$(stringify!($field)),*];

            /// Returns the counters in declaration order.
            #[must_use]
            pub fn to_array(self) -> [u64; Self::LEN] {
                [$(self.$field),*]
            }

            /// Adds `other` to these counters, saturating.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Builds the counters from values in declaration order.
            #[must_use]
            pub fn from_array(counts: [u64; Self::LEN]) -> Self {
                let [$($field),*] = counts;
                $name { $($field),* }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut written = false;
                for (count, label) in self.to_array().into_iter().zip([$($label),*]) {
                    if count > 0 {
                        write!(f, "{}{count} {label}", if written { ", " } else { "" })?;
                        written = true;
                    }
                }
                if written { Ok(()) } else { f.write_str("nothing") }
            }
        }
    };
}

pub(crate) use counts;
