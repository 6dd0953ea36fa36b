//! Programs, their versions and procedures (RFC 5531 section 12.2).

use super::consts;
use super::lower::{Lower, taken};
use super::text;
use crate::ast::{
    ArraySize, Definition, Identifier, ProcedureDef, ProcedureType, ProgramDef, TypeSpecifier,
    TypeSpecifierKind, Value, VersionDef,
};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::ir::{Body, Bound, Docs, Field, Procedure, Program, ReplyBounds, Type, Version};
use crate::names::{self, HIDDEN_BY_VERBATIM, Names, Taken};
use crate::source::Span;

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

/// Numbers and names that were seen in one place.
#[derive(Default)]
struct Seen<'a> {
    names: HashMap<&'a str, Span>,
    numbers: HashMap<u32, Span>,
}

impl<'a> Lower<'a> {
    pub(crate) fn program(&mut self, definition: &'a Definition, program: &'a ProgramDef) {
        let number = self.number(&program.number);
        let mut seen = Seen::default();
        let mut versions = Vec::new();
        for version in &program.versions {
            let number = self.number(&version.number);
            let good = self.is_new(&version.name, &version.number, number, "version", &mut seen);
            let lowered = self.version(program, version, number.unwrap_or(0));
            if good {
                versions.push(lowered);
            }
        }
        self.check_numbers(program, number, &versions);
        let docs = Docs {
            comments: definition.docs.clone(),
            section: definition.section.clone(),
            declaration: definition.text.clone(),
            span: program.name.span,
        };
        let name = program.name.name.clone();
        self.place_program(Program {
            name,
            number: number.unwrap_or(0),
            versions,
            source: definition.span.source,
            docs,
        });
    }

    /// Of two programs with one number no server could tell a version that both have.
    fn check_numbers(&mut self, program: &ProgramDef, number: Option<u32>, versions: &[Version]) {
        let Some(number) = number else { return };
        let span = consts::span(&program.number);
        let shared = versions.iter().find_map(|version| {
            let first = self.programs.get(&(number, version.number))?;
            Some((*first, version.number))
        });
        if let Some((first, version)) = shared {
            let message = format!("two programs have the number {number:#x} and a version {version}");
            let error = Diagnostic::error("X232", span, message).with_label("the second");
            let help = "a call names a program and a version by their numbers alone";
            return self.found.push(error.with_related(first, "the first").with_help(help));
        }
        self.programs.extend(versions.iter().map(|version| ((number, version.number), span)));
    }

    fn version(&mut self, program: &ProgramDef, version: &'a VersionDef, number: u32) -> Version {
        let all: Vec<&str> =
            version.procedures.iter().map(|procedure| procedure.name.name.as_str()).collect();
        let prefix = self.names.prefix(&all).to_owned();
        let mut seen = Seen::default();
        let mut idents = taken(self.names).and(IN_PROCEDURES);
        let mut methods = Taken::default();
        let mut procedures = Vec::new();
        for procedure in &version.procedures {
            let number = self.number(&procedure.number);
            let good = self.is_new(&procedure.name, &procedure.number, number, "procedure", &mut seen);
            let arguments = self.arguments(version, procedure);
            let result = self.result(version, procedure);
            let name = procedure.name.name.strip_prefix(&prefix).unwrap_or(&procedure.name.name);
            let (ident, clash) = idents.take(self.names.of_type(name), &procedure.name.name);
            self.say_clash(&procedure.name, &ident, clash.filter(|_| good));
            let (method, _) = methods.take(self.names.of_field(name), &procedure.name.name);
            let (Some(number), Some(arguments), Some(result), true) = (number, arguments, result, good)
            else {
                continue;
            };
            let docs = Docs {
                comments: procedure.docs.clone(),
                section: None,
                declaration: text::procedure(procedure),
                span: procedure.name.span,
            };
            let name = procedure.name.name.clone();
            let reply = ReplyBounds::default();
            let parameter = self.parameter(procedure);
            procedures.push(Procedure {
                name,
                ident,
                method,
                number,
                arguments,
                parameter,
                result,
                reply,
                docs,
            });
        }
        let (ident, module) = self.version_names(program, version);
        let docs = Docs { comments: version.docs.clone(), span: version.name.span, ..Docs::default() };
        Version { name: version.name.name.clone(), ident, module, number, procedures, binding: None, docs }
    }

