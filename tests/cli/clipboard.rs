//! An image on the clipboard goes with a message of the chat.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{CTRL_D, Terminal};

const CTRL_V: &[u8] = b"\x16";

#[test]
fn an_image_on_the_clipboard_goes_with_the_message_and_its_file_with_the_chat() {
    let provider = FakeProvider::start([Reply::text("a pixel")]);
    let home = Home::served_by(&provider);
    let config = home.scratch.read("agent.toml").replace("native_tools = true,", "native_tools = true, images = true,");
    home.scratch.agent_toml(&config);
    home.scratch.write("bin/xclip", "#!/bin/sh\n[ -e no-image ] || printf '\\211PNG\\r\\n\\032\\n12345678'\n");
    let script = home.scratch.path().join("bin/xclip");
    fs::set_permissions(script, fs::Permissions::from_mode(0o700)).unwrap();
    home.scratch.write("no-image", "");
    home.scratch.write("pasted/none", "");
    let here = |name: &str| home.scratch.path().join(name).display().to_string();
    let path = format!("{}:/usr/bin:/bin", here("bin"));
    let pasted = here("pasted");
    let env = [("PATH", path.as_str()), ("DISPLAY", ":9"), ("WAYLAND_DISPLAY", ""), ("TMPDIR", pasted.as_str())];
    let mut terminal = Terminal::start(AGENT, &["--config", "agent.toml", "chat"], home.scratch.path(), &env)
        .deadline(Duration::from_secs(60));
    let images = || fs::read_dir(&pasted).unwrap().flatten().filter(|file| file.path().extension().is_some()).count();

    terminal.wait_for("you>");
    terminal.press(b"what is");
    terminal.wait_for("you> what is");
    terminal.press(CTRL_V);
    // Until the line is drawn again the terminal has the settings of its shell, and takes this key itself.
    terminal.wait_until("the note, and the line below it", |screen| {
        let text = screen.contents();
        text.contains("[not pasted: there is no image on the clipboard]") && text.trim_end().ends_with("you> what is")
    });
    fs::remove_file(here("no-image")).unwrap();
    terminal.press(CTRL_V);
    terminal.wait_for("you> what is /");
    assert_eq!(images(), 1);
    terminal.press(b"this?\r");
    terminal.wait_for("a pixel");
    let body = provider.requests().remove(0).body.to_string();
    assert!(body.contains("iVBORw0KGgoxMjM0NTY3OA==") && body.contains("image/png"), "{body}");
    // The reply is on the screen before its turn has ended, and a turn that runs ignores this key.
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with("you>"));
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
    assert_eq!(images(), 0, "the file is removed with the chat");
}
