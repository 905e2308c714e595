use super::*;
use ractor::{Actor, ActorProcessingErr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, advance, sleep};

/// How often it was asked before, and where its answer goes.
struct Question(u32, Reply<u32>);

/// An actor that hands out what it is asked.
struct Asked;

impl Actor for Asked {
    type Msg = Question;
    type State = UnboundedSender<Question>;
    type Arguments = UnboundedSender<Question>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Question>,
        to: UnboundedSender<Question>,
    ) -> Result<UnboundedSender<Question>, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(
        &self,
        _myself: ActorRef<Question>,
        question: Question,
        to: &mut UnboundedSender<Question>,
    ) -> Result<(), ActorProcessingErr> {
        // A test that ended no longer reads.
        drop(to.send(question));
        Ok(())
    }
}

async fn start(address: &Address<Question>) -> (ActorRef<Question>, UnboundedReceiver<Question>) {
    let (to, from) = unbounded_channel();
    let (actor, _ends) = Actor::spawn(None, Asked, to).await.unwrap();
    address.fill(actor.clone());
    (actor, from)
}

/// The end of an actor that has been asked: it drops the question, and its supervisor clears the address.
async fn end(address: &Address<Question>, actor: &ActorRef<Question>, question: Question) {
    actor.stop(None);
    address.clear();
    drop(question);
    actor.wait(None).await.unwrap();
}

