//! A turn's spans are below the span of its caller, and the actors have none there.

use std::sync::{Arc, Mutex};

use bob::context::RequestContext;
use bob::events::{TracingEventSink, is_for_programs};
use bob::model::ScriptedReply;
use bob::{AgentError, AgentRuntime, Runtime};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::support::runtime::{build, say, scripted, within};

/// Keeps the spans: each with those around it, and which are closed.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(String, bool)>>>);

impl Spans {
    fn all(&self) -> Vec<(String, bool)> {
        self.0.lock().unwrap().clone()
    }

    /// The open ones, by their names with those around them.
    fn open(&self) -> Vec<String> {
        self.all().into_iter().filter(|(_, is_closed)| !is_closed).map(|(span, _)| span).collect()
    }
}

struct Place(usize);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Spans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let names: Vec<_> = span.scope().from_root().map(|span| span.name()).collect();
        let mut all = self.0.lock().unwrap();
        span.extensions_mut().insert(Place(all.len()));
        all.push((names.join(" > "), false));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let place = context.span(&id).unwrap().extensions().get::<Place>().map(|place| place.0);
        if let Some(place) = place {
            self.0.lock().unwrap()[place].1 = true;
        }
    }
}

/// Watches this thread, on which the actors of its runtime run, too.
fn watched(everything: bool) -> (Spans, DefaultGuard) {
    let spans = Spans::default();
    let layer = spans.clone().with_filter(filter_fn(move |metadata| everything || is_for_programs(metadata)));
    (spans, tracing::subscriber::set_default(Registry::default().with(layer)))
}

async fn runtime() -> Runtime {
    build(scripted(vec![ScriptedReply::text("hello")]).sink(Arc::new(TracingEventSink::new()))).await
}

#[tokio::test]
async fn a_turn_is_below_the_span_of_its_caller_and_actors_are_not() {
    let (spans, _watching) = watched(false);
    let runtime = runtime().await;
    within(runtime.run(say("hi")).instrument(info_span!("http_request"))).await.unwrap();
    within(runtime.shutdown()).await;
    let expected = [
        "http_request",
        "http_request > invoke_agent",
        "http_request > invoke_agent > step",
        "http_request > invoke_agent > step > chat",
    ];
    assert_eq!(spans.all().into_iter().map(|(span, _)| span).collect::<Vec<_>>(), expected);
    assert_eq!(spans.open(), Vec::<String>::new());
}

#[tokio::test]
async fn a_caller_whose_request_is_refused_has_its_span_for_itself() {
    let (spans, _watching) = watched(false);
    let runtime = runtime().await;
    within(runtime.run(say("hi").context(RequestContext::of_tenant("acme")))).await.unwrap();
    let refused = runtime.run(say("hi").context(RequestContext::of_tenant("globex")));
    let refused = within(refused.instrument(info_span!("http_request"))).await;
    assert!(matches!(refused, Err(AgentError::Invalid(_))), "{refused:?}");
    within(runtime.shutdown()).await;
    assert_eq!(spans.all().last(), Some(&("http_request".to_owned(), true)));
    assert_eq!(spans.open(), Vec::<String>::new());
}

#[tokio::test]
async fn a_subscriber_without_the_filter_would_have_a_span_of_each_actor() {
    let (spans, _watching) = watched(true);
    let runtime = runtime().await;
    within(runtime.run(say("hi"))).await.unwrap();
    within(runtime.shutdown()).await;
    let of_actors = spans.all().into_iter().filter(|(span, _)| span.contains("Actor")).count();
    assert!(of_actors >= 5, "{of_actors}: then the filter is not needed any more");
}
