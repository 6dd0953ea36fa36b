//! Enums: members and their values (RFC 4506 section 4.3).

use super::consts;
use super::definitions::Resolver;
use crate::ast::{EnumBody, EnumMember};
use crate::diag::{MeaningKind, Severity};
use crate::hash::{self, HashMap};
use crate::hir::{Body, Docs, Member};
use crate::namespace;
use crate::source::Span;

/// For how many members room is made at once: of more, most may be wrong.
const MOST_ROOM: usize = 1 << 14;

/// What is known of an enum's members up to one of them.
struct Members<'a> {
    /// Where each name stands.
    seen: HashMap<&'a str, Span>,
    /// The first member of each value, by its place among the members ones.
    first_of: HashMap<i32, usize>,
    members: Vec<Member>,
    /// Whether a value was reported. Values that follow from it are not reported again.
    odd: Option<Severity>,
}

impl Members<'_> {
    fn of(body: &EnumBody) -> Self {
        let room = body.members.len().min(MOST_ROOM);
        Members {
            seen: hash::with_room(room),
            first_of: hash::with_room(room),
            members: Vec::with_capacity(room),
            odd: None,
        }
    }
}

impl Resolver<'_> {
    pub(crate) fn enumeration(&mut self, body: &EnumBody) -> Option<Body> {
        let values = self.consts.members(body, &self.scope, &mut self.found, &mut self.unresolved);
        let mut members = Members::of(body);
        for (member, value) in body.members.iter().zip(values) {
            members.odd = members.odd.filter(|_| member.value.is_none());
            if let Some(first) = members.seen.insert(&member.name.name, member.name.span) {
                let second = MeaningKind::SecondMember { name: member.name.name.clone(), first };
                self.found.push(second.at(member.name.span));
            } else if let Some(value) = value {
                self.member(member, value, &mut members);
            }
        }
        (!members.members.is_empty()).then_some(Body::Enum(members.members))
    }

    /// A member of a name of its own.
    fn member(&mut self, member: &EnumMember, value: i128, members: &mut Members<'_>) {
        let name = &member.name;
        let span = member.value.as_ref().map_or(name.span, consts::span);
        let Some(value) = self.member_value(value, span, &mut members.odd) else {
            return members.members.push(stand_in(&name.name, members.members.len()));
        };
        let same_as = members.first_of.get(&value).copied();
        members.first_of.entry(value).or_insert(members.members.len());
        if let Some(other) = same_as.and_then(|index| members.members.get(index))
            && members.odd.replace(members.odd.unwrap_or(Severity::Warning)).is_none()
        {
            let (first, second) = (other.name.clone(), name.name.clone());
            let place = members.seen.get(first.as_str()).copied();
            self.found.push(MeaningKind::SameValue { first, place, second, value }.at(span));
        }
        let docs = Docs {
            comments: member.docs.clone(),
            section: None,
            declaration: format!("{} = {value}", namespace::last(&name.name)),
            span: name.span,
        };
        members.members.push(Member { name: name.name.clone(), value, same_as, docs });
    }

    fn member_value(&mut self, value: i128, span: Span, odd: &mut Option<Severity>) -> Option<i32> {
        // 0xffffffff is how C writes -1: the same four bytes.
        if let Ok(unsigned) = u32::try_from(value) {
            if unsigned > i32::MAX.unsigned_abs() && odd.replace(odd.unwrap_or(Severity::Warning)).is_none() {
                self.found.push(MeaningKind::SentNegative { number: unsigned }.at(span));
            }
            return Some(unsigned.cast_signed());
        }
        let fits = i32::try_from(value).ok();
        if fits.is_none() && odd.replace(Severity::Error) != Some(Severity::Error) {
            self.found.push(MeaningKind::WideMember { number: value }.at(span));
        }
        fits
    }
}

/// What stands for a member whose value is out of range: the label of an arm may name it, and shall not be wrong for
/// that. Nothing is emitted, so any value will do that no other member has.
fn stand_in(name: &str, index: usize) -> Member {
    let value = i32::try_from(index).map_or(i32::MIN, |index| i32::MIN.saturating_add(index));
    Member { name: name.to_owned(), value, same_as: None, docs: Docs::default() }
}
