//! A house whose sessions are there when the program is not.

use crate::house::House;

impl House {
    /// The same house with sessions that are kept, and with further keys: of `[runtime]`, of `[llm]`.
    pub(crate) fn keeping(mut self, runtime: &str, llm: &str, servers: &str) -> Self {
        self.before = self.before.replace("kind = \"memory\"", "kind = \"sqlite\"");
        self.before = self.before.replace("[llm]\nretry_max = 0\n", &format!("{runtime}\n[llm]\n{llm}\n"));
        self.configure(servers);
        self
    }
}
