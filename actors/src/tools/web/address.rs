//! Which addresses are of the public internet, by the IANA's registries of special addresses (RFC 6890 and its
//! updates), and a look-up that gives only those.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why an address is not connected to.
pub(super) const PRIVATE: &str = "it is an address of this machine or of a private network";

/// Whether an address is of the public internet. What carries another address inside is what it carries.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // This network, multicast, and what is reserved.
        (0 | 224..=255, ..) => true,
        // Shared by providers; protocol assignments; the old relay of 6to4; benchmarks.
        (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _) => true,
        _ => address.is_private() || address.is_loopback() || address.is_link_local() || address.is_documentation(),
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let inside = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // Mapped and compatible ones, and what translators use.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        // 6to4.
        [0x2002, high, low, ..] => inside(high, low),
        // Protocols, Teredo among them, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All other public addresses are in here.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Looks names up, and gives only addresses that may be reached.
pub(super) struct Checked(pub(super) fn(IpAddr) -> bool);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let may_reach = self.0;
        Box::pin(async move {
            let all: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let found = !all.is_empty();
            let good: Vec<SocketAddr> = all.into_iter().filter(|address| may_reach(address.ip())).collect();
            if good.is_empty() && found {
                return Err(PRIVATE.into());
            }
            Ok(Box::new(good.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
