//! A turn that one process suspends and another one resumes: the program runs itself twice, over one folder.

use bob::approvals::{ApprovalsMode, Decision};
use bob::model::{Message, ScriptedLlm, ScriptedReply};
use bob::sessions::{ResumeReply, ResumeToken};
use bob::store::{FileStore, StoreOptions};
use bob::tools::{Risk, tool};
use bob::{AgentRequest, AgentRunResult, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pay {
    sum: u32,
}

async fn runtime(folder: &Path) -> Result<Runtime, Box<dyn std::error::Error>> {
    let model = ScriptedLlm::from_fn(|request| match request.messages.last().map(AsRef::as_ref) {
        Some(Message::Tool { result }) => ScriptedReply::text(format!("Done: {}.", result.output.plain())),
        _ => ScriptedReply::call("bank/pay", json!({"sum": 3})),
    });
    let pay = tool("bank/pay", "Pays a sum.", |pay: Pay, _| async move { Ok(format!("paid {}", pay.sum)) });
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model));
    let builder = builder.local_tools(false).tools(Arc::new(pay.risk(Risk::High)));
    Ok(builder.store(FileStore::open(folder, StoreOptions::default())?).build().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, token] = arguments.as_slice() {
        // The other process, perhaps days later: the person has said yes.
        let runtime = runtime(Path::new(folder)).await?;
        let result =
            runtime.resume(ResumeToken::new(token.as_str()), ResumeReply::Decision(Decision::AllowOnce)).await?;
        println!("{}", result.response().content);
        runtime.shutdown().await;
        return Ok(());
    }
    let folder = std::env::temp_dir().join(format!("embedding-suspended-{}", std::process::id()));
    let runtime = runtime(&folder).await?;
    let request = AgentRequest::text(SessionId::parse("payments")?, "Pay 3.");
    let AgentRunResult::Suspended { token, question, .. } =
        runtime.run(AgentRequest { approvals: ApprovalsMode::Suspend, ..request }).await?
    else {
        return Err("the turn was not suspended".into());
    };
    runtime.shutdown().await;
    println!("{question}");
    let other = Command::new(std::env::current_exe()?).arg(&folder).arg(token.as_str()).output()?;
    std::fs::remove_dir_all(&folder)?;
    let told = String::from_utf8(other.stdout)?;
    print!("{told}");
    assert_eq!(told, "Done: paid 3.\n", "{}", String::from_utf8_lossy(&other.stderr));
    Ok(())
}
