//! What a model is told of the tools.

use super::{BackgroundCommands, Protection, tools};
use crate::child::Watcher;
use crate::tools::Policy;
use futures_util::FutureExt;

/// Every byte of it is part of every prompt.
#[test]
fn the_tools_and_their_arguments_are_described() {
    let policy = Policy { deny_tools: Vec::new(), deny_commands: vec!["rm".to_owned()], ..Policy::default() };
    let mut described = String::new();
    for tool in tools(&Watcher::new(), &Protection::default(), &policy, &BackgroundCommands::default()) {
        let tool = tool.list_tools().now_or_never().expect("it has it at hand").remove(0);
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
          {"additionalProperties":false,"properties":{"context":{"default":0,"description":"Lines to show before and after each match","maximum":20,"minimum":0,"type":"integer"},"glob":{"description":"Search only files that match this glob: *.rs, or src/**/*.rs","type":"string"},"ignore_case":{"description":"Whether upper and lower case are the same","type":"boolean"},"output":{"default":"lines","description":"What to show","enum":["lines","files","counts"],"type":"string"},"path":{"default":".","description":"Folder or file to search","type":"string"},"pattern":{"description":"Text or regular expression to find","type":"string"},"type":{"description":"Search only files of this type: rust, py, js, md, json and more","type":"string"}},"required":["pattern"],"type":"object"}
        local/write_file (Edit, Medium): Write the file. The whole of it, in the encoding it has; its folders are made. Refused when the file changed since you read it
          {"additionalProperties":false,"properties":{"content":{"description":"The whole new text","type":"string"},"path":{"description":"Path of the file","type":"string"}},"required":["path","content"],"type":"object"}
        local/edit_file (Edit, Medium): Replace a text in the file. Give old and new, or several in edits: all are made, or none. Line endings and the encoding are kept. A file of up to 1 MiB; refused when it changed since you read it
          {"additionalProperties":false,"properties":{"edits":{"description":"Several edits instead of one, made in order","items":{"additionalProperties":false,"description":"One edit of a text.","properties":{"new":{"description":"Text to put there","type":"string"},"old":{"description":"Text to replace; it must be in the file once","type":"string"},"replace_all":{"description":"Replace it wherever it is","type":"boolean"}},"required":["old","new"],"type":"object"},"type":"array"},"new":{"description":"Text to put there","type":"string"},"old":{"description":"Text to replace; it must be in the file once","type":"string"},"path":{"description":"Path of the file","type":"string"},"replace_all":{"description":"Replace it wherever it is","type":"boolean"}},"required":["path"],"type":"object"}
        local/todo (Think, Low): Show the user your plan. For work of several steps: give all of them each time, with what is done
          {"additionalProperties":false,"properties":{"items":{"description":"All steps in order","items":{"additionalProperties":false,"properties":{"state":{"default":"pending","enum":["pending","active","done"],"type":"string"},"text":{"description":"The step in a few words","maxLength":200,"minLength":1,"type":"string"}},"required":["text"],"type":"object"},"maxItems":50,"type":"array"}},"required":["items"],"type":"object"}
        local/shell_exec (Execute, High): Run a command in the shell. /bin/sh on linux, in the session's folder or in cwd inside it, without input. Ended after 120 s or timeout_ms, at most 600000; its output until then is kept. An exit code other than 0 is a result. Set background for a server, or for what takes longer; shell_output and shell_stop follow it. Refused programs: rm
          {"additionalProperties":false,"properties":{"background":{"description":"Start it, and do not wait for its end","type":"boolean"},"command":{"description":"Command to run","type":"string"},"cwd":{"default":".","description":"Folder to run it in","type":"string"},"timeout_ms":{"description":"Time limit in milliseconds","maximum":600000,"minimum":1,"type":"integer"}},"required":["command"],"type":"object"}
        local/shell_output (Read, Low): Show the output of a background command. What is new since the last time, and whether it still runs
          {"additionalProperties":false,"properties":{"all":{"description":"Show all output that is kept, not only what is new","type":"boolean"},"id":{"description":"Number of the command","minimum":0,"type":"integer"},"wait_ms":{"default":0,"description":"Wait for its end up to so many milliseconds","maximum":60000,"minimum":0,"type":"integer"}},"required":["id"],"type":"object"}
        local/shell_stop (Execute, Low): Stop a background command
          {"additionalProperties":false,"properties":{"id":{"description":"Number of the command","minimum":0,"type":"integer"}},"required":["id"],"type":"object"}
    "#]].assert_eq(&described);
}
