//! Borrowed output: lifetimes, and the types that borrow.

use proc_macro2::TokenStream;
use quote::quote;

use super::program::{CALL_FAILS, HANDLER_REFUSES, is_null, method_docs};
use super::{Emitter, Place, add, ident};
use crate::ir::{Bound, Data, Field, Procedure, Type, TypeDef, Version};

impl Emitter<'_> {
    pub(super) fn is_borrowed(&self) -> bool {
        self.module.data == Data::Borrowed
    }

    /// `<'a>` behind the name of a type that borrows, where it is defined.
    pub(super) fn parameter(ty: &TypeDef) -> &'static str {
        if ty.borrows { "<'a>" } else { "" }
    }

    /// The same where it is used.
    pub(super) fn argument(ty: &TypeDef, from: Place) -> &'static str {
        match from {
            _ if !ty.borrows => "",
            Place::Types | Place::Procedures => "<'a>",
            Place::Version => "<'_>",
        }
    }

    /// The type of a field. What its attributes say of an array in owned output is in the type of a borrowed one.
    pub(super) fn field_type(&self, field: &Field, from: Place, out: &mut String) {
        match &field.ty {
            Type::Array(of) if self.is_borrowed() => {
                let name = if field.list { "ListRef" } else { "ArrayRef" };
                self.borrowed(name, Some(of), field.max.as_ref(), from, out);
            }
            ty => self.ty(ty, from, out),
        }
    }

    /// One of the runtime's types that borrow: of `of`, at most `max`.
    pub(super) fn borrowed(
        &self,
        name: &str,
        of: Option<&Type>,
        max: Option<&Bound>,
        from: Place,
        out: &mut String,
    ) {
        self.own(name, from, out);
        out.push_str(if from == Place::Version { "<'_" } else { "<'a" });
        if let Some(of) = of {
            out.push_str(", ");
            self.ty(of, from, out);
        }
        if let Some(max) = max {
            out.push_str(", ");
            self.argument_bound(max, out);
        }
        out.push('>');
    }
}

/// Programs: the same parts as in owned output, by way of `program::borrowed` of the runtime.
impl Emitter<'_> {
    pub(super) fn lent_client(&self, version: &Version) -> TokenStream {
        let program = ident(&version.ident);
        let mut out = String::new();
        for procedure in &version.procedures {
            method_docs(procedure, CALL_FAILS, &mut out);
            let taken = self.taken(procedure, "&");
            let args = if taken.is_some() { &procedure.parameter } else { "&()" };
            let name = procedure.ident.as_str();
            add(&mut out, ["pub async fn ", &procedure.method, "(&self", taken.as_deref().unwrap_or("")]);
            add(&mut out, [") -> Result<borrowed::Reply<proc::", name, ">, C::Error> {\n"]);
            add(&mut out, ["let args = borrowed::Arguments::new(", args, ");\n"]);
            add(&mut out, ["self.0.call::<borrowed::Lent<proc::", name, ">>(&args).await\n}\n"]);
        }
        let methods = self.texts.code(out);
        quote! {
            /// A client over anything that carries calls of this version. A reply owns its message; `get` has the result.
            #[derive(Clone, Debug)]
            pub struct Client<C>(pub C);

            impl<C: program::Caller<#program>> Client<C> {
                #methods
            }
        }
    }

    pub(super) fn lent_handler(&self, version: &Version) -> TokenStream {
        let mut out = String::new();
        for procedure in &version.procedures {
            method_docs(procedure, HANDLER_REFUSES, &mut out);
            let taken = self.taken(procedure, "");
            add(&mut out, ["fn ", &procedure.method, "(&self, context: &program::CallContext"]);
            add(&mut out, [taken.as_deref().unwrap_or(""), ", answer: borrowed::Answer<'_, proc::"]);
            add(&mut out, [&procedure.ident, ">) -> impl Future<Output = "]);
            out.push_str("Result<borrowed::Answered, program::Reject>> + Send");
            out.push_str(if is_null(procedure) {
                " {\nlet _ = context;\n::core::future::ready(answer.with(&()))\n}\n"
            } else {
                ";\n"
            });
        }
        let methods = self.texts.code(out);
        quote! {
            /// What a server of this version does: one method a procedure. An `async fn` implements each, and hands its
            /// result to `answer` while what the result borrows is there.
            pub trait Handler: Send + Sync + 'static {
                #methods
            }
        }
    }
}

/// What a dispatcher does for one procedure.
pub(super) fn lent_call(procedure: &Procedure, out: &mut String) {
    let has_args = procedure.arguments != Type::Void;
    let (kept, handed) = if has_args { ("let args = ", "args, ") } else { ("", "") };
    add(out, ["{\n", kept, "call.arguments::<proc::", &procedure.ident, ">()?;\n"]);
    add(out, ["self.0.", &procedure.method, "(context, ", handed, "borrowed::Answer::new(reply)).await"]);
    out.push_str(".map(borrowed::Answered::done)\n}");
}
