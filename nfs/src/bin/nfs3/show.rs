//! Formats lists of files.

use std::io::{self, Write};

use bytes::Bytes;
use indicatif::HumanBytes;
use rpcrdma_nfs::output;
use rpcrdma_nfs3::{Fattr3, Ftype3};
use serde_json::{Value, json};

/// Name, attributes, and the target of a symbolic link.
pub(crate) type Row = (Bytes, Fattr3, Option<Bytes>);

pub(crate) fn lines(out: &mut impl Write, rows: &[Row], human: bool) -> io::Result<()> {
    let size = if human { human_size } else { size };
    let width = |of: fn(&Fattr3) -> String| rows.iter().map(|row| of(&row.1).len()).max().unwrap_or(0);
    let (links, uids, gids, sizes) = (width(nlink), width(uid), width(gid), width(size));
    for (name, of, target) in rows {
        let (mode, time, name) = (mode(of), time(of.mtime.seconds), text(name));
        write!(
            out,
            "{mode} {:>links$} {:>uids$} {:>gids$} {:>sizes$} {time} {name}",
            nlink(of),
            uid(of),
            gid(of),
            size(of)
        )?;
        if let Some(target) = target {
            write!(out, " -> {}", text(target))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn nlink(of: &Fattr3) -> String {
    of.nlink.to_string()
}

fn uid(of: &Fattr3) -> String {
    of.uid.to_string()
}

fn gid(of: &Fattr3) -> String {
    of.gid.to_string()
}

fn size(of: &Fattr3) -> String {
    match of.r#type {
        Ftype3::Nf3blk | Ftype3::Nf3chr => format!("{}, {}", of.rdev.specdata1, of.rdev.specdata2),
        _ => of.size.to_string(),
    }
}

fn human_size(of: &Fattr3) -> String {
    match of.r#type {
        Ftype3::Nf3blk | Ftype3::Nf3chr => size(of),
        _ => HumanBytes(of.size).to_string(),
    }
}

/// Returns a file as a JSON object. `modified` is in seconds since the start of 1970, UTC.
pub(crate) fn object((name, of, target): &Row) -> Value {
    let kind = match of.r#type {
        Ftype3::Nf3reg => "file",
        Ftype3::Nf3dir => "directory",
        Ftype3::Nf3blk => "block device",
        Ftype3::Nf3chr => "character device",
        Ftype3::Nf3lnk => "link",
        Ftype3::Nf3sock => "socket",
        Ftype3::Nf3fifo => "pipe",
    };
    let target = target.as_ref().map(|target| String::from_utf8_lossy(target));
    json!({
        "name": String::from_utf8_lossy(name), "kind": kind, "mode": of.mode, "links": of.nlink, "uid": of.uid,
        "gid": of.gid, "size": of.size, "modified": of.mtime.seconds, "target": target,
    })
}

/// Returns the file type and the permissions in the format of `ls -l`.
fn mode(of: &Fattr3) -> String {
    let kind = match of.r#type {
        Ftype3::Nf3reg => '-',
        Ftype3::Nf3dir => 'd',
        Ftype3::Nf3blk => 'b',
        Ftype3::Nf3chr => 'c',
        Ftype3::Nf3lnk => 'l',
        Ftype3::Nf3sock => 's',
        Ftype3::Nf3fifo => 'p',
    };
    let mut text = String::from(kind);
    for (shift, special, mark) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = of.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, of.mode & special != 0) {
            (true, true) => mark,
            (false, true) => mark.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Formats seconds since the start of 1970 as a date and a time in UTC, to the minute.
fn time(seconds: u32) -> String {
    let (days, rest) = (u64::from(seconds / 86_400), seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 3600, rest % 3600 / 60)
}

/// Converts days since the start of 1970 to year, month and day. Internally, years start in March, so that
/// the leap day is the last day of a year.
fn date(days: u64) -> (u64, u64, u64) {
    let since = days + 719_468; // days since 0000-03-01
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Escapes a name for the terminal.
pub(crate) fn text(name: &[u8]) -> String {
    output::escaped(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        assert_eq!(time(0), "1970-01-01 00:00");
        assert_eq!(time(951_782_399), "2000-02-28 23:59");
        assert_eq!(time(951_782_400), "2000-02-29 00:00");
        assert_eq!(time(1_709_251_199), "2024-02-29 23:59");
        assert_eq!(time(u32::MAX), "2106-02-07 06:28");
    }

    #[test]
    fn modes_are_shown_as_letters() {
        let shown = |kind, bits| mode(&Fattr3 { r#type: kind, mode: bits, ..file() });
        assert_eq!(shown(Ftype3::Nf3reg, 0o644), "-rw-r--r--");
        assert_eq!(shown(Ftype3::Nf3dir, 0o1777), "drwxrwxrwt");
        assert_eq!(shown(Ftype3::Nf3reg, 0o6754), "-rwsr-sr--");
        assert_eq!(shown(Ftype3::Nf3lnk, 0o7000), "l--S--S--T");
    }

    #[test]
    fn names_are_escaped_for_the_terminal() {
        let mut out = Vec::new();
        let row = (Bytes::from_static(b"a\x1b[2Jb\n"), file(), Some(Bytes::from_static(b"to")));
        lines(&mut out, &[row], false).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "-rw-r--r-- 1 10 20 5 1970-01-01 00:00 a\\u{1b}[2Jb\\n -> to\n"
        );
    }

    fn file() -> Fattr3 {
        let time = rpcrdma_nfs3::Nfstime3 { seconds: 0, nseconds: 0 };
        Fattr3 {
            r#type: Ftype3::Nf3reg,
            mode: 0o644,
            nlink: 1,
            uid: 10,
            gid: 20,
            size: 5,
            used: 5,
            rdev: rpcrdma_nfs3::Specdata3 { specdata1: 0, specdata2: 0 },
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }
}
