//! Compiles `specs/nfs3.txt` to borrowing types with xdrgen, and `codec/messages.x` with the compilers of
//! other crates.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "peers")]
    peers::generate()?;
    Ok(())
}

#[cfg(feature = "peers")]
mod peers {
    use std::error::Error;
    use std::fs::{self, File};
    use std::path::PathBuf;

    const MESSAGES: &str = "codec/messages.x";
    /// How xdr-codec's compiler creates an array of octets.
    const UNINITIALIZED: &str = "unsafe { :: std :: mem :: uninitialized ( ) }";

    pub(crate) fn generate() -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-changed={MESSAGES}");
        println!("cargo::rerun-if-changed=../specs/nfs3.txt");
        let out = PathBuf::from(std::env::var("OUT_DIR")?);
        rpcrdma_xdrgen::Build::new().document("../specs/nfs3.txt").name("borrowed").borrowed().compile()?;
        let mut code = Vec::new();
        jsgf::generate(MESSAGES, File::open(MESSAGES)?, &mut code).map_err(|error| error.to_string())?;
        // The workspace forbids unsafe code, so arrays of octets are zeroed instead of left uninitialized.
        let zeroed = String::from_utf8(code)?.replace(UNINITIALIZED, "[0; _]");
        fs::write(out.join("jsgf.rs"), zeroed)?;
        let text = fs::read_to_string(MESSAGES)?;
        let code = fastxdr::Generator::default().generate(&text).map_err(|error| error.to_string())?;
        fs::write(out.join("fastxdr.rs"), code)?;
        Ok(())
    }
}
