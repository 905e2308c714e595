//! What a person is asked while a turn runs: the port that questions come in by, and one question after the other.
//!
//! While a question is asked the screen is quiet and nobody else reads the keyboard; what was typed before the question
//! was seen does not answer it. A question that is taken back is no longer asked.

use std::convert::Infallible;
use std::sync::Arc;

use bob::facade::ApprovalPort;
#[cfg(feature = "mcp")]
use bob::facade::{Elicitation, ElicitationAnswer};
#[cfg(feature = "mcp")]
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::Source;
use super::floor::Floor;
#[cfg(feature = "mcp")]
use super::forms;
use crate::print;

/// A question under way, and where its answer goes.
enum Open {
    #[cfg(feature = "mcp")]
    Form(Elicitation, oneshot::Sender<ElicitationAnswer>),
}

struct Port(mpsc::UnboundedSender<Open>);

impl ApprovalPort for Port {
    #[cfg(feature = "mcp")]
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        let (answer, answered) = oneshot::channel();
        let _nobody_is_there = self.0.send(Open::Form(question, answer));
        Box::pin(async { answered.await.unwrap_or(ElicitationAnswer::Cancel) })
    }
}

/// The questions to the person.
pub(super) struct Asked(mpsc::UnboundedReceiver<Open>);

/// A port, and where its questions arrive. There are never more than the turns have calls under way.
pub(super) fn port() -> (Arc<dyn ApprovalPort>, Asked) {
    let (ask, asked) = mpsc::unbounded_channel();
    (Arc::new(Port(ask)), Asked(asked))
}

impl Asked {
    /// Asks the person whatever comes, one question after the other. Dropping the future takes an open one back.
    /// Ctrl-C at a question calls `interrupt`.
    pub(super) async fn answer(
        &mut self,
        source: &mut Source,
        floor: &Floor<'_>,
        interrupt: impl AsyncFn(),
    ) -> Infallible {
        let Source::Person(editor) = source else { return std::future::pending().await };
        while let Some(open) = self.0.recv().await {
            match open {
                #[cfg(feature = "mcp")]
                Open::Form(question, mut answer) => {
                    if answer.is_closed() {
                        continue;
                    }
                    let _quiet = floor.take();
                    let form = tokio::select! {
                        form = forms::ask(&question, editor) => form,
                        () = answer.closed() => {
                            print::note("[the question was taken back; press Enter]");
                            continue;
                        }
                    };
                    if form.is_none() {
                        interrupt().await;
                    }
                    let _taken_back = answer.send(form.unwrap_or(ElicitationAnswer::Cancel));
                }
            }
        }
        std::future::pending().await
    }
}
