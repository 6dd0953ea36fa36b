//! The Rust IR: resolved types, evaluated constants, and Rust names. A `name` is a name in the document; an
//! `ident` is a name in Rust.

use rpcrdma_layout::Items;

use crate::hir::MAX_DEPTH;
pub use crate::hir::{Binding, Docs, Item, Scalar, TypeId};
use crate::source::SourceId;

/// The definitions of a run, ready for emission.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub data: Data,
    /// The types, indexed by [`TypeId`].
    pub types: Vec<TypeDef>,
    pub consts: Vec<Const>,
    pub programs: Vec<Program>,
    /// All definitions in source order.
    pub order: Vec<Item>,
}

impl Module {
    #[must_use]
    pub fn get(&self, id: TypeId) -> Option<&TypeDef> {
        self.types.get(id.0)
    }

    pub(crate) fn members(&self, id: TypeId) -> &[Member] {
        match self.get(id).map(|ty| &ty.body) {
            Some(Body::Enum(members)) => members,
            _ => &[],
        }
    }

    /// Returns the versions of all programs, each with its program.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&Program, &Version)> {
        self.programs
            .iter()
            .flat_map(|program| program.versions.iter().map(move |version| (program, version)))
    }

    /// Returns a type with aliases resolved. A chain longer than [`MAX_DEPTH`] is reported before lowering.
    pub(crate) fn resolve_alias<'t>(&'t self, ty: &'t Type) -> &'t Type {
        let mut ty = ty;
        for _ in 0..=MAX_DEPTH {
            let Type::Named(id) = ty else { break };
            let Some(Body::Alias(of)) = self.get(*id).map(|ty| &ty.body) else { break };
            ty = of;
        }
        ty
    }
}

/// The storage of opaque data and strings, which also determines the storage of arrays, lists and boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Data {
    /// Shares the message's memory (`bytes::Bytes`) or owns memory. Values are `'static`.
    #[default]
    Bytes,
    /// References the message. Values have a lifetime, and decoding does not allocate.
    Borrowed,
}

#[derive(Clone, Debug)]
pub struct Const {
    pub name: String,
    pub ident: String,
    pub value: i128,
    /// The document that contains the constant, or the source ID assigned to the constant's namespace.
    pub source: SourceId,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct TypeDef {
    /// The name; for an inline body, the names on the path to the body, joined by `.`.
    pub name: String,
    pub ident: String,
    pub body: Body,
    /// True if the type has a lifetime because it borrows from the message.
    pub borrows: bool,
    /// The maximum number and size of the eligible items in a value. Set if the type is in a cycle of several
    /// types and is not a typedef.
    pub items: Option<Items>,
    /// The traits of [`Derives`] that the type derives.
    pub derives: Derives,
    /// The document that contains the type, or the source ID assigned to the type's namespace.
    pub source: SourceId,
    pub docs: Docs,
}

/// Traits that only some types derive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Derives {
    /// `Copy`: at most 128 bytes (on the wire, or in memory for borrowed output), without heap memory or an
    /// external type inside.
    pub copy: bool,
    /// `Eq` and `Hash`: no `f32`, `f64` or external type inside.
    pub eq: bool,
    pub default: bool,
}

#[derive(Clone, Debug)]
pub enum Body {
    Alias(Type),
    /// A struct with one unnamed field, which is a counted array or a list. Represents an argument, a result,
    /// or a typedef whose target is a bounded array or a list.
    Newtype(Field),
    Enum(Vec<Member>),
    Struct(Vec<Field>),
    /// A tuple struct: several unnamed arguments of a procedure.
    Tuple(Vec<Field>),
    Union(Union),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub ident: String,
    pub value: i32,
    /// The index of an earlier member with the same value. Two variants of a Rust enum cannot have the same
    /// value, so this member becomes a constant.
    pub same_as: Option<u32>,
    pub comments: Vec<String>,
}

/// A field of a struct, a newtype or a tuple, or the payload of a union's arm.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// Empty if the field has no name in Rust, like the payload of an arm.
    pub ident: String,
    pub ty: Type,
    /// The maximum number of elements of a counted array.
    pub max: Option<Bound>,
    /// True if the field is a counted array whose element type contains the type that declares the field. The
    /// array may be inside a typedef, optional data or a fixed-length array.
    pub recursive: bool,
    /// True for a list: a chain of optional data.
    pub list: bool,
    /// True if the field is DDP-eligible.
    pub eligible: bool,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Union {
    pub discriminant: Type,
    /// The arms in order, the default arm last.
    pub arms: Vec<Arm>,
    /// The index of the arm that `Default` returns: the arm that the discriminant 0 selects. `None` if 0
    /// selects no arm.
    pub initial: Option<usize>,
    /// True if one arm needs much more memory than the others.
    pub uneven: bool,
}

