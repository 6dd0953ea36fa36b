//! Findings about options and Rust names.

use super::text;

kinds! {
    /// X4: Rust
    Output OutputKind {
    /// two names become the same in Rust
    X400 Warning SameName { name: String, other: String, ident: String } =>
        text(format!("`{name}` and `{other}` would have the same name in Rust"))
        .label(format!("named `{ident}` in Rust"))
        .help("the later name gets an underscore; a unique name in the document avoids the underscore");
    /// Two documents or namespaces whose modules would have the same name.
    X400 Warning SameModule { name: String, other: String, ident: String, is_file: bool } => {
        let what = if *is_file { "file name" } else { "namespace name" };
        text(format!("`{name}` and `{other}` would have the same module name in Rust"))
            .label(format!("named `{ident}` in Rust"))
            .help(format!("the later module gets an underscore; a unique {what} avoids the underscore"))
    };
    /// not a valid Rust path
    X401 Error NoPath { path: String } => text(format!("`{path}` is not a valid Rust path"))
        .help("a path is written `name::of::Type`");
    /// invalid name, title or runtime directory of a crate
    X402 Error NoTitle => text("invalid title for a manifest")
        .help("a title is one line without `\"` or `\\`");
    /// An invalid package name.
    X402 Error NoPackage => text("invalid package name")
        .help("a package name begins with a letter and consists of letters, digits, `-` and `_`");
    /// A package name that is also the name of a dependency of the generated crate.
    X402 Error DependencyName { name: String, dependency: String } =>
        text(format!("invalid package name `{name}`: the generated crate depends on `{dependency}`"))
        .help("choose another name for the generated crate");
    /// A runtime directory whose path cannot be written as a TOML literal string.
    X402 Error NoDirectory =>
        text("invalid runtime directory for a manifest: expected a path without apostrophes or control characters");
    /// a derive that borrowed types do not support
    X403 Error BorrowedDerive { derive: String } => text(format!("borrowed output cannot derive `{derive}`"))
        .help("use `bytes` output: its values own their data");
    }
}
