//! What a configuration becomes, where that is not plain copying.

use super::*;
use crate::{Environment, Overrides, parse};
use bob::config::Watcher;
use bob::model::LlmErrorKind;
use bob::model::server::ModelServers;
use std::fs;

/// A configuration in a folder of its own.
fn configured(folder: &Path, text: &str) -> Config {
    let text = format!("[runtime]\ndefault_model = \"openai:m\"\n{text}");
    let parsed = parse(&text, &folder.join("agent.toml"), &Environment::from([]), &Overrides::default());
    parsed.unwrap_or_else(|error| panic!("{error}"))
}

fn nothing(_name: &str) -> Option<String> {
    None
}

fn in_folder(text: &str, check: impl FnOnce(&Path, Config)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let config = configured(&path, text);
    check(&path, config);
}

fn refused(result: Result<Assembly, AgentError>) -> AgentError {
    result.err().expect("a refusal")
}

#[test]
fn the_workspace_is_absolute_and_must_be_there() {
    in_folder("[policy]\nworkspace = \"sub\"", |folder, config| {
        let error = refused(assemble(&config, &nothing, Choices::default()));
        assert!(matches!(&error, AgentError::Invalid(text) if text.contains("policy.workspace")), "{error}");
        fs::create_dir(folder.join("sub")).unwrap();
        let assembly = assemble(&config, &nothing, Choices::default()).unwrap();
        assert_eq!(assembly.workspace, folder.join("sub"));
    });
}

#[test]
fn a_missing_key_is_named_when_its_model_is_wanted() {
    in_folder("", |_folder, config| {
        let model = model(&config, &nothing, ModelServers::default()).unwrap();
        let error = model.capabilities(&ModelName::parse("openai:m").unwrap()).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::MissingKey);
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
        let error = model.capabilities(&ModelName::parse("nobody:m").unwrap()).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::UnknownProvider);
    });
}

#[test]
fn providers_keep_their_patience() {
    let text = "[llm]\ntimeout_ms = 1234\n[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\ntimeout_ms = 99\n";
    in_folder(text, |_folder, config| {
        let model = model(&config, &nothing, ModelServers::default()).unwrap();
        assert_eq!(model.limits("openai").timeout_ms, 1234);
        assert_eq!(model.limits("mine").timeout_ms, 99);
    });
}

