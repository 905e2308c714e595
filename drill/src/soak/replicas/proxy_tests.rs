use super::*;

/// A server that answers each chunk with what `answer` makes of it.
async fn server(answer: fn(&[u8]) -> Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 1_000];
                while let Ok(count @ 1..) = client.read(&mut bytes).await {
                    client.write_all(&answer(&bytes[..count])).await.unwrap();
                }
            });
        }
    });
    port
}

async fn asked(client: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    client.write_all(question).await.unwrap();
    let mut bytes = vec![0; 1_000];
    let count = client.read(&mut bytes).await.unwrap_or(0);
    bytes.truncate(count);
    bytes
}

#[tokio::test]
async fn only_the_answer_of_the_next_write_is_lost() {
    let echo = |question: &[u8]| [question, COMMITTED].concat();
    let proxy = Proxy::start(("127.0.0.1".to_owned(), server(echo).await)).await.unwrap();
    let connect = || async { TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap() };
    let mut client = connect().await;
    let write = b"{\"session\":\"s1\"}";
    assert_eq!(asked(&mut client, write).await, [&write[..], COMMITTED].concat());
    proxy.arm();
    assert_eq!(asked(&mut client, b"SELECT").await, [b"SELECT", COMMITTED].concat(), "it writes nothing");
    assert_eq!(asked(&mut client, write).await, b"", "the connection ended");
    assert_eq!((proxy.cuts(), proxy.writes()), (1, 2));
    assert_eq!(asked(&mut connect().await, write).await, [&write[..], COMMITTED].concat(), "another one works");
}

#[tokio::test]
async fn a_connection_is_not_cut_before_the_commit() {
    // The first part of an answer is no commit.
    let slow = |question: &[u8]| if question == b"more" { COMMITTED.to_vec() } else { b"1".to_vec() };
    let proxy = Proxy::start(("127.0.0.1".to_owned(), server(slow).await)).await.unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    proxy.arm();
    client.write_all(b"{\"session\":\"s1\"}").await.unwrap();
    let mut bytes = [0; 10];
    let nothing_yet = tokio::time::timeout(std::time::Duration::from_millis(50), client.read(&mut bytes)).await;
    assert!(nothing_yet.is_err(), "it is there still: {nothing_yet:?}");
    assert_eq!((proxy.cuts(), asked(&mut client, b"more").await.len()), (0, 0));
    assert_eq!(proxy.cuts(), 1);
}
