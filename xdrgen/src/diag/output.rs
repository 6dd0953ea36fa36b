//! Findings about the options of a run and the names in Rust.

use super::text;

kinds! {
    /// X4: Rust
    Output OutputKind {
    /// two names become one in Rust
    ///
    /// Types are `CamelCase` in Rust and fields `snake_case`, so names that differ by case or underscores
    /// alone fall together. The later one has an underscore added, so that nothing is lost;
    /// `--names verbatim` keeps them as they are. So it is with modules, where the files of two documents
    /// have one name, or two namespaces (`a::b` and `a_b`). A warning.
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
        .help("the later one has an underscore added; a unique name in the document would avoid it");
    /// The modules of two documents, or of two namespaces.
    X400 Warning SameModule { name: String, other: String, ident: String, is_file: bool } => {
        let what = if *is_file { "file name" } else { "namespace name" };
        text(format!("`{name}` and `{other}` would have the same module name in Rust"))
            .label(format!("named `{ident}` in Rust"))
            .help(format!("another {what} would avoid the underscore"))
    };
    /// not a valid Rust path
    ///
    /// In `--extern name=path`, in `--runtime`, in `--derive` (which knows `serde` and `arbitrary` without
    /// a path), or in the corresponding methods of a build script.
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
    /// invalid name or title of a package
    ///
    /// A name begins with a letter and has letters, digits, `-` and `_`; a title is one line without quotes
    /// and backslashes, the directory in `--runtime-path` one without apostrophes.
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --crate 9p --output 9p
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --crate nine-p --output nine-p
    /// ```
    X402 Error NoTitle => text("invalid title for a manifest")
        .help("a title is one line without quotes and backslashes");
    /// A name that cargo rejects.
    X402 Error NoPackage => text("invalid name of a package")
        .help("a package's name has letters, digits, `-` and `_`");
    /// A directory that TOML cannot hold.
    X402 Error NoDirectory => text("invalid runtime directory for a manifest");
    /// borrowing types cannot have this derive
    ///
    /// `serde` and `arbitrary` create values without a message, so there is no memory to borrow from.
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --data borrowed --derive serde
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen generate store.x --data bytes --derive serde
    /// ```
    X403 Error BorrowedDerive { derive: String } => text(format!("borrowed output cannot derive `{derive}`"))
        .help("use `bytes` output, whose values own their data");
    }
}
