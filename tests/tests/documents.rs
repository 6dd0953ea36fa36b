//! Checks that the documents in `specs/` have the form of RFCs and the layouts that the RFCs define. Also
//! checks that the rules in `specs/requirements/` cover the RFCs.
//!
//! The tests that read RFCs run only if `XDRGEN_CORPUS` names a directory with the RFCs in `rfc/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use rpcrdma_xdrgen::ast::{DefinitionKind, Identifier};
use rpcrdma_xdrgen::source::{Source, Sources};
use xtask::trace::{self, Level};

const DOCUMENTS: &[&str] =
    &["rpc", "rpcsec_gss", "rpcrdma1", "nfs3", "mount3", "rpcbind", "rdma-conf", "rpcrdma1-keepalive"];

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs").join(name).with_extension("txt")
}

#[test]
fn documents_have_the_form_of_an_rfc() {
    for name in DOCUMENTS {
        let text = fs::read_to_string(document(name)).unwrap();
        assert!(text.is_ascii(), "{name}");
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}.txt:{}: {line}", number + 1);
            assert!(line.len() <= 72, "longer than 72 columns: {place}");
            assert_eq!(line.trim_end(), line, "trailing whitespace: {place}");
            if line.contains("///") {
                assert!(line.starts_with("   ///"), "`///` does not follow exactly three spaces: {place}");
            }
        }
    }
}

/// The RFCs in which each section with a requirement must have a rule in `specs/requirements/`.
const IMPLEMENTED: [u32; 10] = [4506, 5040, 5041, 5044, 5531, 6581, 8166, 8167, 8267, 8797];

#[test]
fn each_section_with_a_requirement_has_a_rule() {
    let Some(corpus) = env::var_os("XDRGEN_CORPUS").map(PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published RFCs");
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rules = trace::entries(&root.join(trace::RULES), &root).unwrap();
    let is_requirement =
        |level| matches!(level, Some(Level::Must | Level::MustNot | Level::Should | Level::ShouldNot));
    let mut missing = Vec::new();
    for number in IMPLEMENTED {
        let text = fs::read_to_string(corpus.join(format!("rfc/rfc{number}.txt"))).unwrap();
        let source = format!("RFC {number}");
        let rules = rules.iter().filter(|rule| rule.source == source && is_requirement(rule.level));
        let covered: BTreeSet<&str> = rules.flat_map(|rule| rule.section.split(", ")).collect();
        let sections = sections_with_requirements(&text);
        missing.extend(sections.difference(&covered).map(|section| format!("{source} section {section}")));
    }
    assert!(missing.is_empty(), "{} lacks rules for these sections: {missing:?}", trace::RULES);
}

/// Returns the numbers of the sections that contain an RFC 2119 keyword other than MAY and OPTIONAL.
fn sections_with_requirements(text: &str) -> BTreeSet<&str> {
    const WORDS: [&str; 5] = ["MUST", "SHOULD", "SHALL", "REQUIRED", "RECOMMENDED"];
    let mut section = "";
    let mut found = BTreeSet::new();
    // The paragraph that introduces the keywords states no requirement.
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.contains("key words")) {
        // Skip lines marked as XDR, because the license text in them contains keywords.
        for line in paragraph.lines().filter(|line| !line.contains("///")) {
            section = heading(line).unwrap_or(section);
            if line.split(|c: char| !c.is_ascii_alphabetic()).any(|word| WORDS.contains(&word)) {
                found.insert(section);
            }
        }
    }
    found
}

/// Returns the number of a section if the line is its heading, such as `4.2.  Title` or `A.4 Title`.
fn heading(line: &str) -> Option<&str> {
    let line = line.strip_prefix("Appendix ").unwrap_or(line);
    let number = line.split([' ', ':']).next()?.trim_end_matches('.');
    let mut parts = number.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let first =
        parts.next().filter(|first| is_number(first) || matches!(*first, "A" | "B" | "C" | "D" | "E"));
    first.filter(|_| parts.all(is_number)).map(|_| number)
}

#[test]
fn layouts_are_those_of_the_rfcs() {
    let Some(corpus) = env::var_os("XDRGEN_CORPUS").map(PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published RFCs");
    };
    for (name, rfc, differ) in COMPARISONS {
        let ours = definitions(&document(name));
        let theirs = definitions(&corpus.join("rfc").join(rfc));
        let mut equal = 0;
        for (definition, tokens) in &ours {
            if differ.contains(&definition.as_str()) {
                assert_ne!(
                    theirs.get(definition),
                    Some(tokens),
                    "{name}: {definition} is listed as different but matches the RFC"
                );
                continue;
            }
            assert_eq!(Some(tokens), theirs.get(definition), "{name}: {definition}");
            equal += 1;
        }
        assert!(equal > 0, "{name}: nothing was compared");
    }
}

