//! Programs, their versions and procedures (RFC 5531 section 12.2).

use super::definitions::{Resolver, docs};
use super::text;
use crate::ast::{Declaration, Definition, Identifier, ProcedureDef, ProgramDef, Value, VersionDef};
use crate::diag::{MeaningKind, Part, SyntaxKind};
use crate::hash::HashMap;
use crate::hir::{Body, Docs, Field, Procedure, Program, Type, Version};
use crate::source::Span;

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
            let good = self.is_new(&version.name, &version.number, number, Part::Version, &mut seen);
            let resolved = self.version(version, number.unwrap_or(0));
            if good {
                versions.push(resolved);
            }
        }
        let name = program.name.name.clone();
        let docs = docs(definition, &program.name);
        let number_at = number.map(|_| program.number.span());
        self.place_program(Program { name, number: number.unwrap_or(0), number_at, versions, docs });
    }

    fn version(&mut self, version: &'a VersionDef, number: u32) -> Version {
        let mut seen = Seen::default();
        let (mut procedures, mut omitted) = (Vec::new(), Vec::new());
        for procedure in &version.procedures {
            let number = self.number(&procedure.number);
            let good = self.is_new(&procedure.name, &procedure.number, number, Part::Procedure, &mut seen);
            let arguments = self.arguments(version, procedure);
            let result = self.result(version, procedure);
            let (Some(number), Some(arguments), Some(result), true) = (number, arguments, result, good)
            else {
                omitted.push(procedure.name.name.clone());
                continue;
            };
            let name = procedure.name.name.clone();
            let docs = of_procedure(procedure, procedure.docs.clone());
            let parameter = match procedure.arguments.as_slice() {
                [Declaration { name: Some(name), .. }] => Some(name.name.clone()),
                _ => None,
            };
            let (item, unreduced) = (None, None);
            procedures.push(Procedure { name, number, arguments, parameter, result, item, unreduced, docs });
        }
        let docs = Docs { comments: version.docs.clone(), span: version.name.span, ..Docs::default() };
        Version { name: version.name.name.clone(), number, procedures, omitted, binding: None, docs }
    }

    fn arguments(&mut self, version: &VersionDef, procedure: &ProcedureDef) -> Option<Type> {
        for name in procedure.arguments.iter().filter_map(|argument| argument.name.as_ref()) {
            if self.is_type(&name.name) {
                self.found.push(SyntaxKind::ArgumentLikeType { name: name.name.clone() }.at(name.span));
            }
        }
        match procedure.arguments.as_slice() {
            [] => Some(Type::Void),
            [one] => self.one_type(version, procedure, one, "args"),
            several => self.several(version, procedure, several),
        }
    }

    fn result(&mut self, version: &VersionDef, procedure: &ProcedureDef) -> Option<Type> {
        match &procedure.result {
            None => Some(Type::Void),
            Some(result) => self.one_type(version, procedure, result, "res"),
        }
    }

    /// Resolves a single argument or the result. A counted array gets a named type.
    fn one_type(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        one: &Declaration,
        suffix: &str,
    ) -> Option<Type> {
        let ty = self.procedure_type(one)?;
        if !matches!(ty, Type::Array(..)) {
            return Some(ty);
        }
        let docs = Docs { declaration: text::declaration(one), span: one.specifier.span, ..Docs::default() };
        let body =
            Body::Tuple(vec![Field { name: "0".to_owned(), at: docs.span, ty, eligible: false, docs }]);
        let what = if suffix == "args" { "argument" } else { "result" };
        let comment = format!("The {what} of {}.", procedure.name.name);
        Some(self.own_type(version, procedure, suffix, comment, body))
    }

    fn procedure_type(&mut self, ty: &Declaration) -> Option<Type> {
        if ty.specifier.kind.is_body() {
            self.found.push(MeaningKind::BodyInProcedure.at(ty.specifier.span));
        }
        self.declared_type(ty, |resolver| resolver.plain_specifier(&ty.specifier))
    }

    /// Resolves several arguments to a struct, or to a tuple if no argument has a name.
    fn several(
        &mut self,
        version: &VersionDef,
        procedure: &ProcedureDef,
        arguments: &[Declaration],
    ) -> Option<Type> {
        let is_named = arguments.iter().any(|argument| argument.name.is_some());
        let mut seen: HashMap<&str, Span> = HashMap::default();
        let mut fields = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let ty = self.procedure_type(argument)?;
            let mut docs = Docs { span: argument.specifier.span, ..Docs::default() };
            let name = match &argument.name {
                Some(name) => {
                    if let Some(first) = seen.insert(&name.name, name.span) {
                        let second = MeaningKind::SecondArgument { name: name.name.clone(), first };
                        self.found.push(second.at(name.span));
                    }
                    docs.declaration = text::declaration(argument);
                    name.name.clone()
                }
                None => {
                    docs.declaration = format!("argument {}", index + 1);
                    if is_named { unused_name(arguments, &fields, index) } else { index.to_string() }
                }
            };
            fields.push(Field { name, at: docs.span, ty, eligible: false, docs });
        }
        let body = if is_named { Body::Struct(fields) } else { Body::Tuple(fields) };
        let comment = format!("The arguments of {} in sequence.", procedure.name.name);
        Some(self.own_type(version, procedure, "args", comment, body))
    }

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
        let id = self.new_type(&path, of_procedure(procedure, vec![comment]));
        self.place(id, Some(body));
        Type::Named(id)
    }

    fn number(&mut self, value: &Value) -> Option<u32> {
        let number = self.eval(value)?;
        let fits = u32::try_from(number).ok();
        if fits.is_none() {
            self.found.push(MeaningKind::NoUnsigned { number }.at(value.span()));
        }
        fits
    }

    /// Reports a duplicate name or number. Returns false for a duplicate and for an invalid number.
    fn is_new(
        &mut self,
        name: &'a Identifier,
        value: &Value,
        number: Option<u32>,
        of: Part,
        seen: &mut Seen<'a>,
    ) -> bool {
        if let Some(&first) = seen.names.get(name.name.as_str()) {
            self.found.push(MeaningKind::SecondName { of, name: name.name.clone(), first }.at(name.span));
            return false;
        }
        seen.names.insert(&name.name, name.span);
        let Some(number) = number else { return false };
        let span = value.span();
        if let Some(&first) = seen.numbers.get(&number) {
            self.found.push(MeaningKind::SecondNumber { of, number, first }.at(span));
            return false;
        }
        seen.numbers.insert(number, span);
        true
    }
}

/// Returns the field name for an unnamed argument: `arg` and the argument's index. If this name is in use,
/// the next larger number that yields an unused name replaces the index.
fn unused_name(arguments: &[Declaration], fields: &[Field], index: usize) -> String {
    let is_used = |name: &String| {
        fields.iter().any(|field| field.name == *name)
            || arguments.iter().filter_map(|argument| argument.name.as_ref()).any(|used| used.name == *name)
    };
    (index..).map(|number| format!("arg{number}")).find(|name| !is_used(name)).unwrap_or_default()
}

fn of_procedure(procedure: &ProcedureDef, comments: Vec<String>) -> Docs {
    Docs { comments, section: None, declaration: text::procedure(procedure), span: procedure.name.span }
}
