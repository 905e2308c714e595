//! A fixture whose sessions outlive the program.

use crate::signals::fixture::Fixture;

impl Fixture {
    /// A fixture with a durable store, and further keys of `[runtime]` and `[llm]`.
    pub(crate) fn keeping(mut self, runtime: &str, llm: &str, servers: &str) -> Self {
        self.before = self.before.replace("kind = \"memory\"", "kind = \"sqlite\"");
        self.before = self.before.replace("[llm]\nretry_max = 0\n", &format!("{runtime}\n[llm]\n{llm}\n"));
        self.configure(servers);
        self
    }
}
