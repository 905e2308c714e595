//! A table of bad configurations, each with what is said about it.

mod numbers;
mod sign_in;
mod subagents;
mod unreadable;

use std::path::Path;

use expect_test::expect;

use super::{ConfigError, Environment, Overrides, parse};

pub(super) fn refused(text: &str, environment: &Environment) -> ConfigError {
    match parse(text, Path::new("agent.toml"), environment, &Overrides::default()) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => error,
    }
}

/// `line:column message (help)` for each complaint, one a line.
pub(super) fn told(error: &ConfigError) -> String {
    let one = |problem: &super::Problem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{} {}{help}", problem.line, problem.column, problem.message)
    };
    error.problems().iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Checks a list of configurations, each with the one key it needs in front, against one text.
fn check(cases: &[&str], expected: expect_test::Expect) {
    let mut report = String::new();
    for case in cases {
        let error = refused(&format!("runtime.default_model = 'a:b'\n{case}"), &Environment::default());
        report.push_str(&format!("> {}\n{}\n", case.replace('\n', "\n> ").replace('\0', "<NUL>"), told(&error)));
    }
    expected.assert_eq(&report);
}

#[test]
fn b1_wrong_types() {
    check(
        &[
            "runtime.max_steps = '12'",
            "runtime.turn_timeout_ms = '90s'",
            "runtime.max_steps = 1.5",
            "runtime.on_restart = 1",
            "llm.stream_default = 'yes'",
            "llm.fallback = 'a:b'",
            "llm.fallback = [1, 'a:b', true]",
            "llm = 3",
            "providers = []",
            "providers.x = 'openai'",
            "providers.x.api_key = 12345",
            "providers.x.start = 'sh'",
            "mcp.servers = { id = 'x' }",
            "[mcp.servers]\nid = 'x'",
            "prompt.files = 2026-01-01",
            "store.path = []",
        ],
        expect![[r#"
            > runtime.max_steps = '12'
            2:21 `runtime.max_steps`: expected an integer, found a string (write a plain number without quotes and without a unit; times are in milliseconds)
            > runtime.turn_timeout_ms = '90s'
            2:27 `runtime.turn_timeout_ms`: expected an integer, found a string (write a plain number without quotes and without a unit; times are in milliseconds)
            > runtime.max_steps = 1.5
            2:21 `runtime.max_steps`: expected an integer, found a decimal number
            > runtime.on_restart = 1
            2:22 `runtime.on_restart`: expected a string, found an integer
            > llm.stream_default = 'yes'
            2:22 `llm.stream_default`: expected true or false, found a string
            > llm.fallback = 'a:b'
            2:16 `llm.fallback`: expected a list, found a string
            > llm.fallback = [1, 'a:b', true]
            2:17 `llm.fallback[0]`: expected a string, found an integer
            2:27 `llm.fallback[2]`: expected a string, found true or false
            > llm = 3
            2:7 `llm`: expected a table, found an integer
            > providers = []
            2:13 `providers`: expected a table, found a list
            > providers.x = 'openai'
            2:15 `providers.x`: expected a table, found a string
            > providers.x.api_key = 12345
            2:23 `providers.x.api_key`: expected a string, found an integer
            > providers.x.start = 'sh'
            2:21 `providers.x.start`: expected a table, found a string
            > mcp.servers = { id = 'x' }
            2:15 `mcp.servers`: expected a list, found a table
            > [mcp.servers]
            > id = 'x'
            2:1 `mcp.servers`: expected a list, found a table
            > prompt.files = 2026-01-01
            2:16 `prompt.files`: expected a list, found a date or time
            > store.path = []
            2:14 `store.path`: expected a string, found a list
        "#]],
    );
}

#[test]
fn b1_pools_and_tenants() {
    check(
        &[
            "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nisolation = 'process'",
            "mcp.pool.idle_ttl_ms = 0",
            "mcp.pool.max_processes = 0",
            "mcp.pool.min_processes = 1",
            "runtime.pools = ['a.1', '.a']",
            "tenants.'' = {}",
            "tenants.acme.max_cost_per_day = -1.0",
            "tenants.acme.max_tokens = 3",
        ],
        expect![[r#"
            > [[mcp.servers]]
            > id = 'a'
            > command = 'c'
            > isolation = 'process'
            5:13 `mcp.servers[0].isolation`: unknown word, expected one of: shared, tenant, session
            > mcp.pool.idle_ttl_ms = 0
            2:24 `mcp.pool.idle_ttl_ms` must be between 1 and 604800000
            > mcp.pool.max_processes = 0
            2:26 `mcp.pool.max_processes` must be between 1 and 10000
            > mcp.pool.min_processes = 1
            2:10 unknown key `min_processes` in `mcp.pool` (did you mean `max_processes`?)
            > runtime.pools = ['a.1', '.a']
            2:25 `runtime.pools` must be a pool: 1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit
            > tenants.'' = {}
            2:9 `tenants` has a tenant with an empty name; leave it out for none
            > tenants.acme.max_cost_per_day = -1.0
            2:33 `tenants.acme.max_cost_per_day` must be between 0 and 1000000
            > tenants.acme.max_tokens = 3
            2:14 unknown key `max_tokens` in `tenants.acme` (did you mean `max_tokens_per_day`?)
        "#]],
    );
}

#[test]
fn b1_unknown_keys() {
    check(
        &[
            "runtime.max_step = 3",
            "[runtme]\nmax_steps = 3",
            "max_steps = 3",
            "[llm]\nmax_steps = 3",
            "[log]\ncolour = 'red'",
            "providers.x.baseurl = 'http://h/'",
            "providers.x.capabilities.vision = true",
            "tools.'local/x'.timeout = 3",
            "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nenviron = {}",
            "\"max steps\" = 3",
            "a.b.c.d = 1",
        ],
        expect![[r#"
            > runtime.max_step = 3
            2:9 unknown key `max_step` in `runtime` (did you mean `max_steps`?)
            > [runtme]
            > max_steps = 3
            2:2 unknown key `runtme` at the top level (did you mean `runtime`?)
            > max_steps = 3
            2:1 unknown key `max_steps` at the top level (`max_steps` belongs to [runtime])
            > [llm]
            > max_steps = 3
            3:1 unknown key `max_steps` in `llm` (`max_steps` belongs to [runtime])
            > [log]
            > colour = 'red'
            3:1 unknown key `colour` in `log` (accepted here: level, format)
            > providers.x.baseurl = 'http://h/'
            2:13 unknown key `baseurl` in `providers.x` (did you mean `base_url`?)
            > providers.x.capabilities.vision = true
            2:26 unknown key `vision` in `providers.x.capabilities` (accepted here: native_tools, json_schema, system_role, images, audio, context_tokens)
            > tools.'local/x'.timeout = 3
            2:17 unknown key `timeout` in `tools."local/x"` (did you mean `timeout_ms`?)
            > [[mcp.servers]]
            > id = 'a'
            > command = 'c'
            > environ = {}
            5:1 unknown key `environ` in `mcp.servers[0]` (did you mean `env`?)
            > "max steps" = 3
            2:1 unknown key `"max steps"` at the top level (accepted here: runtime, llm, providers, prices, models, models_catalog, policy, tools, mcp, hooks, prompt, skills, subagents, tenants, store, log, telemetry)
            > a.b.c.d = 1
            2:1 unknown key `a` at the top level (accepted here: runtime, llm, providers, prices, models, models_catalog, policy, tools, mcp, hooks, prompt, skills, subagents, tenants, store, log, telemetry)
        "#]],
    );
}

#[test]
fn b1_unknown_words_and_forms() {
    check(
        &[
            "runtime.on_restart = 'again'",
            "llm.tool_mode = 'xml'",
            "providers.x.kind = 'opnai'",
            "tools.'local/x'.risk = 'extreme'",
            "log.level = 'loud'",
            "log.format = 'xml'",
            "store.kind = 'oracle'",
            "telemetry.protocol = 'grpc'",
            "llm.fallback = ['gpt-4o']",
            "prompt.condense_model = 'gpt-4o'",
            "providers.x.base_url = '127.0.0.1:80'",
            "providers.x.base_url = 'https://me:pw@host/'",
            "providers.'a b'.kind = 'openai'",
            "policy.allow_tools = ['read_file']",
            "policy.deny_tools = ['']",
            "policy.deny_commands = [' ']",
            "policy.ask_commands = ['', 'git push', '/bin/rm']",
            "tools.read_file.risk = 'low'",
            "tools.'mcp/'.risk = 'low'",
            "policy.workspace = ''",
        ],
        expect![[r#"
            > runtime.on_restart = 'again'
            2:22 `runtime.on_restart`: unknown word, expected one of: report, resume
            > llm.tool_mode = 'xml'
            2:17 `llm.tool_mode`: unknown word, expected one of: auto, json, native
            > providers.x.kind = 'opnai'
            2:20 `providers.x.kind`: unknown word, expected one of: openai, anthropic, gemini, ollama, scripted
            > tools.'local/x'.risk = 'extreme'
            2:24 `tools."local/x".risk`: unknown word, expected one of: low, medium, high
            > log.level = 'loud'
            2:13 `log.level`: unknown word, expected one of: off, error, warn, info, debug, trace
            > log.format = 'xml'
            2:14 `log.format`: unknown word, expected one of: text, json
            > store.kind = 'oracle'
            2:14 `store.kind`: unknown word, expected one of: memory, json, sqlite, postgres
            > telemetry.protocol = 'grpc'
            2:22 `telemetry.protocol`: unknown word, expected one of: http/protobuf
            > llm.fallback = ['gpt-4o']
            2:17 `llm.fallback` must have the form provider:model, for example "openai:gpt-4o-mini"
            > prompt.condense_model = 'gpt-4o'
            2:25 `prompt.condense_model` must have the form provider:model, for example "openai:gpt-4o-mini"
            > providers.x.base_url = '127.0.0.1:80'
            2:24 `providers.x.base_url` must begin with http:// or https:// and a host
            > providers.x.base_url = 'https://me:pw@host/'
            2:24 `providers.x.base_url` must not carry a user or a password; use `api_key` or a header
            > providers.'a b'.kind = 'openai'
            2:11 the name of a provider must be 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit
            > policy.allow_tools = ['read_file']
            2:23 `policy.allow_tools` matches no tool: names are local/<tool>, mcp/<server>/<tool> or agent/<id>, and a lone "*" is every tool
            > policy.deny_tools = ['']
            2:22 `policy.deny_tools` matches no tool: names are local/<tool>, mcp/<server>/<tool> or agent/<id>, and a lone "*" is every tool
            > policy.deny_commands = [' ']
            2:25 `policy.deny_commands` must be the name of one program without a folder, for example "rm"; to match arguments, write a rule in `deny` or `ask`, for example "local/shell_exec(git push *)"
            > policy.ask_commands = ['', 'git push', '/bin/rm']
            2:24 `policy.ask_commands` must be the name of one program without a folder, for example "rm"; to match arguments, write a rule in `deny` or `ask`, for example "local/shell_exec(git push *)"
            2:28 `policy.ask_commands` must be the name of one program without a folder, for example "rm"; to match arguments, write a rule in `deny` or `ask`, for example "local/shell_exec(git push *)"
            2:40 `policy.ask_commands` must be the name of one program without a folder, for example "rm"; to match arguments, write a rule in `deny` or `ask`, for example "local/shell_exec(git push *)"
            > tools.read_file.risk = 'low'
            2:7 the key below `tools` must be the name of a tool, local/<tool>, mcp/<server>/<tool> or agent/<id>, or a pattern like mcp/<server>/*, in quotes
            > tools.'mcp/'.risk = 'low'
            2:7 the key below `tools` must be the name of a tool, local/<tool>, mcp/<server>/<tool> or agent/<id>, or a pattern like mcp/<server>/*, in quotes
            > policy.workspace = ''
            2:20 `policy.workspace` must not be empty
        "#]],
    );
}

#[test]
fn b1_relations_between_keys() {
    check(
        &[
            "[prompt]\ncondense_trigger_ratio = 0.4\ncondense_target_ratio = 0.5",
            "prompt.condense_target_ratio = 0.75",
            "providers.x.kind = 'scripted'",
            "providers.x = { kind = 'openai', script = 's' }",
            "providers.x = { base_url = 'http://h/', start = { args = [] } }",
            "providers.x.start.command = 'sh'",
            "skills = { token_budget_ratio = 0.1, token_budget_tokens = 10 }",
            "mcp.servers = [{ id = 'a', command = 'c' }, { id = 'b', command = 'c' }, { id = 'a', command = 'c' }]",
            "[[mcp.servers]]\ncommand = 'c'",
            "[[mcp.servers]]\nid = 'a/b'\ncommand = 'c'",
            "[[mcp.servers]]\nid = 'a'",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'",
            "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nurl = 'http://h/'",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'http://h/'\nargs = []",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'sse'",
            "[[skills.sources]]\ntype = 'git'",
            "[[skills.sources]]\ntype = 'hub'",
            "[[skills.sources]]\nurl = 'https://h/a'",
            "[[skills.sources]]\ntype = 'git'\nurl = 'ssh://h/a'\nrev = '0123456789abcdef0123456789abcdef01234567'\nwatch = true",
            "[[skills.sources]]\ntype = 'git'\nurl = 'https://h/a'\nrev = 'main'",
        ],
        expect![[r#"
            > [prompt]
            > condense_trigger_ratio = 0.4
            > condense_target_ratio = 0.5
            4:25 `prompt.condense_target_ratio` (0.5) must be below `prompt.condense_trigger_ratio` (0.4)
            > prompt.condense_target_ratio = 0.75
            2:32 `prompt.condense_target_ratio` (0.75) must be below `prompt.condense_trigger_ratio` (0.75)
            > providers.x.kind = 'scripted'
            2:11 `providers.x` is scripted and needs `script`, a file
            > providers.x = { kind = 'openai', script = 's' }
            2:43 `providers.x.script` is only read with kind = "scripted"
            > providers.x = { base_url = 'http://h/', start = { args = [] } }
            2:49 `providers.x.start` needs `command`, a program
            > providers.x.start.command = 'sh'
            2:11 `providers.x` starts a server and needs `base_url`, where it answers
            > skills = { token_budget_ratio = 0.1, token_budget_tokens = 10 }
            2:60 only one of `skills.token_budget_ratio` and `skills.token_budget_tokens` may be set
            > mcp.servers = [{ id = 'a', command = 'c' }, { id = 'b', command = 'c' }, { id = 'a', command = 'c' }]
            2:81 `mcp.servers[2].id`: mcp.servers[0] has this id already
            > [[mcp.servers]]
            > command = 'c'
            2:1 each entry of `mcp.servers` needs `id`
            > [[mcp.servers]]
            > id = 'a/b'
            > command = 'c'
            3:6 `mcp.servers[0].id` must be 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit
            > [[mcp.servers]]
            > id = 'a'
            3:6 `mcp.servers[0]` has the transport stdio and needs `command`
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            3:6 `mcp.servers[0]` has the transport http and needs `url`
            > [[mcp.servers]]
            > id = 'a'
            > command = 'c'
            > url = 'http://h/'
            5:1 `mcp.servers[0].url` means nothing with the transport stdio
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'http://h/'
            > args = []
            6:1 `mcp.servers[0].args` means nothing with the transport http
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'sse'
            4:13 `mcp.servers[0].transport`: unknown word, expected one of: stdio, http
            > [[skills.sources]]
            > type = 'git'
            2:1 `skills.sources[0]` has the type git and needs `url`
            > [[skills.sources]]
            > type = 'hub'
            3:8 `skills.sources[0].type`: unknown word, expected one of: directory, git
            > [[skills.sources]]
            > url = 'https://h/a'
            2:1 `skills.sources[0]` has the type directory and needs `path`
            3:1 `skills.sources[0].url` means nothing with the type directory
            > [[skills.sources]]
            > type = 'git'
            > url = 'ssh://h/a'
            > rev = '0123456789abcdef0123456789abcdef01234567'
            > watch = true
            4:7 `skills.sources[0].url`: `url` must begin with https:// or file://; no other protocol is used, since none does without a key
            6:1 `skills.sources[0].watch` means nothing with the type git
            > [[skills.sources]]
            > type = 'git'
            > url = 'https://h/a'
            > rev = 'main'
            5:7 `skills.sources[0].rev`: `main` is no full commit hash; a branch or a tag can move, so name the commit (`git ls-remote URL` shows the commit of a branch or a tag)
        "#]],
    );
}

#[test]
fn b1_a_missing_model_is_said_where_it_belongs() {
    let nothing = Environment::default();
    expect![[r#"1:1 `runtime.default_model` is missing (set it to provider:model, for example default_model = "openai:gpt-4o-mini" below [runtime])"#]].assert_eq(&told(&refused("", &nothing)));
    expect![[r#"3:1 `runtime.default_model` is missing (set it to provider:model, for example default_model = "openai:gpt-4o-mini" below [runtime])"#]].assert_eq(&told(&refused("\n\n[runtime]\nmax_steps = 3\n", &nothing)));
    expect!["1:11 `runtime`: expected a table, found an integer"].assert_eq(&told(&refused("runtime = 3", &nothing)));
    expect![[r#"1:25 `runtime.default_model` must have the form provider:model, for example "openai:gpt-4o-mini""#]]
        .assert_eq(&told(&refused("runtime.default_model = ''", &nothing)));
}

#[test]
fn g2_a_server_never_inherits_the_whole_environment() {
    let case = "[providers.x]\nbase_url = 'http://127.0.0.1:1/'\nstart = { command = 'sh', inherit_env = ['A', '*'] }";
    let told = told(&refused(&format!("runtime.default_model = 'a:b'\n{case}"), &Environment::default()));
    assert!(told.starts_with("4:") && told.contains("a lone `*`"), "{told}");
}

#[test]
fn commands_never_get_the_whole_environment() {
    for wide in ["*", "A*"] {
        let case = format!("runtime.default_model = 'a:b'\n[policy]\nshell_env = ['ABC*', '{wide}']");
        let told = told(&refused(&case, &Environment::default()));
        assert!(told.starts_with("3:22") && told.contains("a lone `*`"), "{told}");
    }
}
