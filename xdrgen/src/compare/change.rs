//! What an extension adds, and by which rules.

use crate::source::Span;

/// What an extension adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value of an enum that chooses an arm.
    Value,
    /// An arm of a union: a message type's body.
    Arm,
    /// A flag bit.
    Flag,
    /// A constant, or a member of an enum that no message has.
    Constant,
    /// A type.
    Type,
    /// A program.
    Program,
    /// A version of a program.
    Version,
    /// A procedure.
    Procedure,
}

/// One thing that an extension adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// What it is.
    pub kind: Kind,
    /// What it is added to, or its own name.
    pub name: String,
    /// What was added, as XDR.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A definition about which nothing is known: it, or what it would be held against, was left out of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompared {
    /// Its name; empty where it cannot be told.
    pub name: String,
    /// Why not.
    pub why: String,
    /// Where it stands, or where what is wrong with it stands.
    pub span: Span,
}

/// By which rules a protocol may be extended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Section 9.1 of draft-ietf-nfsv4-rfc5666bis-04: an old peer can tell each new value from a malformed message, since it
    /// chooses an arm of a union without a default.
    #[default]
    Rfc5666bis,
    /// Section 4.4 of RFC 8178, for NFS version 4: enums may have new values wherever they are used, also where a default
    /// arm takes them.
    Rfc8178,
}
