//! What resolution and the rules of the language find.

use super::{BreachKind, Diagnostic, Few, Part, Text, text};
use crate::ast::Hidden;
use crate::hir::Chooser;
use crate::resolve::unresolved::{Origin, Reason, Space, Unresolved};
use crate::source::Span;

/// What may choose the arm of a union.
pub(super) const DISCRIMINANTS: &str =
    "a discriminant is an int, an unsigned int, a bool or an enum (RFC 4506 section 4.15)";

kinds! {
    /// X2: names and rules
    Meaning MeaningKind {
    /// no type has this name
    ///
    /// It is defined in none of the documents, and is none of the names that most systems have (`uint32_t` and its like). It is
    /// reported where it is used first.
    ///
    /// ```xdr
    /// struct nfs_fh { opaque data<64>; };
    /// struct args { nfs_hf object; };
    /// ```
    ///
    /// Mend the name; or name the document that defines it in the same run (`rpcrdma-xdrgen check one.x other.x`); or, if the type
    /// exists in Rust already, say so: `--extern nfs_hf=crate::Handle`.
    ///
    /// ```xdr
    /// struct nfs_fh { opaque data<64>; };
    /// struct args { nfs_fh object; };
    /// ```
    X200 Error NoType { name: Unresolved } => unresolved(name);
    /// a name is defined twice, and differently
    ///
    /// Types and constants have one name space (RFC 4506 section 6.4), over all documents of a run. The names of programs,
    /// versions and procedures are in no type's way. A definition that means the same is no error (X218 is the warning). Nor is one of
    /// a later document that extends an enum or a union of an earlier one by the rules of `rpcrdma-xdrgen compat` (the chapter X5): then
    /// the later one stands for both. A published document may define a type again, as an excerpt or with an erratum: then the last
    /// definition that is complete and names nothing undefined is taken, with a warning at the others.
    ///
    /// ```xdr
    /// struct point { int x; };
    /// struct point { int x; int y; };
    /// ```
    ///
    /// ```xdr
    /// struct point { int x; };
    /// struct point_2d { int x; int y; };
    /// ```
    X201 Error Twice { name: String, first: Span, how: Twice } => {
        let text = text(match how {
            Twice::Differently => format!("`{name}` is defined twice, and differently"),
            Twice::ConstantAndType => format!("`{name}` is a constant and a type"),
        });
        again(text, *first).help(match how {
            Twice::Differently => "remove one of them or give it another name; a repetition that is the same is no error",
            Twice::ConstantAndType => {
                "constants and types share one name space (RFC 4506 section 6.4): give one of them another name"
            }
        })
    };
    /// In a published document.
    X201 Warning Superseded { name: String, by: Span } => text(format!("`{name}` is defined twice, and differently"))
        .label("left out")
        .and(*by, "this one is taken")
        .help("of several definitions in a published document the last one that is complete and sound is taken");
    /// What a later document defines again breaks the rules of extensions.
    X201 Error NoExtension { breach: Box<BreachKind> } => {
        let text = breach.text();
        let message = format!("defined twice, and not as an extension: {}", text.message);
        let help = "a later document may add values with their arms; else remove one of the definitions or give it \
            another name";
        Text { message, ..text }.help(help)
    };
    /// no constant has this name
    ///
    /// A bound, a label or a value names a constant or an enum member that no document of the run defines.
    ///
    /// ```xdr
    /// const NAME_MAX = 255;
    /// struct entry { string name<NAM_MAX>; };
    /// ```
    ///
    /// ```xdr
    /// const NAME_MAX = 255;
    /// struct entry { string name<NAME_MAX>; };
    /// ```
    X202 Error NoValue { name: Unresolved } => unresolved(name);
    /// a constant depends on itself
    ///
    /// Each constant is defined by the name of another, and none of them by a number.
    ///
    /// ```xdr
    /// const A = B;
    /// const B = A;
    /// ```
    ///
    /// ```xdr
    /// const A = B;
    /// const B = 1;
    /// ```
    X203 Error CyclicConstant { name: String, used: Span } => text(format!("the value of `{name}` depends on itself"))
        .label("defined by way of itself")
        .and(*used, "used for its own value here")
        .help("give one of the constants a number");
    /// a constant does not fit 64 bits
    ///
    /// A `#define` may give a name any number; one that is used as a constant has at most 64 bits.
    ///
    /// ```xdr
    /// #define HUGE 18446744073709551616
    /// ```
    ///
    /// ```xdr
    /// #define HUGE 18446744073709551615
    /// ```
    X204 Error WideConstant { number: i128 } => text(format!("{number} does not fit 64 bits"))
        .label("the value")
        .help("numbers reach from -2^63 to 2^64-1");
    /// a value does not fit an enum
    ///
    /// An enum's values are signed and have 32 bits (RFC 4506 section 4.3). Values up to 0xffffffff are taken for the same 32
    /// bits, with warning X209.
    ///
    /// ```xdr
    /// enum size { SMALL = 1, LARGE = 0x100000000 };
    /// ```
    ///
    /// ```xdr
    /// enum size { SMALL = 1, LARGE = 0x7fffffff };
    /// ```
    X205 Error WideMember { number: i128 } => text(format!("{number} is no value of an enum"))
        .label("does not fit 32 bits")
        .help(ENUM_VALUES);
    /// two members of an enum have one name
    ///
    /// A name stands for one value. To give one value two names, see X207.
    ///
    /// ```xdr
    /// enum colour { RED = 1, GREEN = 2, RED = 3 };
    /// ```
    ///
    /// ```xdr
    /// enum colour { RED = 1, GREEN = 2, BLUE = 3 };
    /// ```
    X206 Error SecondMember { name: String, first: Span } => second("members", name, *first);
    /// two members of an enum have one value
    ///
    /// Some protocols have a second name for a value, so this is a warning. In Rust the later one is a constant that equals
    /// the first.
    ///
    /// ```xdr
    /// enum colour { RED = 1, GREEN = 2, BLUE = 2 };
    /// ```
    ///
    /// ```xdr
    /// enum colour { RED = 1, GREEN = 2, BLUE = 3 };
    /// ```
    X207 Warning SameValue { first: String, place: Option<Span>, second: String, value: i32 } => {
        let text = text(format!("`{first}` and `{second}` are both {value}")).label("the same value again");
        let text = place.iter().fold(text, |text, place| text.and(*place, "the first"));
        text.help("in Rust the later one is a constant that equals the first")
    };
    /// a member's name is taken
    ///
    /// The members of all enums, the constants and the types have one name space (RFC 4506 section 6.4). As a constant the name
    /// means the first. A warning, because published RFCs have it.
    ///
    /// ```xdr
    /// enum answer { OK = 0, FAILED = 1 };
    /// enum state { OK = 5 };
    /// ```
    ///
    /// ```xdr
    /// enum answer { OK = 0, FAILED = 1 };
    /// enum state { STATE_OK = 5 };
    /// ```
    X208 Warning MemberAgain { name: String, first: Span } => again(text(format!("`{name}` is defined twice")), *first)
        .label("defined again; as a constant it means the first")
        .help("members of all enums and constants share one name space (RFC 4506 section 6.4)");
    /// A type of that name.
    X208 Warning MemberAndType { name: String, first: Span } =>
        again(text(format!("`{name}` is a member of an enum and a type")), *first)
        .help("members of enums share the name space of types (RFC 4506 section 6.4)");
    /// a value is sent as a negative one
    ///
    /// An enum's value is signed: above 0x7fffffff it means the negative number with the same 32 bits. A warning.
    ///
    /// ```xdr
    /// enum flags { ALL = 0xffffffff };
    /// ```
    ///
    /// ```xdr
    /// enum flags { ALL = -1 };
    /// ```
    X209 Warning SentNegative { number: u32 } => text(format!("{number} is sent as {}", number.cast_signed()))
        .label("above 2147483647")
        .help(ENUM_VALUES);
    /// two fields have one name
    ///
    /// The fields of a struct need different names, and so do the arguments of a procedure.
    ///
    /// ```xdr
    /// struct point { int x; int x; };
    /// ```
    ///
    /// ```xdr
    /// struct point { int x; int y; };
    /// ```
    X210 Error SecondField { name: String, first: Span } => second("fields", name, *first);
    /// Arguments of a procedure become fields.
    X210 Error SecondArgument { name: String, first: Span } => second("arguments", name, *first);
    /// a constant in Rust has no number here
    ///
    /// `--extern` says where a name is in Rust, and a size or a label must be known when the document is compiled.
    ///
    /// ```sh
    /// rpcrdma-xdrgen check store.x --extern LIMIT=my_crate::LIMIT
    /// ```
    ///
    /// ```sh
    /// rpcrdma-xdrgen check store.x --extern LIMIT=my_crate::LIMIT -D LIMIT=255
    /// ```
    X211 Error NumberInRust { name: String } => text(format!("the number of `{name}` is not known here"))
        .label("a constant in Rust has no value yet when this is compiled")
        .help(format!("give its number, too: `-D {name}=NUMBER`"));
    /// two arms have one label
    ///
    /// What is sent decides: a member's name and its number, or -1 and 0xffffffff, are one label.
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// case 0:
    ///    void;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// case 1:
    ///    void;
    /// };
    /// ```
    X212 Error SecondLabel { label: String, first: Span, written: String } => {
        let text = text(format!("two arms have the label {label}")).label("the second").and(*first, "the first");
        if label == written { text } else { text.help(format!("{written} and {label} are sent as the same number")) }
    };
    /// a label is no member of the discriminant's enum
    ///
    /// A union over an enum has an arm for some of the enum's values. A label that is none of them is never sent.
    ///
    /// ```xdr
    /// enum status { OK = 0, FAILED = 1 };
    /// union answer switch (status code) {
    /// case OK:
    ///    int value;
    /// case FAILD:
    ///    void;
    /// default:
    ///    void;
    /// };
    /// ```
    ///
    /// ```xdr
    /// enum status { OK = 0, FAILED = 1 };
    /// union answer switch (status code) {
    /// case OK:
    ///    int value;
    /// case FAILED:
    ///    void;
    /// };
    /// ```
    X213 Error NoMember { name: String, of: String, place: Span, near: Option<String>, values: Few<(String, i32)> } => {
        let text = no_value(text(format!("`{name}` is no member of `{of}`")), *place, values);
        if near.is_some() { text.like(near) } else { text }
    };
    /// A number in place of a name.
    X213 Error NoValueOf { number: i128, of: String, place: Span, values: Few<(String, i32)> } =>
        no_value(text(format!("{number} is no value of `{of}`")), *place, values);
    /// An erratum.
    X213 Warning MemberTakenFor { name: String, of: String, near: String } =>
        text(format!("`{name}` is no member of `{of}`")).label(format!("taken for `{near}`"));
    /// a value has no arm
    ///
    /// A union without a default arm has no form for some values of its discriminant, so a message that has one cannot be
    /// decoded. That may be meant: a warning.
    ///
    /// ```xdr
    /// enum status { OK = 0, FAILED = 1 };
    /// union answer switch (status code) {
    /// case OK:
    ///    int value;
    /// };
    /// ```
    ///
    /// ```xdr
    /// enum status { OK = 0, FAILED = 1 };
    /// union answer switch (status code) {
    /// case OK:
    ///    int value;
    /// default:
    ///    void;
    /// };
    /// ```
    X214 Warning NoArm { values: Few<String> } => text(format!("no arm for {}", values.shown(String::clone)))
        .label("a message with such a value cannot be decoded")
        .help("add the arms, or `default: void;`");
    /// this cannot choose an arm
    ///
    /// A discriminant is an int, an unsigned int, a bool or an enum (RFC 4506 section 4.15). Other integers are X137.
    ///
    /// ```xdr
    /// union answer switch (float status) {
    /// case 0:
    ///    int value;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case 0:
    ///    int value;
    /// };
    /// ```
    X215 Error NoDiscriminant => text("this cannot choose the arm of a union")
        .label("not an int, an unsigned int, a bool or an enum")
        .help(DISCRIMINANTS);
    /// a label is no value of the discriminant
    ///
    /// The label is outside the range of the discriminant's type, so it is never sent.
    ///
    /// ```xdr
    /// union answer switch (unsigned int status) {
    /// case -1:
    ///    void;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (int status) {
    /// case -1:
    ///    void;
    /// };
    /// ```
    X216 Error LabelRange { number: i128, of: Chooser } => {
        let (of, help) = match of {
            Chooser::Int | Chooser::Enum(_) => ("an int", "an int has 32 bits"),
            Chooser::Unsigned => ("an unsigned int", "an unsigned int has 32 bits and no sign"),
            Chooser::Hyper => ("a hyper", "a hyper has 64 bits, and is negative above 2^63-1"),
            Chooser::UnsignedHyper => ("an unsigned hyper", "an unsigned hyper has no sign"),
            Chooser::Bool => ("a bool", "a bool is TRUE or FALSE"),
        };
        text(format!("{number} is no value of {of}")).label("a label must be a value of the discriminant").help(help)
    };
    /// an argument or result without a name
    ///
    /// Arguments and results are types' names; a body cannot stand there.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       struct { int x; } GET(void) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// struct content { int x; };
    /// program STORE {
    ///    version STORE_V1 {
    ///       content GET(void) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    X217 Error BodyInProcedure => text("a procedure's argument or result is a type's name")
        .label("a body in place")
        .help("define the type before the program and name it here");
    /// a definition stands twice
    ///
    /// The two are the same but for comments and layout. That is no error, but perhaps one is a copy that was to become another.
    /// A warning, within one document that can be mended: what is published is taken as it is, and what two documents need may
    /// stand in both.
    ///
    /// ```xdr
    /// struct point { int x; int y; };
    /// struct point { int x; int y; };
    /// ```
    ///
    /// ```xdr
    /// struct point { int x; int y; };
    /// struct size { int x; int y; };
    /// ```
    X218 Warning Repeated { name: String, first: Span } =>
        again(text(format!("`{name}` is defined twice, and equally")), *first)
        .help("remove one of them; if it is a copy that was to be changed, give it another name");
    /// a bound is out of range
    ///
    /// Lengths and bounds go from 0 to 2^32-1.
    ///
    /// ```xdr
    /// struct file { opaque data<0x100000000>; };
    /// ```
    ///
    /// ```xdr
    /// struct file { opaque data<0xffffffff>; };
    /// ```
    X220 Error Bound { number: i128, constant: Option<Span> } => {
        let what = if *number < 0 { "is negative" } else { "is above 4294967295" };
        let text = text(format!("the bound {number} {what}"))
            .label("a length or a bound")
            .help("counts are unsigned and have 32 bits (RFC 4506 section 4.13)");
        constant.iter().fold(text, |text, constant| text.and(*constant, "the constant"))
    };
    /// a value would have no end
    ///
    /// A type that holds itself in place, directly or by way of others, has no value that ends.
    ///
    /// ```xdr
    /// struct entry { int id; entry next; };
    /// ```
    ///
    /// Let it be optional, or hold itself in a counted array.
    ///
    /// ```xdr
    /// struct entry { int id; entry *next; };
    /// ```
    X222 Error Endless { name: String, way: Vec<(Span, String)> } =>
        by_way(text(format!("a value of `{name}` would have no end")), way)
        .label(format!("holds `{name}` again"))
        .help("let it be optional (`*`), or hold itself in a counted array (`<>`)");
    /// type alias cycle
    ///
    /// A typedef is a name of itself, by way of other typedefs alone.
    ///
    /// ```xdr
    /// typedef two *one;
    /// typedef one *two;
    /// ```
    ///
    /// ```xdr
    /// struct body { one next; };
    /// typedef body *one;
    /// ```
    X223 Error AliasCycle { name: String, way: Vec<(Span, String)> } =>
        by_way(text(format!("type alias cycle: `{name}` is a name of itself")), way)
        .label("leads back to itself by typedefs alone")
        .help("let one of the typedefs name another type, or put a struct in between");
    /// a field cannot be `void`
    ///
    /// In a struct there would be nothing. `void` is for arms and procedures.
    ///
    /// ```xdr
    /// struct point { int x; void; };
    /// ```
    ///
    /// ```xdr
    /// struct point { int x; };
    /// ```
    X224 Error VoidField => text("a struct's field cannot be `void`").label("nothing is declared here").help("remove it");
    /// definitions are made of one another too deep
    ///
    /// More than 100 definitions in a row, each made of the next: rustc would not follow. The example has 101 typedefs.
    ///
    /// ```xdr
    /// typedef int t0; typedef t0 t1; typedef t1 t2; typedef t2 t3; typedef t3 t4; typedef t4 t5;
    /// typedef t5 t6; typedef t6 t7; typedef t7 t8; typedef t8 t9; typedef t9 t10; typedef t10 t11;
    /// typedef t11 t12; typedef t12 t13; typedef t13 t14; typedef t14 t15; typedef t15 t16; typedef t16 t17;
    /// typedef t17 t18; typedef t18 t19; typedef t19 t20; typedef t20 t21; typedef t21 t22; typedef t22 t23;
    /// typedef t23 t24; typedef t24 t25; typedef t25 t26; typedef t26 t27; typedef t27 t28; typedef t28 t29;
    /// typedef t29 t30; typedef t30 t31; typedef t31 t32; typedef t32 t33; typedef t33 t34; typedef t34 t35;
    /// typedef t35 t36; typedef t36 t37; typedef t37 t38; typedef t38 t39; typedef t39 t40; typedef t40 t41;
    /// typedef t41 t42; typedef t42 t43; typedef t43 t44; typedef t44 t45; typedef t45 t46; typedef t46 t47;
    /// typedef t47 t48; typedef t48 t49; typedef t49 t50; typedef t50 t51; typedef t51 t52; typedef t52 t53;
    /// typedef t53 t54; typedef t54 t55; typedef t55 t56; typedef t56 t57; typedef t57 t58; typedef t58 t59;
    /// typedef t59 t60; typedef t60 t61; typedef t61 t62; typedef t62 t63; typedef t63 t64; typedef t64 t65;
    /// typedef t65 t66; typedef t66 t67; typedef t67 t68; typedef t68 t69; typedef t69 t70; typedef t70 t71;
    /// typedef t71 t72; typedef t72 t73; typedef t73 t74; typedef t74 t75; typedef t75 t76; typedef t76 t77;
    /// typedef t77 t78; typedef t78 t79; typedef t79 t80; typedef t80 t81; typedef t81 t82; typedef t82 t83;
    /// typedef t83 t84; typedef t84 t85; typedef t85 t86; typedef t86 t87; typedef t87 t88; typedef t88 t89;
    /// typedef t89 t90; typedef t90 t91; typedef t91 t92; typedef t92 t93; typedef t93 t94; typedef t94 t95;
    /// typedef t95 t96; typedef t96 t97; typedef t97 t98; typedef t98 t99; typedef t99 t100; typedef t100 t101;
    /// ```
    ///
    /// Leave out definitions that only give another a name.
    ///
    /// ```xdr
    /// typedef int t101;
    /// ```
    X225 Error TooDeep { name: String, most: usize, deepest: usize } =>
        text(format!("`{name}` is made of more than {most} definitions in a row"))
        .label(format!("the deepest type of this run is {deepest} definitions deep"))
        .help("rustc would not follow it: leave out definitions that only give another a name");
    /// no value chooses the default arm
    ///
    /// A bool is TRUE or FALSE, and both have an arm. A warning.
    ///
    /// ```xdr
    /// union answer switch (bool known) {
    /// case TRUE:
    ///    int value;
    /// case FALSE:
    ///    void;
    /// default:
    ///    int reason;
    /// };
    /// ```
    ///
    /// ```xdr
    /// union answer switch (bool known) {
    /// case TRUE:
    ///    int value;
    /// case FALSE:
    ///    void;
    /// };
    /// ```
    X226 Warning IdleDefault => text("no value chooses the default arm")
        .label("`TRUE` and `FALSE` have arms of their own")
        .help("remove the default arm");
    /// two numbers are the same
    ///
    /// Of two versions in a program, or of two procedures in a version.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = 1;
    ///       int GET(void) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = 1;
    ///       int GET(void) = 2;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    X230 Error SecondNumber { of: Part, number: u32, first: Span } =>
        text(format!("two {}s have the number {number}", of.name())).label("the second").and(*first, "the first");
    /// two versions or procedures have one name
    ///
    /// The versions of a program need different names, and so do the procedures of a version.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = 1;
    ///       int PUT(void) = 2;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = 1;
    ///       int GET(void) = 2;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    X231 Error SecondName { of: Part, name: String, first: Span } => second(&format!("{}s", of.name()), name, *first);
    /// two programs have one number
    ///
    /// A call names its program and version by number. Two programs may share a number if they share no version of it.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 { void PUT(int) = 1; } = 1;
    /// } = 0x20000099;
    /// program SHELF {
    ///    version SHELF_V1 { void LAY(int) = 1; } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 { void PUT(int) = 1; } = 1;
    /// } = 0x20000099;
    /// program SHELF {
    ///    version SHELF_V1 { void LAY(int) = 1; } = 1;
    /// } = 0x2000009a;
    /// ```
    X232 Error SecondProgram { number: u32, version: u32, first: Span } =>
        text(format!("two programs have the number {number:#x} and a version {version}"))
        .label("the second")
        .and(*first, "the first")
        .help("a call names a program and a version by their numbers alone");
    /// a number is no unsigned int
    ///
    /// The numbers of programs, versions and procedures go from 0 to 2^32-1.
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = -1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    ///
    /// ```xdr
    /// program STORE {
    ///    version STORE_V1 {
    ///       void PUT(int) = 1;
    ///    } = 1;
    /// } = 0x20000099;
    /// ```
    X234 Error NoUnsigned { number: i128 } => text(format!("{number} is no unsigned int"))
        .label("programs, versions and procedures have unsigned 32-bit numbers");
    /// nothing is there to add to
    ///
    /// A published document may add members to an enum, or arms to a union, of another document: RFC 8276 writes them into a
    /// comment, behind one that says `to be added to` and a name. No document of the run defines that name. A warning: the lines
    /// are left out.
    ///
    /// ```text
    /// Request for Comments: 9998
    ///
    ///    /// /* Following lines are to be added to enum colour */
    ///    /// /*
    ///    /// GREEN = 2
    ///    /// */
    ///    /// const DEPTH = 8;
    /// ```
    ///
    /// Compile both documents together: `rpcrdma-xdrgen generate base.txt extension.txt`. In one document:
    ///
    /// ```text
    /// Request for Comments: 9998
    ///
    ///    /// enum colour { RED = 1 };
    ///
    ///    /// /* Following lines are to be added to enum colour */
    ///    /// /*
    ///    /// GREEN = 2
    ///    /// */
    /// ```
    X240 Warning NothingToAddTo { name: String } =>
        text(format!("lines are to be added to `{name}`, and no document of this run defines it"))
        .label("these lines are left out")
        .help("compile the document that defines it together with this one");
    /// an addition contradicts what is there
    ///
    /// What a published document adds to another's type must have names and values, or labels, of its own. The same once more
    /// is no error.
    ///
    /// ```text
    /// Request for Comments: 9998
    ///
    ///    /// enum colour { RED = 1 };
    ///    /// /* Following lines are to be added to enum colour */
    ///    /// /*
    ///    /// GREEN = 1
    ///    /// */
    /// ```
    ///
    /// Use a version of the base, or of the extension, that the other goes with.
    ///
    /// ```text
    /// Request for Comments: 9998
    ///
    ///    /// enum colour { RED = 1 };
    ///    /// /* Following lines are to be added to enum colour */
    ///    /// /*
    ///    /// GREEN = 2
    ///    /// */
    /// ```
    X241 Error AddedToOther { name: String, base: Span } =>
        text(format!("lines are to be added to `{name}` that have no place in it"))
        .label("an enum takes members, and a union takes arms")
        .and(*base, "defined here");
    /// A member of that name.
    X241 Error AddedMember { name: String, first: Span } =>
        conflict(format!("`{name}` is there already, with another value"), *first);
    /// A member of that number.
    X241 Error AddedNumber { name: String, number: i128, other: String, first: Span } =>
        conflict(format!("`{other}` and `{name}` would both be {number}"), *first);
    /// An arm with that label.
    X241 Error AddedArm { label: String, first: Span } => conflict(format!("there is an arm for {label} already"), *first);
    /// A default arm.
    X241 Error AddedDefault { first: Span } => conflict("there is a default arm already".to_owned(), *first);
    }
}

