//! Enums: members and their values (RFC 4506 section 4.3).

use super::consts;
use super::lower::Lower;
use crate::ast::EnumBody;
use crate::diag::{Diagnostic, Severity};
use crate::hash::HashMap;
use crate::ir::{Body, Docs, Member};
use crate::names::{Names, Taken};
use crate::source::Span;

impl Lower<'_> {
    pub(crate) fn enumeration(&mut self, body: &EnumBody) -> Option<Body> {
        let values = self.consts.members(body, &self.scope, &mut self.found);
        let all: Vec<&str> = body.members.iter().map(|member| member.name.name.as_str()).collect();
        let prefix = self.names.prefix(&all);
        let count = body.members.len();
        let mut idents = Taken::with_room(count);
        let mut seen: HashMap<&str, Span> = crate::hash::with_room(count);
        let mut members: Vec<Member> = Vec::with_capacity(count);
        let mut first_of: HashMap<i32, usize> = crate::hash::with_room(count);
        // Values that follow from one that was reported are not reported again.
        let mut odd = None;
        for (member, value) in body.members.iter().zip(values) {
            let name = &member.name;
            odd = odd.filter(|_| member.value.is_none());
            if let Some(first) = seen.insert(&name.name, name.span) {
                self.found.push(
                    Diagnostic::error("X206", name.span, format!("two members are called `{}`", name.name))
                        .with_label("the second")
                        .with_related(first, "the first"),
                );
                continue;
            }
            let span = member.value.as_ref().map_or(name.span, consts::span);
            let Some(value) = value else { continue };
            let Some(value) = self.member_value(value, span, &mut odd) else {
                members.push(stand_in(&name.name, members.len()));
                continue;
            };
            let same_as = first_of.get(&value).copied();
            first_of.entry(value).or_insert(members.len());
            if let Some(other) = same_as.and_then(|index| members.get(index)) {
                let first = (other.name.as_str(), seen.get(other.name.as_str()).copied());
                self.warn_same(first, (&name.name, span), value, &mut odd);
            }
            let rest = name.name.strip_prefix(prefix).unwrap_or(&name.name);
            let rust = match self.names {
                Names::Rust if same_as.is_some() => self.names.of_const(&rest.to_uppercase()),
                names => names.of_type(rest),
            };
            let (ident, clash) = idents.take(rust, &name.name);
            self.say_clash(name, &ident, clash);
            let docs = Docs {
                comments: member.docs.clone(),
                section: None,
                declaration: format!("{} = {value}", name.name),
                span: name.span,
            };
            members.push(Member { name: name.name.clone(), ident, value, same_as, docs });
        }
        if members.is_empty() {
            return None;
        }
        Some(Body::Enum(members))
    }

    fn warn_same(
        &mut self,
        (first, place): (&str, Option<Span>),
        (second, span): (&str, Span),
        value: i32,
        odd: &mut Option<Severity>,
    ) {
        if odd.replace(odd.unwrap_or(Severity::Warning)).is_some() {
            return;
        }
        let message = format!("`{first}` and `{second}` are both {value}");
        let warning = Diagnostic::warning("X207", span, message).with_label("the same value again");
        let warning = match place {
            Some(place) => warning.with_related(place, "the first"),
            None => warning,
        };
        self.found.push(warning.with_help("in Rust the later one is a constant that equals the first"));
    }

    fn member_value(&mut self, value: i128, span: Span, odd: &mut Option<Severity>) -> Option<i32> {
        // 0xffffffff is how C writes -1: the same four bytes.
        if let Ok(unsigned) = u32::try_from(value) {
            if unsigned > i32::MAX.unsigned_abs() && odd.replace(odd.unwrap_or(Severity::Warning)).is_none() {
                self.found.push(
                    Diagnostic::warning(
                        "X209",
                        span,
                        format!("{value} is sent as {}", unsigned.cast_signed()),
                    )
                    .with_label("above 2147483647")
                    .with_help("an enum's value is signed and has 32 bits (RFC 4506 section 4.3)"),
                );
            }
            return Some(unsigned.cast_signed());
        }
        let fits = i32::try_from(value).ok();
        if fits.is_none() && odd.replace(Severity::Error) != Some(Severity::Error) {
            self.found.push(
                Diagnostic::error("X205", span, format!("{value} is no value of an enum"))
                    .with_label("does not fit 32 bits")
                    .with_help("an enum's value is signed and has 32 bits (RFC 4506 section 4.3)"),
            );
        }
        fits
    }
}

/// What stands for a member whose value is out of range: the label of an arm may name it, and shall not be wrong for
/// that. Nothing is emitted, so any value will do that no other member has.
fn stand_in(name: &str, index: usize) -> Member {
    let value = i32::try_from(index).map_or(i32::MIN, |index| i32::MIN.saturating_add(index));
    Member { name: name.to_owned(), ident: String::new(), value, same_as: None, docs: Docs::default() }
}
