//! Records become lines before they reach the writer. An append that carries much is encoded on a blocking thread, and whatever else its batch
//! has of its session waits behind it; all the others go on.

use super::ended;
use super::job::Job;
use crate::store::Stored;
use crate::store::encoded::{Encoded, Split};
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::{Append, StoreError};
use std::sync::mpsc::Sender;

/// Has the writer store a batch. Answers at once for what is large.
pub(super) async fn store(jobs: Sender<Job>, batch: Vec<Append>) -> Vec<Stored> {
    let mut stored: Vec<Stored> = batch.iter().map(|_| Stored::Now(Err(ended()))).collect();
    let split = Split::of(batch);
    for of_session in split.apart {
        let (mut appends, mut replies) = (Vec::new(), Vec::new());
        for (place, append) in of_session {
            let (reply, answer) = Reply::channel();
            stored[place] = Stored::Later(answer);
            appends.push(append);
            replies.push(reply);
        }
        let jobs = jobs.clone();
        // What ends without an answer answers by being dropped.
        tokio::task::spawn_blocking(move || alone(&jobs, appends, replies));
    }
    let (places, appends): (Vec<usize>, Vec<Append>) = split.together.into_iter().unzip();
    if !appends.is_empty() {
        for (place, answer) in places.into_iter().zip(together(&jobs, appends).await) {
            stored[place] = Stored::Now(answer);
        }
    }
    stored
}

async fn together(jobs: &Sender<Job>, appends: Vec<Append>) -> Vec<Result<u64, StoreError>> {
    let count = appends.len();
    let (reply, answer): (_, Answer<Vec<_>>) = Reply::channel();
    // A writer that ended drops the job, which answers it.
    drop(jobs.send(Job::Append(appends.into_iter().map(Encoded::of).collect(), reply)));
    answer.await.unwrap_or_else(|| vec![Err(ended()); count])
}

/// Encodes the appends of one session here, and has the writer store them.
fn alone(jobs: &Sender<Job>, appends: Vec<Append>, replies: Vec<Reply<Result<u64, StoreError>>>) {
    let reply = Reply::to(move |answers: Option<Vec<_>>| {
        for (reply, answer) in replies.into_iter().zip(answers.unwrap_or_default()) {
            reply.send(answer);
        }
    });
    drop(jobs.send(Job::Append(appends.into_iter().map(Encoded::of).collect(), reply)));
}