    /// A version's names in Rust: its own, or with its program's before it where something else has them.
    fn version_names(&mut self, program: &ProgramDef, version: &VersionDef) -> (String, String) {
        let taken = |name: &str| {
            let (ident, module) = (self.names.of_type(name), names::snake(name));
            IN_VERSION.contains(&ident.as_str())
                || self.names == Names::Verbatim
                    && (HIDDEN_BY_VERBATIM.contains(&ident.as_str()) || self.type_idents.has(&module))
                || BESIDE_VERSION.contains(&module.as_str())
                || self.version_modules.has(&module)
        };
        let mut name = version.name.name.clone();
        if taken(&name) {
            name = format!("{}_{name}", program.name.name);
        }
        if taken(&name) {
            name.push_str("_x");
        }
        // Whoever is still called like another gets a number.
        let (module, clash) = self.version_modules.take(names::snake(&name), &name);
        let ident = self.names.of_type(&name);
        match (clash, module.rsplit_once('_')) {
            (Some(_), Some((_, number))) => (format!("{ident}{number}"), module),
            _ => (ident, module),
        }
    }

    fn arguments(&mut self, version: &VersionDef, procedure: &ProcedureDef) -> Option<Type> {
        for name in procedure.arguments.iter().filter_map(|argument| argument.name.as_ref()) {
            if self.is_type(&name.name) {
                let message = format!("an argument is called `{}`, like a type", name.name);
                let found = Diagnostic::warning("X119", name.span, message);
                let help = "write a `,` before it if it is the type of another argument";
                self.found.push(found.with_label("read as a name").with_help(help));
            }
        }
        match procedure.arguments.as_slice() {
            [] => Some(Type::Void),
            [one] => self.one_type(version, procedure, one, "args"),
            several => self.tuple(version, procedure, several),
        }
    }

    fn result(&mut self, version: &VersionDef, procedure: &ProcedureDef) -> Option<Type> {
        match &procedure.result {
            None => Some(Type::Void),
            Some(result) => self.one_type(version, procedure, result, "res"),
        }
    }

    /// The only argument, or the result. A counted array becomes a type whose field has the bound.
    fn one_type(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        one: &ProcedureType,
        suffix: &str,
    ) -> Option<Type> {
        let (ty, max) = self.procedure_type(one)?;
        if !matches!(ty, Type::Array(_)) {
            return Some(ty);
        }
        let docs =
            Docs { declaration: text::procedure_type(one), span: one.specifier.span, ..Docs::default() };
        let body = Body::Newtype(field("0".to_owned(), "0".to_owned(), ty, max, docs));
        let what = if suffix == "args" { "argument" } else { "result" };
        let comment = format!("The {what} of {}.", procedure.name.name);
        Some(self.own_type(version, procedure, suffix, comment, body))
    }

    /// The type of an argument or a result, and the largest count of a counted array.
    fn procedure_type(&mut self, ty: &ProcedureType) -> Option<(Type, Option<Bound>)> {
        if let Some(size) = &ty.size {
            return self.sized_type(&ty.specifier, size);
        }
        let plain = self.plain_specifier(&ty.specifier);
        if plain.is_none() && is_body(ty) {
            self.found.push(
                Diagnostic::error(
                    "X217",
                    ty.specifier.span,
                    "a procedure's argument or result is a type's name",
                )
                .with_label("a body in place")
                .with_help("define the type before the program and name it here"),
            );
        }
        let plain = plain?;
        Some((if ty.optional { Type::Optional(Box::new(plain)) } else { plain }, None))
    }

    /// An array, a string or opaque data with its size.
    fn sized_type(&mut self, of: &TypeSpecifier, size: &ArraySize) -> Option<(Type, Option<Bound>)> {
        let bound = match size {
            ArraySize::Fixed(size) | ArraySize::Variable(Some(size)) => Some(self.bound(size)?),
            ArraySize::Variable(None) => None,
        };
        let ty = match (&of.kind, size, bound.clone()) {
            (TypeSpecifierKind::Opaque, ArraySize::Fixed(_), Some(len)) => Type::FixedOpaque(len),
            (TypeSpecifierKind::Opaque, _, max) => Type::Opaque(max),
            (TypeSpecifierKind::String, _, max) => Type::String(max),
            (_, ArraySize::Fixed(_), Some(len)) => Type::FixedArray(Box::new(self.plain_specifier(of)?), len),
            _ => return Some((Type::Array(Box::new(self.plain_specifier(of)?)), bound)),
        };
        Some((ty, None))
    }

