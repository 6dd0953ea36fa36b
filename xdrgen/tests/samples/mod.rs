//! Values of emitted types, made up from a seed, and a test that each comes back as it was.

use std::fmt::Write;

use xdrgen::ir::{Arm, Body, Field, Item, Label, Module, Type, TypeDef, Union};

/// What the tests of all modules stand on.
pub(crate) const SUPPORT: &str = r#"
#[cfg(test)]
mod sample {
    use rpcrdma_runtime::xdr::{self, Char, Opaque, Quadruple, SmallOpaque, UnsignedChar, Xdr, XdrString};

    /// Numbers from a seed. What it has to spend bounds how deep a value goes.
    pub(crate) struct Dice {
        state: u64,
        left: u32,
    }

    impl Dice {
        pub(crate) fn new(seed: u64) -> Self {
            Dice { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, left: 60 }
        }

        pub(crate) fn word(&mut self) -> u64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.state
        }

        pub(crate) fn below(&mut self, n: u64) -> u64 {
            self.word() % n.max(1)
        }

        /// How many of something; nothing once all is spent.
        pub(crate) fn count(&mut self, max: u64) -> u64 {
            let count = self.below(max.min(4) + 1).min(u64::from(self.left));
            self.left = self.left.saturating_sub(count as u32);
            count
        }

        pub(crate) fn spent(&self) -> bool {
            self.left == 0
        }

        fn bytes(&mut self, max: u64) -> Vec<u8> {
            let len = self.below(max.min(37) + 1);
            (0..len).map(|_| self.word() as u8).collect()
        }
    }

    pub(crate) trait Sample: Sized {
        fn sample(dice: &mut Dice) -> Self;
    }

    macro_rules! numbers {
        ($($type:ty),*) => { $(
            impl Sample for $type {
                fn sample(dice: &mut Dice) -> Self {
                    dice.word() as $type
                }
            }
        )* };
    }

    numbers!(i16, u16, i32, u32, i64, u64);

    impl Sample for f32 {
        fn sample(dice: &mut Dice) -> Self {
            dice.below(1000) as f32 / 8.0
        }
    }

    impl Sample for f64 {
        fn sample(dice: &mut Dice) -> Self {
            dice.below(1000) as f64 / 8.0
        }
    }

    impl Sample for bool {
        fn sample(dice: &mut Dice) -> Self {
            dice.below(2) == 1
        }
    }

    impl Sample for () {
        fn sample(_dice: &mut Dice) -> Self {}
    }

    impl Sample for Char {
        fn sample(dice: &mut Dice) -> Self {
            Char(dice.word() as i8)
        }
    }

    impl Sample for UnsignedChar {
        fn sample(dice: &mut Dice) -> Self {
            UnsignedChar(dice.word() as u8)
        }
    }

    impl Sample for Quadruple {
        fn sample(dice: &mut Dice) -> Self {
            Quadruple(Sample::sample(dice))
        }
    }

    impl<const N: usize> Sample for [u8; N] {
        fn sample(dice: &mut Dice) -> Self {
            std::array::from_fn(|_| dice.word() as u8)
        }
    }

    impl<T: Sample, const N: usize> Sample for [T; N] {
        fn sample(dice: &mut Dice) -> Self {
            std::array::from_fn(|_| T::sample(dice))
        }
    }

    impl<const N: u32> Sample for Opaque<N> {
        fn sample(dice: &mut Dice) -> Self {
            dice.bytes(u64::from(N)).into()
        }
    }

    impl<const N: u32> Sample for XdrString<N> {
        fn sample(dice: &mut Dice) -> Self {
            XdrString::new(dice.bytes(u64::from(N)).into())
        }
    }

    impl<const N: usize> Sample for SmallOpaque<N> {
        fn sample(dice: &mut Dice) -> Self {
            SmallOpaque::new(&dice.bytes(N as u64)).unwrap()
        }
    }

    impl<T: Sample> Sample for Option<T> {
        fn sample(dice: &mut Dice) -> Self {
            (dice.count(1) > 0).then(|| T::sample(dice))
        }
    }

    impl<T: Sample> Sample for Box<T> {
        fn sample(dice: &mut Dice) -> Self {
            Box::new(T::sample(dice))
        }
    }

    impl<T: Sample> Sample for Vec<T> {
        fn sample(dice: &mut Dice) -> Self {
            at_most(dice, u32::MAX)
        }
    }

    pub(crate) fn at_most<T: Sample>(dice: &mut Dice, max: u32) -> Vec<T> {
        (0..dice.count(u64::from(max))).map(|_| T::sample(dice)).collect()
    }

    pub(crate) fn check<T: Sample + Xdr + PartialEq + std::fmt::Debug>() {
        for seed in 0..24 {
            let value = T::sample(&mut Dice::new(seed));
            let bytes = xdr::to_bytes(&value).unwrap();
            let len = bytes.len() as u64;
            assert_eq!(xdr::encoded_len(&value).unwrap(), len);
            assert_eq!(len % 4, 0);
            assert!(len >= T::MIN, "{value:?}");
            assert!(T::MAX.bound().is_none_or(|max| len <= max), "{value:?}: {len} above {:?}", T::MAX);
            let back: T = xdr::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}: {value:?}"));
            assert_eq!(back, value);
            assert_eq!(xdr::to_bytes(&back).unwrap(), bytes);
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
                assert!(xdr::from_slice::<T>(&bytes[..end]).is_err(), "{value:?} cut to {end}");
            }
        }
    }
}
"#;

