//! The HIR of a protocol: resolved names and evaluated constants, independent of Rust.

pub use crate::ast::Scalar;
use crate::hash::HashSet;
use crate::source::Span;

/// The definitions of a run.
#[derive(Clone, Debug, Default)]
pub struct Hir {
    /// The types, indexed by [`TypeId`].
    pub types: Vec<TypeDef>,
    pub consts: Vec<Const>,
    pub programs: Vec<Program>,
    /// All definitions in source order.
    pub order: Vec<Item>,
}

/// A reference to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The index of a constant in [`Hir::consts`].
    Const(usize),
    Type(TypeId),
    /// The index of a program in [`Hir::programs`].
    Program(usize),
}

/// The index of a type in [`Hir::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub usize);

/// The comments, section and declaration that document an item, and the item's position.
#[derive(Clone, Debug, Default)]
pub struct Docs {
    pub comments: Vec<String>,
    /// The number and title of the section that contains the definition, if any.
    pub section: Option<String>,
    /// The source text of a definition, or a declaration as XDR.
    pub declaration: String,
    /// The position of the name of a definition, version or procedure, or of the first label of an arm. For a
    /// field or a default arm, the position of the declaration. For an argument or a result, the position of
    /// the type. `Span::default()` if unknown.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Const {
    pub name: String,
    pub value: i128,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct TypeDef {
    /// The name; for an inline body, the names on the path to the body, joined by `.`.
    pub name: String,
    pub body: Body,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// A typedef with its declaration.
    Alias(Field),
    Enum(Vec<Member>),
    Struct(Vec<Field>),
    /// Several unnamed arguments of a procedure, or a counted array as an argument or a result.
    Tuple(Vec<Field>),
    Union(Union),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub value: i32,
    /// The index of the first member with the same value, if that is another member.
    pub same_as: Option<u32>,
    pub comments: Vec<String>,
    /// The position of the name; `Span::default()` if unknown.
    pub span: Span,
}

/// A declaration: a field of a struct or a tuple, the payload of a union's arm, or the target of a typedef.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// The position of the name; for an argument or a result of a procedure, the position of the type.
    pub at: Span,
    pub ty: Type,
    /// True if the field is DDP-eligible.
    pub eligible: bool,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Union {
    /// The position of the union's name, or of an inline body.
    pub at: Span,
    pub discriminant_name: String,
    pub discriminant: Type,
    /// The arms in order, the default arm last.
    pub arms: Vec<Arm>,
    /// False if an invalid label was omitted.
    pub has_all_labels: bool,
}

#[derive(Clone, Debug)]
pub struct Arm {
    /// The labels; empty for the default arm.
    pub labels: Vec<Label>,
    pub payload: Option<Field>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Label {
    pub value: i128,
    /// The name that the document uses for the value, if any.
    pub name: Option<String>,
}

/// A bound or a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub value: u32,
    /// The constant that the document uses for the value, if any.
    pub constant: Option<String>,
}

/// A use of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Void,
    Scalar(Scalar),
    Named(TypeId),
    /// The name of a type that is defined outside of all documents.
    Extern(String),
    /// `opaque x[n]`
    FixedOpaque(Bound),
    /// `opaque x<n>`
    Opaque(Option<Bound>),
    /// `string x<n>`
    String(Option<Bound>),
    /// `T x[n]`
    FixedArray(Box<Type>, Bound),
    /// `T x<n>`
    Array(Box<Type>, Option<Bound>),
    /// `T *x`
    Optional(Box<Type>),
}

#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub number: u32,
    /// The position of the number; `None` if the number is invalid.
    pub number_at: Option<Span>,
    pub versions: Vec<Version>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Version {
    pub name: String,
    pub number: u32,
    pub procedures: Vec<Procedure>,
    pub omitted: Vec<String>,
    pub binding: Option<Binding>,
    pub docs: Docs,
}

