use rpcrdma_nfs3::nfs_v3::Handler;
use rpcrdma_nfs3::*;
use rpcrdma_runtime::program::{CallContext, Reject};

use super::NfsHandler;
use super::convert::{
    attributes, committed, create_how, handle, set_attributes, stability, status, time, wcc,
};
use super::listing::{Room, entry, entry_plus};
use crate::export::{
    Export, ExportLimits, FileKind, Found, NfsError, Outcome, Renamed, TRANSFER_MAX, Wcc, access_bits,
};

/// The FSINFO properties: hard links, symbolic links, the same PATHCONF result for all files, and settable
/// times.
const PROPERTIES: u32 = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
/// The preferred size of a directory listing (`dtpref` of FSINFO), in bytes.
const LISTING_BEST: u32 = 64 << 10;

/// Converts the outcome of a procedure that creates a file to the procedure's result. The result types of
/// these procedures have the same form.
macro_rules! made {
    ($outcome:expr, $res:ident, $resok:ident, $resfail:ident) => {{
        let Outcome { result, wcc: around } = $outcome;
        let dir_wcc = wcc(&around);
        match result {
            Ok(Found { handle: made, attributes: of }) => $res::Nfs3Ok($resok {
                obj: Some(handle(made)),
                obj_attributes: Some(attributes(&of)),
                dir_wcc,
            }),
            Err(error) => $res::Default(status(error), $resfail { dir_wcc }),
        }
    }};
}

impl<E: Export> Handler for NfsHandler<E> {
    async fn getattr(&self, cx: &CallContext, args: Getattr3Args) -> Result<Getattr3Res, Reject> {
        let file = args.object.data;
        let inline = |export: &E, _: &_| export.try_attributes(&file).map(Ok);
        let found = self.try_or_block(cx, 0, None, inline, move |export, _| export.attributes(&file)).await?;
        Ok(match found {
            Ok(of) => Getattr3Res::Nfs3Ok(Getattr3Resok { obj_attributes: attributes(&of) }),
            Err(error) => Getattr3Res::Default(status(error)),
        })
    }

    async fn setattr(&self, cx: &CallContext, args: Setattr3Args) -> Result<Setattr3Res, Reject> {
        let (file, new) = (args.object.data, set_attributes(&args.new_attributes));
        let guard = args.guard.map(time);
        let change = move |export: &E, caller: &_| export.set_attributes(caller, &file, &new, guard);
        let Outcome { result, wcc: around } = self.change(cx, file, change).await?;
        let obj_wcc = wcc(&around);
        Ok(match result {
            Ok(()) => Setattr3Res::Nfs3Ok(Setattr3Resok { obj_wcc }),
            Err(error) => Setattr3Res::Default(status(error), Setattr3Resfail { obj_wcc }),
        })
    }

    async fn lookup(&self, cx: &CallContext, args: Lookup3Args) -> Result<Lookup3Res, Reject> {
        let Diropargs3 { dir, name } = args.what;
        let wanted = name.clone();
        let inline = |export: &E, caller: &_| {
            let (found, dir) = export.try_lookup(caller, &dir.data, &wanted)?;
            Some((Ok(found), Some(dir)))
        };
        let lookup = move |export: &E, caller: &_| {
            (export.lookup(caller, &dir.data, &name), export.attributes(&dir.data).ok())
        };
        let (found, dir) = self.try_or_block(cx, 0, None, inline, lookup).await?;
        let dir_attributes = dir.as_ref().map(attributes);
        Ok(match found {
            Ok(found) => Lookup3Res::Nfs3Ok(Lookup3Resok {
                object: handle(found.handle),
                obj_attributes: Some(attributes(&found.attributes)),
                dir_attributes,
            }),
            Err(error) => Lookup3Res::Default(status(error), Lookup3Resfail { dir_attributes }),
        })
    }

