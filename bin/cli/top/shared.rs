//! The store of several machines, where no process of this one uses it: all processes, what they counted, the inbox, and the
//! sessions whose turns run, as the store has them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bob::sessions::{SessionFilter, SessionState, SessionSummary};
use bob::store::SessionStore;
use bob_config::{Config, sanitise};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::watch;

use super::figures::bold;
use super::keys::keys;
use super::rows::clean;
use crate::commands::ps::{store, table::duration};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many sessions are listed: those that were written to last.
const SESSIONS: usize = 200;

/// How many columns the id and the title of a session have.
const ID: usize = 40;
const TITLE: usize = 60;

/// How far a page goes, lines.
const PAGE: usize = 10;

/// What is on the screen.
struct Picture {
    /// The address of the store.
    store: String,
    lines: Vec<String>,
    /// The first line that is shown.
    first: usize,
}

/// Shows the store until a person leaves.
pub(super) async fn top(store: Arc<dyn SessionStore>, config: &Config, signals: &mut Signals) -> Result<Exit, Failure> {
    let picture = Picture { store: clean(&config.store_shown(), 200), lines: look(&*store).await?, first: 0 };
    let refused = |error: io::Error| Failure::internal(format!("cannot use the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(refused)?;
    let shown = show(&mut terminal, picture, looking(store), signals).await;
    ratatui::restore();
    shown.map_err(Failure::from)
}

async fn show(
    terminal: &mut DefaultTerminal,
    mut picture: Picture,
    mut seen: watch::Receiver<Vec<String>>,
    signals: &mut Signals,
) -> io::Result<Exit> {
    let mut keys = keys();
    loop {
        let mut room = 0;
        terminal.draw(|frame| room = draw(&picture, frame))?;
        tokio::select! {
            Ok(()) = seen.changed() => picture.lines = seen.borrow_and_update().clone(),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if picture.key(key) {
                        return Ok(Exit::Success);
                    }
                }
                Some(_drawn_anew) => {}
                None => return Ok(Exit::Success),
            },
            caught = signals.next() => return Ok(caught.exit()),
        }
        picture.first = picture.first.min(picture.lines.len().saturating_sub(room));
    }
}

/// Looks at the store each second. The task ends with its reader.
fn looking(store: Arc<dyn SessionStore>) -> watch::Receiver<Vec<String>> {
    let (tell, seen) = watch::channel(Vec::new());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let lines = look(&*store).await.unwrap_or_else(|failure| {
                vec![clean(&format!("the store cannot be looked at: {}", failure.message), 200)]
            });
            if tell.send(lines).is_err() {
                return;
            }
        }
    });
    seen
}

async fn look(store: &dyn SessionStore) -> Result<Vec<String>, Failure> {
    let overview = store::overview(store).await?;
    let filter = SessionFilter { state: Some(SessionState::Running), limit: SESSIONS, ..SessionFilter::default() };
    let page = store.list(&filter, None).await?;
    let mut text = overview.map_or_else(|| "nothing runs and nothing waits\n".to_owned(), |seen| store::report(&seen));
    if !page.sessions.is_empty() {
        text.push_str(&format!("\n{:<ID$} {:>6} {:>8}  title\n", "session with a turn", "turns", "written"));
    }
    let now = bob::config::clock::now();
    page.sessions.iter().for_each(|session| text.push_str(&line(session, now)));
    if page.cursor.is_some() {
        text.push_str("and more\n");
    }
    Ok(sanitise::clean(&text).lines().map(str::to_owned).collect())
}

fn line(session: &SessionSummary, now: i64) -> String {
    let id = print::on_one_line(session.session.as_str(), ID);
    let turns = session.turns.map(|turns| turns.to_string()).unwrap_or_default();
    let written = duration(u64::try_from(now - session.updated_at).unwrap_or_default());
    let title = print::on_one_line(session.title.as_deref().unwrap_or_default(), TITLE);
    format!("{}\n", format!("{id:<ID$} {turns:>6} {written:>8}  {title}").trim_end())
}

/// Draws the picture. How many lines there is room for.
fn draw(picture: &Picture, frame: &mut Frame<'_>) -> usize {
    let rows = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
    let [head, middle, foot] = Layout::vertical(rows).areas(frame.area());
    let title = format!(" {}  no process of this machine uses it", picture.store);
    frame.render_widget(Paragraph::new(Line::styled(title, bold())), head);
    let lines = picture.lines.iter().skip(picture.first).map(|line| Line::raw(format!(" {line}")));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), middle);
    frame.render_widget(Paragraph::new(" ↑↓ scroll  q quit"), foot);
    usize::from(middle.height)
}

impl Picture {
    /// Whether a person leaves.
    fn key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return true,
            KeyCode::Char('q') => return true,
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::PageDown => self.first += PAGE,
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = self.lines.len(),
            _of_no_meaning => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(picture: &Picture) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(60, 5)).unwrap();
        let draws = |frame: &mut Frame<'_>| {
            draw(picture, frame);
        };
        terminal.draw(draws).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..60).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
        (0..5).map(row).collect()
    }

    #[test]
    fn the_lines_of_a_store_are_scrolled_between_its_name_and_the_keys() {
        let lines = (1..=9).map(|number| format!("line {number}")).collect();
        let mut picture = Picture { store: "postgres://db.example/bob".to_owned(), lines, first: 0 };
        let head = " postgres://db.example/bob  no process of this machine uses".to_owned() + " i";
        let foot = " ↑↓ scroll  q quit";
        assert_eq!(shown(&picture)[0], head[..60].trim_end());
        assert_eq!(shown(&picture)[1..], [" line 1", " line 2", " line 3", foot]);
        assert!(!picture.key(KeyCode::Down.into()) && !picture.key(KeyCode::Char('j').into()));
        assert_eq!(shown(&picture)[1], " line 3");
        assert!(!picture.key(KeyCode::Up.into()));
        assert_eq!(shown(&picture)[1], " line 2");
        assert!(picture.key(KeyCode::Char('q').into()));
        assert!(picture.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
