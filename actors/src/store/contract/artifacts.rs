//! The rules of a store of artifacts as a suite.

use crate::contract::{Found, Suite};
use crate::store::ArtifactStorePort;
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use std::sync::Arc;

type Port = Arc<dyn ArtifactStorePort>;

type Rule = fn(Port) -> BoxFuture<'static, Found>;

const RULES: [(&str, Rule); 8] = [
    ("an artifact is named by its content, and put twice it is kept once", |port| named_by_content(port).boxed()),
    ("ranges are parts of the content, as far as there is content", |port| ranges(port).boxed()),
    ("content is kept to the byte, also none and much", |port| to_the_byte(port).boxed()),
    ("an artifact of another session does not exist", |port| of_another_session(port).boxed()),
    ("a shared artifact is gone with the last of its sessions", |port| gone_with_the_last(port).boxed()),
    ("single artifacts are removed once they are recorded", |port| single_ones(port).boxed()),
    ("of a living process, nothing is left behind", |port| nothing_left_behind(port).boxed()),
    ("many are put at once", |port| many_at_once(port).boxed()),
];

/// Checks a store of artifacts. Each rule has an empty store of its own, which `make` returns and which shares nothing with
/// the others.
pub async fn artifacts(make: impl Fn() -> Port) -> Suite {
    let mut suite = Suite::new("artifacts");
    for (name, rule) in RULES {
        let port = make();
        suite.rule(name, rule(port)).await;
    }
    suite
}

fn session(id: &str) -> Result<SessionId, String> {
    SessionId::parse(id).map_err(|error| error.to_string())
}

fn is<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Found {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
}

async fn put(port: &Port, session: &SessionId, content: &[u8]) -> Result<ArtifactId, String> {
    port.put(session, Arc::new(content.to_vec())).await.map_err(|error| error.to_string())
}

async fn get(
    port: &Port,
    session: &SessionId,
    id: &ArtifactId,
    range: std::ops::Range<u64>,
) -> Result<Option<Vec<u8>>, String> {
    port.get(session, id, range).await.map_err(|error| error.to_string())
}

async fn ids(port: &Port, session: &SessionId) -> Result<Vec<ArtifactId>, String> {
    let list = port.list(session).await.map_err(|error| error.to_string())?;
    Ok(list.into_iter().map(|stored| stored.id).collect())
}

async fn named_by_content(port: Port) -> Found {
    let own = session("own")?;
    is("the list of a session without any", &ids(&port, &own).await?, &Vec::new())?;
    let id = put(&port, &own, b"content").await?;
    is("the name", &id, &ArtifactId::of(b"content"))?;
    is("the name of the same content", &put(&port, &own, b"content").await?, &id)?;
    let other = put(&port, &own, b"other content").await?;
    let mut both = vec![id, other];
    both.sort();
    is("the list", &ids(&port, &own).await?, &both)?;
    let list = port.list(&own).await.map_err(|error| error.to_string())?;
    is("the sizes", &list.iter().map(|stored| stored.bytes).sum::<u64>(), &20)
}

async fn ranges(port: Port) -> Found {
    let own = session("own")?;
    let id = put(&port, &own, b"0123456789").await?;
    for (range, expected) in [
        (0..10, "0123456789"),
        (3..5, "34"),
        (8..100, "89"),
        (9..u64::MAX, "9"),
        (10..20, ""),
        (u64::MAX - 1..u64::MAX, ""),
        (4..4, ""),
    ] {
        let found = get(&port, &own, &id, range.clone()).await?;
        is(&format!("bytes {range:?}"), &found, &Some(expected.as_bytes().to_vec()))?;
    }
    let mut range = 3..5;
    std::mem::swap(&mut range.start, &mut range.end);
    let reversed = get(&port, &own, &id, range).await?;
    is("a range that ends before it begins", &reversed, &Some(Vec::new()))
}

async fn to_the_byte(port: Port) -> Found {
    let own = session("own")?;
    let much: Vec<u8> = (0..3_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [&b""[..], b"\0\xff\n", &much] {
        let id = put(&port, &own, content).await?;
        let found = get(&port, &own, &id, 0..u64::MAX).await?.ok_or("it is not there")?;
        is("the hash of what is read", &ArtifactId::of(&found), &id)?;
    }
    Ok(())
}

async fn of_another_session(port: Port) -> Found {
    let (own, other) = (session("own")?, session("Own")?);
    let id = put(&port, &own, b"secret").await?;
    is("its content", &get(&port, &other, &id, 0..9).await?, &None)?;
    is("its list", &ids(&port, &other).await?, &Vec::new())?;
    // To know the content is not to take the other's away.
    put(&port, &other, b"secret").await?;
    port.delete_all(&other).await.map_err(|error| error.to_string())?;
    is("the first session's", &get(&port, &own, &id, 0..9).await?, &Some(b"secret".to_vec()))
}

async fn gone_with_the_last(port: Port) -> Found {
    let (one, other) = (session("one")?, session("other")?);
    let id = put(&port, &one, b"shared").await?;
    let unknown = ArtifactId::of(b"never put");
    let both = [id.clone(), unknown.clone()];
    port.share(&one, &other, &both).await.map_err(|error| error.to_string())?;
    is("what was shared", &ids(&port, &other).await?, &vec![id.clone()])?;
    let removed = port.delete_all(&one).await.map_err(|error| error.to_string())?;
    is("how many there were", &removed, &1)?;
    is("the first session's", &get(&port, &one, &id, 0..9).await?, &None)?;
    is("the other's", &get(&port, &other, &id, 0..9).await?, &Some(b"shared".to_vec()))?;
    port.delete_all(&other).await.map_err(|error| error.to_string())?;
    is("after the last", &get(&port, &other, &id, 0..9).await?, &None)?;
    let again = port.delete_all(&other).await.map_err(|error| error.to_string())?;
    is("how many there are then", &again, &0)
}

async fn single_ones(port: Port) -> Found {
    let own = session("own")?;
    let (one, other) = (put(&port, &own, b"one").await?, put(&port, &own, b"other").await?);
    port.recorded(&own, &[one.clone(), other.clone()]).await;
    port.delete(&own, std::slice::from_ref(&one)).await.map_err(|error| error.to_string())?;
    is("what is left", &ids(&port, &own).await?, &vec![other])?;
    port.delete(&own, &[one]).await.map_err(|error| format!("one that is gone: {error}"))
}

async fn nothing_left_behind(port: Port) -> Found {
    let own = session("own")?;
    put(&port, &own, b"not recorded").await?;
    let found = port.unrecorded(100).await.map_err(|error| error.to_string())?;
    is("what is left behind", &found, &Vec::new())
}

async fn many_at_once(port: Port) -> Found {
    let own = session("own")?;
    let contents: Vec<Vec<u8>> = (0..64).map(|n| format!("content {}", n / 2).into_bytes()).collect();
    let named: Vec<_> = join_all(contents.iter().map(|content| put(&port, &own, content)))
        .await
        .into_iter()
        .collect::<Result<_, _>>()?;
    for (content, id) in contents.iter().zip(&named) {
        is("the content", &get(&port, &own, id, 0..99).await?, &Some(content.clone()))?;
    }
    is("how many there are", &ids(&port, &own).await?.len(), &32)
}
