//! A project's file over the user's own, over what is built in.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use tempfile::TempDir;

use super::{Config, ConfigError, Environment, Files, Overrides, PrivilegeKind, load_all};

const MODEL: &str = "[runtime]\ndefault_model = 'openai:gpt-4.1'\n";

/// A home, and a project below it.
struct Place(TempDir);

impl Place {
    fn new(project: Option<&str>, user: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("project/src")).unwrap();
        fs::create_dir_all(root.path().join("home/.config/cli-agent")).unwrap();
        let write =
            |name: &str, text: Option<&str>| text.iter().for_each(|t| fs::write(root.path().join(name), t).unwrap());
        write("project/agent.toml", project);
        write("home/.config/cli-agent/agent.toml", user);
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn environment(&self, further: &[(&'static str, &str)]) -> Environment {
        let home = self.path("home").display().to_string();
        let further = further.iter().map(|(name, value)| (*name, (*value).to_owned()));
        further.chain([("HOME", home)]).collect()
    }

    /// As it is found in the folder `src` of the project.
    fn load_with(&self, further: &[(&'static str, &str)]) -> Result<Config, ConfigError> {
        let environment = self.environment(further);
        load_all(&Files::find(&self.path("project/src"), &environment), &environment, &Overrides::default())
    }

    fn load(&self) -> Config {
        self.load_with(&[]).unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn tables_are_merged_by_key_and_lists_replaced() {
    let user = format!(
        "{MODEL}max_steps = 7\nmax_tool_calls = 7\n[llm]\nfallback = ['a:b', 'c:d']\n[providers.x]\nbase_url = 'http://u/'\n\
         timeout_ms = 5\n[[mcp.servers]]\nid = 'u'\ncommand = 'u'\n"
    );
    let project = "[runtime]\nmax_steps = 9\n[llm]\nfallback = ['e:f']\n[providers.x]\ntimeout_ms = 6\n";
    let config = Place::new(Some(project), Some(&user)).load();
    assert_eq!(config.runtime.default_model, "openai:gpt-4.1");
    assert_eq!((config.runtime.limits.max_steps, config.runtime.limits.max_tool_calls), (9, 7));
    assert_eq!(config.llm.fallback, ["e:f"]);
    let x = &config.providers["x"];
    assert_eq!((x.base_url.as_deref(), x.timeout_ms), (Some("http://u/"), Some(6)));
    assert_eq!(config.mcp.servers.len(), 1, "the project says nothing of servers");
}

#[test]
fn a_key_is_for_the_address_it_was_given_for() {
    let user = format!(
        "{MODEL}[providers.x]\nbase_url = 'http://u/'\napi_key = 'sk-user'\n[providers.openai]\napi_key = 'sk-openai'\n"
    );
    let key = |project: &str, name: &str| {
        let config = Place::new(Some(project), Some(&user)).load();
        config.providers[name].api_key.as_ref().map(|key| key.expose().to_owned())
    };
    let of_user = Some("sk-user".to_owned());
    for (project, expected) in [
        ("[providers.x]\ntimeout_ms = 6\n", of_user.clone()),
        ("[providers.x]\nbase_url = 'http://u'\n", of_user),
        ("[providers.x]\nbase_url = 'http://elsewhere/'\n", None),
        ("[providers.x]\nbase_url = 'http://u/'\nstart.command = 'x'\n", None),
        ("providers.x.base_url = 'http://u.elsewhere/'\n", None),
        ("providers = { x = { base_url = 'http://elsewhere/' } }\n", None),
        ("[providers.x]\nbase_url = 'http://elsewhere/'\napi_key = 'sk-own'\n", Some("sk-own".to_owned())),
    ] {
        assert_eq!(key(project, "x"), expected, "{project}");
    }
    let built_in = "[providers.openai]\nbase_url = 'https://api.openai.com/v1'\n";
    assert_eq!(key(built_in, "openai").as_deref(), Some("sk-openai"));
    assert_eq!(key("[providers.openai]\nbase_url = 'http://elsewhere/'\n", "openai"), None);
}

#[test]
fn the_headers_of_telemetry_are_for_the_receiver_they_were_given_for() {
    let user = format!("{MODEL}[telemetry]\notlp_endpoint = 'http://u/'\nheaders = {{ k = 'canary' }}\n");
    let headers = |project: &str| Place::new(Some(project), Some(&user)).load().telemetry.headers.len();
    for (project, expected) in [
        ("[telemetry]\ncapture_content = true\n", 1),
        ("[telemetry]\notlp_endpoint = 'http://u'\n", 1),
        ("[telemetry]\notlp_endpoint = 'http://elsewhere/'\n", 0),
        ("telemetry.otlp_endpoint = 'http://u.elsewhere/'\n", 0),
        ("telemetry = { otlp_endpoint = 'http://elsewhere/', headers = { a = 'own', b = 'own' } }\n", 2),
    ] {
        assert_eq!(headers(project), expected, "{project}");
    }
}

#[test]
fn each_error_names_the_file_it_is_in() {
    let place =
        Place::new(Some("[runtime]\nmax_steps = 0\n"), Some("[llm]\n# mine\nretry_max = 'x'\n[log]\nlevel = 1"));
    let error = place.load_with(&[]).expect_err("both are wrong").render(false);
    let error = error.replace(&place.path("").display().to_string(), "");
    expect![[r#"
        error: `llm.retry_max`: expected an integer, found a string
         --> home/.config/cli-agent/agent.toml:3:13
          |
        3 | retry_max = 'x'
          |             ^^^
          |
          = help: write a plain number without quotes and without a unit; times are in milliseconds

        error: `log.level`: expected a string, found an integer
         --> home/.config/cli-agent/agent.toml:5:9
          |
        5 | level = 1
          |         ^

        error: `runtime.max_steps` must be between 1 and 1000000
         --> project/agent.toml:2:13
          |
        2 | max_steps = 0
          |             ^

        project/agent.toml: 3 problems
    "#]]
    .assert_eq(&error);
}

#[test]
fn a_file_with_broken_lines_beside_a_good_one_is_told_with_its_place() {
    let place = Place::new(Some(&format!("{MODEL}max_steps = = 3\n")), Some("[llm]\nretry_max = 1\n"));
    let error = place.load_with(&[]).expect_err("a line is broken").render(false);
    assert!(error.contains("project/agent.toml:3:"), "{error}");
    let place = Place::new(Some(MODEL), Some("[llm\nretry_max = 1\n"));
    let error = place.load_with(&[]).expect_err("a line is broken").render(false);
    assert!(error.contains("cli-agent/agent.toml:1:"), "{error}");
}

#[test]
fn relative_paths_belong_to_the_file_in_which_they_stand() {
    let user = format!(
        "{MODEL}[providers.demo]\nkind = 'scripted'\nscript = 's.json'\n[providers.local]\nbase_url = 'http://127.0.0.1:1/'\n\
         start = {{ command = 'sh', args = ['x.sh'] }}\n[[mcp.servers]]\nid = 'u'\ncommand = 'u'\n[store]\npath = 'db'\n"
    );
    let place = Place::new(Some("[providers.two]\nkind = 'scripted'\nscript = 's.json'\n"), Some(&user));
    let (config, own) = (place.load(), place.path("home/.config/cli-agent"));
    assert_eq!(config.folder, place.path("project"));
    assert_eq!(config.providers["demo"].script.as_deref(), own.join("s.json").to_str());
    assert_eq!(config.providers["two"].script.as_deref(), Some("s.json"));
    assert_eq!(config.store_path(), Some(own.join("db")));
    assert_eq!((config.folder_of_provider("local"), config.folder_of_servers()), (own.as_path(), own.as_path()));
    assert_eq!(config.folder_of_provider("demo"), config.folder);
    let place = Place::new(Some(&user), Some("[log]\nlevel = 'info'\n"));
    let config = place.load();
    assert_eq!(config.store_path(), Some(place.path("project/db")));
    assert_eq!(config.folder_of_provider("local"), place.path("project"));
}

#[test]
fn sessions_are_kept_beside_the_projects_file_or_in_the_users_folder() {
    let of = |project, user| {
        let place = Place::new(project, user);
        let sessions = place.load().store_path().unwrap();
        sessions.strip_prefix(place.path("")).map(Path::to_owned).unwrap_or(sessions)
    };
    let name = if cfg!(feature = "sqlite") { "sessions.db" } else { "sessions" };
    assert_eq!(of(Some(MODEL), Some(MODEL)), Path::new("project/.bob").join(name));
    assert_eq!(of(None, Some(MODEL)), Path::new("home/.local/state/bob").join(name));
    assert_eq!(of(None, None), Path::new("home/.local/state/bob").join(name));
}

#[test]
fn without_any_file_the_key_or_this_machine_chooses_the_model() {
    let place = Place::new(None, None);
    let model = |further| place.load_with(further).unwrap_or_else(|error| panic!("{error}")).runtime.default_model;
    assert_eq!(model(&[("GEMINI_API_KEY", "k")]), "gemini:gemini-2.5-pro");
    assert_eq!(model(&[("GEMINI_API_KEY", "k"), ("BOB__RUNTIME__DEFAULT_MODEL", "a:b")]), "a:b");
    assert_eq!(model(&[]), "local:smollm2-135m");
    let local = place.load();
    assert_eq!(local.policy.rules.allow_tools.len(), 3, "a tiny model copes with a few tools");
    assert_eq!(local.privileges(), [], "what is built in needs no trust");
    // A file that says something else is completed, too, and one with a model of its own keeps its policy.
    assert_eq!(Place::new(Some("[log]\nlevel = 'info'\n"), None).load().runtime.default_model, "local:smollm2-135m");
    let chosen = Place::new(Some("[runtime]\ndefault_model = 'local:other'\n"), None).load();
    assert_eq!((chosen.policy.rules.allow_tools.len(), chosen.providers.len()), (1, 1));
}

#[test]
fn a_named_file_is_the_only_one_and_says_its_model() {
    let place = Place::new(Some("[log]\nlevel = 'info'\n"), Some(MODEL));
    let environment = place.environment(&[("OPENAI_API_KEY", "k")]);
    let named = Files::only(place.path("project/agent.toml"), &environment);
    let error = load_all(&named, &environment, &Overrides::default()).expect_err("it has no model").to_string();
    assert!(error.contains("`runtime.default_model` is missing"), "{error}");
}

#[test]
fn a_project_is_asked_about_for_what_it_adds_to_the_users_own_file() {
    let user = format!("{MODEL}[[mcp.servers]]\nid = 'u'\ncommand = 'u'\n[policy]\ndeny_tools = ['local/*']\n");
    assert_eq!(Place::new(Some("[log]\nlevel = 'info'\n"), Some(&user)).load().privileges(), []);
    let of = |project: &str| {
        let privileges = Place::new(Some(project), Some(&user)).load().privileges();
        privileges.into_iter().map(|privilege| (privilege.kind, privilege.what)).collect::<Vec<_>>()
    };
    let own = of("[[mcp.servers]]\nid = 'p'\ncommand = 'p'\n");
    assert_eq!(own, [(PrivilegeKind::Starts, "the tool server p".to_owned())]);
    // The user denies everything local: the project may not relax that unseen.
    let loosens = of("[policy]\ndeny_tools = ['local/shell_exec']\n");
    assert!(
        matches!(&loosens[..], [(PrivilegeKind::Loosens, what)] if what.contains("`policy.deny_tools` replaces")),
        "{loosens:?}"
    );
}

#[test]
fn a_project_does_not_leave_the_strict_profile_of_the_user_unseen() {
    let user = format!("{MODEL}profile = 'strict'\n");
    let of = |project: &str| {
        let privileges = Place::new(Some(project), Some(&user)).load().privileges();
        privileges.into_iter().map(|privilege| privilege.what).collect::<Vec<_>>()
    };
    assert_eq!(of("[log]\nlevel = 'info'\n"), [""; 0]);
    let shell = "the model may call local/shell_exec, which is denied by default (deny_tools)";
    assert_eq!(of("[policy]\ndeny_tools = []\n"), [shell]);
    let terminal = of("[runtime]\nprofile = 'terminal'\n");
    assert!(terminal.iter().any(|what| what == shell), "{terminal:?}");
    assert!(terminal.iter().any(|what| what.contains("deny_commands does not have rm")), "{terminal:?}");
    // A layer above the project chooses for it.
    let place = Place::new(Some("[policy]\ndeny_tools = []\n"), Some(MODEL));
    assert_eq!(place.load().privileges(), []);
    let strict = place.load_with(&[("BOB__RUNTIME__PROFILE", "strict")]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(strict.privileges().len(), 1);
}

#[test]
fn a_projects_file_adds_hooks_and_replaces_those_of_the_user_only_with_a_yes() {
    let hook = |name: &str, command: &str| format!("[hooks.{name}]\non = 'before_call'\ncommand = '{command}'\n");
    let user = format!("{MODEL}{}", hook("mine", "./mine.sh"));
    let place = Place::new(Some(&hook("theirs", "./theirs.sh")), Some(&user));
    let config = place.load();
    let names: Vec<_> = config.hooks.keys().collect();
    assert_eq!(names, ["mine", "theirs"]);
    assert_eq!(config.folder_of_hook("mine"), config.source.user.folder);
    assert_eq!(config.folder_of_hook("theirs"), config.folder);
    let of = |project: &str| {
        let privileges = Place::new(Some(project), Some(&user)).load().privileges();
        privileges.into_iter().map(|privilege| (privilege.kind, privilege.what)).collect::<Vec<_>>()
    };
    let started = |name: &str| (PrivilegeKind::Starts, format!("the hook {name}, before calls of tools"));
    assert_eq!(of(&hook("theirs", "./theirs.sh")), [started("theirs")]);
    let replaced = of(&hook("mine", "true"));
    assert_eq!(replaced[0], started("mine"));
    assert!(replaced.len() == 2 && replaced[1].1.contains("`hooks.mine` replaces that of your own"), "{replaced:?}");
    // Also one that only says less about it.
    let narrowed = of("[hooks.mine]\ncalls = ['local/none']\n");
    assert!(narrowed.iter().any(|(_, what)| what.contains("`hooks.mine` replaces")), "{narrowed:?}");
}
