//! Implements `nfs3 info`: prints the transport, the limits and the properties of a server.

use std::fmt::Display;

use indicatif::HumanBytes;
use rpcrdma_nfs::client::{Remote, ServerConnection, Url};
use rpcrdma_nfs::output;
use rpcrdma_nfs::provider::Provider;
use rpcrdma_nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fsinfo3Resok, Fsstat3Resok, Pathconf3Resok,
};
use serde_json::{Map, Value, json};

use crate::report::Report;
use crate::show::text;

#[derive(Default)]
struct About {
    lines: Vec<(&'static str, String)>,
    /// The JSON object for `--json`. Sizes are in bytes.
    object: Map<String, Value>,
}

impl About {
    fn add(&mut self, name: &'static str, line: String, values: Value) {
        self.lines.push((name, line));
        if let Value::Object(values) = values {
            self.object.extend(values);
        }
    }
}

pub(crate) async fn info(url: &Url, report: Report) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let (info, stat) = (remote.fsinfo(&file).await?, remote.fsstat(&file).await?);
    let conf = remote.pathconf(&file).await?;
    let mut about = About::default();
    connection(&mut about, &remote, url);
    let export = remote.export_path();
    about.add("export", text(export.as_bytes()), json!({ "export": export }));
    transfers(&mut about, &info);
    space(&mut about, &stat);
    names(&mut about, &info, &conf);
    properties(&mut about, &info, &conf);
    if report.json {
        return report.object(&Value::Object(about.object));
    }
    output::print(|out| about.lines.iter().try_for_each(|(name, value)| writeln!(out, "{name:<12}{value}")))
}

fn bytes(count: impl Into<u64>) -> HumanBytes {
    HumanBytes(count.into())
}

fn connection(about: &mut About, remote: &Remote, url: &Url) {
    let connection = remote.connection();
    let peer = connection.peer().map(|peer| peer.to_string());
    let shown = peer.as_deref().unwrap_or("?");
    let server = format!("{} at {shown}", text(url.host.as_bytes()));
    about.add("server", server, json!({ "server": url.host, "peer": peer }));
    let ServerConnection::Rdma(client) = connection else {
        return about.add("transport", "TCP".to_owned(), json!({ "transport": "tcp" }));
    };
    let provider = match url.provider {
        Provider::Iwarp => "iwarp, in user space over TCP",
        Provider::Verbs => "verbs, an RDMA device",
        Provider::Auto => "auto: an RDMA device with a route to the server, else iwarp",
    };
    about.add(
        "transport",
        format!("RPC-over-RDMA version 1; provider {provider}"),
        json!({ "transport": "rdma", "provider": url.provider.to_string() }),
    );
    let agreed = client.negotiated();
    let [call, reply] = [agreed.call_threshold, agreed.reply_threshold];
    about.add(
        "inline",
        format!("calls up to {}, replies up to {}", bytes(call), bytes(reply)),
        json!({ "inline_call_max": call, "inline_reply_max": reply }),
    );
    // Linux's server invalidates handles remotely without negotiation, although RFC 8797 section 4.1 requires
    // both peers to agree.
    let by = if agreed.remote_invalidation {
        "the server"
    } else {
        "the client, or by a server that ignores the negotiation"
    };
    about.add(
        "fences",
        format!("memory is invalidated by {by}"),
        json!({ "remote_invalidation": agreed.remote_invalidation }),
    );
    let credits = client.stats().credits;
    about.add("credits", format!("{credits} granted"), json!({ "credits": credits }));
}

fn transfers(about: &mut About, info: &Fsinfo3Resok) {
    let sizes = |max: u32, preferred: u32| format!("up to {}, preferred {}", bytes(max), bytes(preferred));
    let Fsinfo3Resok { rtmax, rtpref, wtmax, wtpref, dtpref, .. } = *info;
    about.add("READ", sizes(rtmax, rtpref), json!({ "read_max": rtmax, "read_preferred": rtpref }));
    about.add("WRITE", sizes(wtmax, wtpref), json!({ "write_max": wtmax, "write_preferred": wtpref }));
    about.add("READDIR", format!("preferred {}", bytes(dtpref)), json!({ "readdir_preferred": dtpref }));
}

fn space(about: &mut About, stat: &Fsstat3Resok) {
    let Fsstat3Resok { tbytes, fbytes, abytes, tfiles, ffiles, afiles, .. } = *stat;
    let of = |all: &dyn Display, free: &dyn Display, available: &dyn Display| {
        format!("{all}, {free} free, {available} available")
    };
    about.add(
        "space",
        of(&bytes(tbytes), &bytes(fbytes), &bytes(abytes)),
        json!({ "space": { "total": tbytes, "free": fbytes, "available": abytes } }),
    );
    about.add(
        "files",
        of(&tfiles, &ffiles, &afiles),
        json!({ "files": { "total": tfiles, "free": ffiles, "available": afiles } }),
    );
}

fn names(about: &mut About, info: &Fsinfo3Resok, conf: &Pathconf3Resok) {
    let size = info.maxfilesize;
    about.add("file size", format!("up to {}", bytes(size)), json!({ "file_size_max": size }));
    let Pathconf3Resok { name_max, linkmax, no_trunc, .. } = *conf;
    let longer = if no_trunc { "rejected" } else { "truncated" };
    about.add(
        "names",
        format!("up to {name_max} bytes (longer names are {longer}); up to {linkmax} hard links per file"),
        json!({ "name_max": name_max, "truncates_names": !no_trunc, "links_max": linkmax }),
    );
}

fn properties(about: &mut About, info: &Fsinfo3Resok, conf: &Pathconf3Resok) {
    let Pathconf3Resok { case_insensitive, case_preserving, .. } = *conf;
    let cases = match (case_insensitive, case_preserving) {
        (false, _) => "sensitive",
        (true, true) => "insensitive, preserved",
        (true, false) => "insensitive, not preserved",
    };
    about.add(
        "letter case",
        cases.to_owned(),
        json!({ "case_insensitive": case_insensitive, "case_preserving": case_preserving }),
    );
    let can = [
        (FSF3_LINK, "hard_links", "hard links"),
        (FSF3_SYMLINK, "symbolic_links", "symbolic links"),
        (FSF3_HOMOGENEOUS, "same_limits", "same limits for all files"),
        (FSF3_CANSETTIME, "settable_times", "settable times"),
    ];
    let has = |bit: u32| info.properties & bit != 0;
    let shown: Vec<&str> = can.iter().filter(|(bit, ..)| has(*bit)).map(|(_, _, what)| *what).collect();
    let values = can.iter().map(|(bit, name, _)| ((*name).to_owned(), has(*bit).into())).collect();
    about.add("properties", shown.join(", "), Value::Object(values));
}
