//! Recognises addresses of this machine.

use reqwest::Url;
use std::net::IpAddr;

/// Whether the host is a name or an address of the loopback interface; no proxy is used for those.
pub(crate) fn is_loopback_host(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        let seen = |urls: &[&str]| urls.iter().map(|url| is_loopback_host(&url.parse().unwrap())).collect::<Vec<_>>();
        assert_eq!((seen(&home), seen(&abroad)), (vec![true; 5], vec![false; 4]));
    }
}
