//! Additional derives (serde, arbitrary and others), and the attributes that serde and arbitrary need.

use super::code::Code;
use super::types::{Placement, field_attribute};
use super::{Emitter, spaced};
use crate::hash::HashSet;
use crate::ir::{Arm, Bound, Derives, Field, Label, Scalar, Type, Union};

/// Maximum length of an array that serde supports.
const SERDE_ARRAY: u32 = 32;

/// Derives for which the compiler also emits attributes and crate features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Serde,
    Arbitrary,
}

impl Known {
    pub(crate) fn named(name: &str) -> Option<Known> {
        [Known::Serde, Known::Arbitrary].into_iter().find(|known| known.name() == name)
    }

    /// Returns the name of the crate that defines the derive. The feature in emitted crates and in the
    /// runtime has the same name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Known::Serde => "serde",
            Known::Arbitrary => "arbitrary",
        }
    }

    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Known::Serde => "every type can be serialized with [serde](https://serde.rs).",
            Known::Arbitrary => "every type can be generated from a fuzzer's bytes.",
        }
    }

    /// Returns the TOML value of the dependency, for the manifest of a crate outside a workspace.
    pub(crate) fn dependency(self) -> &'static str {
        match self {
            Known::Serde => {
                "{ version = \"1\", default-features = false, features = [\"alloc\", \"derive\"], optional = true }"
            }
            Known::Arbitrary => "{ version = \"1\", features = [\"derive\"], optional = true }",
        }
    }

    fn traits(self) -> &'static [&'static str] {
        match self {
            Known::Serde => &["::serde::Serialize", "::serde::Deserialize"],
            Known::Arbitrary => &["::arbitrary::Arbitrary"],
        }
    }
}