    /// Several arguments, one behind the other: a struct, with names for its fields if the arguments have any.
    fn tuple(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        arguments: &[ProcedureType],
    ) -> Option<Type> {
        let is_named = arguments.iter().any(|argument| argument.name.is_some());
        let mut idents = Taken::default();
        let mut seen: HashMap<&str, Span> = HashMap::default();
        let mut fields = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let (ty, max) = self.procedure_type(argument)?;
            let mut docs = Docs { span: argument.specifier.span, ..Docs::default() };
            let (name, ident) = match &argument.name {
                Some(name) => {
                    if let Some(first) = seen.insert(&name.name, name.span) {
                        self.found.push(second_argument(name, first));
                    }
                    docs.declaration = text::procedure_type(argument);
                    (name.name.clone(), self.names.of_field(&name.name))
                }
                None => {
                    docs.declaration = format!("argument {}", index + 1);
                    let index = index.to_string();
                    let ident = if is_named { format!("arg{index}") } else { index.clone() };
                    (index, ident)
                }
            };
            let (ident, _) = idents.take(ident, &name);
            fields.push(field(name, ident, ty, max, docs));
        }
        let body = if is_named { Body::Struct(fields) } else { Body::Tuple(fields) };
        let comment = format!("The arguments of {}, one behind the other.", procedure.name.name);
        Some(self.own_type(version, procedure, "args", comment, body))
    }

    /// A type for a procedure's arguments or its result.
    fn own_type(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        suffix: &str,
        comment: String,
        body: Body,
    ) -> Type {
        let path = format!("{}_{suffix}", procedure.name.name);
        let is_free = self.name_tuple(&path);
        let path = if is_free { path } else { format!("{}_{path}", version.name.name) };
        let docs = Docs {
            comments: vec![comment],
            section: None,
            declaration: text::procedure(procedure),
            span: procedure.name.span,
        };
        let id = self.new_type(&path, &procedure.name, docs);
        self.place(id, Some(body));
        Type::Named(id)
    }

    /// What a method calls what it takes: as the only argument is called.
    fn parameter(&self, procedure: &ProcedureDef) -> String {
        match procedure.arguments.as_slice() {
            [ProcedureType { name: Some(name), .. }] => {
                let mut taken = Taken::with(IN_METHODS);
                taken.take(self.names.of_field(&name.name), &name.name).0
            }
            _ => "args".to_owned(),
        }
    }

    /// A program's, a version's or a procedure's number.
    fn number(&mut self, value: &Value) -> Option<u32> {
        let number = self.eval(value)?;
        let fits = u32::try_from(number).ok();
        if fits.is_none() {
            self.found.push(
                Diagnostic::error("X234", consts::span(value), format!("{number} is no unsigned int"))
                    .with_label("programs, versions and procedures have unsigned 32-bit numbers"),
            );
        }
        fits
    }

    /// Whether neither name nor number was there before; says so if one was.
    fn is_new(
        &mut self,
        name: &'a Identifier,
        value: &Value,
        number: Option<u32>,
        what: &str,
        seen: &mut Seen<'a>,
    ) -> bool {
        if let Some(first) = seen.names.get(name.name.as_str()) {
            self.found.push(
                Diagnostic::error("X231", name.span, format!("two {what}s are called `{}`", name.name))
                    .with_label("the second")
                    .with_related(*first, "the first"),
            );
            return false;
        }
        seen.names.insert(&name.name, name.span);
        let Some(number) = number else { return false };
        let span = consts::span(value);
        if let Some(first) = seen.numbers.get(&number) {
            self.found.push(
                Diagnostic::error("X230", span, format!("two {what}s have the number {number}"))
                    .with_label("the second")
                    .with_related(*first, "the first"),
            );
            return false;
        }
        seen.numbers.insert(number, span);
        true
    }
}

fn field(name: String, ident: String, ty: Type, max: Option<Bound>, docs: Docs) -> Field {
    Field { name, ident, ty, max, recursive: false, list: false, eligible: false, docs }
}

fn second_argument(name: &Identifier, first: Span) -> Diagnostic {
    Diagnostic::error("X210", name.span, format!("two arguments are called `{}`", name.name))
        .with_label("the second")
        .with_related(first, "the first")
}

fn is_body(ty: &ProcedureType) -> bool {
    use crate::ast::TypeSpecifierKind::{Enum, Struct, Union};
    matches!(ty.specifier.kind, Enum(_) | Struct(_) | Union(_))
}
