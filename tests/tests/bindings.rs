//! The effect of the Upper-Layer Bindings in `specs/` on the generated crates.

use rpcrdma_conf::vers1;
use rpcrdma_nfs3::nfs_v3::{NfsV3, proc};
use rpcrdma_nfs3::{Read3Args, Readdir3Args};
use rpcrdma_runtime::Config;
use rpcrdma_runtime::program::{Binding, Procedure, Program};
use rpcrdma_runtime::xdr::{Layout, Size};

/// Returns the name of a procedure, and the maximum numbers of DDP-eligible items in its arguments and in its
/// result.
fn items<Q: Procedure<Program = NfsV3>>() -> (&'static str, Size, Size) {
    (Q::NAME, <Q::Args as Layout>::HELD.count, <Q::Res as Layout>::HELD.count)
}

/// Requirement: R052
#[test]
fn r310_the_items_of_nfs_are_those_of_its_binding_and_no_others() {
    macro_rules! every {
        ($($name:ident)*) => { [$(items::<proc::$name>()),*] };
    }
    let all = every!(Null Getattr Setattr Lookup Access Readlink Read Write Create Mkdir Symlink Mknod Remove Rmdir
        Rename Link Readdir Readdirplus Fsstat Fsinfo Pathconf Commit);
    assert_eq!(all.len(), NfsV3::PROCEDURES.len());
    for (name, arguments, result) in all {
        let expected = match name {
            "NFSPROC3_WRITE" | "NFSPROC3_SYMLINK" => (1, 0),
            "NFSPROC3_READ" | "NFSPROC3_READLINK" => (0, 1),
            _ => (0, 0),
        };
        assert_eq!((arguments, result), (Size::Bounded(expected.0), Size::Bounded(expected.1)), "{name}");
    }
}

#[test]
fn r311_reply_bounds_follow_the_requested_size() {
    for count in [0, 1000, 1 << 20] {
        let read = proc::Read::reply_bounds(&Read3Args { count, ..Read3Args::default() });
        assert_eq!(read.item, Size::Bounded(u64::from(count)));
        let list = proc::Readdir::reply_bounds(&Readdir3Args { count, ..Readdir3Args::default() });
        assert_eq!(list.unreduced, Size::Bounded(u64::from(count) + 200));
    }
}

/// Requirement: R232
#[test]
fn r251_r313_nfs_has_port_20049() {
    assert_eq!((NfsV3::PORT, NfsV3::NETIDS), (Some(20049), &["rdma", "rdma6"][..]));
}

#[test]
fn a_recommended_threshold_is_the_default() {
    assert_eq!((NfsV3::INLINE_THRESHOLD, vers1::Vers1::INLINE_THRESHOLD), (Some(4096), None));
    let proposed = Config::of::<NfsV3>().private_data;
    assert_eq!((proposed.send_size, proposed.receive_size), (4096, 4096));
}

#[test]
fn r300_the_connection_configuration_protocol_has_its_numbers() {
    assert_eq!((vers1::Vers1::NUMBER, vers1::Vers1::VERSION), (100_417, 1));
    assert_eq!(vers1::Vers1::PROCEDURES, [(1, "CONF_RDMA")]);
}
