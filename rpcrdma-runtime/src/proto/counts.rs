//! Counts as plain numbers: what an engine has counted since somebody last took it.

/// A struct of counts: each a `u64` with a few words for [`Display`](core::fmt::Display), which leaves out those that are 0.
macro_rules! counts {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// How many counts there are.
            pub const LEN: usize = [$($label),*].len();

            /// The counts in their order.
            #[must_use]
            pub fn to_array(self) -> [u64; Self::LEN] {
                [$(self.$field),*]
            }

            /// Adds others to these.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// The same back from their order.
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
