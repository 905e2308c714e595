//! Every method of the builder, named by a program that depends on the library alone.

use bob::approvals::PermissionMode;
use bob::config::{AgentBootstrap, Limits, PromptFiles, TurnConfig, Watcher};
use bob::context::TenantLimits;
use bob::model::catalogue::{Catalogue, CatalogueSettings, ModelFacts};
use bob::model::server::ModelServers;
use bob::model::{Backoff, RetryPolicy, ScriptedLlm, ScriptedReply};
use bob::store::MemoryStore;
use bob::tape::{Recorder, Redactor, Tape};
use bob::tools::hooks::HookPrograms;
use bob::tools::servers::{CommandSpec, ServerId, ServerSpec, ServerStart, ServerTransport};
use bob::tools::skills::SkillRules;
use bob::tools::{Policy, Protection};
use bob::{Agent, AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use std::sync::Arc;
use std::time::Duration;

struct Bundle;

impl AgentBootstrap for Bundle {
    fn register(&self, builder: RuntimeBuilder) -> RuntimeBuilder {
        builder.tools(Arc::new(crate::ports::tools::Arithmetic))
    }
}

fn model_name() -> ModelName {
    ModelName::parse("scripted:demo").expect("a name")
}

fn server() -> ServerSpec {
    let command = CommandSpec { command: "no-such-server".into(), args: Vec::new(), env: Vec::new(), folder: None };
    let (id, transport) = (ServerId::new("lazy"), ServerTransport::Stdio(command));
    let (startup_timeout_ms, start) = (1_000, ServerStart::Lazy);
    ServerSpec {
        id,
        transport,
        tools: None,
        startup_timeout_ms,
        tool_timeout_ms: None,
        start,
        required: false,
        isolation: bob::tools::servers::Isolation::default(),
        roots: Arc::default(),
    }
}

fn configured() -> RuntimeBuilder {
    let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")]));
    let catalogue = Catalogue::new(ModelFacts::open(CatalogueSettings::default()), model.clone());
    let limits = Limits { max_steps: 3, ..Limits::default() };
    let backoff = Backoff { first_ms: 1, most_ms: 2 };
    let builder = RuntimeBuilder::new(model_name())
        .turn_config(TurnConfig::new(model_name()))
        .model(model)
        .models(catalogue)
        .subagent(Agent::new("helper"))
        .max_parallel_subagents(2)
        .tool_hook(Arc::new(crate::ports::tools::Thrifty))
        .local_tools(true)
        .store(MemoryStore::new())
        .sink(Arc::new(crate::ports::watching::Kept::default()))
        .limits(limits)
        .policy(Policy::default())
        .permission_mode(PermissionMode::Plan)
        .protection(Protection::default())
        .retry(RetryPolicy { max: 1, backoff })
        .model_servers(ModelServers::default(), Vec::new())
        .tool_server(server())
        .workspace(env!("CARGO_MANIFEST_DIR"))
        .brought_servers_end_after(Duration::from_secs(1))
        .brought_servers_at_most(2, 1)
        .server_pool(Duration::from_secs(1), 2)
        .sign_ins(bob::tools::servers::SignIns::default())
        .tenant_limits(TenantLimits { max_concurrent_turns: 4, ..TenantLimits::default() })
        .limits_of_tenant("acme", TenantLimits::default())
        .approvals(Arc::new(crate::ports::approvals::OnThePhone::default()))
        .prompt_files(PromptFiles::default())
        .compactor(Arc::new(crate::ports::model::Digest::default()))
        .skills(Arc::new(crate::ports::tools::Handbook::default()), SkillRules::default())
        .approval_memory(Arc::new(crate::ports::approvals::Decided::default()))
        .max_concurrent_turns(8)
        .max_waiting_turns(8)
        .passivate_after(Duration::from_secs(1))
        .shutdown_grace(Duration::from_millis(100))
        .blocked_after(Duration::from_secs(1))
        .hook(Arc::new(crate::ports::watching::Steps::default()))
        .bootstrap(&Bundle);
    let watcher: &Watcher = builder.watcher();
    let programs = HookPrograms::new(Vec::new(), watcher.clone()).expect("no pattern is wrong");
    builder.hook_programs(programs)
}

fn question() -> AgentRequest {
    AgentRequest::text(SessionId::parse("s").expect("an id"), "hi")
}

#[tokio::test]
async fn a_runtime_with_everything_set_answers() {
    let file = std::env::temp_dir().join(format!("embedding-{}.tape", std::process::id()));
    let recorder = Recorder::create(&file, Redactor::default(), "the builder").expect("a tape");
    let runtime = configured().record(&recorder).build().await.expect("a runtime");
    let response = runtime.run(question()).await.expect("it is taken");
    assert_eq!(response.response().content, "hello");
    assert!(runtime.tools_now().iter().any(|tool| tool.id.as_str() == "own/add"));
    runtime.shutdown().await;
    recorder.keep().expect("it is kept");

    let tape = Tape::load(&file, Redactor::default()).expect("the tape");
    let runtime = configured().replay(&tape).build().await.expect("a runtime");
    assert_eq!(runtime.run(question()).await.expect("it is taken").response().content, "hello");
    runtime.shutdown().await;
    std::fs::remove_file(&file).expect("it was there");
}

/// One that is added belongs into this file.
#[test]
fn no_method_is_left_out() {
    let (missing, count) = crate::interface::not_called("bob::RuntimeBuilder", include_str!("builder.rs"));
    assert!(missing.is_empty(), "not called here: {missing:?}");
    assert!(count > 40, "only {count} were found");
}
