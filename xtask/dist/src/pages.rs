//! The programs of the archive, their man pages and shell completions.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap_complete::Shell;

pub(crate) struct Shipped {
    pub(crate) package: &'static str,
    pub(crate) features: &'static [&'static str],
    pub(crate) programs: &'static [Program],
}

pub(crate) struct Program {
    pub(crate) name: &'static str,
    command: fn() -> clap::Command,
}

pub(crate) const SHIPPED: &[Shipped] = &[
    Shipped {
        package: "rpcrdma-nfs",
        features: &["programs"],
        programs: &[
            Program { name: "nfs3", command: rpcrdma_nfs::cli::nfs3::command },
            Program { name: "nfs3d", command: rpcrdma_nfs::cli::nfs3d::command },
        ],
    },
    Shipped {
        package: "rpcrdma-tools",
        features: &[],
        programs: &[
            Program { name: "rpcrdma", command: rpcrdma_tools::cli::rpcrdma::command },
            Program { name: "nfs3bench", command: rpcrdma_tools::cli::nfs3bench::command },
        ],
    },
    COMPILER,
];

const COMPILER: Shipped = Shipped {
    package: "rpcrdma-xdrgen",
    features: &["cli"],
    programs: &[Program { name: "rpcrdma-xdrgen", command: rpcrdma_xdrgen::cli::command }],
};

pub(crate) fn programs() -> impl Iterator<Item = &'static Program> {
    SHIPPED.iter().flat_map(|shipped| shipped.programs)
}

/// The directory of man pages, relative to the archive's top directory.
pub(crate) const MAN: &str = "share/man/man1";

/// The completion directory of each shell, relative to the archive's top directory.
pub(crate) const COMPLETIONS: &[(Shell, &str)] = &[
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

/// Writes shell completions, and a man page for each program and subcommand.
pub(crate) fn write(top: &Path) -> Result<()> {
    let man = top.join(MAN);
    fs::create_dir_all(&man)?;
    for program in programs() {
        clap_mangen::generate_to((program.command)(), &man)?;
    }
    for (shell, folder) in COMPLETIONS {
        let folder = top.join(folder);
        fs::create_dir_all(&folder)?;
        for program in programs() {
            let path = clap_complete::generate_to(*shell, &mut (program.command)(), program.name, &folder)?;
            if *shell == Shell::Bash {
                // bash-completion expects a file with the program's name, without an extension.
                fs::rename(&path, path.with_extension(""))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_and_subcommand_has_a_page_and_completions() {
        let top = tempfile::tempdir().unwrap();
        write(top.path()).unwrap();
        for program in programs() {
            let command = (program.command)();
            assert_eq!(command.get_name(), program.name);
            assert!(command.get_version().is_some(), "{}", program.name);
            let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            let names = subcommands.map(|sub| format!("{}-{}", program.name, sub.get_name()));
            for name in names.chain([program.name.to_owned()]) {
                let page = fs::read_to_string(top.path().join(MAN).join(format!("{name}.1"))).unwrap();
                assert!(page.contains(".SH NAME"), "{name}");
            }
            for (folder, name) in [
                ("share/bash-completion/completions", program.name.to_owned()),
                ("share/zsh/site-functions", format!("_{}", program.name)),
                ("share/fish/vendor_completions.d", format!("{}.fish", program.name)),
            ] {
                let text = fs::read_to_string(top.path().join(folder).join(&name)).unwrap();
                assert!(text.contains(program.name), "{name}");
            }
        }
    }
}
