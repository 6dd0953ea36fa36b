//! Work that may wait, on threads of its own.
//!
//! Not on tokio's: what else runs there may take the credentials of others meanwhile, as file servers do to ask the system for their
//! callers, and the kernel takes calls for a device only from threads that have those with which it was opened.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Has a new thread do this, and send what came of it. It takes less time than what is done so: memory of megabytes is registered,
/// or let go of.
///
/// # Errors
/// If there can be no more threads; the work is lost then.
pub(super) fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("rdma-memory".to_owned()).spawn(move || {
        // Nobody hears it if the connection is gone; then it goes here.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_aside_is_sent_and_a_panic_is_told() {
        let here = thread::current().id();
        let there = aside(move || thread::current().id()).expect("a thread");
        assert_ne!(there.blocking_recv(), Ok(here));
        let panics = aside(|| assert_eq!(1, 2, "on purpose")).expect("a thread");
        assert!(panics.blocking_recv().is_err());
    }
}