const ENUM_VALUES: &str = "an enum's value is signed and has 32 bits (RFC 4506 section 4.3)";

/// How a name is defined twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twice {
    Differently,
    ConstantAndType,
}

impl From<Unresolved> for Diagnostic {
    fn from(name: Unresolved) -> Self {
        let (span, is_erratum) = (name.span, matches!(name.reason, Reason::Erratum(_)));
        let within = name.within.clone();
        let kind = match name.space {
            Space::Type => MeaningKind::NoType { name },
            Space::Value => MeaningKind::NoValue { name },
        };
        Diagnostic { within, ..kind.at(span).weakened_if(is_erratum) }
    }
}

fn again(text: Text, first: Span) -> Text {
    text.label("defined again").and(first, "first defined here")
}

/// Two of one name in a place that has one.
fn second(what: &str, name: &str, first: Span) -> Text {
    text(format!("two {what} are called `{name}`")).label("the second").and(first, "the first")
}

fn by_way(text: Text, way: &[(Span, String)]) -> Text {
    way.iter().fold(text, |text, (place, name)| text.and(*place, format!("by way of `{name}`")))
}

fn conflict(message: String, first: Span) -> Text {
    text(message)
        .label("to be added")
        .and(first, "what is there already")
        .help("an addition has names and values of its own")
}

