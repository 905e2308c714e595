//! What a configuration does beyond choosing a built-in model, which a user must review before trusting it.
//!
//! Every key is classified here: the structs are destructured completely, so a new key does not compile until it is
//! classified. Keys for durations, counts or appearance have no privilege. The behaviour of a started program or of a
//! script is not analysed.
//!
//! - `privilege`: one of them; `starts`: programs; `sends`: addresses and variables of the environment; `loosens`: the policy, and paths
//!   outside

mod loosens;
mod privilege;
mod sends;
mod starts;

use std::collections::BTreeMap;
use std::path::Path;

use bob::approvals::PermissionMode;
use bob::tools::{Policy as ToolPolicy, ToolOverride};
pub use privilege::{Privilege, PrivilegeKind};

use super::{
    Config, Hook, Llm, Log, Mcp, McpPool, McpServer, ModelsCatalog, Policy, Prompt, Provider, ProviderKind, Runtime,
    SkillSource, Skills, SourceKind, Store, StoreKind, Telemetry, Transport, profile,
};

/// The tool that runs commands.
const SHELL: &str = "local/shell_exec";

impl Config {
    /// Everything it does beyond choosing a model that is built in, by kind; empty for one that does nothing like that.
    /// Looks at the disk, to see where paths lead.
    pub fn privileges(&self) -> Vec<Privilege> {
        let Self {
            file: _,
            folder: _,
            digest: _,
            source,
            filled: _,
            filled_at,
            runtime,
            llm,
            providers,
            prices: _,
            // Names one of the models that the configuration could name.
            models: _,
            models_catalog,
            policy,
            tools,
            mcp,
            hooks,
            prompt,
            skills,
            // They may do less than the agents that call them.
            subagents: _,
            // Without an entry there are no limits.
            tenants: _,
            store,
            log,
            telemetry,
        } = self;
        let mut privileges = Vec::new();
        sends::filled(filled_at, &mut privileges);
        runtime_does_nothing(runtime, llm, log);
        // The model on this machine is built in, with what starts it.
        let is_built_in = |name: &str| source.has_scripts && name == "local";
        for (name, provider) in providers.iter().filter(|(name, _)| !is_built_in(name)) {
            self.provider(name, provider, &mut privileges);
        }
        self.catalogue(models_catalog, &mut privileges);
        self.policy(policy, &mut privileges);
        rules(tools, &mut privileges);
        let Mcp { servers, pool: McpPool { idle_ttl_ms: _, max_processes: _ } } = mcp;
        for (index, server) in servers.iter().enumerate() {
            self.server(&format!("[{index}]"), server, &mut privileges);
        }
        hooks.iter().for_each(|(name, hook)| privileges.push(self.hook(name, hook)));
        self.prompt(prompt, skills, &mut privileges);
        let Telemetry { otlp_endpoint, protocol: _, headers, capture_content } = telemetry;
        let receiver = otlp_endpoint.iter().map(|to| sends::telemetry(self, to, headers, *capture_content));
        privileges.extend(receiver);
        let Store { kind, path: _, url } = store;
        privileges.extend(url.iter().filter(|_| *kind == StoreKind::Postgres).map(|url| sends::database(self, url)));
        let is_named = self.store.path.is_some() || self.state().is_none();
        let outside = self.store_path().filter(|path| is_named && loosens::is_outside(self, path));
        privileges.extend(outside.map(|path| Privilege::new(PrivilegeKind::Keeps, loosens::shown(self, &path))));
        let user = source.files.user.as_deref().unwrap_or(Path::new("")).display();
        privileges.extend(source.replaced.iter().map(|key| {
            Privilege::new(PrivilegeKind::Loosens, format!("`{key}` replaces that of your own configuration, {user}"))
        }));
        // What the user's own file does needs no trust in another one.
        privileges.retain(|privilege| !source.own.contains(&privilege.text()));
        privileges.sort_by_key(|privilege| privilege.kind);
        privileges.dedup();
        privileges
    }

    /// The texts of what the user's own file does by itself, for which a found one needs no trust.
    pub fn own_privileges(&self) -> &[String] {
        &self.source.own
    }

