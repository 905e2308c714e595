//! Recognises addresses of this machine.

use reqwest::Url;
use std::net::IpAddr;

/// Whether the host is a name or an address of the loopback interface; no proxy is used for those.
pub(crate) fn is_loopback_host(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || host.ends_with(".localhost")
}

/// Whether what is sent to this address cannot be read on its way: it is encrypted, or stays on this machine.
#[cfg(feature = "mcp")]
pub(crate) fn keeps_secrets(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback_host(url),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "mcp")]
    #[test]
    fn what_is_encrypted_or_stays_here_keeps_secrets() {
        let keeps = |url: &str| keeps_secrets(&url.parse().unwrap());
        assert!(
            ["https://h.example/a", "http://127.0.0.1:1/", "http://localhost/", "http://[::1]/a"]
                .map(keeps)
                .iter()
                .all(|it| *it)
        );
        let others =
            ["http://h.example/", "http://10.0.0.1/", "file:///a", "vscode://localhost/b", "smb://h/a", "javascript:a"];
        assert!(!others.map(keeps).iter().any(|it| *it));
    }

    #[test]
    fn this_machine_has_many_names_and_others_only_look_like_it() {
        let home = [
            "http://localhost:8091/v1/",
            "http://a.localhost/",
            "http://127.0.0.1/",
            "https://127.8.9.1:1/",
            "http://[::1]/",
        ];
        let abroad = [
            "http://localhost.example.com/",
            "http://127.example.com/",
            "http://192.168.0.1/",
            "http://user@example.com/",
            "http://localhost@h.example/",
            "http://127.0.0.1:1@h.example/",
        ];
        let seen = |urls: &[&str]| urls.iter().map(|url| is_loopback_host(&url.parse().unwrap())).collect::<Vec<_>>();
        assert_eq!((seen(&home), seen(&abroad)), (vec![true; 5], vec![false; 6]));
    }
}
