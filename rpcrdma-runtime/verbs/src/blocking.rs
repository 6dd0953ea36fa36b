//! Runs blocking work, with a new thread for each job.
//!
//! Tokio's blocking pool is unsuitable: other jobs, such as those of a file server, may change the
//! credentials of its threads. The kernel rejects writes to a device from a thread whose credentials differ
//! from those of the thread that opened the device.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Runs `work` on a new thread and sends its result to the returned receiver. Starting a thread takes less
/// time than registering or deregistering megabytes of memory.
///
/// # Errors
/// Fails if the system cannot start another thread. `work` is then dropped.
pub(super) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("rdma-memory".to_owned()).spawn(move || {
        // If the connection is gone, the result is dropped on this thread.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_sent_and_a_panic_is_reported() {
        let here = thread::current().id();
        let there = spawn(move || thread::current().id()).expect("a thread");
        assert_ne!(there.blocking_recv(), Ok(here));
        let panics = spawn(|| assert_eq!(1, 2, "on purpose")).expect("a thread");
        assert!(panics.blocking_recv().is_err());
    }
}
