//! Describes a server to the user.

use indicatif::HumanBytes;
use rpcrdma_nfs::client::{Remote, ServerConnection, Url};
use rpcrdma_nfs::output;
use rpcrdma_nfs::provider::Provider;
use rpcrdma_nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fsinfo3Resok, Fsstat3Resok, Pathconf3Resok,
};
use serde_json::Value;

use crate::report::Report;
use crate::show::text;

/// Names and values.
type Lines = Vec<(&'static str, String)>;

pub(crate) async fn info(url: &Url, report: Report) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let (info, stat) = (remote.fsinfo(&file).await?, remote.fsstat(&file).await?);
    let conf = remote.pathconf(&file).await?;
    let mut lines = Lines::new();
    connection(&mut lines, &remote, url);
    line(&mut lines, "export", &text(remote.export_path().as_bytes()));
    transfers(&mut lines, &info);
    space(&mut lines, &stat);
    names(&mut lines, &info, &conf);
    if report.json {
        let object = lines.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
        return report.object(&Value::Object(object.collect()));
    }
    output::print(|out| lines.iter().try_for_each(|(name, value)| writeln!(out, "{name:<12}{value}")))
}

fn line(lines: &mut Lines, name: &'static str, value: &str) {
    lines.push((name, value.to_owned()));
}

fn connection(out: &mut Lines, remote: &Remote, url: &Url) {
    let connection = remote.connection();
    let peer = connection.peer().map_or_else(|| "?".to_owned(), |peer| peer.to_string());
    line(out, "server", &format!("{} at {peer}", text(url.host.as_bytes())));
    let ServerConnection::Rdma(client) = connection else {
        return line(out, "transport", "TCP");
    };
    let provider = match url.provider {
        Provider::Iwarp => "iwarp, in user space over TCP",
        Provider::Verbs => "verbs, an RDMA device",
        Provider::Auto => "auto: an RDMA device with a route to the server, else iwarp",
    };
    line(out, "transport", &format!("RPC-over-RDMA version 1; provider {provider}"));
    let agreed = client.negotiated();
    let [call, reply] = [agreed.call_threshold, agreed.reply_threshold];
    line(out, "inline", &format!("calls up to {call} bytes, replies up to {reply} bytes"));
    // Linux's server invalidates without negotiation (RFC 8797 section 4.1 requires both peers to agree).
    let by = if agreed.remote_invalidation {
        "the server"
    } else {
        "the client, or by a server that ignores the negotiation"
    };
    line(out, "fences", &format!("memory is invalidated by {by}"));
    line(out, "credits", &format!("{} granted", client.stats().credits));
}

fn transfers(out: &mut Lines, info: &Fsinfo3Resok) {
    let sizes = |max: u32, preferred: u32| format!("up to {max} bytes, preferred {preferred}");
    line(out, "READ", &sizes(info.rtmax, info.rtpref));
    line(out, "WRITE", &sizes(info.wtmax, info.wtpref));
    line(out, "READDIR", &format!("preferred {} bytes", info.dtpref));
}

fn space(out: &mut Lines, stat: &Fsstat3Resok) {
    let of =
        |all: String, free: String, available: String| format!("{all}, {free} free, {available} available");
    let bytes = |count: u64| HumanBytes(count).to_string();
    line(out, "space", &of(bytes(stat.tbytes), bytes(stat.fbytes), bytes(stat.abytes)));
    line(out, "files", &of(stat.tfiles.to_string(), stat.ffiles.to_string(), stat.afiles.to_string()));
}

fn names(out: &mut Lines, info: &Fsinfo3Resok, conf: &Pathconf3Resok) {
    line(out, "file size", &format!("up to {} bytes", info.maxfilesize));
    let longer = if conf.no_trunc { "rejected" } else { "truncated" };
    line(
        out,
        "names",
        &format!(
            "up to {} bytes, longer names are {longer}; up to {} names per file",
            conf.name_max, conf.linkmax
        ),
    );
    let cases = match (conf.case_insensitive, conf.case_preserving) {
        (false, _) => "sensitive",
        (true, true) => "insensitive, preserved",
        (true, false) => "insensitive, not preserved",
    };
    line(out, "letter case", cases);
    let can = [
        (FSF3_LINK, "hard links"),
        (FSF3_SYMLINK, "symbolic links"),
        (FSF3_HOMOGENEOUS, "same limits for all files"),
        (FSF3_CANSETTIME, "settable times"),
    ];
    let has: Vec<&str> =
        can.iter().filter(|(bit, _)| info.properties & bit != 0).map(|(_, what)| *what).collect();
    line(out, "properties", &has.join(", "));
}
