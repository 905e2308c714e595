//! Resource usage of this process and its children, from `/proc` where available.

use std::fs;

use super::wire::{ChildFigures, ProcessFigures};

/// The most child processes that are listed.
const MOST_CHILDREN: usize = 200;

/// This process now. Reads some hundred small files, so it is called where blocking is allowed.
pub(super) fn own() -> ProcessFigures {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let files = fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64);
    ProcessFigures {
        rss_bytes: kilobytes(&status, "VmRSS"),
        threads: field(&status, "Threads").and_then(|text| text.parse().ok()),
        // The folder itself is open while it is read.
        files: files.map(|count| count.saturating_sub(1)),
        children: children(std::process::id()),
    }
}

fn children(parent: u32) -> Vec<ChildFigures> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut children: Vec<_> = pids.filter_map(|pid| child(pid, parent)).take(MOST_CHILDREN).collect();
    children.sort_by_key(|child| child.pid);
    children
}

fn child(pid: u32, parent: u32) -> Option<ChildFigures> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let is_ours = field(&status, "PPid")?.parse() == Ok(parent);
    is_ours.then(|| ChildFigures {
        pid,
        name: field(&status, "Name").unwrap_or_default().to_owned(),
        state: field(&status, "State").and_then(|state| state.chars().next()).unwrap_or('?'),
        rss_bytes: kilobytes(&status, "VmRSS").unwrap_or(0),
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    field(status, name)?.split(' ').next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_itself_and_its_children() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let figures = own();
        assert!(figures.rss_bytes.unwrap() > 1 << 20 && figures.threads.unwrap() >= 1 && figures.files.unwrap() >= 3);
        let child = figures.children.iter().find(|child| child.pid == sleeper.id()).unwrap().clone();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!child.name.is_empty() && child.state != 'Z', "{child:?}");
        assert!(own().children.iter().all(|child| child.pid != sleeper.id()));
    }
}
