//! Programs, their versions and procedures: found by their names, or else by their numbers.

use std::collections::BTreeMap;

use super::{Differ, side};
use crate::compare::view::Use;
use crate::hash::{HashMap, HashSet};
use crate::hir::{Procedure, Program, Version};

impl<'m> Differ<'m> {
    pub(super) fn programs(&mut self) {
        let text = |program: &Program| side(format!("{} = {}", program.name, program.number), &program.docs);
        let matched = matched(&self.old.programs, &self.new.programs, |one| (&one.name, one.number));
        for (program, other) in &matched.both {
            if program.name != other.name || program.number != other.number {
                let wire = program.number != other.number;
                self.changed("program", program.name.clone(), [text(program), text(other)], wire);
            }
            self.versions(program, other);
        }
        for program in matched.gone {
            self.removed("program", program.name.clone(), text(program), true);
        }
        for program in matched.come {
            self.added("program", program.name.clone(), text(program), true);
        }
    }

    fn versions(&mut self, old: &'m Program, new: &'m Program) {
        let name = |version: &Version| format!("{}.{}", old.name, version.name);
        let text = |version: &Version| side(format!("{} = {}", version.name, version.number), &version.docs);
        let matched = matched(&old.versions, &new.versions, |one| (&one.name, one.number));
        for (version, other) in &matched.both {
            if version.name != other.name || version.number != other.number {
                let wire = version.number != other.number;
                self.changed("version", name(version), [text(version), text(other)], wire);
            }
            self.procedures(&name(version), version, other);
        }
        for version in matched.gone {
            self.removed("version", name(version), text(version), true);
        }
        for version in matched.come {
            self.added("version", name(version), text(version), true);
        }
    }

    fn procedures(&mut self, owner: &str, old: &'m Version, new: &'m Version) {
        let name = |procedure: &Procedure| format!("{owner}.{}", procedure.name);
        let text = |procedure: &Procedure| side(&procedure.docs.declaration, &procedure.docs);
        let matched = matched(&old.procedures, &new.procedures, |one| (&one.name, one.number));
        for (one, other) in &matched.both {
            let wire = one.number != other.number
                || !self.layouts.same(Use::Type(&one.arguments), Use::Type(&other.arguments))
                || !self.layouts.same(Use::Type(&one.result), Use::Type(&other.result));
            if wire || one.docs.declaration != other.docs.declaration {
                self.changed("procedure", name(one), [text(one), text(other)], wire);
            }
        }
        for procedure in matched.gone {
            self.removed("procedure", name(procedure), text(procedure), true);
        }
        for procedure in matched.come {
            self.added("procedure", name(procedure), text(procedure), true);
        }
    }
}

/// What is in both versions, and what is in one.
struct Matched<'a, T> {
    both: Vec<(&'a T, &'a T)>,
    gone: Vec<&'a T>,
    come: Vec<&'a T>,
}

fn matched<'a, T>(old: &'a [T], new: &'a [T], of: impl Fn(&'a T) -> (&'a String, u32)) -> Matched<'a, T> {
    let names: HashMap<&str, &T> = new.iter().map(|one| (of(one).0.as_str(), one)).collect();
    let before: HashSet<&str> = old.iter().map(|one| of(one).0.as_str()).collect();
    let free = new.iter().filter(|one| !before.contains(of(one).0.as_str()));
    let mut numbers: BTreeMap<u32, &T> = free.map(|one| (of(one).1, one)).collect();
    let mut matched = Matched { both: Vec::new(), gone: Vec::new(), come: Vec::new() };
    for one in old {
        let (name, number) = of(one);
        match names.get(name.as_str()).copied().or_else(|| numbers.remove(&number)) {
            Some(other) => matched.both.push((one, other)),
            None => matched.gone.push(one),
        }
    }
    matched.come = numbers.into_values().collect();
    matched
}
