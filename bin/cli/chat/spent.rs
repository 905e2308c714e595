//! What a session has cost.

use bob::SessionId;
use bob::store::{Part, SessionStore};

use crate::terminal::spending::{Recorded, Spending};

/// How many records are read at a time; none of them is kept.
const PAGE: usize = 4_096;

/// What this chat has seen of a session's usage, and, once that is asked for, what its journal has from before.
#[derive(Default)]
pub(super) struct SessionSpending {
    seen: Spending,
    /// How many records were there before this chat and have not been read.
    unread: u64,
}

impl SessionSpending {
    /// Of a session that has so many records.
    pub(super) fn behind(records: u64) -> Self {
        Self { unread: records, ..Self::default() }
    }

    pub(super) fn add(&mut self, turn: &Spending) {
        self.seen.extend(turn);
    }

    /// All of it; `None` while the journal cannot be read.
    pub(super) async fn total(&mut self, store: &dyn SessionStore, session: &SessionId) -> Option<&Spending> {
        let (mut read, mut before) = (0, Recorded::default());
        while read < self.unread {
            let most = usize::try_from(self.unread - read).unwrap_or(PAGE).min(PAGE);
            let page = store.load_part(session, Part::Page { behind: read, most }).await.ok()?;
            page.iter().for_each(|record| before.record(record));
            // One that was deleted has no more records.
            read = page.last().map_or(self.unread, |last| last.version);
        }
        self.unread = 0;
        self.seen.extend(&before.spending);
        Some(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::ModelName;
    use bob::model::{StopReason, Usage};
    use bob::store::{Append, FORMAT, Fact, MemoryStore, Record, RecordId, StepCost};
    use std::sync::Arc;

    #[tokio::test]
    async fn what_a_journal_has_is_read_page_by_page_and_counted_once() {
        let store = MemoryStore::new();
        let session = SessionId::parse("one").unwrap();
        let epoch = store.claim(&session).await.unwrap().epoch;
        let records = PAGE as u64 + 3;
        let usage = Usage { input_tokens: 1, output_tokens: 1, total_tokens: 2, ..Usage::default() };
        let model = ModelName::parse("a:b").unwrap();
        let cost = StepCost {
            usage: Some(usage),
            prompt_bytes: 0,
            stop_reason: StopReason::Stop,
            response_id: None,
            model,
            latency_ms: 1,
            cost: None,
        };
        let record = |version| {
            let fact = Fact::Malformed { text: String::new(), complaint: String::new(), cost: Box::new(cost.clone()) };
            let (id, session) = (RecordId::new(format!("r{version}")), session.clone());
            Arc::new(Record { format: FORMAT, id, session, version, epoch, turn: None, at: 1, fact })
        };
        let append = Append {
            session: session.clone(),
            epoch,
            expected_version: 0,
            records: (1..=records).map(record).collect(),
        };
        assert_eq!(store.append(vec![append]).await, [Ok(records)]);
        // One came later, and is seen by the chat.
        let mut spent = SessionSpending::behind(records - 1);
        let mut turn = Recorded::default();
        turn.record(&record(records));
        spent.add(&turn.spending);
        for _again in 0..2 {
            assert_eq!(spent.total(&*store, &session).await.unwrap().total().calls, records);
        }
        assert_eq!(SessionSpending::default().total(&*store, &session).await.unwrap().total().calls, 0);
    }
}
