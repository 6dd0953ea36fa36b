//! Generates C code that creates values of rpcgen's types.

use std::fmt::Write;

use rpcrdma_xdrgen::ast::{
    Declaration, DefinitionKind, EnumBody, Multiplicity, Scalar, Specification, StructBody,
    TypeSpecifierKind, UnionBody, Value,
};

/// The minimum number of values per type.
const VALUES: usize = 4;

/// Returns C code: one function per type, and a `main` that calls each function several times.
pub(super) fn functions(document: &Specification) -> Result<String, String> {
    let mut prototypes = String::new();
    let mut functions = String::new();
    let mut calls = String::new();
    for definition in &document.definitions {
        let Some((name, body, choices)) = function(document, &definition.kind)? else { continue };
        let head = format!("static void fill_{name}({name} *v)");
        let _ = writeln!(prototypes, "{head};");
        let _ = writeln!(functions, "\n{head}\n{{\n{body}}}");
        // Each enum member or union arm of the type occurs in at least one value. If the type has at most six
        // members or arms, each occurs in at least two values.
        let values = if choices * 2 > 3 * VALUES { choices } else { VALUES.max(choices * 2) };
        let _ = writeln!(
            calls,
            "    for (i = 0; i < {values}; i++) {{ {name} v; memset(&v, 0, sizeof v); begin({}, i); \
             fill_{name}(&v); print(\"{name}\", (xdrproc_t)xdr_{name}, &v, sizeof v); }}",
            calls.lines().count()
        );
    }
    Ok(format!("{prototypes}{functions}\nint main(void)\n{{\n    unsigned i;\n{calls}    return 0;\n}}\n"))
}

/// Returns the name of a type, the statements that fill a value of the type, and the number of its enum
/// members or union arms (0 for other types). Returns `None` if the definition is not a type.
fn function(
    document: &Specification,
    kind: &DefinitionKind,
) -> Result<Option<(String, String, usize)>, String> {
    Ok(match kind {
        DefinitionKind::Typedef(declaration) => {
            let name = name(declaration)?;
            Some((name.to_owned(), fill(declaration, Place::Typedef)?, 0))
        }
        DefinitionKind::Enum(name, body) => {
            let choices = body.members.len();
            Some((name.name.clone(), format!("    {}\n", chosen("*v", &members(body))), choices))
        }
        DefinitionKind::Struct(name, StructBody { fields }) => {
            let fields: Result<String, String> =
                fields.iter().map(|field| fill(field, Place::In("v->"))).collect();
            Some((name.name.clone(), fields?, 0))
        }
        DefinitionKind::Union(name, body) => {
            let arms = body.arms.len() + usize::from(body.default.is_some());
            Some((name.name.clone(), union(document, &name.name, body)?, arms))
        }
        DefinitionKind::Const(_) | DefinitionKind::Program(_) | DefinitionKind::PassThrough(_) => None,
    })
}

/// The C expression for the value of a declaration.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// The value is `*v` itself.
    Typedef,
    /// The value is a field after this prefix, such as `v->`.
    In(&'a str),
}

fn union(document: &Specification, name: &str, body: &UnionBody) -> Result<String, String> {
    let discriminant = self::name(&body.discriminant)?;
    let all = match &body.discriminant.specifier.kind {
        TypeSpecifierKind::Scalar(Scalar::Bool) => vec!["FALSE".to_owned(), "TRUE".to_owned()],
        TypeSpecifierKind::Named(of) => document
            .definitions
            .iter()
            .find_map(|definition| match &definition.kind {
                DefinitionKind::Enum(found, body) if found.name == of.name => Some(members(body)),
                _ => None,
            })
            .ok_or_else(|| format!("`{}` is not an enum of this document", of.name))?,
        _ => return Err(format!("unsupported discriminant of `{name}`: expected an enum or a bool")),
    };
    let labels = |values: &[Value]| values.iter().map(value).collect::<Vec<_>>();
    let mut arms: Vec<(Vec<String>, &Declaration)> =
        body.arms.iter().map(|arm| (labels(&arm.labels), &arm.declaration)).collect();
    if let Some(default) = &body.default {
        let taken = |one: &String| arms.iter().any(|(labels, _)| labels.contains(one));
        arms.push((all.iter().filter(|one| !taken(one)).cloned().collect(), default));
    }
    let mut text = format!("    switch (choose({})) {{\n", arms.len());
    for (index, (labels, declaration)) in arms.iter().enumerate() {
        let target = format!("v->{discriminant}");
        let place = format!("v->{name}_u.");
        let _ = writeln!(text, "    case {index}:\n        {}", chosen(&target, labels));
        let _ = writeln!(text, "    {}        break;", fill(declaration, Place::In(&place))?);
    }
    Ok(text + "    }\n")
}

