//! The syntax tree: the definitions of a document, with their spans in the document.
//!
//! Most types are named after the productions of RFC 4506 section 6.3 and RFC 5531 section 12.2.
//! Names are unresolved, and a bound may be a constant of another document. Resolution turns the tree into
//! a protocol (`hir`).

use crate::source::Span;

/// The definitions of a document, in source order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specification {
    /// The definitions, including lines for C.
    pub definitions: Vec<Definition>,
    /// Members and arms that a published document adds to the enums and unions of another document. Each
    /// entry is a definition of the extended type with only the new members or arms.
    pub additions: Vec<Definition>,
    /// Names of definitions that could not be parsed, if known. Uses of these names are not reported as
    /// undefined.
    pub omitted: Vec<String>,
    /// Spans of unparsed text, which may define any name.
    pub unread: Vec<Span>,
    /// Expanded uses of macros, in source order. A `#define` without parameters whose body is a value defines
    /// a constant instead of a macro.
    pub expansions: Vec<Expansion>,
    /// Names defined in inactive branches of preprocessor conditions.
    pub hidden: Vec<Hidden>,
    /// The namespaces, in the order in which they begin.
    pub namespaces: Vec<Namespace>,
}

/// A name defined in an inactive branch of a preprocessor condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    pub name: Identifier,
    /// The first line of the condition, truncated to 60 characters: `#ifdef LINUX`.
    pub condition: String,
    /// True if the definition is in a later branch of the condition (`#elif` or `#else`).
    pub is_else: bool,
}

/// `namespace a { ... }` (xdrpp)
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// The name, qualified by the names of the outer namespaces: `a::b`.
    pub path: String,
    /// From the name to the closing `}`.
    pub span: Span,
    /// The index of the enclosing namespace, if any.
    pub outer: Option<usize>,
}

/// Returns the innermost namespace that contains `place`, if any.
pub(crate) fn namespace(namespaces: &[Namespace], place: Span) -> Option<&Namespace> {
    let after = namespaces.partition_point(|namespace| namespace.span.start <= place.start);
    let mut namespace = namespaces.get(after.checked_sub(1)?)?;
    while namespace.span.end < place.end {
        namespace = namespaces.get(namespace.outer?)?;
    }
    Some(namespace)
}

/// A use of a macro. The tokens of its expansion have the span of the use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// The use, with its arguments.
    pub span: Span,
    /// The macro's name, and its position in the `#define`.
    pub name: Identifier,
    /// The expansion, truncated to 60 characters.
    pub text: String,
}

/// A definition with its comments and section.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub kind: DefinitionKind,
    /// From its first token to its closing `;`, or a whole `%` or `#` line.
    pub span: Span,
    /// The comments directly before the definition, after its first `{` and after its end, without
    /// delimiters, one string per comment.
    pub docs: Vec<String>,
    /// The number and title of the section, if the document has sections: `4.3.1. Read List`.
    pub section: Option<String>,
    /// The source text of the definition, without page breaks and `///`.
    pub text: String,
}

impl Definition {
    /// Returns the name of the definition; `None` for a line for C.
    pub(crate) fn name(&self) -> Option<&Identifier> {
        match &self.kind {
            DefinitionKind::Const(constant) => Some(&constant.name),
            DefinitionKind::Typedef(declaration) => declaration.name.as_ref(),
            DefinitionKind::Enum(name, _)
            | DefinitionKind::Struct(name, _)
            | DefinitionKind::Union(name, _) => Some(name),
            DefinitionKind::Program(program) => Some(&program.name),
            DefinitionKind::PassThrough(_) => None,
        }
    }

