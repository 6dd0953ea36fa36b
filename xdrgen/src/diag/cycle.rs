//! Findings about types that contain themselves, or that nest too deeply.

use super::{Text, text};
use crate::source::Span;

kinds! {
    Cycle CycleKind {
    /// an infinitely large type
    ///
    /// A type that always contains itself in place, directly or through other types, is infinitely large.
    ///
    /// ```xdr
    /// struct entry { int id; entry next; };
    /// ```
    ///
    /// Make the inner field optional, or use a counted array.
    ///
    /// ```xdr
    /// struct entry { int id; entry *next; };
    /// ```
    X222 Error Infinite { name: String, via: Vec<(Span, String)> } =>
        with_path(text(format!("`{name}` is infinitely large")), via)
        .label(format!("contains `{name}` again"))
        .help("make the field optional (`*`) or a counted array (`<>`)");
    /// type alias cycle
    ///
    /// A chain of typedefs leads back to the same typedef.
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
    X223 Error AliasCycle { name: String, via: Vec<(Span, String)> } =>
        with_path(text(format!("type alias cycle: `{name}` is defined as itself")), via)
        .label("leads back to itself through typedefs alone")
        .help("make one of the typedefs name another type, or put a struct in between");
    /// definitions are nested too deeply
    ///
    /// Definitions may nest at most 100 levels deep, since rustc's default recursion limit is 128. The
    /// example has 102 typedefs.
    ///
    /// ```xdr
    /// typedef int t0; typedef t0 t1; typedef t1 t2; typedef t2 t3; typedef t3 t4;
    /// typedef t4 t5; typedef t5 t6; typedef t6 t7; typedef t7 t8; typedef t8 t9;
    /// typedef t9 t10; typedef t10 t11; typedef t11 t12; typedef t12 t13; typedef t13 t14;
    /// typedef t14 t15; typedef t15 t16; typedef t16 t17; typedef t17 t18; typedef t18 t19;
    /// typedef t19 t20; typedef t20 t21; typedef t21 t22; typedef t22 t23; typedef t23 t24;
    /// typedef t24 t25; typedef t25 t26; typedef t26 t27; typedef t27 t28; typedef t28 t29;
    /// typedef t29 t30; typedef t30 t31; typedef t31 t32; typedef t32 t33; typedef t33 t34;
    /// typedef t34 t35; typedef t35 t36; typedef t36 t37; typedef t37 t38; typedef t38 t39;
    /// typedef t39 t40; typedef t40 t41; typedef t41 t42; typedef t42 t43; typedef t43 t44;
    /// typedef t44 t45; typedef t45 t46; typedef t46 t47; typedef t47 t48; typedef t48 t49;
    /// typedef t49 t50; typedef t50 t51; typedef t51 t52; typedef t52 t53; typedef t53 t54;
    /// typedef t54 t55; typedef t55 t56; typedef t56 t57; typedef t57 t58; typedef t58 t59;
    /// typedef t59 t60; typedef t60 t61; typedef t61 t62; typedef t62 t63; typedef t63 t64;
    /// typedef t64 t65; typedef t65 t66; typedef t66 t67; typedef t67 t68; typedef t68 t69;
    /// typedef t69 t70; typedef t70 t71; typedef t71 t72; typedef t72 t73; typedef t73 t74;
    /// typedef t74 t75; typedef t75 t76; typedef t76 t77; typedef t77 t78; typedef t78 t79;
    /// typedef t79 t80; typedef t80 t81; typedef t81 t82; typedef t82 t83; typedef t83 t84;
    /// typedef t84 t85; typedef t85 t86; typedef t86 t87; typedef t87 t88; typedef t88 t89;
    /// typedef t89 t90; typedef t90 t91; typedef t91 t92; typedef t92 t93; typedef t93 t94;
    /// typedef t94 t95; typedef t95 t96; typedef t96 t97; typedef t97 t98; typedef t98 t99;
    /// typedef t99 t100; typedef t100 t101;
    /// ```
    ///
    /// Omit typedefs that only rename another type.
    ///
    /// ```xdr
    /// typedef int t101;
    /// ```
    X225 Error TooDeep { name: String, max: usize, deepest: usize } =>
        text(format!("`{name}` nests more than {max} definitions deep"))
        .label(format!("the deepest type of this run is {deepest} definitions deep"))
        .help("rustc limits the nesting of types: remove typedefs that only rename another type");
    }
}

fn with_path(text: Text, via: &[(Span, String)]) -> Text {
    via.iter().fold(text, |text, (place, name)| text.and(*place, format!("through `{name}`")))
}
