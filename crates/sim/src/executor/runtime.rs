//! The executor as the log and the consensus engine know it.

use std::{
    fmt,
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use berth_replication::runtime::{
    Runtime, Tokio,
    engine::{AsyncRuntime, Instant as _},
};
use rand::{SeedableRng, rngs::SmallRng};
use tokio::sync::oneshot;

use super::{
    disk_time_ns, now_ns, random_u64, sleep_ns, spawn,
    time::{Elapsed, SimInstant, Sleep},
};

/// Runs the log on the executor of this thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Simulated;

impl Runtime for Simulated {
    type Async = Engine;

    async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        sleep_ns(disk_time_ns()).await;
        Ok(work())
    }

    fn drive(_name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        spawn(AtDisk { work: Box::pin(work), busy: Some(sleep_ns(0)) });
        Ok(())
    }

    fn now() -> Duration {
        Duration::from_nanos(now_ns())
    }
}

/// Work of which each step takes as long as the disk does: what comes meanwhile waits.
struct AtDisk {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    busy: Option<Sleep>,
}

impl Future for AtDisk {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let busy = self.busy.get_or_insert_with(|| sleep_ns(disk_time_ns()));
        if pin!(busy).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.busy = None;
        self.work.as_mut().poll(context)
    }
}

/// What the consensus engine spawns, sleeps and draws with. Its channels are tokio's, which need no runtime.
#[derive(Debug)]
pub struct Engine;

type Channels = <Tokio as Runtime>::Async;

/// Completes with a task.
#[derive(Debug)]
pub struct TaskHandle<T>(oneshot::Receiver<T>);

/// A task was dropped before its end.
#[derive(Debug)]
pub struct TaskDropped;

impl fmt::Display for TaskDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task was dropped")
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskDropped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        pin!(&mut self.0).poll(context).map(|done| done.map_err(|_| TaskDropped))
    }
}

/// Completes with a future, or when its time is over.
#[derive(Debug)]
pub struct Timeout<F> {
    work: Pin<Box<F>>,
    deadline: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(done) = self.work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        pin!(&mut self.deadline).poll(context).map(|()| Err(Elapsed))
    }
}

impl AsyncRuntime for Engine {
    type JoinError = TaskDropped;
    type JoinHandle<T: Send + 'static> = TaskHandle<T>;
    type Sleep = Sleep;
    type Instant = SimInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + Send> = Timeout<T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <Channels as AsyncRuntime>::Mpsc;
    type Watch = <Channels as AsyncRuntime>::Watch;
    type Oneshot = <Channels as AsyncRuntime>::Oneshot;
    type Mutex<T: Send + 'static> = <Channels as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> TaskHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        let (done, joined) = oneshot::channel();
        spawn(async move { drop(done.send(future.await)) });
        TaskHandle(joined)
    }

    fn sleep(duration: Duration) -> Sleep {
        (SimInstant::now() + duration).sleep()
    }

    fn sleep_until(deadline: SimInstant) -> Sleep {
        deadline.sleep()
    }

    fn timeout<R, F: Future<Output = R> + Send>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        Self::timeout_at(SimInstant::now() + duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(deadline: SimInstant, future: F) -> Self::Timeout<R, F> {
        Timeout { work: Box::pin(future), deadline: deadline.sleep() }
    }

    fn is_panic(_: &TaskDropped) -> bool {
        false
    }

    fn thread_rng() -> SmallRng {
        SmallRng::seed_from_u64(random_u64())
    }

    fn new(_: usize) -> Self {
        Self
    }

    fn block_on<F, T>(&mut self, _: F) -> T
    where
        F: Future<Output = T>,
    {
        unreachable!("a simulation is never waited for from within")
    }

    async fn spawn_blocking<F, T>(work: F) -> Result<T, io::Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Simulated::blocking(work).await
    }
}
