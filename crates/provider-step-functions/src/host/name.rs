//! The names of executions in Step Functions that store the objects of a host. Pure.
//!
//! A name has 80 characters at most and few signs. Letters, digits and hyphens stand for themselves, every
//! other byte is `_` and two hexadecimal digits. An id whose name would be too long is `_h` and its digest. A
//! later generation of an object ends with `_g2`, `_g3` and so on.

use std::fmt::Write as _;

use stateway_hosted::digest;

/// The longest name without a generation. Step Functions takes 80 characters.
const LONGEST: usize = 70;
/// The digits of the digest of an id that is too long.
const DIGEST: usize = 64;

/// The name of the first generation of an object.
pub(crate) fn base(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "_{byte:02x}");
        }
    }
    if name.len() <= LONGEST {
        return name;
    }
    let mut digits = digest(id.as_bytes());
    digits.truncate(DIGEST);
    format!("_h{digits}")
}

/// The name of a generation; the first one is 1.
pub(crate) fn of_generation(base: &str, generation: u32) -> String {
    if generation <= 1 {
        base.to_owned()
    } else {
        format!("{base}_g{generation}")
    }
}

/// The name of the first generation, and the generation that a name is.
pub(crate) fn split(name: &str) -> (&str, u32) {
    let number = |digits: &str| digits.parse().ok().filter(|it| *it > 1);
    let found = name.rsplit_once("_g");
    let found = found.and_then(|(base, digits)| Some((base, number(digits)?)));
    found.unwrap_or((name, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_name_of_its_own_that_step_functions_takes() {
        let long = "x".repeat(128);
        let longer = format!("{long}~step~1");
        let ids = [
            "order-1",
            "order_1",
            "order.1",
            "order~pay~1",
            "_h",
            "a_g2",
            "é",
            &long,
            &longer,
        ];
        let names: std::collections::BTreeSet<_> = ids.iter().map(|id| base(id)).collect();
        assert_eq!(names.len(), ids.len());
        for name in &names {
            let name = of_generation(name, 9_999_999);
            assert!(name.len() <= 80, "{name}");
            assert!(
                name.bytes()
                    .all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
            );
        }
        assert_eq!(base("order~pay~1"), "order_7epay_7e1");
    }

    #[test]
    fn the_generation_is_read_from_the_name() {
        for id in ["order-1", "a_g2", "a~b~1"] {
            for generation in [1, 2, 17] {
                let base = base(id);
                let name = of_generation(&base, generation);
                assert_eq!(split(&name), (base.as_str(), generation));
            }
        }
        assert_eq!(split("a_g1"), ("a_g1", 1));
    }
}
