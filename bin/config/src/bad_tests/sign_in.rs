//! Tool servers that are signed in to in a way that cannot be.

use expect_test::expect;

use super::check;

#[test]
fn b9_signing_in_that_cannot_be() {
    check(
        &[
            "[[mcp.servers]]\nid = 'a'\ncommand = 'c'\nauth = 'oauth'",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'https://h/'\nscopes = ['read']",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'https://h/'\nauth = 'client_credentials'",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'https://h/'\nauth = 'oauth'\nheaders = { authorization = 'x' }",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'https://h/'\nauth = 'basic'",
            "[[mcp.servers]]\nid = 'a'\ntransport = 'http'\nurl = 'http://h/'\nauth = 'oauth'\nclient_metadata_url = 'http://h/c'",
        ],
        expect![[r#"
            > [[mcp.servers]]
            > id = 'a'
            > command = 'c'
            > auth = 'oauth'
            5:1 `mcp.servers[0].auth` means nothing with the transport stdio
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'https://h/'
            > scopes = ['read']
            6:1 `mcp.servers[0].scopes` means nothing without `auth`
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'https://h/'
            > auth = 'client_credentials'
            6:8 `mcp.servers[0].auth` needs a `client_id` and a `client_secret`
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'https://h/'
            > auth = 'oauth'
            > headers = { authorization = 'x' }
            6:8 `mcp.servers[0]` has `auth`, and an Authorization among its `headers`
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'https://h/'
            > auth = 'basic'
            6:8 `mcp.servers[0].auth`: unknown word, expected one of: oauth, client_credentials
            > [[mcp.servers]]
            > id = 'a'
            > transport = 'http'
            > url = 'http://h/'
            > auth = 'oauth'
            > client_metadata_url = 'http://h/c'
            5:7 `mcp.servers[0].url`: with `auth` it must begin with https:// (http:// only on this machine)
            7:23 `mcp.servers[0].client_metadata_url` must begin with https://
        "#]],
    );
}
