//! The methods of a type, read from the interface of the library: one that is added is missed until a test calls it.

/// Those of the type that this source does not call, and how many there are in all.
pub(crate) fn not_called(of: &str, source: &str) -> (Vec<&'static str>, usize) {
    let interface = include_str!("../../../../docs/api.txt");
    let (_, item) = interface.split_once(&format!("\n# {of}\n")).expect("the type");
    let (item, _) = item.split_once("\n# ").expect("another item");
    let methods = item.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("pub ")?;
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        name.split(['(', '<']).next()
    });
    let methods: Vec<_> = methods.collect();
    let (count, name) = (methods.len(), of.rsplit("::").next().unwrap_or(of));
    let is_called =
        |method: &str| [".", &format!("{name}::")].iter().any(|before| source.contains(&format!("{before}{method}(")));
    (methods.into_iter().filter(|method| !is_called(method)).collect(), count)
}
