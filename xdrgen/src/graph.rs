//! A graph with edges from each type to the types that it contains. No function recurses, since a chain of
//! types may be long enough to overflow the stack. Except for `solve` and sorting, the run time is linear.

use std::collections::VecDeque;

use crate::hash::{HashMap, HashSet};
use crate::hir::{Hir, TypeId};
use crate::ir::Module;

pub(crate) struct Graph {
    /// The index in `uses` of each type's first use, followed by the total number of uses.
    starts: Vec<usize>,
    uses: Vec<TypeId>,
    /// All types in topological order. The types of a cycle are contiguous.
    order: Vec<TypeId>,
    /// The cycle number of each type: mutually recursive types have the same number.
    cycle_of: Vec<usize>,
}

impl Graph {
    pub(crate) fn new<T>(types: &[T], uses: impl Fn(TypeId, &T, &mut Vec<TypeId>)) -> Self {
        let count = types.len();
        let mut graph = Graph {
            starts: vec![0],
            uses: Vec::with_capacity(2 * count),
            order: Vec::with_capacity(count),
            cycle_of: vec![usize::MAX; count],
        };
        let mut used = Vec::new();
        for (index, ty) in types.iter().enumerate() {
            uses(TypeId(index), ty, &mut used);
            used.retain(|id| id.0 < count);
            used.sort_unstable();
            used.dedup();
            graph.uses.append(&mut used);
            graph.starts.push(graph.uses.len());
        }
        Walk::new(count).run(&mut graph);
        graph
    }

    /// Creates a graph of all uses, including uses through arrays and optional data.
    pub(crate) fn of_all_uses(hir: &Hir) -> Self {
        Graph::new(&hir.types, |_, ty, used| used.extend(ty.body.types().filter_map(|ty| ty.named())))
    }

    /// Like `of_all_uses`, but for Rust types.
    pub(crate) fn of_module(module: &Module) -> Self {
        Graph::new(&module.types, |_, ty, used| used.extend(ty.body.types().filter_map(|ty| ty.named())))
    }

    fn uses(&self, id: TypeId) -> &[TypeId] {
        let (Some(start), Some(end)) = (self.starts.get(id.0), self.starts.get(id.0 + 1)) else { return &[] };
        self.uses.get(*start..*end).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.cycle_of.len()
    }

    fn users(&self) -> Vec<Vec<TypeId>> {
        let mut users = vec![Vec::new(); self.len()];
        for user in (0..self.len()).map(TypeId) {
            for used in self.uses(user) {
                users.get_mut(used.0).into_iter().for_each(|users: &mut Vec<_>| users.push(user));
            }
        }
        users
    }

    /// Returns all types in topological order: except in cycles, each type follows the types that it uses.
    pub(crate) fn order(&self) -> &[TypeId] {
        &self.order
    }

    /// Returns true if two types contain each other, at any depth. If both are the same type, returns true if
    /// the type contains itself.
    pub(crate) fn is_cycle(&self, one: TypeId, other: TypeId) -> bool {
        let is_in_cycle = || self.uses(one).iter().any(|used| self.cycle(*used) == self.cycle(one));
        self.cycle(one) == self.cycle(other) && (one != other || is_in_cycle())
    }

    /// Returns the number that identifies a type's cycle. A type outside cycles has a unique number.
    pub(crate) fn cycle(&self, id: TypeId) -> usize {
        self.cycle_of.get(id.0).copied().unwrap_or(usize::MAX)
    }

    /// Returns the types of a shortest cycle through `start`, or no types if no cycle contains `start`. Each
    /// type uses the type before it, and `start`, the first type, uses the last.
    pub(crate) fn cycle_path(&self, start: TypeId) -> Vec<TypeId> {
        let mut before = HashMap::default();
        let mut pending = VecDeque::from([start]);
        while let Some(id) = pending.pop_front() {
            for to in self.uses(id).iter().filter(|to| self.cycle(**to) == self.cycle(start)) {
                if *to == start {
                    let mut path = vec![start];
                    path.extend(std::iter::successors(Some(id), |id| before.get(id).copied()));
                    path.dedup();
                    if path.len() > 1 && path.last() == Some(&start) {
                        path.pop();
                    }
                    return path;
                }
                if before.insert(*to, id).is_none() {
                    pending.push_back(*to);
                }
            }
        }
        Vec::new()
    }

    /// Returns all types in topological order, with the types of each cycle in one slice.
    pub(crate) fn cycles(&self) -> impl Iterator<Item = &[TypeId]> {
        self.order.chunk_by(|one, other| self.cycle(*one) == self.cycle(*other))
    }

