//! What the user's own configuration does is no permission for a found one that repeats it with other values.

use crate::trust::found::Found;

/// A folder with a configuration, and one of the user's own.
fn found(own: &str, config: &str) -> Found {
    let found = Found::with(config);
    found.scratch.write("home/.config/cli-agent/agent.toml", own);
    found
}

/// Fails unless the folder is asked about, in these words, and no value is shown.
#[track_caller]
fn assert_asked(found: &Found, says: &[&str]) {
    let (run, shown) = (found.run(["run", "hi"]), found.run(["trust"]));
    assert_eq!((run.code, shown.code), (Some(2), Some(2)), "{run:?} {shown:?}");
    for part in says {
        assert!(run.stderr.contains(part) || shown.stderr.contains(part), "{part}: {run:?} {shown:?}");
    }
    assert!(!format!("{run:?}{shown:?}").contains("canary"), "{run:?} {shown:?}");
}

const SERVED: &str = "[runtime]\ndefault_model = \"m:x\"\n[providers.m]\nkind = \"openai\"\n\
                      base_url = \"http://127.0.0.1:9/v1/\"\napi_key = \"none\"\n[providers.m.start]\ncommand = \"sh\"\n\
                      args = [\"-c\", \"touch $MARK\"]\n";

#[test]
fn a_variable_of_an_own_model_server_with_another_value_is_asked_about() {
    // Without a key: what is started in its place has none.
    let own = SERVED.replace("api_key = \"none\"\n", "");
    let own = format!("{own}env = {{ MARK = \"canary-mine\", KEPT = \"${{HOME}}\" }}\n");
    let other = "[providers.m.start]\nenv = { MARK = \"canary-theirs\", KEPT = \"${HOME}\" }\n";
    let found = found(&own, other);
    assert_asked(&found, &["the model server of m (another value of MARK)", "changed:     the value of MARK"]);
    found.configure("[providers.m.start]\nenv = { MARK = \"canary-mine\", KEPT = \"${HOME}\" }\n");
    let run = found.run(["trust"]);
    assert!(run.code == Some(0) && run.stderr.contains("nothing to trust"), "it repeats what is there: {run:?}");
}

#[test]
fn an_inherited_variable_that_a_found_configuration_sets_is_asked_about() {
    let own = format!("{SERVED}inherit_env = [\"MARK\"]\n");
    let found = found(&own, "[providers.m.start]\ninherit_env = []\nenv = { MARK = \"canary-theirs\" }\n");
    assert_asked(&found, &["the model server of m", "environment: MARK"]);
    found.configure("[providers.m.start]\ninherit_env = [\"MARK\", \"OPENAI_API_KEY\"]\n");
    assert_asked(&found, &["inherited:   MARK, OPENAI_API_KEY"]);
}

#[test]
fn headers_and_tools_of_an_own_server_that_differ_are_asked_about() {
    let model = "[runtime]\ndefault_model = \"openai:gpt-4o-mini\"\n";
    let server = |rest: &str| {
        format!("[[mcp.servers]]\nid = \"w\"\ntransport = \"http\"\nurl = \"http://127.0.0.1:9/mcp\"\n{rest}")
    };
    let own = "headers = { X-Org = \"canary-mine\" }\ntools = [\"read\"]\n";
    let found = found(&format!("{model}{}", server(own)), "");
    for (rest, says) in [
        ("headers = { X-Org = \"canary-mine\" }\n", "the tool server w"),
        ("headers = { X-Org = \"canary-mine\" }\ntools = [\"read\", \"wipe\"]\n", "only tools:  read, wipe"),
        ("headers = { X-Org = \"canary-theirs\" }\ntools = [\"read\"]\n", "the tool server w (another value of X-Org)"),
        (
            "headers = { X-Org = \"canary-mine\", Cookie = \"canary\" }\ntools = [\"read\"]\n",
            "headers:     Cookie, X-Org",
        ),
        (
            "headers = { X-Org = \"canary-mine\" }\ntools = [\"read\"]\nauth = \"oauth\"\nclient_id = \"c\"\nclient_secret = \"canary\"\n",
            "the tool server w",
        ),
    ] {
        found.configure(&server(rest));
        assert_asked(&found, &[says]);
    }
    found.configure(&server(own));
    let run = found.run(["trust"]);
    assert!(run.code == Some(0) && run.stderr.contains("nothing to trust"), "it repeats what is there: {run:?}");
}

#[test]
fn a_key_of_an_own_provider_that_differs_is_asked_about() {
    let found = found(SERVED, "[providers.m]\napi_key = \"canary-theirs\"\n");
    assert_asked(&found, &["the provider m (another value of api_key)"]);
}

#[test]
fn a_hook_and_the_telemetry_with_other_values_are_asked_about() {
    let model = "[runtime]\ndefault_model = \"openai:gpt-4o-mini\"\n";
    let hook = |value: &str| format!("[hooks.h]\non = \"turn_end\"\ncommand = \"true\"\nenv = {{ A = \"{value}\" }}\n");
    let telemetry = |value: &str| {
        format!("[telemetry]\notlp_endpoint = \"http://127.0.0.1:9\"\nheaders = {{ X-Key = \"{value}\" }}\n")
    };
    let found = found(&format!("{model}{}{}", hook("canary-mine"), telemetry("canary-mine")), "");
    found.configure(&hook("canary-theirs"));
    assert_asked(&found, &["the hook h, at the end of turns (another value of A)"]);
    found.configure(&telemetry("canary-theirs"));
    assert_asked(&found, &["(another value of X-Key)"]);
}
