//! `nfs3d` in the guest itself, and the kernel's client beside it: both ends of the same siw's machine.

use crate::guest::{Siw, guest};
use crate::mounted::{clear, mount, transport};
use crate::place::GUEST;

#[test]
fn the_kernel_mounts_a_server_of_its_own_machine() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let nfs3d = guest.bring(env!("CARGO_BIN_EXE_nfs3d"));
    guest.run(&format!(
        "mkdir /export/served; {nfs3d} /export/served --no-root-squash --allow {GUEST} \\
             --listen {GUEST}:20050 --tcp {GUEST}:20051 >/run/nfs3d 2>&1 &
         for i in $(seq 600); do grep -q serving /run/nfs3d && exit 0; sleep 0.1; done; cat /run/nfs3d; exit 1"
    ));
    mount(&guest, GUEST, 20050, 20051);
    guest.run(
        "set -e; mkdir /tmp/tree; for i in $(seq 60); do head -c $((i * i * i * 7)) /dev/urandom >/tmp/tree/file$i; done
         cp -a /tmp/tree /mnt/tree; sync; echo 3 >/proc/sys/vm/drop_caches
         [ -z \"$(rsync -aHni --checksum --delete /tmp/tree/ /mnt/tree/)\" ]
         [ -z \"$(rsync -aHni --checksum --delete /tmp/tree/ /export/served/tree/)\" ]",
    );
    let counters = transport(&guest);
    guest.run(
        "rm -r /mnt/tree && [ -z \"$(ls -A /mnt)\" ] && umount /mnt && [ -z \"$(ls -A /export/served)\" ]",
    );
    assert_eq!((counters.connects, counters.bad_xids, counters.bad_replies), (1, 0, 0), "{counters:?}");
    assert!(counters.read_chunks > 30 && counters.write_chunks > 30, "{counters:?}");
    guest.run(
        "kill -TERM $(pidof nfs3d); for i in $(seq 300); do pidof nfs3d || break; sleep 0.1; done
         ! pidof nfs3d && grep -q stopped /run/nfs3d && rmdir /export/served",
    );
}
