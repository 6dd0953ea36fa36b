//! Programs: a module for each version, with its procedures, its client and its server.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, Place, docs, ident, number, parse};
use crate::ir::{Procedure, Program, ReplyBounds, Sum, Type, Version};
use crate::sizes;

/// A dispatcher of more procedures than this has more lines than a function should.
const MANY: usize = 10;

impl Emitter<'_> {
    pub(super) fn version(&self, program: &Program, version: &Version) -> TokenStream {
        let runtime = &self.runtime;
        let module = ident(&version.module);
        let title = format!(
            "`{}`, version {} of `{}`, program {}",
            version.name, version.number, program.name, program.number
        );
        let title = match &program.docs.section {
            Some(section) => format!("{title}: section {section}"),
            None => title,
        };
        let docs = self.texts.lines(|lines| {
            lines.push(&title);
            docs::paragraphs(&program.docs.comments, lines);
            docs::paragraphs(&version.docs.comments, lines);
        });
        let imports = if version.procedures.is_empty() {
            quote!(use #runtime::proto::program;)
        } else if self.is_borrowed() {
            quote!(use ::core::future::Future; use #runtime::proto::program::{self, borrowed};)
        } else {
            quote!(use ::core::future::Future; use #runtime::proto::program::{self, answer};)
        };
        let allow = self.texts.with(|out| self.allow_version(out));
        let (marker, server) = (self.marker(program, version), self.server(version));
        let (procedures, client, handler) = if self.is_borrowed() {
            (self.procedures(version, true), self.lent_client(version), self.lent_handler(version))
        } else {
            (self.procedures(version, false), self.client(version), self.handler(version))
        };
        quote! {
            #docs
            #allow
            pub mod #module {
                #imports

                #marker
                #procedures
                #client
                #handler
                #server
            }
        }
    }

    /// The type that stands for the version, and whether it has a binding.
    fn marker(&self, program: &Program, version: &Version) -> TokenStream {
        let name = ident(&version.ident);
        let (number, version_number) =
            (number(i128::from(program.number)), number(i128::from(version.number)));
        let title = format!("The version itself: what a client and a server of `{}` name.", version.name);
        let title = self.texts.lines(|lines| lines.push(&title));
        let (xdr_name, alias) = (&version.name, self.alias(&version.name, &version.ident));
        let procedures = version.procedures.iter().map(|procedure| {
            let (number, name) = (self::number(i128::from(procedure.number)), &procedure.name);
            quote!((#number, #name))
        });
        let binding = version.binding.as_ref().map(|binding| {
            if binding.backward {
                return quote!(impl program::BackwardOnly for #name {});
            }
            let port = match binding.port {
                Some(port) => {
                    let port = self::number(i128::from(port));
                    quote!(Some(#port))
                }
                None => quote!(None),
            };
            let netids = &binding.netids;
            let threshold = binding.inline_threshold.map(|bytes| {
                let bytes = self::number(i128::from(bytes));
                quote!(const INLINE_THRESHOLD: Option<u32> = Some(#bytes);)
            });
            quote! {
                impl program::Binding for #name {
                    const PORT: Option<u16> = #port;
                    const NETIDS: &'static [&'static str] = &[#(#netids),*];
                    #threshold
                }
            }
        });
        quote! {
            #title
            #alias
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct #name;

            impl program::Program for #name {
                const NUMBER: u32 = #number;
                const VERSION: u32 = #version_number;
                const NAME: &'static str = #xdr_name;
                const PROCEDURES: &'static [(u32, &'static str)] = &[#(#procedures),*];
            }

            #binding
        }
    }

    /// A type for each procedure; `lent` where arguments and results borrow their message.
    fn procedures(&self, version: &Version, lent: bool) -> TokenStream {
        let runtime = &self.runtime;
        let program = ident(&version.ident);
        let procedures = version.procedures.iter().map(|procedure| {
            let (docs, alias) =
                (self.procedure_docs(procedure), self.alias(&procedure.name, &procedure.ident));
            let (name, xdr_name, number) =
                (ident(&procedure.ident), &procedure.name, number(i128::from(procedure.number)));
            let args = self.ty_token(&procedure.arguments, Place::Procedures);
            let res = self.ty_token(&procedure.result, Place::Procedures);
            let lifetimes = if lent { [Some(quote!(<'_>)), Some(quote!(<'static>))] } else { [None, None] };
            let bounds = reply_bounds(&procedure.reply, lifetimes);
            let (path, lifetime) =
                if lent { (quote!(program::borrowed), quote!(<'a>)) } else { (quote!(program), quote!()) };
            quote! {
                #docs
                #alias
                #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
                pub struct #name;

                impl #path::Procedure for #name {
                    type Program = super::#program;
                    type Args #lifetime = #args;
                    type Res #lifetime = #res;
                    const NUMBER: u32 = #number;
                    const NAME: &'static str = #xdr_name;
                    #bounds
                }
            }
        });
        let import = (!version.procedures.is_empty()).then(|| quote!(use #runtime::proto::program;));
        quote! {
            /// The procedures, one type each.
            pub mod proc {
                #import

                #(#procedures)*
            }
        }
    }

    fn procedure_docs(&self, procedure: &Procedure) -> Literal {
        self.texts.lines(|lines| {
            docs::part(&procedure.docs, lines);
            if let Some(sizes) = &self.sizes {
                lines.part();
                lines.push(&sizes::line(procedure, sizes));
            }
        })
    }

    /// The documentation of a client's method.
    pub(super) fn client_docs(&self, procedure: &Procedure) -> Literal {
        self.method_docs(
            procedure,
            "Whatever keeps the carrier from having a result; a failure that the result itself tells is none.",
        )
    }

    /// The documentation of a handler's method.
    pub(super) fn handler_docs(&self, procedure: &Procedure) -> Literal {
        self.method_docs(
            procedure,
            "A refusal of the call itself; what the protocol has a status for is a result.",
        )
    }

    /// The parameter of a client's method, if the procedure takes anything, and what is sent.
    pub(super) fn sent(&self, procedure: &Procedure) -> (Option<TokenStream>, TokenStream) {
        if procedure.arguments == Type::Void {
            return (None, quote!(&()));
        }
        let args = self.ty_token(&procedure.arguments, Place::Version);
        (Some(quote!(args: &#args)), quote!(args))
    }

    fn method_docs(&self, procedure: &Procedure, errors: &str) -> Literal {
        self.texts.lines(|lines| {
            docs::part(&procedure.docs, lines);
            lines.part();
            lines.push("# Errors");
            lines.push(errors);
        })
    }

    fn client(&self, version: &Version) -> TokenStream {
        let program = ident(&version.ident);
        let methods = version.procedures.iter().map(|procedure| {
            let docs = self.client_docs(procedure);
            let (method, name) = (ident(&procedure.method), ident(&procedure.ident));
            let res = self.ty_token(&procedure.result, Place::Version);
            let (parameter, args) = self.sent(procedure);
            quote! {
                #docs
                pub async fn #method(&self, #parameter) -> Result<#res, C::Error> {
                    self.0.call::<proc::#name>(#args).await
                }
            }
        });
        quote! {
            /// A client over anything that carries calls of this version.
            #[derive(Clone, Debug)]
            pub struct Client<C>(pub C);

            impl<C: program::Caller<#program>> Client<C> {
                #(#methods)*
            }
        }
    }

    fn handler(&self, version: &Version) -> TokenStream {
        let methods = version.procedures.iter().map(|procedure| {
            let docs = self.handler_docs(procedure);
            let method = ident(&procedure.method);
            let res = self.ty_token(&procedure.result, Place::Version);
            let args = (procedure.arguments != Type::Void).then(|| {
                let args = self.ty_token(&procedure.arguments, Place::Version);
                quote!(args: #args)
            });
            let null = procedure.number == 0 && args.is_none() && procedure.result == Type::Void;
            let body = if null {
                quote!({
                    let _ = context;
                    ::core::future::ready(Ok(()))
                })
            } else {
                quote!(;)
            };
            quote! {
                #docs
                fn #method(&self, context: &program::CallContext, #args)
                    -> impl Future<Output = Result<#res, program::Reject>> + Send #body
            }
        });
        quote! {
            /// What a server of this version does: one method a procedure. An `async fn` implements each.
            pub trait Handler: Send + Sync + 'static {
                #(#methods)*
            }
        }
    }

    fn server(&self, version: &Version) -> TokenStream {
        let (runtime, heap) = (&self.runtime, self.heap());
        let program = ident(&version.ident);
        let many = (version.procedures.len() > MANY)
            .then(|| quote!(#[allow(clippy::too_many_lines, reason = "one arm a procedure")]));
        let arms = version.procedures.iter().map(|procedure| {
            let (number, method) = (number(i128::from(procedure.number)), ident(&procedure.method));
            if self.is_borrowed() {
                let call = Self::lent_call(procedure);
                quote!(#number => #call)
            } else if procedure.arguments == Type::Void {
                quote!(#number => answer(args, reply, |()| self.0.#method(context)).await)
            } else {
                quote!(#number => answer(args, reply, |args| self.0.#method(context, args)).await)
            }
        });
        let gathered = (self.is_borrowed() && !version.procedures.is_empty())
            .then(|| quote!(let call = borrowed::Call::new(args)?;));
        quote! {
            /// The server of a handler: decodes arguments, calls the method, encodes the result.
            #[derive(Clone, Debug)]
            pub struct Server<H>(pub H);

            impl<H: Handler> program::Service for Server<H> {
                fn program(&self) -> u32 {
                    <#program as program::Program>::NUMBER
                }

                fn version(&self) -> u32 {
                    <#program as program::Program>::VERSION
                }

                #many
                fn dispatch<'a>(
                    &'a self,
                    context: &'a program::CallContext,
                    args: #runtime::xdr::Reader<'a>,
                    reply: &'a mut #runtime::xdr::Reducer,
                ) -> ::core::pin::Pin<
                    #heap::boxed::Box<dyn Future<Output = Result<(), program::Reject>> + Send + 'a>,
                > {
                    #heap::boxed::Box::pin(async move {
                        #gathered
                        match context.procedure {
                            #(#arms,)*
                            _ => Err(program::Reject::ProcedureUnavailable),
                        }
                    })
                }
            }
        }
    }
}

/// The function that overrides what the result's type allows, if the binding has more to say.
fn reply_bounds(reply: &ReplyBounds, lifetimes: [Option<TokenStream>; 2]) -> Option<TokenStream> {
    let with = |name: &str, sum: &Option<Sum>| {
        sum.as_ref().map(|sum| {
            let (name, value) = (ident(name), sum_tokens(sum));
            quote!(.#name(#value))
        })
    };
    let (item, whole) = (with("with_item", &reply.item), with("with_whole", &reply.whole));
    if item.is_none() && whole.is_none() {
        return None;
    }
    let uses = [&reply.item, &reply.whole].into_iter().flatten().any(|sum| !sum.fields.is_empty());
    let args = ident(if uses { "args" } else { "_args" });
    let [of_args, of_res] = lifetimes;
    Some(quote! {
        fn reply_bounds(#args: &Self::Args #of_args) -> program::ReplyBounds {
            program::ReplyBounds::of::<Self::Res #of_res>() #item #whole
        }
    })
}

fn sum_tokens(sum: &Sum) -> TokenStream {
    let fields = sum.fields.iter().map(|field| {
        let path = parse(&format!("args.{}", field.idents.join(".")));
        if field.wide { path } else { quote!(u64::from(#path)) }
    });
    let number = (sum.number > 0 || sum.fields.is_empty()).then(|| number(i128::from(sum.number)));
    let mut terms = fields.chain(number);
    let first = terms.next().unwrap_or_default();
    quote!(#first #(.saturating_add(#terms))*)
}
