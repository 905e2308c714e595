//! What is on its way: lanes, each of which keeps its order. One of them is chosen for each delivery.

use super::Tree;
use crate::chat::ToolCall;
use crate::ids::{SessionId, Ticket, TurnId};
use crate::llm::LlmRequest;
use crate::store::Append;
use crate::submission::TurnNews;
use crate::tools::{CallContext, CheckRequest};
use crate::turn::{Child, TurnMessage};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// From whom to whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// The mailbox of an actor.
    Mailbox(u64),
    /// The stop of an actor, which goes before its mailbox.
    Stop(u64),
    /// What the store has to do for a session.
    Store(SessionId),
    /// A question of an actor to a model, a tool or a journal.
    Work(u64, Ticket),
    /// What an actor sends to the store after a pause.
    Paused(u64, Ticket),
    /// What an actor tells the supervisor.
    Report(u64),
    /// The final reports of a stopped actor.
    Closing(u64),
}

#[derive(Debug)]
pub(super) enum Item {
    Message(TurnMessage),
    Stop,
    Claim {
        actor: u64,
        ticket: Ticket,
        whole: bool,
    },
    Append {
        actor: u64,
        ticket: Ticket,
        confirm: bool,
        append: Append,
        closing: bool,
    },
    Infer(Arc<LlmRequest>),
    Check(CheckRequest),
    Call(Arc<ToolCall>, Arc<CallContext>),
    /// A call that waits for the result of a task, in vain.
    Wait {
        is_checked: bool,
    },
    Read {
        call: Arc<ToolCall>,
        session: SessionId,
        turn: TurnId,
    },
    Child {
        ticket: Ticket,
        call: Arc<ToolCall>,
        child: Box<Child>,
    },
    News(TurnNews),
    Ended {
        polite: bool,
    },
    /// Whether the last append was confirmed, if there was one.
    Closing {
        news: Vec<TurnNews>,
        appended: bool,
        saved: Option<bool>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Lanes(BTreeMap<Lane, VecDeque<Item>>);

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, lane: Lane, item: Item) {
        self.0.entry(lane).or_default().push_back(item);
    }

    pub(super) fn take(&mut self, lane: &Lane) -> Option<Item> {
        let items = self.0.get_mut(lane)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.0.remove(lane);
        }
        item
    }

    pub(super) fn first(&mut self, lane: &Lane) -> Option<&mut Item> {
        self.0.get_mut(lane)?.front_mut()
    }

    pub(super) fn has(&self, lane: &Lane) -> bool {
        self.0.contains_key(lane)
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&Lane) -> bool) {
        self.0.retain(|lane, _| stays(lane));
    }

    pub(super) fn take_all(&mut self) -> Vec<(Lane, VecDeque<Item>)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }

    /// The lanes that may be delivered from: a stopping actor handles nothing of its mailbox any more.
    fn ready(&self) -> Vec<Lane> {
        let is_ready = |lane: &&Lane| match lane {
            Lane::Mailbox(actor) => !self.0.contains_key(&Lane::Stop(*actor)),
            // The last words are sent behind all other reports; the end of the actor is seen at any time.
            Lane::Closing(actor) => {
                let first = self.0.get(&Lane::Report(*actor)).and_then(VecDeque::front);
                first.is_none_or(|first| matches!(first, Item::Ended { .. }))
            }
            _ => true,
        };
        self.0.keys().filter(is_ready).cloned().collect()
    }
}

impl Tree {
    /// Delivers one thing.
    pub(super) fn deliver(&mut self) {
        let ready = self.lanes.ready();
        let mut at = self.dice.pick(ready.len());
        let is_report = |lane: &Lane| matches!(lane, Lane::Report(_) | Lane::Closing(_));
        // Reports to the supervisor are late.
        for _ in 0..3 {
            if self.plan.late && !self.is_calm && is_report(&ready[at]) {
                at = self.dice.pick(ready.len());
            }
        }
        let lane = ready[at].clone();
        let Some(item) = self.lanes.take(&lane) else { return };
        self.now += 1;
        self.note(|| format!("{lane:?}: {}", in_short(&item)));
        match (lane, item) {
            (Lane::Mailbox(actor), Item::Message(message)) => self.tell(actor, message),
            (Lane::Stop(actor), _) => self.stops(actor),
            (Lane::Store(session), item) => self.store(&session, item),
            (Lane::Paused(actor, _), item) => {
                if let Item::Append { append, .. } = &item {
                    let session = append.session.clone();
                    self.lanes.push(Lane::Store(session), item);
                }
                debug_assert!(actor > 0);
            }
            (Lane::Work(actor, ticket), item) => self.works(actor, ticket, item),
            (Lane::Report(actor), Item::Child { ticket, call, child }) => self.child(actor, ticket, call, *child),
            (Lane::Report(actor), Item::Ended { polite }) => self.actor_ended(actor, polite),
            (Lane::Report(actor), Item::News(news)) => self.news_of(actor, news),
            (Lane::Closing(actor), Item::Closing { news, appended, saved }) => {
                self.closed(actor, news, appended, saved);
            }
            (lane, item) => unreachable!("{item:?} in {lane:?}"),
        }
    }

    /// Delivers everything there is, as long as that takes.
    pub(super) fn settle(&mut self) {
        for _ in 0..20_000 {
            if self.is_quiet() || self.broken.is_some() {
                return;
            }
            self.deliver();
        }
        self.must(false, || "it never comes to rest".to_owned());
    }
}

fn in_short(item: &Item) -> String {
    let text = match item {
        Item::Message(message) => format!("{message:?}"),
        Item::Append { append, .. } => {
            let facts: Vec<_> = append.records.iter().map(|record| format!("{:?}", record.fact)).collect();
            let facts: Vec<_> =
                facts.iter().map(|fact| fact.split(&[' ', '(', '{'][..]).next().unwrap_or("")).collect();
            format!("Append {facts:?}")
        }
        Item::Infer(request) => format!("Infer {} {}", request.turn, request.step),
        item => format!("{item:?}"),
    };
    text.chars().take(220).collect()
}