#[test]
fn a_script_that_is_missing_or_broken_is_named() {
    let text = "[providers.demo]\nkind = \"scripted\"\nscript = \"demo.json\"\n";
    in_folder(text, |folder, config| {
        let missing = model(&config, &nothing, ModelServers::default()).err().expect("a refusal");
        assert!(missing.to_string().contains("demo.json"), "{missing}");
        fs::write(folder.join("demo.json"), "[{]").unwrap();
        let broken = model(&config, &nothing, ModelServers::default()).err().expect("a refusal");
        assert!(broken.to_string().contains("demo.json"), "{broken}");
        fs::write(folder.join("demo.json"), r#"[{"replies":[{"text":"hi"}]}]"#).unwrap();
        let model = model(&config, &nothing, ModelServers::default()).unwrap();
        assert!(model.capabilities(&ModelName::parse("demo:any").unwrap()).is_ok());
    });
}

#[test]
fn a_scripted_model_can_do_what_is_written() {
    let text = "[providers.demo]\nkind = \"scripted\"\nscript = \"demo.json\"\ntimeout_ms = 99\nmax_concurrent = 2\n\
                capabilities = { native_tools = false, context_tokens = 512, images = true }\n";
    in_folder(text, |folder, config| {
        fs::write(folder.join("demo.json"), r#"[{"replies":[{"text":"hi"}]}]"#).unwrap();
        let model = model(&config, &nothing, ModelServers::default()).unwrap();
        let able = model.capabilities(&ModelName::parse("demo:any").unwrap()).unwrap();
        assert_eq!((able.native_tools, able.context_tokens, able.images), (false, 512, true));
        assert!(able.json_schema && !able.audio, "what is not written stays");
        assert_eq!((model.limits("demo").timeout_ms, model.limits("demo").max_concurrent), (99, 2));
    });
}

#[test]
fn the_texts_and_files_of_a_prompt_are_what_was_written() {
    let text = "[prompt]\ninstructions = \"Be kind.\"\nfiles = [\"SOUL.md\"]\nbootstrap = \"Here.\"\nmemory = \"\"\n";
    in_folder(text, |folder, config| {
        let files = prompt_files(&config, Path::new("/workspace"));
        assert_eq!((files.texts.instructions.as_str(), files.texts.bootstrap.as_str()), ("Be kind.", "Here."));
        assert_eq!((files.named, files.memory.as_str()), (vec!["SOUL.md".to_owned()], ""));
        assert_eq!((files.tool_notes.as_str(), files.folder.as_path()), ("TOOLS.md", folder));
        assert_eq!(files.workspace, Path::new("/workspace"));
    });
}

#[test]
fn only_a_server_on_this_machine_is_started() {
    let provider = |url: &str| {
        format!("[providers.mine]\nkind = \"openai\"\nbase_url = \"{url}\"\nstart = {{ command = \"sh\" }}\n")
    };
    in_folder(&provider("http://127.0.0.1:1/v1/"), |_folder, config| {
        assert_eq!(servers::servers(&config, None, &Watcher::new()).unwrap().len(), 1);
    });
    in_folder(&provider("https://models.example.com/v1/"), |_folder, config| {
        let error = servers::servers(&config, None, &Watcher::new()).unwrap_err();
        assert!(error.to_string().contains("mine"), "{error}");
    });
}

#[cfg(feature = "mcp")]
#[test]
fn tool_servers_are_what_was_written() {
    use bob::tools::servers::{ServerStart, ServerTransport};
    let text = "[[mcp.servers]]\nid = \"near\"\ncommand = \"./serve\"\nargs = [\"-x\"]\nenv = { A = \"b\" }\nstart = \"lazy\"\n\
                tools = [\"one\"]\n[[mcp.servers]]\nid = \"far\"\ntransport = \"http\"\nurl = \"http://127.0.0.1:1/mcp\"\n\
                headers = { Authorization = \"Bearer x\" }\nrequired = true\ntool_timeout_ms = 7\n";
    in_folder(text, |folder, config| {
        let servers = tool_servers(&config).unwrap();
        let ServerTransport::Stdio(command) = &servers[0].transport else { panic!("{:?}", servers[0]) };
        assert_eq!(command.program(), folder.join("./serve"));
        assert_eq!((&command.folder, command.env.len()), (&Some(folder.to_path_buf()), 1));
        assert_eq!((servers[0].start, servers[0].required), (ServerStart::Lazy, false));
        assert_eq!(servers[0].tools.as_deref(), Some(&["one".to_owned()][..]));
        assert_eq!(*servers[0].roots, [folder.to_string_lossy().into_owned()]);
        let ServerTransport::Http(http) = &servers[1].transport else { panic!("{:?}", servers[1]) };
        assert_eq!((http.url.as_str(), http.headers[0].name.as_str()), ("http://127.0.0.1:1/mcp", "Authorization"));
        assert_eq!((servers[1].required, servers[1].tool_timeout_ms), (true, Some(7)));
        // The same configuration gives the same servers: a reload leaves them alone.
        assert_eq!(servers, tool_servers(&config).unwrap());
    });
}

#[cfg(feature = "mcp")]
#[test]
fn a_server_over_http_is_signed_in_to_as_was_written() {
    use bob::tools::servers::{Hidden, ServerTransport, SignIn, SignInGrant};
    let text = "[[mcp.servers]]\nid = \"far\"\ntransport = \"http\"\nurl = \"https://h.test/mcp\"\n\
                auth = \"client_credentials\"\nclient_id = \"me\"\nclient_secret = \"canary-1\"\nscopes = [\"read\"]\n\
                [[mcp.servers]]\nid = \"near\"\ntransport = \"http\"\nurl = \"https://h.test/mcp\"\nauth = \"oauth\"\n";
    in_folder(text, |_folder, config| {
        let specs = tool_servers(&config).unwrap();
        let sign_in = |at: usize| match &specs[at].transport {
            ServerTransport::Http(http) => http.sign_in.as_deref().cloned(),
            ServerTransport::Stdio(_) => None,
        };
        let expected = SignIn {
            grant: SignInGrant::ClientCredentials,
            client_id: Some("me".to_owned()),
            client_secret: Hidden::new("canary-1"),
            scopes: vec!["read".to_owned()],
            ..SignIn::default()
        };
        assert_eq!((sign_in(0), sign_in(1)), (Some(expected), Some(SignIn::default())));
        assert!(!format!("{specs:?}").contains("canary"));
        assert_eq!(specs[0].confided().collect::<Vec<_>>(), ["canary-1"]);
    });
}

#[cfg(feature = "mcp")]
#[test]
fn a_server_over_http_gets_its_url_and_its_headers_which_stay_hidden() {
    use bob::tools::servers::{ServerId, ServerSpec};
    let text = "[[mcp.servers]]\nid = \"far\"\ntransport = \"http\"\nurl = \"https://h.test/mcp?k=canary\"\n\
                headers = { Authorization = \"Bearer canary\" }";
    in_folder(text, |_folder, config| {
        let specs = tool_servers(&config).unwrap();
        let expected = ServerSpec::http(ServerId::new("far"), "https://h.test/mcp?k=canary");
        assert_eq!(specs[0].transport, expected.with("Authorization", "Bearer canary").transport);
        let shown = format!("{specs:?}");
        assert!(shown.contains("https://h.test/mcp") && shown.contains("Authorization"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    });
}
