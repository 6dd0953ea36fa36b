//! Borrowed output: finds the types with a lifetime, and omits bindings with eligible items.

use crate::binding::Binding;
use crate::diag::{BindingKind, Found};
use crate::graph::Graph;
use crate::hir::Hir;
use crate::ir::{Body, Module, Type};

/// Makes all fields ineligible, since the transport must own the memory of an item. Omits and reports the
/// bindings with eligible items.
pub(crate) fn omit_eligible(hir: &mut Hir, bindings: &[Binding], found: &mut Found) {
    let fields = hir.types.iter_mut().flat_map(|ty| ty.body.declared_mut());
    fields.for_each(|field| field.eligible = false);
    for binding in bindings {
        let Some(first) = binding.eligible.first() else { continue };
        found.push(BindingKind::Borrowed { version: binding.version.value.clone() }.at(first.span));
        let versions = hir
            .programs
            .iter_mut()
            .filter(|program| program.name == binding.program.value)
            .flat_map(|program| &mut program.versions)
            .filter(|version| version.name == binding.version.value);
        for version in versions {
            version.binding = None;
            version.procedures.iter_mut().for_each(|one| (one.item, one.unreduced) = (None, None));
        }
    }
}

pub(crate) fn find_borrowing(module: &mut Module, graph: &Graph) {
    let borrows = graph.solve(false, |id, borrows| {
        module.get(id).is_some_and(|ty| match &ty.body {
            Body::Alias(of) => type_borrows(of, borrows),
            body => body.fields().any(|field| type_borrows(&field.ty, borrows)),
        })
    });
    for (ty, borrows) in module.types.iter_mut().zip(borrows) {
        ty.borrows = borrows;
    }
}

fn type_borrows(ty: &Type, borrows: &[bool]) -> bool {
    match ty {
        Type::Opaque(_) | Type::String(_) | Type::Array(_) | Type::Boxed(_) => true,
        Type::Named(id) => borrows.get(id.0) == Some(&true),
        Type::FixedArray(of, _) | Type::Optional(of) => type_borrows(of, borrows),
        Type::Void | Type::Scalar(_) | Type::Extern(_) | Type::FixedOpaque(_) | Type::SmallOpaque(_) => false,
    }
}