/// A label that is no value of the discriminant's enum, which has these.
fn no_value(text: Text, place: Span, values: &Few<(String, i32)>) -> Text {
    let values = values.shown(|(name, value)| format!("{name} = {value}"));
    text.label("a label must be a value of the discriminant")
        .and(place, "the discriminant's type")
        .help(format!("its values are {values}"))
}

fn unresolved(of: &Unresolved) -> Text {
    let what = if of.space == Space::Type { "type" } else { "constant" };
    let text = text(format!("no {what} is called `{}`", of.name));
    match &of.reason {
        Reason::Erratum(near) => return text.label(format!("taken for `{near}`")),
        Reason::LeftOut => return text.label("what it would be is left out"),
        _ => {}
    }
    let text = text.label("not defined in any document of this run");
    let text = match &of.reason {
        Reason::IsValue(place) => text.and(*place, "this is a value, not a type"),
        _ => text,
    };
    match (&of.origin, advice(of)) {
        (Some(Origin::Hidden(hidden)), _) => hides(text, hidden),
        (Some(Origin::Macro(place)), _) => text
            .and(*place, "this means something to C alone")
            .help("write a number as `const NAME = value;`, and a type as `typedef type NAME;`"),
        (Some(Origin::Included(files)), advice) => {
            let files = files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
            let is_question = matches!(of.reason, Reason::Like(_) | Reason::LikeBuiltIn(_));
            text.help(match advice {
                None => format!("this document includes {files}, which may define it"),
                Some(asks) if is_question => {
                    format!("{asks} or is it defined in {files}, which this document includes?")
                }
                Some(help) => format!("{help}; this document includes {files}, which may define it"),
            })
        }
        (None, Some(advice)) => text.help(advice),
        (None, None) => text,
    }
}

