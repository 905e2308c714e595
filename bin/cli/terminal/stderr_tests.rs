use super::*;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A reader that takes a text when it is told to; a writer waits for it.
struct Reader {
    taken: Arc<Mutex<String>>,
    may_take: Receiver<()>,
}

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // When the test is over, everything is taken.
        let _one_or_the_end = self.may_take.recv();
        self.taken.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A queue with its thread; what the reader has taken, and how it is let take more.
fn queue() -> (&'static Queue, Arc<Mutex<String>>, SyncSender<()>) {
    let queue: &'static Queue = Box::leak(Box::default());
    let taken = Arc::new(Mutex::new(String::new()));
    let (let_take, may_take) = sync_channel(1_000);
    let reader = Reader { taken: Arc::clone(&taken), may_take };
    thread::spawn(move || queue.write_to(reader));
    (queue, taken, let_take)
}

fn say(queue: &Queue, text: impl Into<String>) {
    queue.push(Text::Said(text.into()));
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_reader_that_reads_gets_everything_in_order() {
    let (queue, taken, let_take) = queue();
    drop(let_take);
    let lines: Vec<String> = (0..1_000).map(|n| format!("line {n}\n")).collect();
    lines.iter().for_each(|line| say(queue, line));
    assert!(queue.finish(LONG));
    assert_eq!(*taken.lock().unwrap(), lines.concat());
}

#[test]
fn a_reader_that_takes_nothing_is_waited_for_once() {
    let (queue, taken, let_take) = queue();
    say(queue, "one\n");
    let since = Instant::now();
    queue.settle(WRITTEN_WITHIN);
    assert!(since.elapsed() >= WRITTEN_WITHIN);
    for _ in 0..10_000 {
        say(queue, "more\n");
        queue.settle(WRITTEN_WITHIN);
    }
    assert!(since.elapsed() < LONG, "10,000 waits would take 1,000 s");
    assert!(!queue.finish(Duration::from_millis(1)), "nothing is written");
    drop(let_take);
    assert!(queue.finish(LONG));
    assert_eq!(taken.lock().unwrap().lines().count(), 10_001);
    assert!(!queue.lock().is_slow, "it has caught up");
}

#[test]
fn what_is_dropped_is_counted_and_told_when_there_is_room() {
    let (queue, taken, let_take) = queue();
    let kib = format!("{}\n", "x".repeat(1023));
    say(queue, &kib);
    let deadline = Instant::now() + LONG;
    while queue.lock().bytes > 0 && Instant::now() < deadline {
        thread::yield_now();
    }
    for _ in 0..1_999 {
        say(queue, &kib);
    }
    let lost = queue.lock().lost;
    assert_eq!(lost, 975, "one is being written, and 1,024 wait");
    // Room again: the count comes before the next text.
    let_take.send(()).unwrap();
    let_take.send(()).unwrap();
    let (deadline, mut is_told) = (Instant::now() + LONG, false);
    while !is_told && Instant::now() < deadline {
        thread::yield_now();
        is_told = queue.lock().bytes + 1024 <= MOST_BYTES;
    }
    say(queue, "after\n");
    drop(let_take);
    assert!(queue.finish(LONG));
    let taken = taken.lock().unwrap();
    let told = format!("warning: stderr was not read in time; {lost} messages are lost\nafter\n");
    assert!(taken.ends_with(&told), "{}", &taken[taken.len() - 200..]);
    assert_eq!(taken.matches("warning").count(), 1);
}

#[test]
fn what_is_dropped_last_is_told_at_the_end() {
    let (queue, taken, let_take) = queue();
    say(queue, "first\n");
    say(queue, "x".repeat(MOST_BYTES));
    say(queue, "x".repeat(MOST_BYTES));
    say(queue, "y".repeat(MOST_BYTES));
    drop(let_take);
    assert!(queue.finish(LONG));
    let deadline = Instant::now() + LONG;
    while !taken.lock().unwrap().contains("lost") && Instant::now() < deadline {
        thread::yield_now();
    }
    assert!(
        taken.lock().unwrap().contains("messages are lost\n") || taken.lock().unwrap().contains("1 message is lost\n")
    );
}

#[test]
fn drawings_are_not_kept_for_a_reader_that_is_behind() {
    let (queue, _taken, _let_take) = queue();
    for _ in 0..100_000 {
        queue.push(Text::Drawn("some bar ".into()));
    }
    let state = queue.lock();
    assert!(state.bytes <= MOST_BEFORE_DRAWING + 9 && state.lost == 0);
}

#[test]
fn a_reader_that_left_holds_up_nothing() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let queue: &'static Queue = Box::leak(Box::default());
    thread::spawn(move || queue.write_to(Gone));
    (0..1_000).for_each(|_| say(queue, "x".repeat(10_000)));
    assert!(queue.finish(LONG));
}