    fn provider(&self, name: &str, provider: &Provider, privileges: &mut Vec<Privilege>) {
        let Provider {
            kind,
            base_url,
            api_key,
            start,
            script,
            timeout_ms: _,
            max_concurrent: _,
            capabilities: _,
            temperature: _,
            max_tokens: _,
        } = provider;
        privileges.extend(start.as_ref().map(|start| starts::model_server(self, name, start)));
        privileges.extend(sends::provider(self, name, base_url.as_deref(), api_key.as_ref()));
        if *kind == Some(ProviderKind::Scripted) {
            let script = self.as_written(script.as_deref().unwrap_or_default());
            let what = format!("the provider {name} is a script, {script}, that says which tools are called");
            privileges.push(Privilege::new(PrivilegeKind::Loosens, what));
        }
    }

    /// Its source is asked, or read; prices and abilities decide which of the models is selected, and nothing else.
    fn catalogue(&self, catalog: &ModelsCatalog, privileges: &mut Vec<Privilege>) {
        let ModelsCatalog { source, refresh_interval_ms: _, cache_ttl_ms: _, quality_tiers: _, latency_class: _ } =
            catalog;
        if let Some(address) = catalog.address() {
            privileges.push(sends::catalogue(self, address));
            return;
        }
        let file = source.as_ref().map(|file| self.resolve(file)).filter(|file| loosens::is_outside(self, file));
        privileges.extend(file.map(|file| {
            let what =
                format!("the catalogue of models is read from {}, outside its folder", loosens::shown(self, &file));
            Privilege::new(PrivilegeKind::Loosens, what)
        }));
    }

    fn server(&self, position: &str, server: &McpServer, privileges: &mut Vec<Privilege>) {
        let McpServer {
            id,
            transport,
            command,
            args,
            env,
            url,
            headers,
            // Permissions and a name are asked of a person, at a page that says who asks for what.
            auth: _,
            client_id: _,
            client_secret,
            client_metadata_url: _,
            scopes: _,
            tools,
            start: _,
            isolation: _,
            required: _,
            tool_timeout_ms: _,
            startup_timeout_ms: _,
        } = server;
        let place = ["mcp", "servers", position];
        let server = match transport {
            Transport::Stdio => {
                starts::tool_server(self, (place, id), command.as_deref().unwrap_or_default(), args, env)
            }
            Transport::Http => {
                let address = url.as_deref().unwrap_or_default();
                sends::tool_server(self, (place, id), address, headers, client_secret.as_ref())
            }
        };
        privileges.push(match tools {
            Some(tools) => server.line(format!("only tools:  {}", tools.join(", "))),
            None => server,
        });
    }

    /// What it decides narrows the policy; that it is started, and reads every call, is for a person to know.
    fn hook(&self, name: &str, hook: &Hook) -> Privilege {
        let Hook { on, calls, command, args, env, timeout_ms: _, on_failure: _ } = hook;
        starts::hook(self, (name, *on, calls), command, args, env)
    }

    fn policy(&self, policy: &Policy, privileges: &mut Vec<Privilege>) {
        // The default allows everything, so no list of allowed tools is wider.
        // Without a sandbox commands can do everything, so none of its keys loosens the default.
        let Policy {
            workspace,
            rules,
            secret_files,
            web_fetch,
            sandbox: _,
            sandbox_network: _,
            sandbox_folders: _,
            shell_env,
        } = policy;
        let ToolPolicy {
            allow_tools: _,
            deny_tools: _,
            deny_commands,
            ask_commands,
            max_payload_bytes: _,
            mode,
            allow,
            // None by default.
            ask: _,
            deny: _,
            require_high_risk_approval: _,
            offer_always: _,
            tools: _,
        } = rules;
        let mut loosens = |what: String| privileges.push(Privilege::new(PrivilegeKind::Loosens, what));
        let real = self.resolve(workspace);
        if loosens::is_outside(self, &real) {
            loosens(format!("tools work in {}, outside its folder", loosens::shown(self, &real)));
        }
        let default = profile::policy(self.source.is_strict);
        let shorter = [
            loosens::tools(rules, &default),
            loosens::shorter("deny_commands", deny_commands, &default.deny_commands),
            loosens::shorter("ask_commands", ask_commands, &default.ask_commands),
            loosens::shorter("secret_files", secret_files, &Policy::default().secret_files),
        ];
        shorter.into_iter().flatten().for_each(&mut loosens);
        if *web_fetch {
            loosens("pages of the web may be asked for (web_fetch)".to_owned());
        }
        if !shell_env.is_empty() {
            loosens(format!("commands of the shell get the variables {} (shell_env)", shell_env.join(", ")));
        }
        if !allow.is_empty() {
            loosens(format!("calls run without asking by the rules {} (allow)", allow.join(", ")));
        }
        let key = match mode {
            Some(mode) => format!("mode = \"{mode}\""),
            None => "require_high_risk_approval = false".to_owned(),
        };
        match rules.default_mode() {
            PermissionMode::Plan | PermissionMode::Ask => {}
            PermissionMode::Edits => loosens(format!("files are changed without asking ({key})")),
            PermissionMode::Auto if loosens::is_callable(rules, SHELL) => loosens(format!(
                "calls of medium and high risk need no approval, and commands of the shell run without asking ({key})"
            )),
            PermissionMode::Auto => loosens(format!("calls of medium and high risk need no approval ({key})")),
        }
    }

