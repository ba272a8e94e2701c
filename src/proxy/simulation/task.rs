//! A task of the proxy that can be cancelled at any await, and that tells when it panics.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

/// What became of all tasks.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) alive: AtomicUsize,
    pub(super) panicked: AtomicBool,
}

/// Ends after so many polls at the latest.
pub(super) struct Task<F> {
    inner: Pin<Box<F>>,
    polls: usize,
    fates: Arc<Fates>,
}

impl<F> Task<F> {
    pub(super) fn new(inner: F, polls: usize, fates: &Arc<Fates>) -> Self {
        fates.alive.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: Box::pin(inner),
            polls,
            fates: Arc::clone(fates),
        }
    }
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.polls == 0 {
            return Poll::Ready(());
        }
        self.polls -= 1;
        let inner = self.inner.as_mut();
        let polled = catch_unwind(AssertUnwindSafe(|| inner.poll(context)));
        polled.unwrap_or_else(|_| {
            self.fates.panicked.store(true, Ordering::Relaxed);
            Poll::Ready(())
        })
    }
}

impl<F> Drop for Task<F> {
    fn drop(&mut self) {
        self.fates.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