    async fn access(&self, cx: &CallContext, args: Access3Args) -> Result<Access3Res, Reject> {
        let (file, wanted) = (args.object.data, args.access);
        let kept = if self.read_only { !access_bits::CHANGES } else { u32::MAX };
        let inline = |export: &E, caller: &_| export.try_access(caller, &file, wanted).map(Ok);
        let ask = move |export: &E, caller: &_| export.access(caller, &file, wanted);
        let outcome = self.try_or_block(cx, 0, None, inline, ask).await?;
        Ok(match outcome {
            Ok((granted, of)) => Access3Res::Nfs3Ok(Access3Resok {
                obj_attributes: Some(attributes(&of)),
                access: granted & kept,
            }),
            Err(error) => Access3Res::Default(status(error), Access3Resfail { obj_attributes: None }),
        })
    }

    async fn readlink(&self, cx: &CallContext, args: Readlink3Args) -> Result<Readlink3Res, Reject> {
        let file = args.symlink.data;
        let read =
            move |export: &E, caller: &_| (export.readlink(caller, &file), export.attributes(&file).ok());
        let (target, of) = self.ask(cx, read).await?;
        let symlink_attributes = of.as_ref().map(attributes);
        Ok(match target {
            Ok(target) => Readlink3Res::Nfs3Ok(Readlink3Resok { symlink_attributes, data: target.into() }),
            Err(error) => Readlink3Res::Default(status(error), Readlink3Resfail { symlink_attributes }),
        })
    }

    async fn read(&self, cx: &CallContext, args: Read3Args) -> Result<Read3Res, Reject> {
        let (file, offset, count) = (args.file.data, args.offset, args.count.min(TRANSFER_MAX));
        let inline = |export: &E, caller: &_| {
            let (read, of) = export.try_read(caller, &file, offset, count)?;
            Some((Ok(read), Some(of)))
        };
        let read = move |export: &E, caller: &_| {
            (export.read(caller, &file, offset, count), export.attributes(&file).ok())
        };
        let (read, of) = self.try_or_block(cx, count.into(), None, inline, read).await?;
        let file_attributes = of.as_ref().map(attributes);
        Ok(match read {
            Ok(read) => Read3Res::Nfs3Ok(Read3Resok {
                file_attributes,
                count: u32::try_from(read.data.len()).map_err(|_| Reject::SystemError)?,
                eof: read.eof,
                data: read.data.into(),
            }),
            Err(error) => Read3Res::Default(status(error), Read3Resfail { file_attributes }),
        })
    }

    async fn write(&self, cx: &CallContext, args: Write3Args) -> Result<Write3Res, Reject> {
        let (file, offset, stable) = (args.file.data, args.offset, stability(args.stable));
        let (count, mut data) = (args.count as usize, args.data.into_bytes());
        let too_short = count > data.len();
        data.truncate(count);
        let all = data.clone();
        let inline = |export: &E, caller: &_| {
            if too_short { None } else { export.try_write(caller, &file, offset, &all, stable) }
        };
        let change = move |export: &E, caller: &_| {
            if too_short {
                let after = export.attributes(&file).ok();
                return Outcome { result: Err(NfsError::Inval), wcc: Wcc { before: None, after } };
            }
            export.write(caller, &file, offset, &data, stable)
        };
        // Loads the verifier before the write: if the data is lost before the reply, COMMIT returns a
        // different verifier.
        let verf = self.export.write_verifier();
        let Outcome { result, wcc: around } = self.try_change_or_block(cx, file, inline, change).await?;
        let file_wcc = wcc(&around);
        Ok(match result {
            Ok(written) => Write3Res::Nfs3Ok(Write3Resok {
                file_wcc,
                count: written.count,
                committed: committed(written.committed),
                verf,
            }),
            Err(error) => Write3Res::Default(status(error), Write3Resfail { file_wcc }),
        })
    }