#[derive(Clone, Debug)]
pub struct Arm {
    pub ident: String,
    /// The labels; empty for the default arm.
    pub labels: Vec<Label>,
    pub payload: Option<Field>,
    pub docs: Docs,
}

impl Arm {
    /// Returns true if the variant stores the discriminant, since several values may select the arm.
    #[must_use]
    pub fn keeps_discriminant(&self) -> bool {
        self.labels.len() != 1
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    Member {
        of: TypeId,
        /// The index of the member in the enum `of`.
        index: usize,
    },
    Number(i128),
    Bool(bool),
}

/// A bound or a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub value: u32,
    /// The constant that the document uses for the value, if any: an index in [`Module::consts`].
    pub constant: Option<usize>,
}

/// A use of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Void,
    /// A built-in type of Rust or of the runtime.
    Scalar(Scalar),
    Named(TypeId),
    /// The path of an existing Rust type.
    Extern(String),
    /// `opaque x[n]`
    FixedOpaque(Bound),
    /// `opaque x<n>`, stored as [`Module::data`] specifies
    Opaque(Option<Bound>),
    /// `opaque x<n>`, stored in the value itself
    SmallOpaque(Bound),
    /// `string x<n>`
    String(Option<Bound>),
    /// `T x[n]`
    FixedArray(Box<Type>, Bound),
    /// `T x<n>`, or a list; the bound is in the field
    Array(Box<Type>),
    /// `T *x`
    Optional(Box<Type>),
    /// A value on the heap or in the message. Storing the value directly would make a type infinitely large.
    Boxed(Box<Type>),
}

#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub number: u32,
    pub versions: Vec<Version>,
    /// The document that contains the program, or the source ID assigned to the program's namespace.
    pub source: SourceId,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Version {
    pub name: String,
    /// The name of the Rust type that represents the version.
    pub ident: String,
    /// The name of the module that contains the version's client and server.
    pub module: String,
    pub number: u32,
    pub procedures: Vec<Procedure>,
    pub binding: Option<Binding>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    /// The name of the Rust type that represents the procedure.
    pub ident: String,
    pub method: String,
    pub number: u32,
    pub arguments: Type,
    /// The name of the argument in methods.
    pub parameter: String,
    pub result: Type,
    pub reply: ReplyBounds,
    pub docs: Docs,
}

/// The bounds that a binding sets for a reply, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyBounds {
    /// The maximum size of an eligible item.
    pub item: Option<Sum>,
    /// The maximum size of the result, including eligible items.
    pub unreduced: Option<Sum>,
}

/// A number of bytes: the sum of a constant and of fields of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub fields: Vec<FieldPath>,
    pub number: u64,
}

/// The path of a field of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    pub idents: Vec<String>,
    /// True if the field is an `unsigned hyper`, false if it is an `unsigned int`.
    pub wide: bool,
}

impl Body {
    /// Returns the fields, or the payloads of a union's arms. An alias and an enum have no fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        let (fields, arms): (&[Field], &[Arm]) = match self {
            Body::Alias(_) | Body::Enum(_) => (&[], &[]),
            Body::Newtype(field) => (std::slice::from_ref(field), &[]),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &[]),
            Body::Union(union) => (&[], &union.arms),
        };
        fields.iter().chain(arms.iter().filter_map(|arm| arm.payload.as_ref()))
    }

    pub(crate) fn fields_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        let (fields, arms): (&mut [Field], &mut [Arm]) = match self {
            Body::Alias(_) | Body::Enum(_) => (&mut [], &mut []),
            Body::Newtype(field) => (std::slice::from_mut(field), &mut []),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &mut []),
            Body::Union(union) => (&mut [], &mut union.arms),
        };
        fields.iter_mut().chain(arms.iter_mut().filter_map(|arm| arm.payload.as_mut()))
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        let first = match self {
            Body::Alias(ty) => Some(ty),
            Body::Union(union) => Some(&union.discriminant),
            _ => None,
        };
        first.into_iter().chain(self.fields().map(|field| &field.ty))
    }
}

impl Type {
    /// Returns the type of [`Module::types`] that this type refers to at any depth, if any.
    pub(crate) fn named(&self) -> Option<TypeId> {
        match self {
            Type::Named(id) => Some(*id),
            ty => ty.inner()?.named(),
        }
    }

    pub(crate) fn inner(&self) -> Option<&Type> {
        match self {
            Type::FixedArray(of, _) | Type::Array(of) | Type::Optional(of) | Type::Boxed(of) => Some(of),
            _ => None,
        }
    }
}
