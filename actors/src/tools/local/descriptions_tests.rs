//! What a model is told of the tools.

use super::{Protection, tools};
use crate::child::Watcher;
use crate::tools::Policy;

/// Every byte of it is part of every prompt.
#[test]
fn the_tools_and_their_arguments_are_described() {
    let policy = Policy { deny_tools: Vec::new(), deny_commands: vec!["rm".to_owned()], ..Policy::default() };
    let mut described = String::new();
    for tool in tools(&Watcher::new(), &Protection::default(), &policy) {
        let tool = tool.list_tools().remove(0);
        // In canonical form: the order of keys in a schema depends on the build's features.
        let schema = serde_jcs::to_string(&tool.schema).expect("a schema is JSON");
        let (kind, risk) = (tool.kind, tool.risk);
        let description = tool.description.replace(std::env::consts::OS, "linux");
        described.push_str(&format!("{} ({kind:?}, {risk:?}): {}\n  {schema}\n", tool.id, description));
    }
    expect_test::expect![[r#"
        local/list_dir (Read, Low): List the files in the folder
          {"additionalProperties":false,"properties":{"path":{"default":".","description":"Path of the folder","type":"string"}},"type":"object"}
        local/read_file (Read, Low): Read the file. Each line is shown behind its number and a tab, which are no part of it. Up to 56 KB a call; a notice says how to read on
          {"additionalProperties":false,"properties":{"column":{"default":1,"description":"First byte to read of a line that is too long for one call","minimum":1,"type":"integer"},"limit":{"default":2000,"description":"Number of lines to read","minimum":1,"type":"integer"},"offset":{"default":1,"description":"First line to read","minimum":1,"type":"integer"},"path":{"description":"Path of the file","type":"string"}},"required":["path"],"type":"object"}
        local/find_files (Search, Low): Find files and folders by name. Sorted, folders end in /; what git ignores is left out. At most 500 are shown
          {"additionalProperties":false,"properties":{"path":{"default":".","description":"Folder to look through","type":"string"},"pattern":{"description":"Glob of a name (*.rs), or of a path below `path` (src/**/*.rs)","type":"string"}},"required":["pattern"],"type":"object"}
        local/search_files (Search, Low): Find lines in files. Shown as path:number: line, with - instead of : around context. Binary files and what git ignores are left out. At most 200 matches are shown
          {"additionalProperties":false,"properties":{"context":{"default":0,"description":"Lines to show before and after each match","maximum":20,"minimum":0,"type":"integer"},"glob":{"description":"Search only files that match this glob: *.rs, or src/**/*.rs","type":"string"},"ignore_case":{"description":"Whether upper and lower case are the same","type":"boolean"},"output":{"default":"lines","description":"What to show","enum":["lines","files","counts"],"type":"string"},"path":{"default":".","description":"Folder or file to search","type":"string"},"pattern":{"description":"Text or regular expression to find","type":"string"}},"required":["pattern"],"type":"object"}
        local/write_file (Edit, Medium): Write the file. The whole of it; its folders are made. Refused when the file changed since you read it
          {"additionalProperties":false,"properties":{"content":{"description":"The whole new text","type":"string"},"path":{"description":"Path of the file","type":"string"}},"required":["path","content"],"type":"object"}
        local/edit_file (Edit, Medium): Replace a text in the file. Give old and new, or several in edits: all are made, or none. Line endings are kept. A file of up to 1 MiB; refused when it changed since you read it
          {"additionalProperties":false,"properties":{"edits":{"description":"Several edits instead of one, made in order","items":{"additionalProperties":false,"description":"One edit of a text.","properties":{"new":{"description":"Text to put there","type":"string"},"old":{"description":"Text to replace; it must be in the file once","type":"string"},"replace_all":{"description":"Replace it wherever it is","type":"boolean"}},"required":["old","new"],"type":"object"},"type":"array"},"new":{"description":"Text to put there","type":"string"},"old":{"description":"Text to replace; it must be in the file once","type":"string"},"path":{"description":"Path of the file","type":"string"},"replace_all":{"description":"Replace it wherever it is","type":"boolean"}},"required":["path"],"type":"object"}
        local/shell_exec (Execute, High): Run a command in the shell
          {"additionalProperties":false,"properties":{"command":{"description":"Command to run","type":"string"}},"required":["command"],"type":"object"}
    "#]].assert_eq(&described);
}