/// The samples of a module's types, and a test of each.
pub(crate) fn tests(module: &Module) -> String {
    let mut text = String::from(
        "#[cfg(test)]\n#[allow(clippy::all, unused_variables)]\nmod round_trips {\n    use super::*;\n    use crate::sample::{Dice, Sample, at_most, check};\n\n",
    );
    let mut checks = String::new();
    for item in &module.order {
        let Item::Type(id) = item else { continue };
        let Some(ty) = module.get(*id) else { continue };
        let _ = writeln!(checks, "        check::<{}>();", ty.ident);
        if let Some(value) = value(module, ty) {
            let _ = writeln!(
                text,
                "    impl Sample for {} {{ fn sample(dice: &mut Dice) -> Self {{ {value} }} }}",
                ty.ident
            );
        }
    }
    // What a module does not use, its test names.
    let _ = writeln!(
        text,
        "    #[test]\n    fn every_type() {{\n        let _ = at_most::<u32>;\n        check::<u32>();\n{checks}    }}\n}}"
    );
    text
}

fn value(module: &Module, ty: &TypeDef) -> Option<String> {
    let name = &ty.ident;
    Some(match &ty.body {
        Body::Alias(_) => return None,
        Body::Newtype(field) => format!("{name}({})", sample(field)),
        Body::Tuple(fields) => {
            format!("{name}({})", fields.iter().map(sample).collect::<Vec<_>>().join(", "))
        }
        Body::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.ident, sample(field))).collect();
            format!("{name} {{ {} }}", fields.join(", "))
        }
        Body::Enum(members) => {
            let all: Vec<String> = members.iter().map(|member| format!("{name}::{}", member.ident)).collect();
            format!("let all = [{}]; all[dice.below(all.len() as u64) as usize].clone()", all.join(", "))
        }
        Body::Union(union) => union_value(module, ty, union),
    })
}

fn sample(field: &Field) -> String {
    match &field.max {
        Some(max) => format!("at_most(dice, {})", max.value),
        None => "Sample::sample(dice)".to_owned(),
    }
}

/// Any arm; once all is spent, one without a payload, if there is one.
fn union_value(module: &Module, ty: &TypeDef, union: &Union) -> String {
    let arms: Vec<(bool, String)> = union
        .arms
        .iter()
        .filter_map(|arm| {
            let kept = arm.keeps_discriminant().then(|| discriminant(module, union, arm));
            if kept.as_ref().is_some_and(Option::is_none) {
                return None;
            }
            let parts: Vec<String> =
                kept.flatten().into_iter().chain(arm.payload.as_ref().map(sample)).collect();
            let parts = if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) };
            Some((arm.payload.is_none(), format!("{}::{}{parts}", ty.ident, arm.ident)))
        })
        .collect();
    let plain = arms.iter().position(|(plain, _)| *plain).unwrap_or(0);
    let mut text = format!(
        "let arm = if dice.spent() {{ {plain} }} else {{ dice.below({}) }}; match arm {{ ",
        arms.len()
    );
    for (index, (_, arm)) in arms.iter().enumerate() {
        let pattern = if index + 1 == arms.len() { "_".to_owned() } else { index.to_string() };
        let _ = write!(text, "{pattern} => {arm}, ");
    }
    text + "}"
}

/// A discriminant that chooses an arm which keeps it; none if all values choose other arms.
fn discriminant(module: &Module, union: &Union, arm: &Arm) -> Option<String> {
    if let Some(label) = arm.labels.last() {
        return Some(label_value(module, label));
    }
    let labels: Vec<&Label> = union.arms.iter().flat_map(|arm| &arm.labels).collect();
    let mut ty = &union.discriminant;
    while let Type::Named(id) = ty {
        match &module.get(*id)?.body {
            Body::Alias(of) => ty = of,
            Body::Enum(members) => {
                let free = (0..members.len()).find(|index| {
                    members[*index].same_as.is_none()
                        && !labels.iter().any(
                            |label| matches!(label, Label::Member { index: taken, .. } if taken == index),
                        )
                })?;
                return Some(label_value(module, &Label::Member { of: *id, index: free }));
            }
            _ => return None,
        }
    }
    if labels.iter().any(|label| matches!(label, Label::Bool(_))) {
        let free = [true, false].into_iter().find(|value| !labels.contains(&&Label::Bool(*value)))?;
        return Some(free.to_string());
    }
    (0..).find(|number| !labels.contains(&&Label::Number(*number))).map(|number| number.to_string())
}

fn label_value(module: &Module, label: &Label) -> String {
    match label {
        Label::Member { of, index } => match module.get(*of).map(|ty| (&ty.ident, &ty.body)) {
            Some((name, Body::Enum(members))) => format!("{name}::{}", members[*index].ident),
            _ => String::new(),
        },
        Label::Number(number) => number.to_string(),
        Label::Bool(value) => value.to_string(),
    }
}
