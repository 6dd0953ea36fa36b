//! The Rust IR: resolved types, evaluated constants, and Rust names. Emission makes no decisions.

use rpcrdma_layout::Items;

pub use crate::hir::{Binding, Docs, Item, Scalar, TypeId};
use crate::source::SourceId;

/// The definitions of a run, ready for emission.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// The storage of variable-length data.
    pub data: Data,
    /// The types, indexed by [`TypeId`].
    pub types: Vec<TypeDef>,
    /// The constants.
    pub consts: Vec<Const>,
    /// The programs.
    pub programs: Vec<Program>,
    /// All definitions in source order.
    pub order: Vec<Item>,
}

impl Module {
    /// Returns a type by its id.
    #[must_use]
    pub fn get(&self, id: TypeId) -> Option<&TypeDef> {
        self.types.get(id.0)
    }

    /// Returns the members of an enum, and none for other types.
    pub(crate) fn members(&self, id: TypeId) -> &[Member] {
        match self.get(id).map(|ty| &ty.body) {
            Some(Body::Enum(members)) => members,
            _ => &[],
        }
    }
}

/// The storage of opaque data and strings, which also decides the storage of arrays, lists and boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Data {
    /// Shares the message's memory (`bytes::Bytes`) or owns memory. Values are `'static`.
    #[default]
    Bytes,
    /// References the message. Values have a lifetime, and decoding does not allocate.
    Borrowed,
}

/// A constant.
#[derive(Clone, Debug)]
pub struct Const {
    /// Its name in the document.
    pub name: String,
    /// Its name in Rust.
    pub ident: String,
    /// Its value.
    pub value: i128,
    /// Its type.
    pub ty: ConstType,
    /// The document that contains it.
    pub source: SourceId,
    /// Its documentation.
    pub docs: Docs,
}

/// The type of a constant: the first of these types that can hold its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstType {
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `u64`
    U64,
    /// `i64`
    I64,
}

/// A type definition.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// The name in the document; for a body written in place, the path of names to it, joined by `.`.
    pub name: String,
    /// Its name in Rust.
    pub ident: String,
    /// Its kind.
    pub body: Body,
    /// True if the type has a lifetime because it borrows from the message.
    pub borrows: bool,
    /// The eligible items that the type contains, if it is in a cycle of several types and not a typedef.
    pub items: Option<Items>,
    /// The traits that it derives besides `Clone`, `Debug` and `PartialEq`.
    pub derives: Derives,
    /// The document that contains it.
    pub source: SourceId,
    /// Its documentation.
    pub docs: Docs,
}

/// Traits that only some types derive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Derives {
    /// `Copy`: at most 128 bytes, without memory on the heap.
    pub copy: bool,
    /// `Eq` and `Hash`: no `f32`, `f64` or external type inside.
    pub eq: bool,
    /// `Default`.
    pub default: bool,
}

/// The kind of a type definition in Rust.
#[derive(Clone, Debug)]
pub enum Body {
    /// Another name of a type.
    Alias(Type),
    /// A struct with one unnamed field: a typedef, argument or result that needs an attribute on a field.
    Newtype(Field),
    /// A C-like enum.
    Enum(Vec<Member>),
    /// A struct.
    Struct(Vec<Field>),
    /// A tuple struct: several unnamed arguments of a procedure.
    Tuple(Vec<Field>),
    /// A union.
    Union(Union),
}

/// One member of an enum.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in the document.
    pub name: String,
    /// Its name in Rust.
    pub ident: String,
    /// Its value.
    pub value: i32,
    /// The index of an earlier member with the same value. Rust has one variant for each value, so this
    /// member is a constant.
    pub same_as: Option<u32>,
    /// The document's comments.
    pub comments: Vec<String>,
}

/// A struct's field, or the payload of a union's arm.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in the document.
    pub name: String,
    /// The name in Rust; empty if it has none, like the payload of an arm.
    pub ident: String,
    /// Its type.
    pub ty: Type,
    /// The maximum number of elements of a counted array.
    pub max: Option<Bound>,
    /// True for an array whose element type contains the type that declares this field.
    pub recursive: bool,
    /// True for a list: a chain of optional data.
    pub list: bool,
    /// True if the field is DDP-eligible.
    pub eligible: bool,
    /// Its documentation.
    pub docs: Docs,
}

/// A union.
#[derive(Clone, Debug)]
pub struct Union {
    /// The discriminant's name in the document.
    pub discriminant_name: String,
    /// The discriminant's type.
    pub discriminant: Type,
    /// The arms in order, the default arm last.
    pub arms: Vec<Arm>,
    /// The arm of `Default`, by index: the arm that the discriminant 0 selects.
    pub initial: Option<usize>,
    /// True if one arm needs much more memory than the others.
    pub uneven: bool,
}

/// An arm of a union.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its name in Rust.
    pub ident: String,
    /// The labels; empty for the default arm.
    pub labels: Vec<Label>,
    /// The payload.
    pub payload: Option<Field>,
    /// Its documentation.
    pub docs: Docs,
}

