//! Which IP addresses are public and which belong to a private network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not one of the public internet, in a word; nothing when it is.
///
/// An address of version 6 that carries one of version 4 is judged by what it carries, but for the
/// mapped form: no name has it for a good reason.
pub(super) fn inside(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => inside_v4(address),
        IpAddr::V6(address) => inside_v6(address),
    }
}

fn inside_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    let why = match (a, b, c) {
        (0, ..) => "unspecified",
        (127, ..) => "loopback",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "private",
        (100, 64..=127, _) => "shared with a carrier",
        (169, 254, _) => "link-local",
        (192, 0, 0) | (198, 18..=19, _) => "reserved for networks",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "reserved for examples",
        (224..=239, ..) => "multicast",
        (240.., ..) => "reserved",
        _ => return None,
    };
    Some(why)
}

fn inside_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    let carried = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        inside_v4(Ipv4Addr::new(a, b, c, d))
    };
    let why = match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0, 0, 0, 0, 0, 0xffff, ..] => "mapped from version 4",
        [0, 0, 0, 0, 0, 0, ..] => "reserved",
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return carried(high, low),
        [0x64, 0xff9b, ..] => "reserved for networks",
        [0x100, 0, 0, 0, ..] => "reserved for networks",
        [0x2001, 0, ..] => "a tunnel",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "reserved for examples",
        [0x2002, high, low, ..] => return carried(high, low),
        [0xfc00..=0xfdff, ..] => "private",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xfec0..=0xfeff, ..] => "private",
        [0xff00..=0xffff, ..] => "multicast",
        _ => return None,
    };
    Some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_outside() {
        for (address, why) in [
            ("1.1.1.1", None),
            ("8.8.8.8", None),
            ("100.63.255.255", None),
            ("100.128.0.1", None),
            ("172.15.0.1", None),
            ("172.32.0.1", None),
            ("192.167.1.1", None),
            ("198.17.0.1", None),
            ("223.255.255.255", None),
            ("0.0.0.0", Some("unspecified")),
            ("0.1.2.3", Some("unspecified")),
            ("127.0.0.1", Some("loopback")),
            ("127.9.9.9", Some("loopback")),
            ("10.0.0.1", Some("private")),
            ("172.16.0.1", Some("private")),
            ("172.31.255.255", Some("private")),
            ("192.168.1.1", Some("private")),
            ("100.64.0.1", Some("shared with a carrier")),
            ("100.127.255.255", Some("shared with a carrier")),
            ("169.254.169.254", Some("link-local")),
            ("192.0.0.192", Some("reserved for networks")),
            ("198.19.1.1", Some("reserved for networks")),
            ("192.0.2.1", Some("reserved for examples")),
            ("224.0.0.1", Some("multicast")),
            ("240.0.0.1", Some("reserved")),
            ("255.255.255.255", Some("reserved")),
            ("2606:4700::1111", None),
            ("2a00:1450:4001::200e", None),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("::ffff:127.0.0.1", Some("mapped from version 4")),
            ("::ffff:8.8.8.8", Some("mapped from version 4")),
            ("::7f00:1", Some("reserved")),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::169.254.169.254", Some("link-local")),
            ("64:ff9b:1::1", Some("reserved for networks")),
            ("2002:0808:0808::1", None),
            ("2002:7f00:1::1", Some("loopback")),
            ("2001::1", Some("a tunnel")),
            ("2001:db8::1", Some("reserved for examples")),
            ("fc00::1", Some("private")),
            ("fd00:ec2::254", Some("private")),
            ("fe80::1", Some("link-local")),
            ("fec0::1", Some("private")),
            ("ff02::1", Some("multicast")),
        ] {
            assert_eq!(inside(address.parse().unwrap()), why, "{address}");
        }
    }
}