    /// Returns the nesting depth of each type. A cycle counts as one type.
    pub(crate) fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.len()];
        for cycle in self.cycles() {
            let outside = |id: &&TypeId| cycle.first().is_none_or(|own| self.cycle(**id) != self.cycle(*own));
            let used = cycle.iter().flat_map(|id| self.uses(*id)).filter(outside);
            let depth = used.filter_map(|id| depths.get(id.0).copied()).max().unwrap_or(0) + 1;
            for id in cycle {
                if let Some(slot) = depths.get_mut(id.0) {
                    *slot = depth;
                }
            }
        }
        depths
    }

    /// Computes a property of each type from the properties of the types that this type uses. Repeats until
    /// no property changes. `of` must be monotonic.
    pub(crate) fn solve<T: Clone + PartialEq>(&self, start: T, of: impl Fn(TypeId, &[T]) -> T) -> Vec<T> {
        let mut values = vec![start; self.len()];
        let used_by = self.users();
        let mut pending: VecDeque<TypeId> = self.order.iter().copied().collect();
        let mut waits = vec![true; self.len()];
        while let Some(id) = pending.pop_front() {
            if let Some(waits) = waits.get_mut(id.0) {
                *waits = false;
            }
            let value = of(id, &values);
            let Some(slot) = values.get_mut(id.0).filter(|slot| **slot != value) else { continue };
            *slot = value;
            for user in used_by.get(id.0).into_iter().flatten() {
                if let Some(waits) = waits.get_mut(user.0).filter(|waits| !**waits) {
                    *waits = true;
                    pending.push_back(*user);
                }
            }
        }
        values
    }

    /// Returns the types in `starts`, and all types that they contain, at any depth.
    pub(crate) fn reached_from(&self, starts: impl IntoIterator<Item = TypeId>) -> HashSet<TypeId> {
        let mut reached: HashSet<TypeId> = starts.into_iter().collect();
        let mut pending: Vec<TypeId> = reached.iter().copied().collect();
        while let Some(id) = pending.pop() {
            pending.extend(self.uses(id).iter().filter(|id| reached.insert(**id)));
        }
        reached
    }
}

/// Tarjan's algorithm: emits the types of a cycle together, after all types that they use.
struct Walk {
    numbers: Vec<usize>,
    lowest: Vec<usize>,
    open: Vec<TypeId>,
    next: usize,
}

/// The number of an unvisited type, and the cycle number of a type whose cycle is incomplete.
const NONE: usize = usize::MAX;

impl Walk {
    fn new(count: usize) -> Self {
        Walk { numbers: vec![NONE; count], lowest: vec![NONE; count], open: Vec::new(), next: 0 }
    }

    fn run(mut self, graph: &mut Graph) {
        // The types on the path from `start`, each with the number of its uses that have been followed.
        let mut path = Vec::new();
        for start in (0..graph.len()).map(TypeId) {
            if self.number(start) != NONE {
                continue;
            }
            path.push((start, 0));
            self.enter(start);
            while let Some((id, followed)) = path.last_mut() {
                let (id, next) = (*id, *followed);
                *followed += 1;
                match graph.uses(id).get(next).copied() {
                    Some(used) if self.number(used) == NONE => {
                        self.enter(used);
                        path.push((used, 0));
                    }
                    Some(used) if graph.cycle(used) == NONE => self.lower(id, self.number(used)),
                    Some(_) => {}
                    None => {
                        path.pop();
                        self.close(id, graph);
                        if let Some((above, _)) = path.last() {
                            self.lower(*above, self.lowest.get(id.0).copied().unwrap_or(NONE));
                        }
                    }
                }
            }
        }
    }

    fn number(&self, id: TypeId) -> usize {
        self.numbers.get(id.0).copied().unwrap_or(0)
    }

    fn enter(&mut self, id: TypeId) {
        for numbers in [&mut self.numbers, &mut self.lowest] {
            if let Some(number) = numbers.get_mut(id.0) {
                *number = self.next;
            }
        }
        self.next += 1;
        self.open.push(id);
    }

    fn lower(&mut self, id: TypeId, to: usize) {
        if let Some(lowest) = self.lowest.get_mut(id.0) {
            *lowest = to.min(*lowest);
        }
    }

    /// Leaves a type. If the type reaches no earlier type whose cycle is incomplete, it is the first of its
    /// cycle, and the cycle is complete.
    fn close(&mut self, id: TypeId, graph: &mut Graph) {
        if self.lowest.get(id.0).copied() != Some(self.number(id)) {
            return;
        }
        while let Some(member) = self.open.pop() {
            if let Some(cycle) = graph.cycle_of.get_mut(member.0) {
                *cycle = self.number(id);
            }
            graph.order.push(member);
            if member == id {
                break;
            }
        }
    }
}
