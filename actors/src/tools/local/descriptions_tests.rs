//! What a model is told of the tools.

use super::{Protection, tools};
use crate::child::Watcher;

/// Every byte of it is part of every prompt.
#[test]
fn the_tools_and_their_arguments_are_described() {
    let mut described = String::new();
    for tool in tools(&Watcher::new(), &Protection::default()) {
        let tool = tool.list_tools().remove(0);
        described.push_str(&format!("{} ({:?}): {}\n  {}\n", tool.id, tool.risk, tool.description, tool.schema));
    }
    expect_test::expect![[r#"
        local/list_dir (Low): List the files in the folder
          {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Path of the folder","default":"."}}}
        local/read_file (Low): Read the file. Each line is shown behind its number and a tab, which are no part of it. Up to 56 KB a call; a notice says how to read on
          {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Path of the file"},"offset":{"type":"integer","minimum":1,"description":"First line to read","default":1},"limit":{"type":"integer","minimum":1,"description":"Number of lines to read","default":2000},"column":{"type":"integer","minimum":1,"description":"First byte to read of a line that is too long for one call","default":1}},"required":["path"]}
        local/find_files (Low): Find files and folders by name. Sorted, folders end in /; what git ignores is left out. At most 500 are shown
          {"type":"object","additionalProperties":false,"properties":{"pattern":{"type":"string","description":"Glob of a name (*.rs), or of a path below `path` (src/**/*.rs)"},"path":{"type":"string","description":"Folder to look through","default":"."}},"required":["pattern"]}
        local/search_files (Low): Find lines in files. Shown as path:number: line, with - instead of : around context. Binary files and what git ignores are left out. At most 200 matches are shown
          {"type":"object","additionalProperties":false,"properties":{"pattern":{"type":"string","description":"Text or regular expression to find"},"path":{"type":"string","description":"Folder or file to search","default":"."},"glob":{"type":"string","description":"Search only files that match this glob: *.rs, or src/**/*.rs"},"context":{"type":"integer","minimum":0,"description":"Lines to show before and after each match","maximum":20,"default":0},"ignore_case":{"type":"boolean","description":"Whether upper and lower case are the same"},"output":{"type":"string","enum":["lines","files","counts"],"description":"What to show","default":"lines"}},"required":["pattern"]}
        local/write_file (Medium): Write the file
          {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Path of the file"},"content":{"type":"string","description":"The whole new text"}},"required":["path","content"]}
        local/edit_file (Medium): Replace a text in the file
          {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Path of the file"},"old":{"type":"string","description":"Text to replace; it must be in the file once"},"new":{"type":"string","description":"Text to put there"}},"required":["path","old","new"]}
        local/shell_exec (High): Run a command in the shell
          {"type":"object","additionalProperties":false,"properties":{"command":{"type":"string","description":"Command to run"}},"required":["command"]}
    "#]].assert_eq(&described);
}
