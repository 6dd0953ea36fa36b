//! Enums: members and their values (RFC 4506 section 4.3).

use std::ptr;

use super::definitions::Resolver;
use super::scope::{Named, ValueSource};
use crate::ast::{EnumBody, EnumMember, Identifier, Value};
use crate::diag::{MeaningKind, Severity};
use crate::hash::{self, HashMap};
use crate::hir::{Body, Member};
use crate::source::{Span, narrow};

#[derive(Default)]
struct Members<'a> {
    /// The positions of member names that the scope resolves to another definition.
    seen: HashMap<&'a str, Span>,
    /// The index of the first member with each value.
    first_of: HashMap<i32, u32>,
    members: Vec<Member>,
    /// The severity of the last finding about a value, until the next explicit value. A value that depends on
    /// the reported value is reported only with a higher severity.
    reported: Option<Severity>,
}

impl Resolver<'_> {
    pub(crate) fn enumeration(&mut self, body: &EnumBody) -> Option<Body> {
        let room = body.members.len();
        let (first_of, members) = (hash::with_room(room), Vec::with_capacity(room));
        let mut members = Members { first_of, members, ..Members::default() };
        let mut next = Some(0);
        for (index, member) in body.members.iter().enumerate() {
            // An implicit value is one more than the previous value, or 0 for the first member.
            let value = match &member.value {
                Some(value) => self.eval(value),
                None => next,
            };
            next = value.and_then(|value| value.checked_add(1));
            members.reported = members.reported.filter(|_| member.value.is_none());
            let Identifier { name, span } = &member.name;
            let first = match self.scope.value_named(name) {
                Some(Named { source: ValueSource::Member(of, first), span, .. }) if ptr::eq(of, body) => {
                    (first != narrow(index)).then_some(span)
                }
                _ => members.seen.insert(name, *span),
            };
            if let Some(first) = first {
                self.found.push(MeaningKind::SecondMember { name: name.clone(), first }.at(*span));
            } else if let Some(value) = value {
                self.member(member, value, &mut members);
            }
        }
        (!members.members.is_empty()).then_some(Body::Enum(members.members))
    }

    /// Adds a member, whose name must be unique in the enum.
    fn member(&mut self, member: &EnumMember, value: i128, members: &mut Members<'_>) {
        let name = &member.name;
        let span = member.value.as_ref().map_or(name.span, Value::span);
        let Some(value) = self.member_value(value, span, &mut members.reported) else {
            return members.members.push(stand_in(&name.name, members.members.len()));
        };
        let same_as = members.first_of.get(&value).copied();
        members.first_of.entry(value).or_insert(narrow(members.members.len()));
        if let Some(other) = same_as.and_then(|index| members.members.get(index as usize))
            && members.reported.replace(members.reported.unwrap_or(Severity::Warning)).is_none()
        {
            let (first, second) = (other.name.clone(), name.name.clone());
            let place = other.span;
            self.found.push(MeaningKind::SameValue { first, place, second, value }.at(span));
        }
        let (comments, span) = (member.docs.clone(), name.span);
        members.members.push(Member { name: name.name.clone(), value, same_as, comments, span });
    }

    fn member_value(&mut self, value: i128, span: Span, reported: &mut Option<Severity>) -> Option<i32> {
        // The values -1 and 0xffffffff are encoded as the same four bytes.
        if let Ok(unsigned) = u32::try_from(value) {
            if unsigned > i32::MAX.unsigned_abs()
                && reported.replace(reported.unwrap_or(Severity::Warning)).is_none()
            {
                self.found.push(MeaningKind::SentNegative { number: unsigned }.at(span));
            }
            return Some(unsigned.cast_signed());
        }
        let fits = i32::try_from(value).ok();
        if fits.is_none() && reported.replace(Severity::Error) != Some(Severity::Error) {
            self.found.push(MeaningKind::WideMember { number: value }.at(span));
        }
        fits
    }
}

/// Returns a substitute for a member whose value is out of range, so that a label with its name stays valid.
/// The substitute is never emitted.
fn stand_in(name: &str, index: usize) -> Member {
    let value = i32::try_from(index).map_or(i32::MIN, |index| i32::MIN.saturating_add(index));
    Member { name: name.to_owned(), value, same_as: None, comments: Vec::new(), span: Span::default() }
}
