//! Describes a server to the user.

use std::io::{self, Write};

use rpcrdma_nfs::client::{Connection, Remote, Url};
use rpcrdma_nfs::output;
use rpcrdma_nfs::provider::Provider;
use rpcrdma_nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fsinfo3Resok, Fsstat3Resok, Pathconf3Resok,
};

use crate::show::text;

pub(crate) async fn info(url: &Url) -> anyhow::Result<()> {
    let remote = Remote::mount(url).await?;
    let file = remote.find(&url.path).await?;
    let (info, stat) = (remote.fsinfo(&file).await?, remote.fsstat(&file).await?);
    let conf = remote.pathconf(&file).await?;
    output::print(|mut out| {
        connection(&mut out, &remote, url)?;
        line(&mut out, "export", &text(remote.export_path().as_bytes()))?;
        transfers(&mut out, &info)?;
        space(&mut out, &stat)?;
        names(&mut out, &info, &conf)
    })
}

fn line(out: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{name:<12}{value}")
}

fn connection(out: &mut impl Write, remote: &Remote, url: &Url) -> io::Result<()> {
    let connection = remote.connection();
    let peer = connection.peer().map_or_else(|| "?".to_owned(), |peer| peer.to_string());
    line(out, "server", &format!("{} at {peer}", text(url.host.as_bytes())))?;
    let Connection::Rdma(client) = connection else {
        return line(out, "transport", "TCP");
    };
    let provider = match url.provider {
        Provider::Iwarp => "iwarp, in user space over TCP",
        Provider::Verbs => "verbs, an RDMA device",
        Provider::Auto => "auto: a device if one leads there, else iwarp",
    };
    line(out, "transport", &format!("RPC-over-RDMA version 1; provider {provider}"))?;
    let agreed = client.negotiated();
    let [call, reply] = [agreed.call_threshold, agreed.reply_threshold];
    line(out, "inline", &format!("calls to {call} bytes, replies to {reply} bytes"))?;
    // Linux's server does so without having agreed (RFC 8797 section 4.1 requires both sides to agree).
    let by = if agreed.remote_invalidation {
        "the server"
    } else {
        "this end, or by a server that was not asked to"
    };
    line(out, "fences", &format!("memory is invalidated by {by}"))?;
    line(out, "credits", &format!("{} granted", client.stats().credits))
}

fn transfers(out: &mut impl Write, info: &Fsinfo3Resok) -> io::Result<()> {
    let sizes = |most: u32, best: u32| format!("to {most} bytes, best {best}");
    line(out, "READ", &sizes(info.rtmax, info.rtpref))?;
    line(out, "WRITE", &sizes(info.wtmax, info.wtpref))?;
    line(out, "READDIR", &format!("best {} bytes", info.dtpref))
}

fn space(out: &mut impl Write, stat: &Fsstat3Resok) -> io::Result<()> {
    let of = |all: u64, free: u64, yours: u64| format!("{all}, {free} free, {yours} for you");
    line(out, "bytes", &of(stat.tbytes, stat.fbytes, stat.abytes))?;
    line(out, "files", &of(stat.tfiles, stat.ffiles, stat.afiles))
}

fn names(out: &mut impl Write, info: &Fsinfo3Resok, conf: &Pathconf3Resok) -> io::Result<()> {
    line(out, "file size", &format!("to {} bytes", info.maxfilesize))?;
    let longer = if conf.no_trunc { "refused" } else { "cut off" };
    line(
        out,
        "names",
        &format!("to {} bytes, longer ones are {longer}; {} of a file", conf.name_max, conf.linkmax),
    )?;
    let cases = match (conf.case_insensitive, conf.case_preserving) {
        (false, _) => "differ",
        (true, true) => "are kept, and the same",
        (true, false) => "are the same",
    };
    line(out, "upper case", &format!("and lower case {cases}"))?;
    let can = [
        (FSF3_LINK, "hard links"),
        (FSF3_SYMLINK, "symbolic links"),
        (FSF3_HOMOGENEOUS, "the same for all files"),
        (FSF3_CANSETTIME, "times can be set"),
    ];
    let has: Vec<&str> =
        can.iter().filter(|(bit, _)| info.properties & bit != 0).map(|(_, what)| *what).collect();
    line(out, "properties", &has.join(", "))
}
