//! Returns the output of a future that does not need to wait.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

/// Polls a future once.
///
/// # Panics
///
/// Panics where it would have to wait.
pub fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