    async fn create(&self, cx: &CallContext, args: Create3Args) -> Result<Create3Res, Reject> {
        let (Diropargs3 { dir, name }, how) = (args.r#where, create_how(&args.how));
        let change = move |export: &E, caller: &_| export.create(caller, &dir.data, &name, &how);
        Ok(made!(self.change(cx, dir.data, change).await?, Create3Res, Create3Resok, Create3Resfail))
    }

    async fn mkdir(&self, cx: &CallContext, args: Mkdir3Args) -> Result<Mkdir3Res, Reject> {
        let (Diropargs3 { dir, name }, new) = (args.r#where, set_attributes(&args.attributes));
        let change = move |export: &E, caller: &_| export.mkdir(caller, &dir.data, &name, &new);
        Ok(made!(self.change(cx, dir.data, change).await?, Mkdir3Res, Mkdir3Resok, Mkdir3Resfail))
    }

    async fn symlink(&self, cx: &CallContext, args: Symlink3Args) -> Result<Symlink3Res, Reject> {
        let Diropargs3 { dir, name } = args.r#where;
        let new = set_attributes(&args.symlink.symlink_attributes);
        let target = args.symlink.symlink_data.into_bytes();
        let change = move |export: &E, caller: &_| export.symlink(caller, &dir.data, &name, &target, &new);
        Ok(made!(self.change(cx, dir.data, change).await?, Symlink3Res, Symlink3Resok, Symlink3Resfail))
    }

    async fn mknod(&self, cx: &CallContext, args: Mknod3Args) -> Result<Mknod3Res, Reject> {
        let Diropargs3 { dir, name } = args.r#where;
        let device = |of: &Devicedata3| (of.spec.specdata1, of.spec.specdata2);
        let (kind, new) = match &args.what {
            Mknoddata3::Device(Ftype3::Nf3blk, of) => {
                (Ok((FileKind::Block, device(of))), Some(&of.dev_attributes))
            }
            Mknoddata3::Device(_, of) => (Ok((FileKind::Character, device(of))), Some(&of.dev_attributes)),
            Mknoddata3::PipeAttributes(Ftype3::Nf3sock, new) => (Ok((FileKind::Socket, (0, 0))), Some(new)),
            Mknoddata3::PipeAttributes(_, new) => (Ok((FileKind::Fifo, (0, 0))), Some(new)),
            // Regular files, directories and links have their own procedures.
            Mknoddata3::Default(_) => (Err(NfsError::BadType), None),
        };
        let new = new.map(set_attributes).unwrap_or_default();
        let change = move |export: &E, caller: &_| match kind {
            Ok(kind) => export.mknod(caller, &dir.data, &name, kind, &new),
            Err(error) => {
                let after = export.attributes(&dir.data).ok();
                Outcome { result: Err(error), wcc: Wcc { before: None, after } }
            }
        };
        Ok(made!(self.change(cx, dir.data, change).await?, Mknod3Res, Mknod3Resok, Mknod3Resfail))
    }

    async fn remove(&self, cx: &CallContext, args: Remove3Args) -> Result<Remove3Res, Reject> {
        let Diropargs3 { dir, name } = args.object;
        let change = move |export: &E, caller: &_| export.remove(caller, &dir.data, &name);
        let Outcome { result, wcc: around } = self.change(cx, dir.data, change).await?;
        let dir_wcc = wcc(&around);
        Ok(match result {
            Ok(()) => Remove3Res::Nfs3Ok(Remove3Resok { dir_wcc }),
            Err(error) => Remove3Res::Default(status(error), Remove3Resfail { dir_wcc }),
        })
    }

    async fn rmdir(&self, cx: &CallContext, args: Rmdir3Args) -> Result<Rmdir3Res, Reject> {
        let Diropargs3 { dir, name } = args.object;
        let change = move |export: &E, caller: &_| export.rmdir(caller, &dir.data, &name);
        let Outcome { result, wcc: around } = self.change(cx, dir.data, change).await?;
        let dir_wcc = wcc(&around);
        Ok(match result {
            Ok(()) => Rmdir3Res::Nfs3Ok(Rmdir3Resok { dir_wcc }),
            Err(error) => Rmdir3Res::Default(status(error), Rmdir3Resfail { dir_wcc }),
        })
    }

    async fn rename(&self, cx: &CallContext, args: Rename3Args) -> Result<Rename3Res, Reject> {
        let (from, to, read_only) = (args.from, args.to, self.read_only);
        let changed = from.dir.data;
        let change = move |export: &E, caller: &_| {
            if read_only {
                let after = |dir: &NfsFh3| Wcc { before: None, after: export.attributes(&dir.data).ok() };
                return Renamed { result: Err(NfsError::RoFs), from: after(&from.dir), to: after(&to.dir) };
            }
            export.rename(caller, (&from.dir.data, &from.name), (&to.dir.data, &to.name))
        };
        let renamed = self.try_or_block(cx, 0, Some(changed), |_, _| None, change).await?;
        let (fromdir_wcc, todir_wcc) = (wcc(&renamed.from), wcc(&renamed.to));
        Ok(match renamed.result {
            Ok(()) => Rename3Res::Nfs3Ok(Rename3Resok { fromdir_wcc, todir_wcc }),
            Err(error) => Rename3Res::Default(status(error), Rename3Resfail { fromdir_wcc, todir_wcc }),
        })
    }

    async fn link(&self, cx: &CallContext, args: Link3Args) -> Result<Link3Res, Reject> {
        let (file, Diropargs3 { dir, name }) = (args.file.data, args.link);
        let change = move |export: &E, caller: &_| {
            let Outcome { result, wcc } = export.link(caller, &file, &dir.data, &name);
            Outcome { result: result.map(|()| export.attributes(&file).ok()), wcc }
        };
        let Outcome { result, wcc: around } = self.change(cx, dir.data, change).await?;
        let linkdir_wcc = wcc(&around);
        Ok(match result {
            Ok(of) => {
                Link3Res::Nfs3Ok(Link3Resok { file_attributes: of.as_ref().map(attributes), linkdir_wcc })
            }
            Err(error) => {
                Link3Res::Default(status(error), Link3Resfail { file_attributes: None, linkdir_wcc })
            }
        })
    }

    async fn readdir(&self, cx: &CallContext, args: Readdir3Args) -> Result<Readdir3Res, Reject> {
        let (dir, after) = (args.dir.data, (args.cookie, args.cookieverf));
        let list = move |export: &E, caller: &_| {
            let mut room = Room::new(args.count.min(export.limits().listing), args.count);
            let mut entries = Vec::new();
            let listed = export.list(caller, &dir, after, false, &mut |next| {
                let fits = room.take_entry(&next);
                if fits {
                    entries.push(entry(next));
                }
                fits
            });
            let listed = listed.and_then(|end| room.check_progress(end));
            (listed.map(|end| (end, entries)), export.attributes(&dir).ok())
        };
        let max = args.count.min(self.export.limits().listing).into();
        let (listed, of) = self.try_or_block(cx, max, None, |_, _| None, list).await?;
        let dir_attributes = of.as_ref().map(attributes);
        Ok(match listed {
            Ok((end, entries)) => Readdir3Res::Nfs3Ok(Readdir3Resok {
                dir_attributes,
                cookieverf: end.verifier,
                reply: Dirlist3 { entries, eof: end.eof },
            }),
            Err(error) => Readdir3Res::Default(status(error), Readdir3Resfail { dir_attributes }),
        })
    }

    async fn readdirplus(&self, cx: &CallContext, args: Readdirplus3Args) -> Result<Readdirplus3Res, Reject> {
        let (dir, after) = (args.dir.data, (args.cookie, args.cookieverf));
        let list = move |export: &E, caller: &_| {
            let mut room = Room::new(args.maxcount.min(export.limits().listing), args.dircount);
            let mut entries = Vec::new();
            let listed = export.list(caller, &dir, after, true, &mut |next| {
                let fits = room.take_plus(&next);
                if fits {
                    entries.push(entry_plus(next));
                }
                fits
            });
            let listed = listed.and_then(|end| room.check_progress(end));
            (listed.map(|end| (end, entries)), export.attributes(&dir).ok())
        };
        let max = args.maxcount.min(self.export.limits().listing).into();
        let (listed, of) = self.try_or_block(cx, max, None, |_, _| None, list).await?;
        let dir_attributes = of.as_ref().map(attributes);
        Ok(match listed {
            Ok((end, entries)) => Readdirplus3Res::Nfs3Ok(Readdirplus3Resok {
                dir_attributes,
                cookieverf: end.verifier,
                reply: Dirlistplus3 { entries, eof: end.eof },
            }),
            Err(error) => Readdirplus3Res::Default(status(error), Readdirplus3Resfail { dir_attributes }),
        })
    }

    async fn fsstat(&self, cx: &CallContext, args: Fsstat3Args) -> Result<Fsstat3Res, Reject> {
        let file = args.fsroot.data;
        let ask = move |export: &E, _: &_| (export.space(&file), export.attributes(&file).ok());
        let (space, of) = self.ask(cx, ask).await?;
        let obj_attributes = of.as_ref().map(attributes);
        Ok(match space {
            Ok(space) => {
                let ([tbytes, fbytes, abytes], [tfiles, ffiles, afiles]) = (space.bytes, space.files);
                Fsstat3Res::Nfs3Ok(Fsstat3Resok {
                    obj_attributes,
                    tbytes,
                    fbytes,
                    abytes,
                    tfiles,
                    ffiles,
                    afiles,
                    invarsec: 0,
                })
            }
            Err(error) => Fsstat3Res::Default(status(error), Fsstat3Resfail { obj_attributes }),
        })
    }

    async fn fsinfo(&self, cx: &CallContext, args: Fsinfo3Args) -> Result<Fsinfo3Res, Reject> {
        let file = args.fsroot.data;
        let found = self.ask(cx, move |export, _| (export.attributes(&file), export.limits())).await?;
        Ok(match found {
            (Ok(of), limits) => {
                let ExportLimits { transfer, file_size, time_step, .. } = limits;
                Fsinfo3Res::Nfs3Ok(Fsinfo3Resok {
                    obj_attributes: Some(attributes(&of)),
                    rtmax: transfer,
                    rtpref: transfer,
                    rtmult: 4096,
                    wtmax: transfer,
                    wtpref: transfer,
                    wtmult: 4096,
                    dtpref: LISTING_BEST.min(limits.listing),
                    maxfilesize: file_size,
                    time_delta: Nfstime3 { seconds: time_step.seconds, nseconds: time_step.nanoseconds },
                    properties: PROPERTIES,
                })
            }
            (Err(error), _) => Fsinfo3Res::Default(status(error), Fsinfo3Resfail { obj_attributes: None }),
        })
    }

    async fn pathconf(&self, cx: &CallContext, args: Pathconf3Args) -> Result<Pathconf3Res, Reject> {
        let file = args.object.data;
        let found = self.ask(cx, move |export, _| (export.attributes(&file), export.limits())).await?;
        Ok(match found {
            (Ok(of), limits) => Pathconf3Res::Nfs3Ok(Pathconf3Resok {
                obj_attributes: Some(attributes(&of)),
                linkmax: limits.links,
                name_max: limits.name,
                no_trunc: true,
                chown_restricted: true,
                case_insensitive: false,
                case_preserving: true,
            }),
            (Err(error), _) => {
                Pathconf3Res::Default(status(error), Pathconf3Resfail { obj_attributes: None })
            }
        })
    }

    async fn commit(&self, cx: &CallContext, args: Commit3Args) -> Result<Commit3Res, Reject> {
        let (file, offset, count) = (args.file.data, args.offset, args.count);
        let change = move |export: &E, caller: &_| export.commit(caller, &file, offset, count);
        let Outcome { result, wcc: around } = self.change(cx, file, change).await?;
        let file_wcc = wcc(&around);
        Ok(match result {
            Ok(()) => Commit3Res::Nfs3Ok(Commit3Resok { file_wcc, verf: self.export.write_verifier() }),
            Err(error) => Commit3Res::Default(status(error), Commit3Resfail { file_wcc }),
        })
    }
}
