//! Borrowed output: lifetimes, and the types that borrow.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, Place, ident};
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
        let methods = version.procedures.iter().map(|procedure| {
            let docs = self.client_docs(procedure);
            let (method, name) = (ident(&procedure.method), ident(&procedure.ident));
            let (parameter, args) = self.sent(procedure);
            quote! {
                #docs
                pub async fn #method(&self, #parameter) -> Result<borrowed::Reply<proc::#name>, C::Error> {
                    let args = borrowed::Arguments::new(#args);
                    self.0.call::<borrowed::Lent<proc::#name>>(&args).await
                }
            }
        });
        quote! {
            /// A client over anything that carries calls of this version. A reply owns its message; `get` has the result.
            #[derive(Clone, Debug)]
            pub struct Client<C>(pub C);

            impl<C: program::Caller<#program>> Client<C> {
                #(#methods)*
            }
        }
    }

    pub(super) fn lent_handler(&self, version: &Version) -> TokenStream {
        let methods = version.procedures.iter().map(|procedure| {
            let docs = self.handler_docs(procedure);
            let (method, name) = (ident(&procedure.method), ident(&procedure.ident));
            let args = (procedure.arguments != Type::Void).then(|| {
                let args = self.ty_token(&procedure.arguments, Place::Version);
                quote!(args: #args,)
            });
            let null = procedure.number == 0 && args.is_none() && procedure.result == Type::Void;
            let body = if null {
                quote!({
                    let _ = context;
                    ::core::future::ready(answer.with(&()))
                })
            } else {
                quote!(;)
            };
            quote! {
                #docs
                fn #method(
                    &self,
                    context: &program::CallContext,
                    #args
                    answer: borrowed::Answer<'_, proc::#name>,
                ) -> impl Future<Output = Result<borrowed::Answered, program::Reject>> + Send #body
            }
        });
        quote! {
            /// What a server of this version does: one method a procedure. An `async fn` implements each, and hands its
            /// result to `answer` while what the result borrows is there.
            pub trait Handler: Send + Sync + 'static {
                #(#methods)*
            }
        }
    }

    /// What a dispatcher does for one procedure.
    pub(super) fn lent_call(procedure: &Procedure) -> TokenStream {
        let (method, name) = (ident(&procedure.method), ident(&procedure.ident));
        let decoded = quote!(call.arguments::<proc::#name>()?);
        let answer = quote!(borrowed::Answer::new(reply));
        if procedure.arguments == Type::Void {
            quote!({
                #decoded;
                self.0.#method(context, #answer).await.map(borrowed::Answered::done)
            })
        } else {
            quote!({
                let args = #decoded;
                self.0.#method(context, args, #answer).await.map(borrowed::Answered::done)
            })
        }
    }
}
