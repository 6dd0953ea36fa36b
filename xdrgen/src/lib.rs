//! XDR compiler.