/// Documents, their RFCs, and the definitions that differ from the RFC or are absent from it.
/// `specs/README.md` gives the reasons.
const COMPARISONS: &[(&str, &str, &[&str])] = &[
    (
        "rpcrdma1",
        "rfc8166.txt",
        &[
            "RPCRDMA_VERSION",
            "RPCRDMA_INLINE_DEFAULT",
            "RPCRDMA_INLINE_MAX",
            "RPCRDMA_CM_MAGIC",
            "RPCRDMA_CM_VERSION",
            "RPCRDMA_CM_FLAG_REMOTE_INVALIDATION",
            "rpcrdma_private_data",
        ],
    ),
    (
        "rpc",
        "rfc5531.txt",
        &[
            "RPC_VERSION",
            "MAX_AUTH_BYTES",
            "AUTH_SYS_MACHINE_NAME_MAX",
            "AUTH_SYS_GROUPS_MAX",
            "opaque_auth",
            "authsys_parms",
            "version_range",
            "accepted_body",
            "accepted_reply",
            "rejected_reply",
            "reply_body",
            "rpc_body",
            "rpc_msg",
        ],
    ),
    ("nfs3", "rfc1813.txt", &["set_mode3", "set_uid3", "set_gid3", "set_size3", "FSINFO3args"]),
    ("mount3", "rfc1813.txt", &["mountres3"]),
    (
        "rpcbind",
        "rfc1833.txt",
        &[
            "pmaplist",
            "pmaplist_ptr",
            "PMAP_PROG",
            "uaddr",
            "NC_TPI_CLTS",
            "NC_TPI_COTS",
            "NC_TPI_COTS_ORD",
            "NC_TPI_RAW",
            "rpcb_highproc_2",
            "rpcb_highproc_3",
            "rpcb_highproc_4",
            "RPCBPROG",
        ],
    ),
    ("rdma-conf", "rfc5666.txt", &[]),
    (
        "rpcsec_gss",
        "rfc2203.txt",
        &[
            "RPCSEC_GSS_FLAVOR",
            "RPCSEC_GSS_VERS_1",
            "MAXSEQ",
            "GSS_S_COMPLETE",
            "GSS_S_CONTINUE_NEEDED",
            "rpc_gss_cred_vers_1_t",
            "rpc_gss_cred_t",
            "rpc_gss_priv_data",
        ],
    ),
];

/// Returns the definitions of a document by name, each as tokens. Definitions that differ only in comments or
/// in the spelling of types have equal tokens.
fn definitions(path: &Path) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut sources = Sources::default();
    sources.add(Source::new(path, text));
    let parsed = rpcrdma_xdrgen::parse(&sources);
    let all = parsed.documents.iter().flat_map(|(_, specification)| &specification.definitions);
    all.filter_map(|definition| Some((name(&definition.kind)?.name.clone(), tokens(&definition.text))))
        .collect()
}

fn name(kind: &DefinitionKind) -> Option<&Identifier> {
    match kind {
        DefinitionKind::Const(constant) => Some(&constant.name),
        DefinitionKind::Typedef(declaration) => declaration.name.as_ref(),
        DefinitionKind::Enum(name, _) | DefinitionKind::Struct(name, _) | DefinitionKind::Union(name, _) => {
            Some(name)
        }
        DefinitionKind::Program(program) => Some(&program.name),
        DefinitionKind::PassThrough(_) => None,
    }
}

/// Returns the words and symbols of a definition without comments. Types that XDR can spell in several ways
/// get one spelling.
fn tokens(text: &str) -> Vec<String> {
    let mut bare = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        bare.push_str(before);
        bare.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    bare.push_str(rest);

    let mut tokens: Vec<String> = Vec::new();
    for part in bare.split_inclusive(|c| !is_word(c)) {
        let (word, sign) = part.split_at(part.find(|c| !is_word(c)).unwrap_or(part.len()));
        match word {
            "" | "struct" => {}
            "long" => tokens.push("int".into()),
            "uint32" => tokens.extend(["unsigned".into(), "int".into()]),
            "uint64" => tokens.extend(["unsigned".into(), "hyper".into()]),
            _ => tokens.push(word.into()),
        }
        if !sign.trim().is_empty() {
            tokens.push(sign.into());
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