/// The Upper-Layer Binding of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// True if the program is called only in the backward direction.
    pub backward: bool,
    /// The port of the RPC-over-RDMA service.
    pub port: Option<u16>,
    pub netids: Vec<String>,
    /// The recommended inline threshold, in bytes.
    pub inline_threshold: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    pub number: u32,
    pub arguments: Type,
    /// The name of a single argument, if the document names it.
    pub parameter: Option<String>,
    pub result: Type,
    /// The binding's bound on the size of the largest eligible item in the reply, if any.
    pub item: Option<Sum>,
    /// The binding's bound on the size of the largest result, including eligible items, if any.
    pub unreduced: Option<Sum>,
    pub docs: Docs,
}

/// A number of bytes: the sum of a constant and of fields of a call's arguments.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// The paths of the fields. The `bool` is true for an `unsigned hyper`, and false for an `unsigned int`.
    pub fields: Vec<(Vec<String>, bool)>,
    pub number: u64,
}

/// The discriminant type of a union, with typedefs resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    Int,
    Unsigned,
    /// `hyper`, which some compilers accept
    Hyper,
    /// `unsigned hyper`, which some compilers accept
    UnsignedHyper,
    Bool,
    Enum(TypeId),
}

/// Maximum nesting of definitions. In published documents, definitions nest at most about 12 levels deep;
/// rustc's default recursion limit is 128.
pub(crate) const MAX_DEPTH: usize = 100;

impl Hir {
    #[must_use]
    pub fn get(&self, id: TypeId) -> Option<&TypeDef> {
        self.types.get(id.0)
    }

    pub(crate) fn typed(&self) -> impl Iterator<Item = (TypeId, &TypeDef)> {
        self.types.iter().enumerate().map(|(index, ty)| (TypeId(index), ty))
    }

    pub(crate) fn members(&self, id: TypeId) -> &[Member] {
        match self.get(id).map(|ty| &ty.body) {
            Some(Body::Enum(members)) => members,
            _ => &[],
        }
    }

    /// Returns a type with typedefs resolved. A chain longer than [`MAX_DEPTH`] is reported separately.
    pub(crate) fn resolve_alias<'h>(&'h self, ty: &'h Type) -> &'h Type {
        let mut ty = ty;
        for _ in 0..=MAX_DEPTH {
            let Type::Named(id) = ty else { break };
            let Some(Body::Alias(of)) = self.get(*id).map(|ty| &ty.body) else { break };
            ty = &of.ty;
        }
        ty
    }

    /// Returns the selector for the type of a discriminant; `None` if the type cannot be a discriminant.
    pub(crate) fn selector(&self, discriminant: &Type) -> Option<Selector> {
        match self.resolve_alias(discriminant) {
            Type::Scalar(Scalar::Int) => Some(Selector::Int),
            Type::Scalar(Scalar::UnsignedInt) => Some(Selector::Unsigned),
            Type::Scalar(Scalar::Hyper) => Some(Selector::Hyper),
            Type::Scalar(Scalar::UnsignedHyper) => Some(Selector::UnsignedHyper),
            Type::Scalar(Scalar::Bool) => Some(Selector::Bool),
            Type::Named(id) if matches!(self.get(*id)?.body, Body::Enum(_)) => Some(Selector::Enum(*id)),
            _ => None,
        }
    }