    fn prompt(&self, prompt: &Prompt, skills: &Skills, privileges: &mut Vec<Privilege>) {
        let Prompt {
            instructions: _,
            files,
            bootstrap: _,
            memory,
            tool_notes,
            condense_trigger_ratio: _,
            condense_target_ratio: _,
            condense_model: _,
        } = prompt;
        let Skills { sources, rules: _ } = skills;
        let read = files.iter().flatten().chain([memory, tool_notes]).filter(|name| !name.is_empty());
        let (mut folders, mut mirrored) = (Vec::new(), Vec::new());
        for SkillSource { kind, path, url, rev, recursive: _, watch: _ } in sources {
            match kind {
                SourceKind::Directory => folders.extend(path),
                SourceKind::Git => mirrored.push((url.as_deref(), rev.as_deref())),
            }
        }
        privileges.extend(mirrored.into_iter().map(|(url, rev)| {
            let (url, rev) = (self.as_written(url.unwrap_or_default()), rev.unwrap_or_default());
            Privilege::new(PrivilegeKind::Loosens, format!("the model is told the skills of {url} at {rev}"))
        }));
        let told = read.clone().map(|path| self.resolve(path)).filter(|path| loosens::is_secret(self, path));
        privileges.extend(told.map(|path| {
            let what = format!("the model is told what is in {}, a file of secrets", loosens::shown(self, &path));
            Privilege::new(PrivilegeKind::Loosens, what)
        }));
        for path in read.chain(folders).map(|path| self.resolve(path)) {
            if loosens::is_outside(self, &path) {
                let what = format!("the model is told what is in {}, outside its folder", loosens::shown(self, &path));
                privileges.push(Privilege::new(PrivilegeKind::Loosens, what));
            }
        }
    }
}

fn rules(tools: &BTreeMap<String, ToolOverride>, privileges: &mut Vec<Privilege>) {
    for (name, ToolOverride { risk, timeout_ms: _, idempotent }) in tools {
        let mut loosens = |what: String| privileges.push(Privilege::new(PrivilegeKind::Loosens, what));
        if let Some(risk) = risk.filter(|risk| loosens::lowers(name, *risk)) {
            loosens(format!("calls of {name} are taken for {} risk", risk.as_str()));
        }
        if *idempotent == Some(true) && !loosens::changes_nothing(name) {
            loosens(format!("calls of {name} are run again after a crash, as idempotent"));
        }
    }
}

/// Limits and appearance: no privilege. A named model is built in, or its provider is classified.
fn runtime_does_nothing(runtime: &Runtime, llm: &Llm, log: &Log) {
    let Runtime {
        default_model: _,
        profile: _,
        limits: _,
        max_history_messages: _,
        // Which sessions of a store it has, which is classified.
        pools: _,
        max_concurrent_turns: _,
        max_parallel_subagents: _,
        passivate_after_ms: _,
        shutdown_grace_ms: _,
        // An interrupted turn to resume comes with a store, which is classified.
        on_restart: _,
    } = runtime;
    let Llm { tool_mode: _, retry_max: _, timeout_ms: _, stream_default: _, fallback: _ } = llm;
    let Log { level: _, format: _ } = log;
}

#[cfg(test)]
mod privileges_tests;