fn ask(address: &Address<Question>, again: Again) -> bob_messages::reply::Answer<u32> {
    let (reply, answer) = Reply::channel();
    address.ask(again, reply, |reply, asked| Question(asked, reply));
    answer
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_answered_is_asked_once() {
    let address = Address::default();
    let (_actor, mut asked) = start(&address).await;
    let answer = ask(&address, Again::ONCE);
    let Question(before, reply) = asked.recv().await.unwrap();
    reply.send(7);
    assert_eq!((before, answer.await), (0, Some(7)));
    sleep(RETURNS_WITHIN).await;
    assert!(asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_an_actor_ended_with_is_asked_of_its_successor() {
    let address = Address::default();
    let (first, mut asked) = start(&address).await;
    let answer = ask(&address, Again::ONCE);
    end(&address, &first, asked.recv().await.unwrap()).await;
    sleep(RETURNS_WITHIN / 2).await;
    let (_second, mut asked) = start(&address).await;
    let Question(before, reply) = asked.recv().await.unwrap();
    reply.send(7);
    assert_eq!((before, answer.await), (1, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_ends_is_not_asked_again() {
    let address = Address::default();
    let (first, mut asked) = start(&address).await;
    let answer = ask(&address, Again::ONCE);
    // It has let go of the question before it ends, and the address still leads to it.
    drop(asked.recv().await.unwrap());
    sleep(ENDS_WITHIN / 2).await;
    first.stop(None);
    let (_second, mut of_the_second) = start(&address).await;
    of_the_second.recv().await.unwrap().1.send(7);
    assert_eq!(answer.await, Some(7));
    assert!(asked.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_dropped_a_question_and_lives_on_is_asked_after_a_while() {
    let address = Address::default();
    let (_actor, mut asked) = start(&address).await;
    let (answer, began) = (ask(&address, Again::ONCE), Instant::now());
    drop(asked.recv().await.unwrap());
    let Question(before, reply) = asked.recv().await.unwrap();
    assert_eq!((before, began.elapsed()), (1, ENDS_WITHIN));
    drop(reply);
    assert_eq!(answer.await, None, "it is asked again once");
}

#[tokio::test(start_paused = true)]
async fn a_question_to_an_empty_address_waits_for_an_actor() {
    let address = Address::default();
    let answer = ask(&address, Again::ONCE);
    sleep(RETURNS_WITHIN / 2).await;
    let (_actor, mut asked) = start(&address).await;
    let Question(before, reply) = asked.recv().await.unwrap();
    reply.send(7);
    assert_eq!((before, answer.await), (1, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_no_longer_than_its_limit() {
    let address: Address<Question> = Address::default();
    let began = Instant::now();
    assert_eq!(ask(&address, Again::ONCE).await, None);
    assert_eq!(began.elapsed(), RETURNS_WITHIN);
    assert_eq!(ask(&address, Again { times: 5, within: ENDS_WITHIN }).await, None);
    assert_eq!(began.elapsed(), RETURNS_WITHIN + ENDS_WITHIN, "an attempt without an actor is not counted");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_as_often_as_it_may_be() {
    for times in 0..4 {
        let address = Address::default();
        let answer = ask(&address, Again { times, within: RETURNS_WITHIN });
        let mut heard = Vec::new();
        for _actor in 0..times {
            let (actor, mut asked) = start(&address).await;
            let question = asked.recv().await.unwrap();
            heard.push(question.0);
            end(&address, &actor, question).await;
        }
        let (_actor, mut asked) = start(&address).await;
        assert_eq!(answer.await, None);
        assert!(asked.try_recv().is_err());
        assert!(heard.into_iter().eq(1..=times));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_not_asked_again_when_the_answer_is_no_longer_wanted() {
    let address = Address::default();
    let (first, mut asked) = start(&address).await;
    // While it is asked.
    let answer = ask(&address, Again::ONCE);
    let question = asked.recv().await.unwrap();
    drop(answer);
    end(&address, &first, question).await;
    // While it waits for the next actor.
    drop(ask(&address, Again::ONCE));
    let waits = ask(&address, Again::ONCE);
    sleep(RETURNS_WITHIN / 2).await;
    drop(waits);
    let (_second, mut asked) = start(&address).await;
    sleep(RETURNS_WITHIN).await;
    assert!(asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_taken_up_is_not_asked_again() {
    let address = Address::default();
    let (_actor, mut asked) = start(&address).await;
    let answer = ask(&address, Again::ONCE);
    let mut question = asked.recv().await.unwrap();
    question.1.note(1);
    drop(question);
    assert_eq!(answer.await, None);
}

#[tokio::test(start_paused = true)]
async fn a_question_to_a_closed_address_ends_at_once() {
    let address: Address<Question> = Address::default();
    let (waits, began) = (ask(&address, Again::ONCE), Instant::now());
    advance(RETURNS_WITHIN / 4).await;
    address.close();
    assert_eq!((waits.await, ask(&address, Again::ONCE).await), (None, None));
    assert_eq!(began.elapsed(), RETURNS_WITHIN / 4);
}

#[test]
fn a_question_outside_any_runtime_is_answered() {
    let address: Address<Question> = Address::default();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let reply = Reply::to(move |answer: Option<u32>| {
        assert_eq!(answer, None);
        counted.fetch_add(1, Ordering::Relaxed);
    });
    address.ask(Again::ONCE, reply, |reply, asked| Question(asked, reply));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_with_an_answer_of_another_kind_is_asked_again_as_any() {
    let address = Address::default();
    let (first, mut asked) = start(&address).await;
    let (reply, answer) = Reply::channel();
    address.ask(Again::ONCE, reply, |reply, asked| Question(asked, reply.map(move |heard: u32| (heard, asked))));
    end(&address, &first, asked.recv().await.unwrap()).await;
    let (_second, mut asked) = start(&address).await;
    asked.recv().await.unwrap().1.send(7);
    assert_eq!(answer.await, Some((7, 1)));
}

/// A storm of questions to an actor that ends in the middle of it: each has its answer from the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_question_of_a_storm_is_answered_although_its_actor_ends() {
    for _round in 0..2_000 {
        let address = Address::default();
        let (actor, mut asked) = start(&address).await;
        let asking = std::thread::spawn({
            let (address, runtime) = (address.clone(), Handle::current());
            move || {
                let _inside = runtime.enter();
                (0..200).map(|_question| ask(&address, Again::ONCE)).collect::<Vec<_>>()
            }
        });
        let first = asked.recv().await.unwrap();
        end(&address, &actor, first).await;
        drop((actor, asked));
        let (_next, mut asked) = start(&address).await;
        tokio::spawn(async move {
            while let Some(Question(_before, reply)) = asked.recv().await {
                reply.send(7);
            }
        });
        for answer in asking.join().unwrap() {
            let answer = timeout(Duration::from_secs(60), answer).await.expect("it is answered");
            assert!(matches!(answer, Some(7) | None), "{answer:?}");
        }
    }
}