    /// Returns the payload of a union that is optional data (RFC 4506 section 4.19). The discriminant of such
    /// a union is a bool: TRUE selects a payload, and FALSE selects none.
    pub(crate) fn option<'h>(&self, union: &'h Union) -> Option<&'h Field> {
        let [first, second] = union.arms.as_slice() else { return None };
        let chosen_by = |arm: &Arm, value| matches!(arm.labels.as_slice(), [one] if one.value == value);
        let (some, none) = if chosen_by(first, 1) { (first, second) } else { (second, first) };
        let matched = chosen_by(some, 1) && (chosen_by(none, 0) || none.labels.is_empty());
        let is_bool = || self.selector(&union.discriminant) == Some(Selector::Bool);
        some.payload.as_ref().filter(|_| matched && none.payload.is_none() && is_bool())
    }

    pub(crate) fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        let versions = self.programs.iter().flat_map(|program| &program.versions);
        versions.flat_map(|version| &version.procedures)
    }

    /// Removes `types`, `consts`, and the procedures that use one of `types`. The remaining definitions must
    /// not refer to removed definitions.
    pub(crate) fn remove(&mut self, types: &HashSet<TypeId>, consts: &HashSet<String>) {
        let type_places = places(self.typed().map(|(id, _)| !types.contains(&id)));
        let const_places = places(self.consts.iter().map(|one| !consts.contains(&one.name)));
        let place = |id: TypeId| type_places.get(id.0).copied().flatten().map(TypeId);
        let move_to = |ty: &mut Type| ty.rename(&|id| place(id).unwrap_or(id));
        let is_removed = |ty: &Type| ty.named().is_some_and(|id| types.contains(&id));
        for Version { procedures, omitted, .. } in self.programs.iter_mut().flat_map(|one| &mut one.versions)
        {
            procedures.retain(|one| {
                let stays = !is_removed(&one.arguments) && !is_removed(&one.result);
                omitted.extend((!stays).then(|| one.name.clone()));
                stays
            });
            procedures.iter_mut().flat_map(|one| [&mut one.arguments, &mut one.result]).for_each(move_to);
        }
        self.consts.retain(|one| !consts.contains(&one.name));
        let moved = |item: &Item| match *item {
            Item::Type(id) => place(id).map(Item::Type),
            Item::Const(at) => const_places.get(at).copied().flatten().map(Item::Const),
            Item::Program(at) => Some(Item::Program(at)),
        };
        self.order = self.order.iter().filter_map(moved).collect();
        let mut index = 0..;
        self.types.retain(|_| !types.contains(&TypeId(index.next().unwrap_or(0))));
        for ty in &mut self.types {
            if let Body::Union(union) = &mut ty.body {
                move_to(&mut union.discriminant);
            }
            ty.body.declared_mut().for_each(|field| move_to(&mut field.ty));
        }
    }
}

/// Returns the new index of each element after a removal; `None` for a removed element.
fn places(stays: impl Iterator<Item = bool>) -> Vec<Option<usize>> {
    let mut next = 0..;
    stays.map(|stays| if stays { next.next() } else { None }).collect()
}

impl Type {
    /// Returns the defined type that this type refers to at any depth, if any.
    pub(crate) fn named(&self) -> Option<TypeId> {
        match self {
            Type::Named(id) => Some(*id),
            Type::FixedArray(of, _) | Type::Array(of, _) | Type::Optional(of) => of.named(),
            _ => None,
        }
    }

    fn rename(&mut self, to: &dyn Fn(TypeId) -> TypeId) {
        match self {
            Type::Named(id) => *id = to(*id),
            Type::FixedArray(of, _) | Type::Array(of, _) | Type::Optional(of) => of.rename(to),
            _ => {}
        }
    }
}

impl Body {
    /// Returns the fields, or the payloads of a union's arms. A typedef and an enum have no fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        let alias = matches!(self, Body::Alias(_));
        self.declared().filter(move |_| !alias)
    }

    /// Returns all declarations: the fields, the payloads of a union's arms, or the target of a typedef.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &Field> {
        let (fields, arms): (&[Field], &[Arm]) = match self {
            Body::Enum(_) => (&[], &[]),
            Body::Alias(field) => (std::slice::from_ref(field), &[]),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &[]),
            Body::Union(union) => (&[], &union.arms),
        };
        fields.iter().chain(arms.iter().filter_map(|arm| arm.payload.as_ref()))
    }

    pub(crate) fn declared_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        let (fields, arms): (&mut [Field], &mut [Arm]) = match self {
            Body::Enum(_) => (&mut [], &mut []),
            Body::Alias(field) => (std::slice::from_mut(field), &mut []),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &mut []),
            Body::Union(union) => (&mut [], &mut union.arms),
        };
        fields.iter_mut().chain(arms.iter_mut().filter_map(|arm| arm.payload.as_mut()))
    }

    /// Returns the types that the body contains, the discriminant last.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        let discriminant = if let Body::Union(union) = self { Some(&union.discriminant) } else { None };
        self.declared().map(|field| &field.ty).chain(discriminant)
    }
}