impl Arm {
    /// Returns true if the variant stores the discriminant, since several values select the arm.
    #[must_use]
    pub fn keeps_discriminant(&self) -> bool {
        self.labels.len() != 1
    }
}

/// A case label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// The member of an enum.
    Member {
        /// The enum.
        of: TypeId,
        /// The member's index.
        index: usize,
    },
    /// A number.
    Number(i128),
    /// TRUE or FALSE.
    Bool(bool),
}

/// A bound or a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its value.
    pub value: u32,
    /// The constant that the document uses for the value, if any: an index in [`Module::consts`].
    pub constant: Option<usize>,
}

/// A type where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing: `()`.
    Void,
    /// A built-in type of Rust or of the runtime.
    Scalar(Scalar),
    /// A type of the module.
    Named(TypeId),
    /// The path of an existing Rust type.
    Extern(String),
    /// `opaque x[n]`
    FixedOpaque(Bound),
    /// `opaque x<n>`, stored as [`Module::data`] specifies
    Opaque(Option<Bound>),
    /// `opaque x<n>`, stored in place
    SmallOpaque(Bound),
    /// `string x<n>`
    String(Option<Bound>),
    /// `T x[n]`
    FixedArray(Box<Type>, Bound),
    /// `T x<n>`, or a list; the bound is in the field
    Array(Box<Type>),
    /// `T *x`
    Optional(Box<Type>),
    /// A value on the heap or in the message. Stored in place, it would make a type infinitely large.
    Boxed(Box<Type>),
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in the document.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Its versions in order.
    pub versions: Vec<Version>,
    /// The document that contains it.
    pub source: SourceId,
    /// Its documentation.
    pub docs: Docs,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name in the document.
    pub name: String,
    /// The name of the Rust type that represents the version.
    pub ident: String,
    /// The name of the module with its client and server.
    pub module: String,
    /// Its number.
    pub number: u32,
    /// Its procedures in order.
    pub procedures: Vec<Procedure>,
    /// Its Upper-Layer Binding.
    pub binding: Option<Binding>,
    /// Its documentation.
    pub docs: Docs,
}

/// A procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name in the document.
    pub name: String,
    /// The name of the Rust type that represents the procedure.
    pub ident: String,
    /// The name of its method.
    pub method: String,
    /// Its number.
    pub number: u32,
    /// The arguments.
    pub arguments: Type,
    /// The name of the argument in methods.
    pub parameter: String,
    /// The result.
    pub result: Type,
    /// The bounds of its reply, if the binding has any.
    pub reply: ReplyBounds,
    /// Its documentation.
    pub docs: Docs,
}

/// The bounds of a reply in a binding, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyBounds {
    /// The largest eligible item.
    pub item: Option<Sum>,
    /// The largest result, including items.
    pub whole: Option<Sum>,
}

/// A number of bytes: a sum of fields of the arguments and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The fields.
    pub fields: Vec<FieldPath>,
    /// The constant.
    pub number: u64,
}

/// The path of a field of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The fields' names in Rust.
    pub idents: Vec<String>,
    /// True for an `unsigned hyper`, false for an `unsigned int`.
    pub wide: bool,
}

impl Body {
    /// Returns the fields, or the payloads of a union's arms. An alias and an enum have none.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        let (fields, arms): (&[Field], &[Arm]) = match self {
            Body::Alias(_) | Body::Enum(_) => (&[], &[]),
            Body::Newtype(field) => (std::slice::from_ref(field), &[]),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &[]),
            Body::Union(union) => (&[], &union.arms),
        };
        fields.iter().chain(arms.iter().filter_map(|arm| arm.payload.as_ref()))
    }

    /// Like `fields`, but mutable.
    pub(crate) fn fields_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        let (fields, arms): (&mut [Field], &mut [Arm]) = match self {
            Body::Alias(_) | Body::Enum(_) => (&mut [], &mut []),
            Body::Newtype(field) => (std::slice::from_mut(field), &mut []),
            Body::Struct(fields) | Body::Tuple(fields) => (fields, &mut []),
            Body::Union(union) => (&mut [], &mut union.arms),
        };
        fields.iter_mut().chain(arms.iter_mut().filter_map(|arm| arm.payload.as_mut()))
    }

    /// Returns the types that the body directly contains.
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
    /// Returns the module's type that this type contains at any depth, if any.
    pub(crate) fn named(&self) -> Option<TypeId> {
        match self {
            Type::Named(id) => Some(*id),
            ty => ty.inner()?.named(),
        }
    }

    /// Returns the type in an array, an option or a box; `None` for other types.
    pub(crate) fn inner(&self) -> Option<&Type> {
        match self {
            Type::FixedArray(of, _) | Type::Array(of) | Type::Optional(of) | Type::Boxed(of) => Some(of),
            _ => None,
        }
    }
}
