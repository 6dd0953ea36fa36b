//! Programs, their versions and procedures (RFC 5531 section 12.2).

use super::consts;
use super::definitions::{Resolver, docs};
use super::text;
use crate::ast::{Definition, Identifier, ProcedureDef, ProcedureType, ProgramDef, Value, VersionDef};
use crate::diag::Diagnostic;
use crate::hash::HashMap;
use crate::hir::{Body, Docs, Field, Procedure, Program, Type, Version};
use crate::source::Span;

/// Numbers and names that were seen in one place.
#[derive(Default)]
struct Seen<'a> {
    names: HashMap<&'a str, Span>,
    numbers: HashMap<u32, Span>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn program(&mut self, definition: &'a Definition, program: &'a ProgramDef) {
        let number = self.number(&program.number);
        let mut seen = Seen::default();
        let mut versions = Vec::new();
        for version in &program.versions {
            let number = self.number(&version.number);
            let good = self.is_new(&version.name, &version.number, number, "version", &mut seen);
            let resolved = self.version(version, number.unwrap_or(0));
            if good {
                versions.push(resolved);
            }
        }
        self.check_numbers(program, number, &versions);
        let name = program.name.name.clone();
        let docs = docs(definition, &program.name);
        self.place_program(Program { name, number: number.unwrap_or(0), versions, docs });
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

    fn version(&mut self, version: &'a VersionDef, number: u32) -> Version {
        let mut seen = Seen::default();
        let (mut procedures, mut lost) = (Vec::new(), Vec::new());
        for procedure in &version.procedures {
            let number = self.number(&procedure.number);
            let good = self.is_new(&procedure.name, &procedure.number, number, "procedure", &mut seen);
            let arguments = self.arguments(version, procedure);
            let result = self.result(procedure);
            let (Some(number), Some(arguments), Some(result), true) = (number, arguments, result, good)
            else {
                lost.push(procedure.name.name.clone());
                continue;
            };
            let name = procedure.name.name.clone();
            let docs = of_procedure(procedure, procedure.docs.clone());
            procedures.push(Procedure { name, number, arguments, result, item: None, whole: None, docs });
        }
        let docs = Docs { comments: version.docs.clone(), span: version.name.span, ..Docs::default() };
        Version { name: version.name.name.clone(), number, procedures, lost, binding: None, docs }
    }

    fn arguments(&mut self, version: &VersionDef, procedure: &ProcedureDef) -> Option<Type> {
        match procedure.arguments.as_slice() {
            [] => Some(Type::Void),
            [one] => self.procedure_type(one),
            several => self.tuple(version, procedure, several),
        }
    }

    fn result(&mut self, procedure: &ProcedureDef) -> Option<Type> {
        match &procedure.result {
            None => Some(Type::Void),
            Some(result) => self.procedure_type(result),
        }
    }

    fn procedure_type(&mut self, ty: &ProcedureType) -> Option<Type> {
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
        Some(if ty.optional { Type::Optional(Box::new(plain)) } else { plain })
    }

    /// Several arguments, one behind the other: a struct.
    fn tuple(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        arguments: &[ProcedureType],
    ) -> Option<Type> {
        let mut fields = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let ty = self.procedure_type(argument)?;
            let declaration = format!("argument {}", index + 1);
            let docs = Docs { declaration, span: argument.specifier.span, ..Docs::default() };
            let (name, at) = (index.to_string(), docs.span);
            fields.push(Field { name, at, ty, eligible: false, docs });
        }
        let path = format!("{}_args", procedure.name.name);
        let is_free = self.name_tuple(&path);
        let path = if is_free { path } else { format!("{}_{path}", version.name.name) };
        let comment = format!("The arguments of {}, one behind the other.", procedure.name.name);
        let id = self.new_type(&path, of_procedure(procedure, vec![comment]));
        self.place(id, Some(Body::Tuple(fields)));
        Some(Type::Named(id))
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

/// A procedure's documentation, or that of what it takes.
fn of_procedure(procedure: &ProcedureDef, comments: Vec<String>) -> Docs {
    Docs { comments, section: None, declaration: text::procedure(procedure), span: procedure.name.span }
}

fn is_body(ty: &ProcedureType) -> bool {
    use crate::ast::TypeSpecifierKind::{Enum, Struct, Union};
    matches!(ty.specifier.kind, Enum(_) | Struct(_) | Union(_))
}
