//! What definitions are called in Rust, and which names emitted code has for itself.

use std::borrow::Cow;

use crate::diag::{Found, OutputKind};
use crate::hash::{HashMap, HashSet};
use crate::hir::{Body, Hir, Type, TypeDef};
use crate::ir::Data;
use crate::names::{self, HIDDEN_BY_VERBATIM, Names, Taken};
use crate::namespace;
use crate::source::Span;

/// Names that emitted code means something else by.
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

/// Names that borrowed output means something else by, besides those.
const RESERVED_BORROWED: &[&str] = &["ArrayRef", "BoxRef", "ListRef", "OpaqueRef", "StringRef"];

/// Types that the module of a version has or uses by their names alone: no version is called so.
const IN_VERSION: &[&str] = &[
    "Box", "C", "Client", "Err", "Future", "H", "Handler", "None", "Ok", "Option", "Proc", "Result", "Send",
    "Server", "Some", "Sync", "Vec",
];

/// Crates that stand beside the module of a version: in emitted code, or in what derives write.
const BESIDE_VERSION: &[&str] = &["alloc", "arbitrary", "core", "serde", "std"];

/// Types that the module of procedures uses by their names alone: no procedure is called so.
const IN_PROCEDURES: &[&str] = &["Box", "Option", "Vec"];

/// Names of parameters and constants that methods have besides what a procedure takes.
const IN_METHODS: &[&str] = &["answer", "context"];

/// The names that are taken.
pub(super) struct Naming<'f> {
    pub(super) names: Names,
    found: &'f mut Found,
    consts: Taken,
    pub(super) types: Taken,
    /// The modules of versions.
    versions: Taken,
    /// The constants and the types that several namespaces define: their names without the namespace.
    shared: [HashSet<String>; 2],
}

impl<'f> Naming<'f> {
    pub(super) fn new(names: Names, data: Data, found: &'f mut Found) -> Self {
        let borrowed = if data == Data::Borrowed { RESERVED_BORROWED } else { &[] };
        Naming {
            names,
            found,
            // Derives call these without their paths, and a constant would hide them.
            consts: reserved(names).and(&["Err", "None", "Ok", "Some"]),
            types: reserved(names).and(RESERVED).and(borrowed),
            versions: Taken::default(),
            shared: Default::default(),
        }
    }

    /// Finds the names that several namespaces define. In Rust they keep their namespace as a prefix.
    pub(super) fn share(&mut self, hir: &Hir) {
        self.shared = [
            shared(hir.consts.iter().map(|one| one.name.as_str())),
            shared(hir.types.iter().map(|ty| ty.name.as_str())),
        ];
    }

    /// Takes a name, and says so if it had to be changed because something else has it.
    pub(super) fn take(&mut self, taken: &mut Taken, wanted: String, name: &str, at: Span) -> String {
        let (ident, clash) = taken.take(wanted, name);
        if let Some(other) = clash {
            let same = OutputKind::SameName { name: name.to_owned(), other, ident: ident.clone() };
            self.found.push(same.at(at));
        }
        ident
    }

    pub(super) fn of_const(&mut self, name: &str, at: Span) -> String {
        let mut taken = std::mem::take(&mut self.consts);
        let ident = self.take(&mut taken, self.names.of_const(&plain(name, &self.shared[0])), name, at);
        self.consts = taken;
        ident
    }

    pub(super) fn of_type(&mut self, ty: &TypeDef) -> String {
        let wanted = self.names.of_type(&plain(&ty.name, &self.shared[1]));
        // A tuple struct is a function too, and functions share a name space with constants.
        let may_be_tuple = |ty: &Type| matches!(ty, Type::Array(..) | Type::Optional(_));
        if let Body::Alias(field) = &ty.body
            && may_be_tuple(&field.ty)
            && self.consts.has(&wanted)
        {
            self.types.take(wanted.clone(), &wanted);
        }
        let mut taken = std::mem::take(&mut self.types);
        let ident = self.take(&mut taken, wanted, &ty.name, ty.docs.span);
        self.types = taken;
        ident
    }

    /// A version's names: its own, or with its program's before it where something else has them; and its module.
    pub(super) fn of_version(&mut self, program: &str, version: &str) -> (String, String) {
        let taken = |name: &str| {
            let (ident, module) = (self.names.of_type(name), names::snake(name));
            IN_VERSION.contains(&ident.as_str())
                || self.names == Names::Verbatim
                    && (HIDDEN_BY_VERBATIM.split(' ').any(|name| name == ident) || self.types.has(&module))
                || BESIDE_VERSION.contains(&module.as_str())
                || self.versions.has(&module)
        };
        let mut name = version.to_owned();
        if taken(&name) {
            name = format!("{}_{name}", namespace::last(program));
        }
        if taken(&name) {
            name.push_str("_x");
        }
        // Whoever is still called like another gets a number.
        let (module, clash) = self.versions.take(names::snake(&name), &name);
        let ident = self.names.of_type(&name);
        match (clash, module.rsplit_once('_')) {
            (Some(_), Some((_, number))) => (format!("{ident}{number}"), module),
            _ => (ident, module),
        }
    }

    /// What a method calls what it takes: as the only argument is called.
    pub(super) fn of_parameter(&self, name: Option<String>) -> String {
        let named = name.map(|name| Taken::with(IN_METHODS).take(self.names.of_field(&name), &name).0);
        named.unwrap_or_else(|| "args".to_owned())
    }

    /// The names that no procedure of a version may have.
    pub(super) fn for_procedures(&self) -> Taken {
        reserved(self.names).and(IN_PROCEDURES)
    }
}

/// Returns the names without namespace that stand in more than one of them.
fn shared<'n>(names: impl Iterator<Item = &'n str> + Clone) -> HashSet<String> {
    if !names.clone().any(|name| name.contains("::")) {
        return HashSet::default();
    }
    let mut first: HashMap<&str, &str> = HashMap::default();
    let again =
        names.map(namespace::split).filter(|(space, name)| first.entry(name).or_insert(space) != space);
    again.map(|(_, name)| name.to_owned()).collect()
}

/// Returns a name as one word: without its namespace, unless others share the rest.
fn plain<'n>(name: &'n str, shared: &HashSet<String>) -> Cow<'n, str> {
    let last = namespace::last(name);
    if shared.contains(last) { name.replace("::", "_").into() } else { last.into() }
}

/// The names that are taken from the start.
fn reserved(names: Names) -> Taken {
    match names {
        Names::Rust => Taken::default(),
        Names::Verbatim => Taken::with(&HIDDEN_BY_VERBATIM.split(' ').collect::<Vec<_>>()),
    }
}