fn chosen(target: &str, all: &[String]) -> String {
    match all {
        [one] => format!("{target} = {one};"),
        all => {
            let list = all.join(", ");
            format!("{{ static const int all[] = {{ {list} }}; {target} = all[choose({})]; }}", all.len())
        }
    }
}

fn members(body: &EnumBody) -> Vec<String> {
    body.members.iter().map(|member| member.name.name.clone()).collect()
}

fn fill(declaration: &Declaration, place: Place<'_>) -> Result<String, String> {
    let specifier = &declaration.specifier.kind;
    if *specifier == TypeSpecifierKind::Void {
        return Ok(String::new());
    }
    let name = name(declaration)?;
    let (target, head) = match place {
        Place::Typedef => ("(*v)".to_owned(), format!("v->{name}")),
        Place::In(path) => (format!("{path}{name}"), format!("{path}{name}.{name}")),
    };
    let text = match (specifier, &declaration.multiplicity) {
        (TypeSpecifierKind::Opaque, Multiplicity::Fixed(len)) => {
            format!("fill_opaque({target}, {});", value(len))
        }
        (TypeSpecifierKind::Opaque, Multiplicity::Variable(max)) => format!(
            "{head}_len = length({}); {head}_val = calloc(1, {head}_len + 1); \
             fill_opaque({head}_val, {head}_len);",
            bound(max.as_ref())
        ),
        (TypeSpecifierKind::String, Multiplicity::Variable(max)) => {
            format!("{target} = new_string(length({}));", bound(max.as_ref()))
        }
        (_, Multiplicity::One) => format!("{}(&{target});", filler(specifier)?),
        (_, Multiplicity::Fixed(len)) => {
            let filler = filler(specifier)?;
            format!("{{ u_int at; for (at = 0; at < {}; at++) {filler}(&{target}[at]); }}", value(len))
        }
        (_, Multiplicity::Variable(max)) => {
            let filler = filler(specifier)?;
            format!(
                "{{ u_int at, len = length({}); if (len > 4) len = 4; {head}_len = len; \
                 {head}_val = calloc(len + 1, sizeof *{head}_val); \
                 for (at = 0; at < len; at++) {filler}(&{head}_val[at]); }}",
                bound(max.as_ref())
            )
        }
        (_, Multiplicity::Optional) => format!(
            "if (more()) {{ {target} = calloc(1, sizeof *{target}); {}({target}); }}",
            filler(specifier)?
        ),
    };
    Ok(format!("    {text}\n"))
}

fn filler(kind: &TypeSpecifierKind) -> Result<String, String> {
    let name = match kind {
        TypeSpecifierKind::Scalar(Scalar::Int) => "int",
        TypeSpecifierKind::Scalar(Scalar::UnsignedInt) => "u_int",
        TypeSpecifierKind::Scalar(Scalar::Hyper) => "quad_t",
        TypeSpecifierKind::Scalar(Scalar::UnsignedHyper) => "u_quad_t",
        TypeSpecifierKind::Scalar(Scalar::Bool) => "bool_t",
        TypeSpecifierKind::Named(name) => &name.name,
        other => return Err(format!("cannot generate values of {other:?}")),
    };
    Ok(format!("fill_{name}"))
}

fn name(declaration: &Declaration) -> Result<&str, String> {
    let name = declaration.name.as_ref().ok_or("cannot generate values of a declaration without a name")?;
    Ok(&name.name)
}

fn value(value: &Value) -> String {
    match value {
        Value::Literal { value, .. } => value.to_string(),
        Value::Name(name) => name.name.clone(),
    }
}

fn bound(max: Option<&Value>) -> String {
    max.map_or_else(|| "~0u".to_owned(), value)
}
