//! Programs: a module for each version, with its procedures, its client and its server.
//!
//! Borrowed output has the same parts, which use `program::borrowed` of the runtime.

use std::fmt::Display;

use rpcrdma_layout::{MAX_HEADERS, MAX_TRANSFER, WRITE_CHUNKS};

use super::code::Code;
use super::docs::{self, Lines};
use super::types::alias;
use super::{Emitter, Place};
use crate::ir::{Binding, Procedure, Program, ReplyBounds, Sum, Type, Version};
use crate::namespace::last;
use crate::sizes::messages as sizes;

/// Number of procedures above which a dispatcher may violate `clippy::too_many_lines`.
const MANY: usize = 10;

const CALL_FAILS: &str = "Returns the transport's error if there is no result. A failure status of the protocol is part of the result.";
const HANDLER_REFUSES: &str =
    "Returns an error if the call itself fails. A failure status of the protocol is part of the result.";

impl Emitter<'_> {
    pub(super) fn version(&self, program: &Program, version: &Version, code: &mut Code) {
        self.version_docs(program, version, code);
        self.allow_version(code);
        code.line(["pub mod ", &version.module, " {"]);
        code.block(|code| {
            self.version_imports(version, code);
            marker(program, version, code);
            if let Some(binding) = &version.binding {
                bound(&version.ident, binding, code);
            }
            self.procedures(version, code);
            self.client(version, code);
            self.handler(version, code);
            self.server(version, code);
        });
    }

    fn version_docs(&self, program: &Program, version: &Version, code: &mut Code) {
        let mut title = format!(
            "`{}`, version {} of `{}`, program {}",
            version.name, version.number, program.name, program.number
        );
        if let Some(section) = &program.docs.section {
            title = format!("{title}: {}{section}", docs::section_word(section));
        }
        let mut lines = Lines::new(code);
        lines.push(&title);
        docs::paragraphs(&program.docs.comments, &mut lines);
        docs::paragraphs(&version.docs.comments, &mut lines);
    }

    fn version_imports(&self, version: &Version, code: &mut Code) {
        let is_lent = self.is_borrowed() && !version.procedures.is_empty();
        let answer = if !is_lent || has_no_null(version) { ", answer" } else { "" };
        let borrowed = if is_lent { ", borrowed" } else { "" };
        code.line(["use ::core::future::Future;"]);
        code.line(["use ", &self.runtime, "::program::{self", answer, borrowed, "};"]);
    }

    fn procedures(&self, version: &Version, code: &mut Code) {
        code.apart();
        code.line(["/// A type for each procedure."]);
        code.line(["pub mod proc {"]);
        code.block(|code| {
            if !version.procedures.is_empty() {
                code.line(["use ", &self.runtime, "::program;"]);
            }
            version.procedures.iter().for_each(|procedure| self.procedure(version, procedure, code));
        });
    }

    fn procedure(&self, version: &Version, procedure: &Procedure, code: &mut Code) {
        let (path, lifetime) = if self.is_borrowed() {
            ("program::borrowed::BorrowedProcedure", "<'a>")
        } else {
            ("program::Procedure", "")
        };
        code.apart();
        let mut lines = Lines::new(code);
        docs::part(&procedure.docs.comments, &procedure.docs.declaration, &mut lines);
        if let Some(sizes) = &self.sizes {
            lines.part();
            lines.push(&sizes::line(procedure, sizes));
        }
        alias(&procedure.name, &procedure.ident, code);
        unit_struct(&procedure.ident, code);
        implementation(path, &procedure.ident, code);
        code.block(|code| {
            code.line(["type Program = super::", &version.ident, ";"]);
            for (name, ty) in [("Args", &procedure.arguments), ("Res", &procedure.result)] {
                code.begin().add(["type ", name, lifetime, " = "]);
                code.then(|code| self.ty(ty, Place::Procedures, code)).push(";").end();
            }
            constant("NUMBER: u32", procedure.number, code);
            constant("NAME: &'static str", format_args!("{:?}", procedure.name), code);
            if self.has_excess_items(procedure) {
                constant("EXCESS_ITEMS: bool", true, code);
            }
            self.reply_bounds(&procedure.reply, code);
        });
    }

    /// Returns true if the number of eligible items in a result may exceed the number of Write chunks that a
    /// call offers. Borrowed output has no eligible items.
    fn has_excess_items(&self, procedure: &Procedure) -> bool {
        let result = self.sizes.map(|layouts| layouts.ty(&procedure.result));
        !self.is_borrowed() && result.is_some_and(|result| !result.items.count.fits(WRITE_CHUNKS))
    }

    /// Writes `reply_bounds` if the binding bounds the reply. The emitted function returns the bounds of the
    /// result type, lowered to the bounds of the binding where these are smaller.
    fn reply_bounds(&self, reply: &ReplyBounds, code: &mut Code) {
        let sums = [(".with_item", &reply.item), (".with_unreduced", &reply.unreduced)];
        let sums = || sums.into_iter().filter_map(|(name, sum)| Some((name, sum.as_ref()?)));
        if sums().next().is_none() {
            return;
        }
        let [of_args, of_res] = if self.is_borrowed() { ["<'_>", "<'static>"] } else { ["", ""] };
        let args = if sums().any(|(_, sum)| !sum.fields.is_empty()) { "args" } else { "_args" };
        code.apart();
        code.line(["fn reply_bounds(", args, ": &Self::Args", of_args, ") -> program::ReplyBounds {"]);
        code.block(|code| {
            code.begin().add(["program::ReplyBounds::of::<Self::Res", of_res, ">()"]);
            for (name, terms) in sums() {
                code.dot(name).open("(").then(|code| sum(terms, code)).close_list(")");
            }
            code.end();
        });
    }

    fn args(&self, procedure: &Procedure, reference: &str, code: &mut Code) {
        if procedure.arguments != Type::Void {
            let parameter = code.comma().add([&procedure.parameter, ": ", reference]);
            self.ty(&procedure.arguments, Place::Version, parameter);
        }
    }

    fn client(&self, version: &Version, code: &mut Code) {
        code.apart();
        code.line([
            "/// A client over any transport that carries calls of this version.",
            if self.is_borrowed() { " A reply owns its message; `get` returns the result." } else { "" },
        ]);
        code.lines("#[derive(Clone, Debug)]\npub struct Client<C>(pub C);\n\n");
        // The bound `Caller` is on the methods, and `CallFuture` has no bounds. Thus, a call of a program
        // without a binding causes only one compile error, which shows the notes of `program::Binding`.
        code.line(["impl<C> Client<C> {"]);
        code.block(|code| {
            version.procedures.iter().for_each(|procedure| self.client_method(version, procedure, code));
        });
    }

    fn client_method(&self, version: &Version, procedure: &Procedure, code: &mut Code) {
        code.apart();
        method_docs(procedure, CALL_FAILS, code);
        let borrows = !self.is_borrowed() && procedure.arguments != Type::Void;
        let [generics, lifetime, this] =
            if borrows { ["<'a>", "'a", "&'a self"] } else { ["", "'_", "&self"] };
        code.begin().add(["pub fn ", &procedure.method, generics]).open("(").push(this);
        self.args(procedure, if borrows { "&'a " } else { "&" }, code);
        code.close_list(") -> ").open("program::CallFuture<").push(lifetime).comma();
        if self.is_borrowed() {
            code.open("borrowed::BorrowedReply<").add(["proc::", &procedure.ident]).close_list(">");
        } else {
            self.ty(&procedure.result, Place::Version, code);
        }
        code.comma().push("C::Error").close_list(">").end();
        code.line(["where"]);
        let sync = if self.is_borrowed() { " + Sync" } else { "" };
        code.deeper(1, |code| code.line(["C: program::Caller<", &version.ident, ">", sync, ","]));
        code.line(["{"]);
        code.block(|code| {
            let args = if procedure.arguments == Type::Void { "&()" } else { &procedure.parameter };
            code.begin();
            if self.is_borrowed() {
                code.add(["borrowed::call::<proc::", &procedure.ident, ", C>"])
                    .open("(")
                    .push("&self.0")
                    .comma();
            } else {
                code.push("self.0").dot(".call::<").add(["proc::", &procedure.ident, ">"]).open("(");
            }
            code.push(args).close_list(")").end();
        });
    }

    fn handler(&self, version: &Version, code: &mut Code) {
        code.apart();
        code.lines(if self.is_borrowed() {
            "/// The procedures that a server of this version implements, each by an `async fn`. Each\n\
             /// function passes its result to `answer` while the data that the result borrows is alive."
        } else {
            "/// The procedures that a server of this version implements, each by an `async fn`."
        });
        code.line(["pub trait Handler: Send + Sync + 'static {"]);
        code.block(|code| {
            version.procedures.iter().for_each(|procedure| self.handler_method(procedure, code));
        });
    }

    fn handler_method(&self, procedure: &Procedure, code: &mut Code) {
        code.apart();
        method_docs(procedure, HANDLER_REFUSES, code);
        code.begin().add(["fn ", &procedure.method]).open("(").push("&self");
        self.args(procedure, "", code.comma().push("context: &program::CallContext"));
        if self.is_borrowed() {
            code.comma().push("answer: ").open("borrowed::Answer<").push("'_").comma();
            code.add(["proc::", &procedure.ident]).close_list(">");
        }
        code.close_list(") -> ").open("impl Future<").push("Output = ").open("Result<");
        if self.is_borrowed() {
            code.push("borrowed::Answered");
        } else {
            self.ty(&procedure.result, Place::Version, code);
        }
        code.comma().push("program::Reject").close_list(">").close_list("> + Send");
        if !is_null(procedure) {
            return code.push(";").end();
        }
        code.push(" {").end();
        let result = if self.is_borrowed() { "answer.with(&())" } else { "Ok(())" };
        code.block(|code| {
            code.line(["let _ = context;"]);
            code.line(["::core::future::ready(", result, ")"]);
        });
    }

    fn server(&self, version: &Version, code: &mut Code) {
        let (program, runtime) = (&version.ident, &self.runtime);
        let heap = if self.std { "::std" } else { "::alloc" };
        let allow = if version.procedures.len() > MANY {
            "    #[allow(clippy::too_many_lines, reason = \"one arm for each procedure\")]\n"
        } else {
            ""
        };
        let max_args = self.max_args(version).map_or_else(String::new, |bytes| {
            format!("    fn max_args(&self) -> u64 {{\n        {bytes}\n    }}\n\n")
        });
        code.apart();
        code.lines(&format!(
            "\
/// A server with a handler: decodes arguments, calls the method and encodes the result.
#[derive(Clone, Debug)]
pub struct Server<H>(pub H);

impl<H: Handler> program::Service for Server<H> {{
    fn program(&self) -> u32 {{
        <{program} as program::Program>::NUMBER
    }}

    fn version(&self) -> u32 {{
        <{program} as program::Program>::VERSION
    }}

{max_args}{allow}    fn dispatch<'a>(
        &'a self,
        context: &'a program::CallContext,
        args: {runtime}::xdr::Reader<'a>,
        reply: &'a mut {runtime}::xdr::Reducer,
    ) -> ::core::pin::Pin<
        {heap}::boxed::Box<
            dyn Future<Output = Result<(), program::Reject>> + Send + 'a,
        >,
    > {{
        {heap}::boxed::Box::pin(async move {{
"
        ));
        code.deeper(3, |code| self.dispatch(version, code));
        code.lines("        })\n    }\n}\n");
    }

    /// Returns the length in bytes of the longest bounded arguments, if servers by default reject a call with
    /// arguments of this length.
    fn max_args(&self, version: &Version) -> Option<u64> {
        let layouts = self.sizes?;
        let arguments = version.procedures.iter().map(|procedure| layouts.ty(&procedure.arguments));
        let longest = arguments.filter_map(|layout| layout.lengths.max.bound()).max()?;
        (longest.saturating_add(MAX_HEADERS) > MAX_TRANSFER).then_some(longest)
    }

    fn dispatch(&self, version: &Version, code: &mut Code) {
        let null = has_no_null(version);
        if self.is_borrowed() && !version.procedures.is_empty() {
            code.line([
                "let call = borrowed::BorrowedCall::new(args",
                if null { ".clone()" } else { "" },
                ")?;",
            ]);
        }
        code.line(["match context.procedure {"]);
        code.block(|code| {
            if null {
                code.line(["0 => answer(args, reply, |()| ::core::future::ready(Ok(()))).await,"]);
            }
            for procedure in &version.procedures {
                code.begin().show(procedure.number).push(" => ");
                if self.is_borrowed() {
                    borrowed_call(procedure, code);
                } else {
                    call(procedure, code);
                }
            }
            code.line(["_ => Err(program::Reject::ProcedureUnavailable),"]);
        });
    }
}

fn marker(program: &Program, version: &Version, code: &mut Code) {
    code.apart();
    let title =
        format!("The version of the program, a type parameter of clients and servers of `{}`.", version.name);
    Lines::new(code).push(&title);
    alias(&version.name, &version.ident, code);
    unit_struct(&version.ident, code);
    implementation("program::Program", &version.ident, code);
    code.block(|code| {
        constant("NUMBER: u32", program.number, code);
        constant("VERSION: u32", version.number, code);
        constant("NAME: &'static str", format_args!("{:?}", version.name), code);
        constant("PROGRAM_NAME: &'static str", format_args!("{:?}", last(&program.name)), code);
        let pairs = version.procedures.iter().map(|one| format!("({}, {:?})", one.number, one.name));
        slice("PROCEDURES: &'static [(u32, &'static str)]", pairs, code);
        if version.binding.as_ref().is_some_and(|binding| binding.backward) {
            constant("BACKWARD_ONLY: bool", true, code);
        }
    });
}

/// Writes the Upper-Layer Binding of a version.
fn bound(name: &str, binding: &Binding, code: &mut Code) {
    if binding.backward {
        implementation("program::Directed", name, code);
        code.block(|code| code.line(["type Direction = program::Backward;"]));
        implementation("program::BackwardOnly", name, code);
        return code.block(|_| ());
    }
    implementation("program::Binding", name, code);
    code.block(|code| {
        constant("PORT: Option<u16>", format_args!("{:?}", binding.port), code);
        let netids = binding.netids.iter().map(|netid| format!("{netid:?}"));
        slice("NETIDS: &'static [&'static str]", netids, code);
        if let Some(bytes) = binding.inline_threshold {
            constant("INLINE_THRESHOLD: Option<u32>", format_args!("Some({bytes})"), code);
        }
    });
}

fn unit_struct(name: &str, code: &mut Code) {
    code.line(["#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]"]);
    code.line(["pub struct ", name, ";"]);
}

fn implementation(name: &str, target: &str, code: &mut Code) {
    code.apart();
    code.begin().add(["impl ", name]);
    code.end_impl(|code| _ = code.push(target));
}

fn constant(name: &str, value: impl Display, code: &mut Code) {
    code.begin().add(["const ", name, " = "]).show(value).push(";").end();
}

fn slice(name: &str, elements: impl Iterator<Item = String>, code: &mut Code) {
    code.begin().add(["const ", name, " = "]).open("&[");
    elements.for_each(|element| _ = code.comma().push(&element));
    code.close_list("];").end();
}

fn call(procedure: &Procedure, code: &mut Code) {
    let has_args = procedure.arguments != Type::Void;
    let body = code.len();
    code.open("answer(").push("args").comma().push("reply").comma();
    code.add([if has_args { "|args| self.0." } else { "|()| self.0." }, &procedure.method]);
    code.open("(").push("context");
    if has_args {
        code.comma().push("args");
    }
    code.close_list(")").close_list(")").dot(".await").end_arm(body);
}

fn borrowed_call(procedure: &Procedure, code: &mut Code) {
    let has_args = procedure.arguments != Type::Void;
    code.push("{\n").block(|code| {
        code.begin().push(if has_args { "let args = " } else { "" });
        code.push("call.arguments::").open("<").add(["proc::", &procedure.ident]).close_list(">()?;").end();
        code.begin().push("self.0").dot(".").push(&procedure.method).open("(").push("context");
        if has_args {
            code.comma().push("args");
        }
        code.comma().push("borrowed::Answer::new(reply)").close_list(")");
        code.dot(".await").dot(".map(borrowed::Answered::done)").end();
    });
}

fn method_docs(procedure: &Procedure, errors: &str, code: &mut Code) {
    let mut lines = Lines::new(code);
    docs::part(&procedure.docs.comments, &procedure.docs.declaration, &mut lines);
    lines.part();
    lines.push("# Errors");
    lines.push(errors);
}

/// Returns true if a version does not declare procedure 0. The emitted server still answers procedure 0. By
/// convention, procedure 0 of every program takes no arguments and returns no results (RFC 5531 section
/// 12.1).
fn has_no_null(version: &Version) -> bool {
    version.procedures.iter().all(|procedure| procedure.number != 0)
}

/// Returns true for a procedure 0 that has no arguments and no result. Handlers need not implement it.
fn is_null(procedure: &Procedure) -> bool {
    procedure.number == 0 && procedure.arguments == Type::Void && procedure.result == Type::Void
}

fn sum(sum: &Sum, code: &mut Code) {
    let fields = sum.fields.iter().map(|field| {
        let path = format!("args.{}", field.idents.join("."));
        if field.wide { path } else { format!("u64::from({path})") }
    });
    let number = (sum.number > 0 || sum.fields.is_empty()).then(|| sum.number.to_string());
    for (index, term) in fields.chain(number).enumerate() {
        if index == 0 {
            code.push(&term);
        } else {
            code.dot(".saturating_add").open("(").push(&term).close_list(")");
        }
    }
}
