//! Generates tests that random values of emitted types round-trip.

use std::fmt::Write;

use rpcrdma_xdrgen::ir::{Arm, Body, Field, Item, Label, Module, Type, TypeDef, TypeId, Union};

pub(crate) const SUPPORT: &str = include_str!("samples/support.rs");

/// The path of the support code. The emitted tests import nothing from the support code, since a document's
/// type may have any name.
const SAMPLE: &str = "crate::sample";

/// Returns Rust code that generates samples of all types in the modules at `paths`, and that tests the types.
pub(crate) fn tests(module: &Module, paths: &[String]) -> String {
    let mut text = String::new();
    for path in paths {
        let allow = "#[allow(unused_imports, reason = \"a document may have no types\")]";
        let _ = writeln!(text, "{allow}\nuse {path}::*;\n");
    }
    let mut checks = String::new();
    for item in &module.order {
        let Item::Type(id) = item else { continue };
        let Some(ty) = module.get(*id) else { continue };
        let (value, choices) = value(module, ty);
        let name = &ty.ident;
        let _ = writeln!(checks, "    {SAMPLE}::check(&{SAMPLE}::codec::<{name}>(\"{name}\", {choices}));");
        if let Some(value) = value {
            let _ = writeln!(
                text,
                "impl {SAMPLE}::Sample for {name} {{\n    \
                 #[allow(unused_variables, reason = \"a struct may have no fields\")]\n    \
                 fn sample(dice: &mut {SAMPLE}::Dice) -> Self {{ {value} }}\n}}"
            );
        }
    }
    let _ = writeln!(text, "\n#[test]\nfn every_type() {{\n{checks}}}");
    text
}

/// Returns an expression for a value of a type; `None` for an alias. Also returns the number of enum members
/// or union discriminants from which the expression selects.
fn value(module: &Module, ty: &TypeDef) -> (Option<String>, usize) {
    let name = &ty.ident;
    let (value, choices) = match &ty.body {
        Body::Alias(_) => return (None, 0),
        Body::Newtype(field) => (format!("{name}({})", sample(field)), 0),
        Body::Tuple(fields) => {
            (format!("{name}({})", fields.iter().map(sample).collect::<Vec<_>>().join(", ")), 0)
        }
        Body::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.ident, sample(field))).collect();
            (format!("{name} {{ {} }}", fields.join(", ")), 0)
        }
        Body::Enum(members) => {
            let all: Vec<String> = members.iter().map(|member| format!("{name}::{}", member.ident)).collect();
            let choice = format!("dice.choose(\"{name}\", all.len(), None)");
            (format!("let all = [{}]; all[{choice}]", all.join(", ")), all.len())
        }
        Body::Union(union) => union_value(module, ty, union),
    };
    (Some(value), choices)
}

fn sample(field: &Field) -> String {
    match &field.max {
        Some(max) => format!("{SAMPLE}::at_most(dice, {})", max.value),
        None => format!("{SAMPLE}::Sample::sample(dice)"),
    }
}

/// Returns an expression that selects any arm with any of its labels, and the number of choices. Once the
/// budget of `Dice` is spent, the expression selects an arm without a payload, if any.
fn union_value(module: &Module, ty: &TypeDef, union: &Union) -> (String, usize) {
    let mut values: Vec<(bool, String)> = Vec::new();
    for arm in &union.arms {
        for discriminant in discriminants(module, union, arm) {
            let parts: Vec<String> =
                discriminant.into_iter().chain(arm.payload.as_ref().map(sample)).collect();
            let parts = if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) };
            values.push((arm.payload.is_none(), format!("{}::{}{parts}", ty.ident, arm.ident)));
        }
    }
    let plain = values.iter().position(|(plain, _)| *plain);
    let mut text = format!("match dice.choose(\"{}\", {}, {plain:?}) {{ ", ty.ident, values.len());
    for (index, (_, value)) in values.iter().enumerate() {
        let pattern = if index + 1 == values.len() { "_".to_owned() } else { index.to_string() };
        let _ = write!(text, "{pattern} => {value}, ");
    }
    (text + "}", values.len())
}

/// Returns the discriminants to test for an arm: `[None]` if the arm implies its discriminant. A default
/// arm has no discriminants if other arms cover all values.
fn discriminants(module: &Module, union: &Union, arm: &Arm) -> Vec<Option<String>> {
    if !arm.keeps_discriminant() {
        return vec![None];
    }
    if !arm.labels.is_empty() {
        return arm.labels.iter().map(|label| Some(label_value(module, label))).collect();
    }
    let labels: Vec<&Label> = union.arms.iter().flat_map(|arm| &arm.labels).collect();
    if let Some(of) = enum_of(module, &union.discriminant) {
        let Some(Body::Enum(members)) = module.get(of).map(|ty| &ty.body) else { return Vec::new() };
        let taken = |index: &usize| {
            labels.iter().any(|label| matches!(label, Label::Member { index: taken, .. } if taken == index))
        };
        let free = (0..members.len()).filter(|index| members[*index].same_as.is_none() && !taken(index));
        return free.map(|index| Some(label_value(module, &Label::Member { of, index }))).collect();
    }
    if labels.iter().any(|label| matches!(label, Label::Bool(_))) {
        let free = [true, false].into_iter().filter(|value| !labels.contains(&&Label::Bool(*value)));
        return free.map(|value| Some(value.to_string())).collect();
    }
    let numbers: Vec<String> = labels
        .iter()
        .map(|label| match label {
            Label::Number(number) => number.to_string(),
            Label::Member { .. } | Label::Bool(_) => format!("{} as i64", label_value(module, label)),
        })
        .collect();
    vec![Some(format!("dice.other_than(&[{}]) as _", numbers.join(", ")))]
}

fn enum_of(module: &Module, ty: &Type) -> Option<TypeId> {
    let mut ty = ty;
    loop {
        let Type::Named(id) = ty else { return None };
        match &module.get(*id)?.body {
            Body::Alias(of) => ty = of,
            Body::Enum(_) => return Some(*id),
            _ => return None,
        }
    }
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
