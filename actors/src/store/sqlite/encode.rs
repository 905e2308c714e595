//! Records become lines before they reach the writer. An append that carries much is encoded on a blocking thread, and whatever else its batch
//! has of its session waits behind it; all the others go on.

use super::ended;
use super::job::Job;
use crate::store::Stored;
use crate::store::encoded::{Encoded, is_large};
use bob_messages::ids::SessionId;
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::{Append, StoreError};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;

/// Has the writer store a batch. Answers at once for what is large.
pub(super) async fn store(jobs: Sender<Job>, batch: Vec<Append>) -> Vec<Stored> {
    let large: HashSet<SessionId> =
        batch.iter().filter(|append| is_large(append)).map(|append| append.session.clone()).collect();
    if large.is_empty() {
        let answers = together(&jobs, batch).await;
        return answers.into_iter().map(Stored::Now).collect();
    }
    let mut apart: HashMap<SessionId, (Vec<Append>, Vec<Reply<_>>)> = HashMap::new();
    let (mut stored, mut rest, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (place, append) in batch.into_iter().enumerate() {
        if large.contains(&append.session) {
            let (reply, answer) = Reply::channel();
            let (appends, replies) = apart.entry(append.session.clone()).or_default();
            appends.push(append);
            replies.push(reply);
            stored.push(Stored::Later(answer));
        } else {
            places.push(place);
            rest.push(append);
            stored.push(Stored::Now(Err(ended())));
        }
    }
    for (appends, replies) in apart.into_values() {
        let jobs = jobs.clone();
        // What ends without an answer answers by being dropped.
        tokio::task::spawn_blocking(move || alone(&jobs, appends, replies));
    }
    for (place, answer) in places.into_iter().zip(together(&jobs, rest).await) {
        if let Some(waiting) = stored.get_mut(place) {
            *waiting = Stored::Now(answer);
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