impl Emitter<'_> {
    /// Writes `#[derive(...)]`. In an emitted crate, the derives of serde and arbitrary depend on features.
    pub(super) fn derive_attributes(&self, derives: Derives, default: bool, code: &mut Code) {
        let traits = [
            (true, "Clone"),
            (derives.copy, "Copy"),
            (true, "Debug"),
            (derives.default && default, "Default"),
            (true, "PartialEq"),
            (derives.eq, "Eq"),
            (derives.eq, "Hash"),
            (true, "Xdr"),
        ];
        let mut traits: Vec<&str> =
            traits.into_iter().filter(|(derived, _)| *derived).map(|(_, name)| name).collect();
        let mut gated = Vec::new();
        let paths: Vec<_> =
            self.derives.iter().map(|derive| (spaced(derive), Known::named(derive))).collect();
        for (path, known) in &paths {
            match known {
                Some(known) if self.features => gated.push(known),
                Some(known) => traits.extend(known.traits()),
                None => traits.push(path),
            }
        }
        code.used.imported.insert("Xdr");
        code.attribute("derive", traits);
        for known in gated {
            let traits = known.traits().join(", ");
            code.line(["#[cfg_attr(feature = \"", known.name(), "\", derive(", &traits, "))]"]);
        }
    }

    pub(super) fn field_hints(&self, field: &Field, placement: Placement, code: &mut Code) {
        if self.knows(Known::Serde)
            && let Some(shape) = self.shape(&field.ty, field.max.as_ref())
        {
            let with = format!("{}::xdr::serde_as::As::<{shape}>", self.runtime);
            self.hint(Known::Serde, placement, code, |code| _ = code.add(["\"", &with, "\""]));
        }
        if self.knows(Known::Arbitrary)
            && let Some(max) = &field.max
        {
            self.hint(Known::Arbitrary, placement, code, |code| {
                code.add([&self.runtime, "::xdr::arbitrary_with::array::"]).open("<");
                code.push("_").comma().then(|code| self.argument_bound(max, code)).close(">");
            });
        }
    }

    /// If no discriminant selects an arm, writes the attribute with which `arbitrary` skips the arm.
    pub(super) fn arm_hint(&self, union: &Union, arm: &Arm, code: &mut Code) {
        if self.knows(Known::Arbitrary) && arm.keeps_discriminant() && self.choice(union, arm).is_none() {
            self.attribute(Known::Arbitrary, Placement::Alone, code, |code| _ = code.push("skip"));
        }
    }

    /// Writes the attributes of the discriminant that an arm stores. With these attributes, `arbitrary`
    /// generates only discriminants that select this arm, and serde accepts no others.
    pub(super) fn kept_hints(&self, name: &str, union: &Union, index: usize, code: &mut Code) {
        if self.knows(Known::Arbitrary)
            && let Some((function, labels)) = union.arms.get(index).and_then(|arm| self.choice(union, arm))
        {
            self.hint(Known::Arbitrary, Placement::Inline, code, |code| {
                code.add([&self.runtime, "::xdr::arbitrary_with::", function]).open("(").open("&[");
                labels.iter().for_each(|label| self.label(label, code.comma()));
                code.close("]").close(")");
            });
        }
        if self.knows(Known::Serde) {
            let with = format!("{}::xdr::serde_as::Kept::<{name}, {index}>", self.runtime);
            self.hint(Known::Serde, Placement::Inline, code, |code| _ = code.add(["\"", &with, "\""]));
        }
    }

    /// Returns the name of a function in the runtime's `arbitrary_with`, and the labels to pass to it. The
    /// function generates the discriminants that select an arm: `one_of` generates only these labels, and
    /// `none_of` only other values. Returns `None` if no discriminant selects the arm.
    fn choice(&self, union: &Union, arm: &Arm) -> Option<(&'static str, Vec<Label>)> {
        if !arm.labels.is_empty() {
            return Some(("one_of", arm.labels.clone()));
        }
        let taken = union.arms.iter().flat_map(|arm| &arm.labels);
        let all: Vec<Label> = match self.module.resolve_alias(&union.discriminant) {
            Type::Named(of) => {
                let members = self.module.members(*of).iter().enumerate();
                let members = members.filter(|(_, member)| member.same_as.is_none());
                members.map(|(index, _)| Label::Member { of: *of, index }).collect()
            }
            Type::Scalar(Scalar::Bool) => vec![Label::Bool(false), Label::Bool(true)],
            _ => return Some(("none_of", taken.cloned().collect())),
        };
        let taken: HashSet<i128> = taken.filter_map(|label| self.key(label)).collect();
        let is_free = |label: &Label| self.key(label).is_some_and(|key| !taken.contains(&key));
        let free: Vec<Label> = all.into_iter().filter(is_free).collect();
        (!free.is_empty()).then_some(("one_of", free))
    }

    fn key(&self, label: &Label) -> Option<i128> {
        match label {
            Label::Bool(value) => Some(i128::from(*value)),
            Label::Number(value) => Some(*value),
            Label::Member { of, index } => Some(self.module.members(*of).get(*index)?.value.into()),
        }
    }

    /// Returns the shape from the runtime's `serde_as` that serializes values of a type; `None` if the type's
    /// own serde traits suffice.
    fn shape(&self, ty: &Type, max: Option<&Bound>) -> Option<String> {
        let shapes = format!("{}::xdr::serde_as", self.runtime);
        let inner = |of: &Type| self.shape(of, None).unwrap_or_else(|| format!("{shapes}::Same"));
        let wrapped =
            |name: &str, of: &Type| self.shape(of, None).map(|of| format!("{shapes}::{name}<{of}>"));
        match self.module.resolve_alias(ty) {
            Type::Array(of) => match max {
                None => wrapped("Many", of),
                Some(max) => {
                    let mut code = Code::default();
                    self.argument_bound(max, &mut code);
                    let max = code.finish().replace(' ', "");
                    Some(format!("{shapes}::Bounded<{},{max}>", inner(of)))
                }
            },
            Type::FixedOpaque(len) => {
                (len.value > SERDE_ARRAY).then(|| format!("{shapes}::Array<{shapes}::Same>"))
            }
            Type::FixedArray(of, len) if len.value > SERDE_ARRAY => {
                Some(format!("{shapes}::Array<{}>", inner(of)))
            }
            Type::FixedArray(of, _) => wrapped("Array", of),
            Type::Optional(of) => wrapped("Maybe", of),
            Type::Boxed(of) => wrapped("Boxed", of),
            _ => None,
        }
    }

    fn knows(&self, wanted: Known) -> bool {
        self.derives.iter().any(|derive| Known::named(derive) == Some(wanted))
    }

    fn hint(&self, of: Known, placement: Placement, code: &mut Code, with: impl FnOnce(&mut Code)) {
        self.attribute(of, placement, code, |code| with(code.push("with = ")));
    }

    fn attribute(&self, of: Known, placement: Placement, code: &mut Code, argument: impl FnOnce(&mut Code)) {
        field_attribute(placement, code, |code| {
            code.push("#[");
            if self.features {
                code.open("cfg_attr(").add(["feature = \"", of.name(), "\""]).comma();
            }
            code.push(of.name()).open("(").then(argument).close(")");
            if self.features {
                code.close(")");
            }
            code.push("]");
        });
    }
}
