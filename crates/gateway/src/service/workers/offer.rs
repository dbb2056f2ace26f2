//! What a worker may offer. Everything in it is bounded.

use std::sync::Arc;

use stateway_proto::v1;
use stateway_provider_api::WorkerOffer;
use tonic::Status;

use super::activity::Software;
use crate::status::Refusal;

const LONGEST_WORKER_ID: usize = 128;
const LONGEST_WORD: usize = 64;
const MOST_WORDS: usize = 64;
const MOST_TASKS: u32 = 10_000;
const LONGEST_TENANT: usize = 255;

/// The offer, once it was found to be one.
pub(super) fn checked(sent: v1::Offer) -> Result<WorkerOffer, Status> {
    let (most, ahead) = (tasks(sent.capacity)?, tasks(sent.prefetch)?);
    if !sent.worker_id.is_empty() && !is_word(&sent.worker_id, LONGEST_WORKER_ID) {
        let message = format!(
            "a worker id has up to {LONGEST_WORKER_ID} printable ASCII characters without blanks"
        );
        return Err(Refusal::invalid("worker_id", message).into());
    }
    if sent.tenant.len() > LONGEST_TENANT {
        let message = format!("a tenant has at most {LONGEST_TENANT} bytes");
        return Err(Refusal::invalid("tenant", message).into());
    }
    Ok(WorkerOffer {
        worker: sent.worker_id.into(),
        roles: words("roles", &sent.roles)?,
        skills: words("skills", &sent.skills)?,
        capacity: if most == 0 { 0 } else { most + ahead },
        tenant: sent.tenant.into(),
        // The connection has it, not the message.
        identity: "".into(),
    })
}

/// The versions that a worker shows to operators.
pub(super) fn software(sent: &v1::Offer) -> Result<Software, Status> {
    for (field, text) in [("version", &sent.version), ("sdk", &sent.sdk)] {
        if !text.is_empty() && !is_name(text) {
            let message =
                format!("`{field}` has at most {LONGEST_WORD} characters, no control characters");
            return Err(Refusal::invalid(field, message).into());
        }
    }
    Ok(Software {
        version: sent.version.clone(),
        sdk: sent.sdk.clone(),
    })
}

/// A number of tasks within its bounds.
fn tasks(sent: i32) -> Result<u32, Status> {
    u32::try_from(sent)
        .ok()
        .filter(|tasks| *tasks <= MOST_TASKS)
        .ok_or_else(|| {
            let message = format!("`capacity` and `prefetch` must be between 0 and {MOST_TASKS}");
            Refusal::invalid("capacity", message).into()
        })
}

fn words(field: &'static str, sent: &[String]) -> Result<Vec<Arc<str>>, Status> {
    if sent.len() > MOST_WORDS || sent.iter().any(|word| !is_name(word)) {
        let message = format!(
            "`{field}` has at most {MOST_WORDS} entries of 1 to {LONGEST_WORD} characters each"
        );
        return Err(Refusal::invalid(field, message).into());
    }
    let mut words: Vec<Arc<str>> = sent.iter().map(|word| word.as_str().into()).collect();
    words.sort_unstable();
    words.dedup();
    Ok(words)
}

/// Roles are free text in a definition; here they only have to be bounded and visible.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= LONGEST_WORD && !text.contains(char::is_control)
}

fn is_word(text: &str, longest: usize) -> bool {
    text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> v1::Offer {
        v1::Offer {
            worker_id: "w1".into(),
            roles: vec!["b".into(), "a".into(), "b".into()],
            capacity: 4,
            prefetch: 2,
            ..v1::Offer::default()
        }
    }

    #[test]
    fn prefetch_adds_to_the_capacity_and_a_role_counts_once() {
        let taken = checked(offer()).unwrap();
        assert_eq!(taken.capacity, 6);
        assert_eq!(taken.roles, ["a".into(), "b".into()]);
    }

    #[test]
    fn who_takes_nothing_fetches_nothing_ahead() {
        let none = v1::Offer {
            capacity: 0,
            ..offer()
        };
        assert_eq!(checked(none).unwrap().capacity, 0);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let many = vec!["r".to_owned(); MOST_WORDS + 1];
        let wrong = [
            v1::Offer {
                capacity: 10_001,
                ..offer()
            },
            v1::Offer {
                prefetch: i32::MAX,
                ..offer()
            },
            v1::Offer {
                capacity: -1,
                ..offer()
            },
            v1::Offer {
                worker_id: "a b".into(),
                ..offer()
            },
            v1::Offer {
                worker_id: "a".repeat(LONGEST_WORKER_ID + 1),
                ..offer()
            },
            v1::Offer {
                roles: many,
                ..offer()
            },
            v1::Offer {
                roles: vec![String::new()],
                ..offer()
            },
            v1::Offer {
                skills: vec!["a\nb".into()],
                ..offer()
            },
            v1::Offer {
                tenant: "t".repeat(LONGEST_TENANT + 1),
                ..offer()
            },
        ];
        for offer in wrong {
            assert!(checked(offer.clone()).is_err(), "{offer:?}");
        }
    }

    #[test]
    fn versions_are_short_and_printable() {
        let of = |version: &str, sdk: &str| v1::Offer {
            version: version.into(),
            sdk: sdk.into(),
            ..offer()
        };
        let taken = software(&of("1.4-rc1", "stateway-rust/0.1.0")).unwrap();
        let expected = Software {
            version: "1.4-rc1".into(),
            sdk: "stateway-rust/0.1.0".into(),
        };
        assert_eq!(taken, expected);
        let long = "1".repeat(LONGEST_WORD + 1);
        for wrong in [
            of(&long, ""),
            of("", &long),
            of("1\n2", ""),
            of("", "\u{7}"),
        ] {
            assert!(software(&wrong).is_err(), "{wrong:?}");
        }
    }
}