/// It is defined under a condition that does not hold.
fn hides(text: Text, Hidden { name, condition, is_else }: &Hidden) -> Text {
    let wanted = condition.strip_prefix("#ifdef").map(str::trim).filter(|_| !is_else);
    let branch = if *is_else { "a later branch of " } else { "" };
    text.label("not defined under the conditions of this run")
        .and(name.span, format!("defined here under {branch}`{condition}`"))
        .help(match wanted {
            Some(wanted) => format!("try `-D {wanted}`"),
            None => "the condition leaves this definition out: change what `-D` defines".to_owned(),
        })
}

fn advice(of: &Unresolved) -> Option<String> {
    Some(match (&of.reason, of.space) {
        (Reason::IsValue(_) | Reason::LeftOut | Reason::Erratum(_), _) => return None,
        (Reason::Elsewhere(xdr), _) => format!("XDR writes it `{xdr}`"),
        (Reason::Like(near), _) => format!("`{near}` is defined; is that what is meant?"),
        (Reason::LikeBuiltIn(near), _) => format!("`{near}` is a type of XDR; is that what is meant?"),
        (Reason::Unknown, Space::Type) => format!(
            "compile the document that defines it together with this one, or name the type in Rust: \
             `--extern {}=path::to::Type`",
            of.name
        ),
        (Reason::Unknown, Space::Value) => {
            "define it with `const`, or compile the document that does together with this one".to_owned()
        }
    })
}
