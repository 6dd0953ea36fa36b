//! The Rust names of definitions, and names reserved for emitted code.

use crate::diag::{Found, OutputKind};
use crate::hash::HashMap;
use crate::hir::{Body, Type, TypeDef};
use crate::ir::Data;
use crate::names::{self, HIDDEN_BY_VERBATIM, Names, Taken};
use crate::namespace;
use crate::source::Span;

/// Names with a special meaning in emitted code.
const RESERVED: &[&str] = &[
    "Box",
    "Char",
    "Err",
    "None",
    "Ok",
    "Opaque",
    "Option",
    "Quadruple",
    "Result",
    "SmallOpaque",
    "Some",
    "String",
    "UnsignedChar",
    "Vec",
    "Xdr",
    "XdrString",
];

/// Further names with a special meaning in borrowed output.
const RESERVED_BORROWED: &[&str] = &["ArrayRef", "BoxRef", "ListRef", "OpaqueRef", "StringRef"];

/// Names that a version's module defines, or uses without a path. A version's type cannot have these names.
const IN_VERSION: &[&str] = &[
    "Box", "C", "Client", "Err", "Future", "H", "Handler", "None", "Ok", "Option", "Proc", "Result", "Send",
    "Server", "Some", "Sync", "Vec",
];

/// Crates that emitted code or the output of derives refers to. A version's module cannot have these names.
const BESIDE_VERSION: &[&str] = &["alloc", "arbitrary", "core", "serde", "std"];

/// Types that the procedures' module uses without a path. A procedure cannot have these names.
const IN_PROCEDURES: &[&str] = &["Box", "Option", "Vec"];

/// Methods that all types have from traits of Rust's prelude. They take `self` by value, so method resolution
/// prefers them to a method with `&self`. A procedure's method cannot have these names.
const OF_ALL_TYPES: &[&str] = &["into", "try_into"];

/// Parameters of methods. An argument cannot have these names.
const IN_METHODS: &[&str] = &["answer", "context"];

pub(super) struct Naming<'f> {
    pub(super) names: Names,
    data: Data,
    found: &'f mut Found,
    scopes: HashMap<String, Scope>,
}

/// The names in use in a namespace, which is a module in Rust.
struct Scope {
    consts: Taken,
    types: Taken,
    versions: Taken,
}

impl<'f> Naming<'f> {
    pub(super) fn new(names: Names, data: Data, found: &'f mut Found) -> Self {
        Naming { names, data, found, scopes: HashMap::default() }
    }

    fn scope(&mut self, name: &str) -> &mut Scope {
        let (names, data) = (self.names, self.data);
        self.scopes.entry(namespace::split(name).0.to_owned()).or_insert_with(|| Scope {
            // Derives use these names without paths, and a constant would shadow them.
            consts: reserved(names).and(&["Err", "None", "Ok", "Some"]),
            types: reserved(names).and(RESERVED).and(if data == Data::Borrowed {
                RESERVED_BORROWED
            } else {
                &[]
            }),
            versions: Taken::default(),
        })
    }

    /// Reserves a Rust name. If the wanted name is in use or reserved, returns a different name. Reports a
    /// conflict between two names of the document.
    pub(super) fn take(&mut self, taken: &mut Taken, wanted: String, name: &str, at: Span) -> String {
        let given = taken.take(wanted, name);
        self.given(given, name, at)
    }

    fn given(&mut self, (ident, clash): (String, Option<String>), name: &str, at: Span) -> String {
        if let Some(other) = clash {
            let same = OutputKind::SameName { name: name.to_owned(), other, ident: ident.clone() };
            self.found.push(same.at(at));
        }
        ident
    }

    pub(super) fn of_const(&mut self, name: &str, at: Span) -> String {
        let wanted = self.names.of_const(namespace::last(name));
        let given = self.scope(name).consts.take(wanted, name);
        self.given(given, name, at)
    }

    pub(super) fn of_type(&mut self, ty: &TypeDef) -> String {
        let wanted = self.names.of_type(namespace::last(&ty.name));
        let scope = self.scope(&ty.name);
        // A tuple struct is also a function, which shares Rust's value namespace with constants.
        let may_be_tuple = |ty: &Type| matches!(ty, Type::Array(..) | Type::Optional(_));
        if let Body::Alias(field) = &ty.body
            && may_be_tuple(&field.ty)
            && scope.consts.has(&wanted)
        {
            scope.types.take(wanted.clone(), &wanted);
        }
        let given = scope.types.take(wanted, &ty.name);
        self.given(given, &ty.name, ty.docs.span)
    }

    /// Returns the name of a type that no document defines.
    pub(super) fn of_added(&mut self, name: &str) -> String {
        let wanted = self.names.of_type(namespace::last(name));
        self.scope(name).types.take(wanted, name).0
    }

    /// Returns the names of a version's type and module. If one of them is reserved or in use, both begin
    /// with the program's name.
    pub(super) fn of_version(&mut self, program: &str, version: &str) -> (String, String) {
        let names = self.names;
        let scope = self.scope(program);
        let taken = |name: &str| {
            let (ident, module) = (names.of_type(name), names::snake(name));
            IN_VERSION.contains(&ident.as_str())
                || names == Names::Verbatim
                    && (HIDDEN_BY_VERBATIM.split(' ').any(|name| name == ident) || scope.types.has(&module))
                || BESIDE_VERSION.contains(&module.as_str())
                || scope.versions.has(&module)
        };
        let mut name = version.to_owned();
        if taken(&name) {
            name = format!("{}_{name}", namespace::last(program));
        }
        if taken(&name) {
            name.push_str("_x");
        }
        // If this name is also in use, the name of the module gets underscores or a number. The name of the
        // type gets only the number.
        let (module, clash) = scope.versions.take(names::snake(&name), &name);
        let ident = names.of_type(&name);
        match (clash, module.rsplit_once('_')) {
            (Some(_), Some((_, number))) => (format!("{ident}{number}"), module),
            _ => (ident, module),
        }
    }

    /// Returns the name of a method's parameter: the name of a single argument, or `args`.
    pub(super) fn of_parameter(&self, name: Option<String>) -> String {
        let named = name.map(|name| Taken::with(IN_METHODS).take(self.names.of_field(&name), &name).0);
        named.unwrap_or_else(|| "args".to_owned())
    }

    pub(super) fn for_procedures(&self) -> Taken {
        reserved(self.names).and(IN_PROCEDURES)
    }
}

pub(super) fn for_methods() -> Taken {
    Taken::with(OF_ALL_TYPES)
}

fn reserved(names: Names) -> Taken {
    match names {
        Names::Rust => Taken::default(),
        Names::Verbatim => Taken::with(&HIDDEN_BY_VERBATIM.split(' ').collect::<Vec<_>>()),
    }
}
