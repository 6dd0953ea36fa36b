//! Blocking work, each on a new thread.
//!
//! Tokio's blocking pool is unsuitable: other work there may change its thread's credentials, as file servers do, and the kernel
//! takes calls for a device only from threads with the credentials that opened it.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Runs `work` on a new thread and sends its result. Starting a thread takes less time than registering or releasing memory of
/// megabytes.
///
/// # Errors
/// The system allows no more threads; `work` is dropped then.
pub(super) fn spawn<T: Send + 'static>(
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
    fn a_result_is_sent_and_a_panic_is_told() {
        let here = thread::current().id();
        let there = spawn(move || thread::current().id()).expect("a thread");
        assert_ne!(there.blocking_recv(), Ok(here));
        let panics = spawn(|| assert_eq!(1, 2, "on purpose")).expect("a thread");
        assert!(panics.blocking_recv().is_err());
    }
}