    /// Returns true for `typedef x x`, and for `typedef struct x x`, which defines a short name in C. Neither
    /// defines anything in XDR.
    pub(crate) fn is_own_name(&self) -> bool {
        let DefinitionKind::Typedef(Declaration { specifier, name, multiplicity: Multiplicity::One, .. }) =
            &self.kind
        else {
            return false;
        };
        matches!((&specifier.kind, name), (TypeSpecifierKind::Named(of), Some(name)) if of.name == name.name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionKind {
    /// `const NAME = value;`, or `#define NAME value`.
    Const(ConstDef),
    /// `typedef declaration;`. A typedef that only names a body is an `Enum`, `Struct` or `Union`.
    Typedef(Declaration),
    /// `enum NAME { ... };`, or `typedef enum { ... } NAME;`
    Enum(Identifier, EnumBody),
    /// `struct NAME { ... };`, or `typedef struct { ... } NAME;`
    Struct(Identifier, StructBody),
    /// `union NAME switch (...) { ... };`, or `typedef union switch (...) { ... } NAME;`
    Union(Identifier, Box<UnionBody>),
    /// `program NAME { ... } = number;` (RFC 5531 section 12.2)
    Program(ProgramDef),
    /// A line for C, such as a `%` line, an `#include`, or a `#define` that does not define a constant.
    PassThrough(String),
}

impl DefinitionKind {
    /// Replaces `typedef struct { ... } NAME;` with the equivalent `struct NAME { ... };` (RFC 4506 section
    /// 4.18). Typedefs of `enum` and `union` bodies are replaced likewise.
    pub(crate) fn without_typedef_of_body(self) -> Self {
        let DefinitionKind::Typedef(of) = self else { return self };
        if of.multiplicity != Multiplicity::One {
            return DefinitionKind::Typedef(of);
        }
        match (of.specifier.kind, of.name) {
            (TypeSpecifierKind::Enum(body), Some(name)) => DefinitionKind::Enum(name, body),
            (TypeSpecifierKind::Struct(body), Some(name)) => DefinitionKind::Struct(name, body),
            (TypeSpecifierKind::Union(body), Some(name)) => DefinitionKind::Union(name, body),
            (kind, name) => {
                let specifier = TypeSpecifier { kind, span: of.specifier.span };
                DefinitionKind::Typedef(Declaration { specifier, name, ..of })
            }
        }
    }
}

/// A name and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier {
    pub name: String,
    pub span: Span,
}

/// `const NAME = value;` or `#define NAME value`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstDef {
    pub name: Identifier,
    pub value: Value,
}

/// A number, or the name of a constant or of an enum member.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number from -2^63 to 2^64-1; in a `#define`, any `i128`.
    Literal {
        value: i128,
        span: Span,
    },
    Name(Identifier),
}

impl Value {
    pub(crate) fn span(&self) -> Span {
        match self {
            Value::Literal { span, .. } => *span,
            Value::Name(name) => name.span,
        }
    }
}

/// A declaration: a struct's field, a union's discriminant or arm, a typedef, or an argument or a result of
/// a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    pub specifier: TypeSpecifier,
    /// Absent for `void` and for results, optional for arguments.
    pub name: Option<Identifier>,
    pub multiplicity: Multiplicity,
    /// From its first token to its last, without the `;`. For an argument or a result, only its type.
    pub span: Span,
    /// The comments before a field or an arm, inside it (unless it has a body), and after it on the same
    /// line.
    pub docs: Vec<String>,
    /// True for xdrzcc's `zcopaque` of variable length: the data is DDP-eligible.
    pub eligible: bool,
}

/// The number of values of a declaration. For opaque data and strings, the number of bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Multiplicity {
    /// `type name`
    One,
    /// `type *name`
    Optional,
    /// `type name[n]`
    Fixed(Value),
    /// `type name<max>`; a field `string name` (rpcgen) has no maximum.
    Variable(Option<Value>),
}

