//! Files: what stands around the items, and how they are laid out.

use std::collections::BTreeSet;

use askama::Template;
use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, scalar_type};
use crate::ir::{Body, Module, Type};

/// What the head of a file says.
pub(crate) struct Head {
    /// The documents' names.
    pub(crate) documents: String,
    /// How the file is made again.
    pub(crate) command: String,
    /// What a crate is, in a line.
    pub(crate) title: String,
}

#[derive(Template)]
#[template(path = "module.rs.txt", escape = "none")]
struct ModuleFile<'a> {
    documents: &'a str,
    command: &'a str,
    imports: &'a [String],
    body: &'a str,
}

#[derive(Template)]
#[template(path = "lib.rs.txt", escape = "none")]
struct LibFile<'a> {
    title: &'a str,
    documents: &'a str,
    command: &'a str,
    imports: &'a [String],
    body: &'a str,
}

#[derive(Template)]
#[template(path = "Cargo.toml.txt", escape = "none")]
struct ManifestFile<'a> {
    documents: &'a str,
    command: &'a str,
    package: &'a str,
    title: &'a str,
}

/// One file of items, to be included or to be a module.
pub(crate) fn module_file(emitter: &Emitter<'_>, head: &Head) -> Result<String, String> {
    let (imports, body) = (imports(emitter), body(emitter)?);
    let Head { documents, command, .. } = head;
    ModuleFile { documents, command, imports: &imports, body: &body }
        .render()
        .map_err(|error| error.to_string())
}

/// The manifest and the one source file of a crate.
pub(crate) fn crate_files(emitter: &Emitter<'_>, head: &Head, package: &str) -> Result<[String; 2], String> {
    let (imports, body) = (imports(emitter), body(emitter)?);
    let Head { documents, command, title } = head;
    let manifest = ManifestFile { documents, command, package, title }.render();
    let lib = LibFile { title, documents, command, imports: &imports, body: &body }.render();
    match (manifest, lib) {
        (Ok(manifest), Ok(lib)) => Ok([manifest, lib]),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

/// `use` lines for what the types need, and nothing else.
fn imports(emitter: &Emitter<'_>) -> Vec<String> {
    let names = imported(emitter.module);
    let mut lines = Vec::new();
    if !emitter.std {
        let heap = ["boxed::Box", "vec::Vec"];
        lines.extend(
            heap.iter().filter(|path| names.contains(last(path))).map(|path| format!("use alloc::{path};")),
        );
    }
    let runtime = &emitter.runtime;
    let runtime = quote!(#runtime).to_string().replace(' ', "");
    let own: Vec<&str> = names.iter().copied().filter(|name| !matches!(*name, "Box" | "Vec")).collect();
    match own.as_slice() {
        [] => {}
        [one] => lines.push(format!("use {runtime}::xdr::{one};")),
        several => lines.push(format!("use {runtime}::xdr::{{{}}};", several.join(", "))),
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn imported(module: &Module) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for ty in &module.types {
        match &ty.body {
            Body::Alias(of) => collect(of, &mut names),
            body => {
                names.insert("Xdr");
                crate::sema::fields_of(body).for_each(|field| collect(&field.ty, &mut names));
            }
        }
    }
    names
}

fn collect(ty: &Type, names: &mut BTreeSet<&'static str>) {
    match ty {
        Type::Scalar(scalar) => names.extend(scalar_type(*scalar).err()),
        Type::Opaque(_) => names.extend(["Opaque"]),
        Type::SmallOpaque(_) => names.extend(["SmallOpaque"]),
        Type::String(_) => names.extend(["XdrString"]),
        Type::Array(of) => {
            names.insert("Vec");
            collect(of, names);
        }
        Type::Boxed(of) => {
            names.insert("Box");
            collect(of, names);
        }
        Type::FixedArray(of, _) | Type::Optional(of) => collect(of, names),
        Type::Void | Type::Named(_) | Type::Extern(_) | Type::FixedOpaque(_) => {}
    }
}

/// The items as text, an empty line between any two.
fn body(emitter: &Emitter<'_>) -> Result<String, String> {
    let items: Result<Vec<String>, String> = emitter.items().into_iter().map(item).collect();
    Ok(items?.join("\n"))
}

fn item(tokens: TokenStream) -> Result<String, String> {
    let text = tokens.to_string();
    let file: syn::File = syn::parse2(tokens).map_err(|error| format!("{error} in: {text}"))?;
    Ok(spaced(&prettyplease::unparse(&file)))
}

/// Sets an empty line between the items of a module, a trait or an impl.
fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let mut before = "";
    for line in text.lines() {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let ended = before.ends_with('}') || before.ends_with("};") || before.ends_with(';');
        let begins = ["///", "#[", "pub ", "impl", "fn ", "async fn"]
            .iter()
            .any(|word| line.trim_start().starts_with(word));
        // Constants of one impl stand together.
        let constant = before.trim_start().starts_with("const ") && line.trim_start().starts_with("const ");
        if ended && begins && !constant && indent(before) == indent(line) && indent(line) > 0 {
            spaced.push('\n');
        }
        spaced.push_str(line);
        spaced.push('\n');
        before = line;
    }
    spaced
}
