//! A transport that reads a large message apart.
//!
//! A message is parsed where it is read, at once. For one of many MiB that takes a part of a second, in which the thread of the
//! runtime would run no other task; where it is the only one that was awake, timers and sockets of all tasks would wait, too.

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// A transport, and whether the message that comes is large.
pub(super) struct Apart<T> {
    transport: T,
    is_large: Arc<AtomicBool>,
}

impl<T> Apart<T> {
    pub(super) fn new(transport: T, is_large: Arc<AtomicBool>) -> Self {
        Self { transport, is_large }
    }
}

/// The output of a future. While the flag is set, the other tasks of the thread run elsewhere, if there are threads for it.
async fn apart<F: Future>(work: F, is_large: &AtomicBool) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| match is_large.load(Ordering::Relaxed) && has_threads() {
        true => block_in_place(|| work.as_mut().poll(context)),
        false => work.as_mut().poll(context),
    })
    .await
}

fn has_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Apart<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        apart(self.transport.receive(), &self.is_large)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_large_message_is_parsed() {
        let (ran, another_ran) = channel();
        let reading = tokio::spawn(async move {
            // It waits for the thread that runs this one.
            tokio::spawn(async move { ran.send(()) });
            let parse = async move { another_ran.recv_timeout(Duration::from_secs(60)) };
            let is_large = AtomicBool::new(true);
            apart(parse, &is_large).await
        });
        reading.await.unwrap().expect("the other task runs");
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_reads_it_as_any_other() {
        assert_eq!(apart(async { 1 }, &AtomicBool::new(true)).await, 1);
    }
}
