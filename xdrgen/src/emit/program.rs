//! Programs: a module for each version, with its procedures, its client and its server.

use proc_macro2::TokenStream;
use quote::quote;

use super::borrowed::lent_call;
use super::docs::{self, Lines};
use super::types::{alias, number};
use super::{Emitter, Place, add, ident, number as number_token, parse};
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
        let (program_number, version_number) =
            (number_token(i128::from(program.number)), number_token(i128::from(version.number)));
        let title = format!("The version itself: what a client and a server of `{}` name.", version.name);
        let title = self.texts.lines(|lines| lines.push(&title));
        let (xdr_name, alias) = (&version.name, self.alias_token(&version.name, &version.ident));
        let mut listed = String::new();
        for procedure in &version.procedures {
            listed.push('(');
            number(i128::from(procedure.number), &mut listed);
            add(&mut listed, [", \"", &procedure.name, "\"), "]);
        }
        let procedures = self.texts.code(listed);
        let binding = version.binding.as_ref().map(|binding| {
            if binding.backward {
                return quote! {
                    impl program::Directed for #name {
                        type Direction = program::Backward;
                    }

                    impl program::BackwardOnly for #name {}
                };
            }
            let port = match binding.port {
                Some(port) => {
                    let port = number_token(i128::from(port));
                    quote!(Some(#port))
                }
                None => quote!(None),
            };
            let netids = &binding.netids;
            let threshold = binding.inline_threshold.map(|bytes| {
                let bytes = number_token(i128::from(bytes));
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
                const NUMBER: u32 = #program_number;
                const VERSION: u32 = #version_number;
                const NAME: &'static str = #xdr_name;
                const PROCEDURES: &'static [(u32, &'static str)] = &[#procedures];
            }

            #binding
        }
    }

    /// A type for each procedure; `lent` where arguments and results borrow their message.
    fn procedures(&self, version: &Version, lent: bool) -> TokenStream {
        let runtime = &self.runtime;
        let mut out = String::new();
        for procedure in &version.procedures {
            self.procedure(version, procedure, lent, &mut out);
        }
        let procedures = self.texts.code(out);
        let import = (!version.procedures.is_empty()).then(|| quote!(use #runtime::proto::program;));
        quote! {
            /// The procedures, one type each.
            pub mod proc {
                #import

                #procedures
            }
        }
    }

    fn procedure(&self, version: &Version, procedure: &Procedure, lent: bool, out: &mut String) {
        let (name, lifetime) = (procedure.ident.as_str(), if lent { "<'a>" } else { "" });
        let path = if lent { "program::borrowed" } else { "program" };
        self.procedure_docs(procedure, &mut Lines::new(out));
        alias(&procedure.name, name, out);
        out.push_str("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]\n");
        add(out, ["pub struct ", name, ";\nimpl ", path, "::Procedure for ", name, " {\n"]);
        add(out, ["type Program = super::", &version.ident, ";\ntype Args", lifetime, " = "]);
        self.ty(&procedure.arguments, Place::Procedures, out);
        add(out, [";\ntype Res", lifetime, " = "]);
        self.ty(&procedure.result, Place::Procedures, out);
        out.push_str(";\nconst NUMBER: u32 = ");
        number(i128::from(procedure.number), out);
        add(out, [";\nconst NAME: &'static str = \"", &procedure.name, "\";\n"]);
        let lifetimes = if lent { [Some(quote!(<'_>)), Some(quote!(<'static>))] } else { [None, None] };
        if let Some(bounds) = reply_bounds(&procedure.reply, lifetimes) {
            out.push_str(&bounds.to_string());
        }
        out.push_str("}\n");
    }

    fn procedure_docs(&self, procedure: &Procedure, lines: &mut Lines<'_>) {
        docs::part(&procedure.docs, lines);
        if let Some(sizes) = &self.sizes {
            lines.part();
            lines.push(&sizes::line(procedure, sizes));
        }
    }

    /// The parameter of a client's or a handler's method, with `mark` before its type, if it takes anything.
    pub(super) fn taken(&self, procedure: &Procedure, mark: &str) -> Option<String> {
        let mut taken = format!(", {}: {mark}", procedure.parameter);
        self.ty(&procedure.arguments, Place::Version, &mut taken);
        (procedure.arguments != Type::Void).then_some(taken)
    }

    fn client(&self, version: &Version) -> TokenStream {
        let program = ident(&version.ident);
        let mut out = String::new();
        for procedure in &version.procedures {
            method_docs(procedure, CALL_FAILS, &mut out);
            let taken = self.taken(procedure, "&");
            let args = if taken.is_some() { &procedure.parameter } else { "&()" };
            add(&mut out, ["pub async fn ", &procedure.method, "(&self", taken.as_deref().unwrap_or("")]);
            out.push_str(") -> Result<");
            self.ty(&procedure.result, Place::Version, &mut out);
            out.push_str(", C::Error> {\n");
            add(&mut out, ["self.0.call::<proc::", &procedure.ident, ">(", args, ").await\n}\n"]);
        }
        let methods = self.texts.code(out);
        quote! {
            /// A client over anything that carries calls of this version.
            #[derive(Clone, Debug)]
            pub struct Client<C>(pub C);

            impl<C: program::Caller<#program>> Client<C> {
                #methods
            }
        }
    }

    fn handler(&self, version: &Version) -> TokenStream {
        let mut out = String::new();
        for procedure in &version.procedures {
            method_docs(procedure, HANDLER_REFUSES, &mut out);
            let taken = self.taken(procedure, "");
            add(&mut out, ["fn ", &procedure.method, "(&self, context: &program::CallContext"]);
            add(&mut out, [taken.as_deref().unwrap_or(""), ") -> impl Future<Output = Result<"]);
            self.ty(&procedure.result, Place::Version, &mut out);
            out.push_str(", program::Reject>> + Send");
            out.push_str(if is_null(procedure) {
                " {\nlet _ = context;\n::core::future::ready(Ok(()))\n}\n"
            } else {
                ";\n"
            });
        }
        let methods = self.texts.code(out);
        quote! {
            /// What a server of this version does: one method a procedure. An `async fn` implements each.
            pub trait Handler: Send + Sync + 'static {
                #methods
            }
        }
    }

    fn server(&self, version: &Version) -> TokenStream {
        let (runtime, heap) = (&self.runtime, self.heap());
        let program = ident(&version.ident);
        let many = (version.procedures.len() > MANY)
            .then(|| quote!(#[allow(clippy::too_many_lines, reason = "one arm a procedure")]));
        let mut out = String::new();
        for procedure in &version.procedures {
            number(i128::from(procedure.number), &mut out);
            out.push_str(" => ");
            if self.is_borrowed() {
                lent_call(procedure, &mut out);
            } else if procedure.arguments == Type::Void {
                add(&mut out, ["answer(args, reply, |()| self.0.", &procedure.method, "(context)).await"]);
            } else {
                add(&mut out, ["answer(args, reply, |args| self.0.", &procedure.method]);
                out.push_str("(context, args)).await");
            }
            out.push_str(",\n");
        }
        let arms = self.texts.code(out);
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
                            #arms
                            _ => Err(program::Reject::ProcedureUnavailable),
                        }
                    })
                }
            }
        }
    }
}

/// What a client's method says of its errors.
pub(super) const CALL_FAILS: &str =
    "Whatever keeps the carrier from having a result; a failure that the result itself tells is none.";
/// What a handler's method says of them.
pub(super) const HANDLER_REFUSES: &str =
    "A refusal of the call itself; what the protocol has a status for is a result.";

/// The documentation of a client's or a handler's method.
pub(super) fn method_docs(procedure: &Procedure, errors: &str, out: &mut String) {
    let mut lines = Lines::new(out);
    docs::part(&procedure.docs, &mut lines);
    lines.part();
    lines.push("# Errors");
    lines.push(errors);
}

/// Whether a procedure does nothing, as number 0 of any program does: it need not be implemented.
pub(super) fn is_null(procedure: &Procedure) -> bool {
    procedure.number == 0 && procedure.arguments == Type::Void && procedure.result == Type::Void
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
    let number = (sum.number > 0 || sum.fields.is_empty()).then(|| number_token(i128::from(sum.number)));
    let mut terms = fields.chain(number);
    let first = terms.next().unwrap_or_default();
    quote!(#first #(.saturating_add(#terms))*)
}
