//! Findings about the sizes of calls and replies, and about the bounds of replies in a binding.

use super::binding::{Unknown, unknown};
use super::{Excerpt, text};

kinds! {
    Message MessageKind {
    /// no procedure of the version has this name
    X307 Error NoProcedure { name: Unknown } => unknown("procedure of this version", name);
    /// not a sum of numbers and fields
    X308 Error NoSum => text("not a sum of numbers and fields")
        .label("expected a sum such as `count`, `4096` or `maxcount + 200`")
        .help("a bound is a sum of numbers and fields of the arguments, in bytes");
    /// a bound with an invalid field
    X309 Error NoArgument { procedure: String, name: Unknown } =>
        unknown(&format!("field in the arguments of `{procedure}`"), name);
    /// A bound with a field whose type is neither unsigned int nor unsigned hyper.
    X309 Error NoSize { field: String } => text(format!("`{field}` is not an unsigned int or unsigned hyper"))
        .label("a field in a bound must have one of these types");
    /// a bound for a missing item
    X311 Error NoItem { procedure: String } => text(format!("the result of `{procedure}` contains no eligible item"))
        .label("bounds an item")
        .help("name the item in `eligible`, or bound the result by `unreduced`");
    /// a reply table without bounds
    X320 Error EmptyReply { procedure: String } => text(format!("this table does not bound the reply of `{procedure}`"))
        .label("has neither `item` nor `unreduced`")
        .help("bound the reply by `unreduced`, bound its eligible item by `item`, or remove the table");
    /// an impossible bound
    X321 Error ShortReply { procedure: String, bytes: u64, least: u64 } =>
        text(format!("no result of `{procedure}` fits in {bytes} bytes"))
        .label("too small")
        .help(format!("the smallest result has {least} bytes, and the bound must cover the largest"));
    /// A bound on a void result.
    X321 Error VoidResult { procedure: String } => text(format!("the result of `{procedure}` is void"))
        .label("no effect")
        .help("remove the bound");
    /// A bound of 0 bytes for an eligible item.
    X321 Error EmptyItem { procedure: String } => text(format!("an item of `{procedure}` would always be empty"))
        .label("too small")
        .help("write the size of the largest item: a number of bytes, or a field of the arguments");
    /// A bound that exceeds the maximum length of an XDR stream.
    X321 Error LongReply { procedure: String, bytes: u64 } => text(format!("a reply of `{procedure}` cannot have {bytes} bytes"))
        .label("too large")
        .help("counts and positions in an XDR stream have 32 bits: the largest bound is 4294967295");
    /// Results that can be longer than the longest possible chunk.
    X321 Error LongResult { procedures: Excerpt<String>, bytes: u64 } => {
        let first = procedures.first.first().map_or("", String::as_str);
        let names = procedures.shown(|name| format!("`{name}`"));
        text(format!("the reply of {names} can have {bytes} bytes, but a chunk has at most 4294967295"))
            .label("each such call fails: counts and positions in an XDR stream have 32 bits")
            .help(format!("lower the bounds in the document, or bound the reply in `[binding.reply.\"{first}\"]`"))
    };
    /// an unbounded reply
    X322 Error Unbounded { procedures: Excerpt<String> } => {
        let first = procedures.first.first().map_or("", String::as_str);
        text(format!("the reply of {} has no bound", procedures.shown(|name| format!("`{name}`"))))
            .label("each such call fails: a client must offer memory for the longest reply (RFC 8166 section 6.2)")
            .help(format!(
                "bound it in `[binding.reply.\"{first}\"]`: `unreduced` is the size of the largest result in \
                 bytes, and `item` the size of its largest eligible item"
            ))
    };
    /// a call is longer than servers accept
    X325 Warning LongCall { procedures: Excerpt<String>, bytes: u64, max: u64 } => text(format!(
            "a call of {} can need {bytes} bytes in Read chunks, but servers accept at most {max} by default",
            procedures.shown(|name| format!("`{name}`"))
        ))
        .label("such a call is rejected unless the server has a larger memory budget")
        .help("lower the bound in the document, or raise each server's `Limits::max_memory` to \
            more than twice the call's size");
    /// a result can be longer than its bound
    X326 Warning NarrowBound { procedure: String, bytes: u64, max: u64, of_item: bool } => {
        let what = if *of_item { "an item" } else { "a result" };
        text(format!("{what} of `{procedure}` can have {max} bytes, more than its bound of {bytes}"))
            .label("a call with a longer reply fails")
            .help(format!("write at least {max}, or lower the bounds in the document"))
    };
    /// a result can hold more eligible items than a call offers Write chunks
    X327 Warning ExcessItems { procedures: Excerpt<String>, items: Option<u64>, chunks: u64 } => {
        let items = items.map_or_else(|| "any number of".to_owned(), |items| items.to_string());
        text(format!(
            "a result of {} can contain {items} eligible items, more than the {chunks} Write chunks of a call",
            procedures.shown(|name| format!("`{name}`"))
        ))
        .label("the remaining items stay in the reply, and each call also offers memory for the whole result")
        .help("lower the number of items in the document, or name none of them in `eligible`")
    };
    }
}