impl Multiplicity {
    /// Returns the bound or the length, if any.
    pub(crate) fn bound(&self) -> Option<&Value> {
        match self {
            Multiplicity::Fixed(bound) | Multiplicity::Variable(Some(bound)) => Some(bound),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TypeSpecifier {
    pub kind: TypeSpecifierKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeSpecifierKind {
    Scalar(Scalar),
    Void,
    String,
    Opaque,
    /// A name, with or without `struct`, `union` or `enum` before it.
    Named(Identifier),
    /// `enum { ... }` in place of a type name
    Enum(EnumBody),
    /// `struct { ... }` in place of a type name
    Struct(StructBody),
    /// `union switch (...) { ... }` in place of a type name
    Union(Box<UnionBody>),
}

impl TypeSpecifierKind {
    /// Returns true for a body written in place of a type name.
    pub(crate) fn is_body(&self) -> bool {
        matches!(
            self,
            TypeSpecifierKind::Enum(_) | TypeSpecifierKind::Struct(_) | TypeSpecifierKind::Union(_)
        )
    }
}

/// The built-in types of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `int`, also `long` (rpcgen: 32 bits on the wire)
    Int,
    /// `unsigned int`, `unsigned`, `unsigned long`
    UnsignedInt,
    /// `hyper`, also `long long`
    Hyper,
    UnsignedHyper,
    Float,
    Double,
    Quadruple,
    Bool,
    /// `char` (rpcgen: four bytes on the wire)
    Char,
    /// `unsigned char` (rpcgen: four bytes on the wire)
    UnsignedChar,
    /// `short` (rpcgen: four bytes on the wire)
    Short,
    /// `unsigned short` (rpcgen: four bytes on the wire)
    UnsignedShort,
}

impl Scalar {
    /// Returns the encoded size in bytes.
    pub(crate) fn size(self) -> u64 {
        match self {
            Scalar::Hyper | Scalar::UnsignedHyper | Scalar::Double => 8,
            Scalar::Quadruple => 16,
            _ => 4,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scalar::Int => "int",
            Scalar::UnsignedInt => "unsigned int",
            Scalar::Hyper => "hyper",
            Scalar::UnsignedHyper => "unsigned hyper",
            Scalar::Float => "float",
            Scalar::Double => "double",
            Scalar::Quadruple => "quadruple",
            Scalar::Bool => "bool",
            Scalar::Char => "char",
            Scalar::UnsignedChar => "unsigned char",
            Scalar::Short => "short",
            Scalar::UnsignedShort => "unsigned short",
        }
    }
}

/// `{ NAME = value, ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct EnumBody {
    pub members: Vec<EnumMember>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EnumMember {
    pub name: Identifier,
    /// The value. If omitted, the value is one more than the previous member's, or 0 for the first member
    /// (rpcgen).
    pub value: Option<Value>,
    /// The comments before and inside the member, and after it on the same line.
    pub docs: Vec<String>,
}

/// `{ declaration; ... }`; may be empty.
#[derive(Clone, Debug, PartialEq)]
pub struct StructBody {
    pub fields: Vec<Declaration>,
}

/// `switch (discriminant) { case ...: ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct UnionBody {
    pub discriminant: Declaration,
    pub arms: Vec<CaseSpec>,
    /// `default: declaration;`
    pub default: Option<Declaration>,
}

/// One arm: its labels and its declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseSpec {
    /// The labels, at least one.
    pub labels: Vec<Value>,
    pub declaration: Declaration,
}

/// `program NAME { version ... } = number;`
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramDef {
    pub name: Identifier,
    pub versions: Vec<VersionDef>,
    pub number: Value,
}

/// `version NAME { procedure ... } = number;`
#[derive(Clone, Debug, PartialEq)]
pub struct VersionDef {
    pub name: Identifier,
    pub procedures: Vec<ProcedureDef>,
    pub number: Value,
    /// The comments before the version, after its `{` and after its end.
    pub docs: Vec<String>,
}

/// `result NAME(argument, ...) = number;`
#[derive(Clone, Debug, PartialEq)]
pub struct ProcedureDef {
    pub name: Identifier,
    /// The result type; `None` for `void`.
    pub result: Option<Declaration>,
    /// The argument types; empty for `void`.
    pub arguments: Vec<Declaration>,
    pub number: Value,
    /// The comments before and inside the procedure, and after it on the same line.
    pub docs: Vec<String>,
}
