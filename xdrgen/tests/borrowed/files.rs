//! Borrowed messages of NFSv3.

use allocation_counter::measure;
use rpcrdma_runtime::xdr::{self, Bytes, Encode, Error};

use borrowed::nfs3 as owned;
use borrowed::nfs3_ref::{
    Getattr3Args, Getattr3Res, Lookup3Args, Lookup3Res, Read3Args, Read3Res, Write3Args, Write3Res,
};

fn handle() -> owned::NfsFh3 {
    owned::NfsFh3 { data: [7; 32][..].try_into().unwrap() }
}

fn attributes() -> owned::Fattr3 {
    xdr::from_slice(&[&[0, 0, 0, 1][..], &[0; 80]].concat()).unwrap()
}

fn bytes(value: &impl Encode) -> Bytes {
    xdr::to_bytes(value).unwrap()
}

#[test]
fn decoding_a_message_neither_copies_nor_allocates() {
    let data = owned::Write3Args {
        file: handle(),
        offset: 4096,
        count: 65_536,
        stable: owned::StableHow::FileSync,
        data: vec![42; 65_536].into(),
    };
    let message = bytes(&data);
    let counted = measure(|| {
        let args: Write3Args<'_> = xdr::from_slice(&message).unwrap();
        assert_eq!((args.offset, args.data.len()), (4096, 65_536));
        assert!(std::ptr::eq(args.data.as_slice(), &message[message.len() - 65_536..]));
        assert!(std::ptr::eq(args.file.data.as_slice(), &message[4..36]));
    });
    assert_eq!(counted.count_total, 0);

    let read = owned::Read3Res::Nfs3Ok(owned::Read3Resok {
        file_attributes: None,
        count: 1000,
        eof: true,
        data: vec![1; 1000].into(),
    });
    let lookup = owned::Lookup3Res::Nfs3Ok(owned::Lookup3Resok {
        object: handle(),
        obj_attributes: Some(attributes()),
        dir_attributes: None,
    });
    let getattr = owned::Getattr3Res::Nfs3Ok(owned::Getattr3Resok { obj_attributes: attributes() });
    let what = owned::Diropargs3 { dir: handle(), name: "a name".into() };
    let wrote = owned::Write3Res::Nfs3Ok(owned::Write3Resok::default());
    let messages: [(Bytes, fn(&[u8]) -> Result<(), Error>); 7] = [
        (bytes(&read), |bytes| match xdr::from_slice(bytes)? {
            Read3Res::Nfs3Ok(ok) => {
                assert!(std::ptr::eq(ok.data.as_slice(), &bytes[bytes.len() - 1000..]));
                Ok(())
            }
            other => panic!("{other:?}"),
        }),
        (bytes(&owned::Read3Args { file: handle(), offset: 0, count: 1 }), |bytes| {
            xdr::from_slice::<Read3Args<'_>>(bytes).map(drop)
        }),
        (bytes(&owned::Lookup3Args { what }), |bytes| {
            let args: Lookup3Args<'_> = xdr::from_slice(bytes)?;
            assert_eq!(args.what.name.to_str(), Ok("a name"));
            Ok(())
        }),
        (bytes(&lookup), |bytes| xdr::from_slice::<Lookup3Res<'_>>(bytes).map(drop)),
        (bytes(&owned::Getattr3Args { object: handle() }), |bytes| {
            xdr::from_slice::<Getattr3Args<'_>>(bytes).map(drop)
        }),
        (bytes(&getattr), |bytes| xdr::from_slice::<Getattr3Res>(bytes).map(drop)),
        (bytes(&wrote), |bytes| xdr::from_slice::<Write3Res>(bytes).map(drop)),
    ];
    for (message, read) in messages {
        assert_eq!(measure(|| read(&message).unwrap()).count_total, 0);
    }
}
