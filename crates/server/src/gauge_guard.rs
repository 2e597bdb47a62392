//! A guard that counts work in progress. It counts until it is dropped, which is also when a client disconnects and its request
//! is dropped.

use std::sync::atomic::{AtomicI64, Ordering};

/// Counts one for as long as it lives.
pub(crate) struct GaugeGuard<'c>(&'c AtomicI64);

impl<'c> GaugeGuard<'c> {
    pub fn new(count: &'c AtomicI64) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_future_counts_no_more() {
        let count = AtomicI64::new(0);
        let mut waiting = Box::pin(async {
            let _guard = GaugeGuard::new(&count);
            std::future::pending::<()>().await;
        });
        tokio::select! {
            biased;
            () = &mut waiting => {}
            () = std::future::ready(()) => {}
        }
        assert_eq!(count.load(Ordering::Acquire), 1);
        drop(waiting);
        assert_eq!(count.load(Ordering::Acquire), 0);
    }
}
