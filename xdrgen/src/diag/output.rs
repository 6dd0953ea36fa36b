//! Findings about options and Rust names.

use super::text;

kinds! {
    /// X4: Rust
    Output OutputKind {
    /// two names become the same in Rust
    ///
    /// Types are `CamelCase` in Rust and fields `snake_case`, so names that differ only in case or
    /// underscores become equal. The later name gets an underscore; `--names verbatim` keeps the document's
    /// spelling. A later module also gets an underscore if two documents have the same file name, or if two
    /// namespaces become equal (`a::b` and `a_b`). This is a warning.
    ///
    /// ```xdr
    /// struct foo_bar { int x; };
    /// struct FooBar { int y; };
    /// ```
    ///
    /// ```xdr
    /// struct foo_bar { int x; };
    /// struct foo_bar_2 { int y; };
    /// ```
    X400 Warning SameName { name: String, other: String, ident: String } =>
        text(format!("`{name}` and `{other}` would have the same name in Rust"))
        .label(format!("named `{ident}` in Rust"))
        .help("the later name gets an underscore; a unique name in the document avoids the underscore");
    /// The modules of two documents, or of two namespaces.
    X400 Warning SameModule { name: String, other: String, ident: String, is_file: bool } => {
        let what = if *is_file { "file name" } else { "namespace name" };
        text(format!("`{name}` and `{other}` would have the same module name in Rust"))
            .label(format!("named `{ident}` in Rust"))
            .help(format!("another {what} avoids the underscore"))
    };
    /// not a valid Rust path
    ///
    /// The path is in `--extern name=path`, `--runtime`, `--derive` (where `serde` and `arbitrary` need
    /// no path), or in the corresponding method of a build script.
    ///
    /// ```sh
    /// rpcrdma-xdrgen check store.x --extern handle=my-crate::Handle
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen check store.x --extern handle=my_crate::Handle
    /// ```
    X401 Error NoPath { path: String } => text(format!("`{path}` is not a valid Rust path"))
        .help("a path is written `name::of::Type`");
    /// invalid name, title or runtime directory of a crate
    ///
    /// A name begins with a letter and consists of letters, digits, `-` and `_`. The name of a dependency of
    /// the crate, such as `rpcrdma-runtime`, is invalid. A title is one line without `"` or `\`. The
    /// directory in `--runtime-path` is one line without apostrophes.
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --crate 9p --output 9p
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --crate nine-p --output nine-p
    /// ```
    X402 Error NoTitle => text("invalid title for a manifest")
        .help("a title is one line without `\"` or `\\`");
    /// A name that cargo rejects.
    X402 Error NoPackage => text("invalid package name")
        .help("a package name begins with a letter and consists of letters, digits, `-` and `_`");
    /// The name of a package that the generated crate depends on.
    X402 Error DependencyName { name: String, dependency: String } =>
        text(format!("invalid package name `{name}`: the generated crate depends on `{dependency}`"))
        .help("choose another name for the generated crate");
    /// A directory that cannot be written as a TOML string.
    X402 Error NoDirectory =>
        text("invalid runtime directory for a manifest: expected one line without apostrophes");
    /// borrowed types cannot have this derive
    ///
    /// `serde` and `arbitrary` create values without a message, so the values have no memory to borrow from.
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --data borrowed --derive serde
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --data bytes --derive serde
    /// ```
    X403 Error BorrowedDerive { derive: String } => text(format!("borrowed output cannot derive `{derive}`"))
        .help("use `bytes` output: its values own their data");
    }
}
