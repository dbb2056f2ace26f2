//! The breakers of one provider: one for the provider, and one for each verb that fails because a
//! component of the engine is down while the rest of the engine answers. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stateway_provider_api::Verb;

use super::breaker::{Breaker, Position};

/// Decides which calls go through.
#[derive(Debug)]
pub(crate) struct Breakers {
    failures_to_open: u32,
    cool_down: Duration,
    provider: Breaker,
    /// Only verbs whose component failed and has not answered since.
    verbs: BTreeMap<Verb, (&'static str, Breaker)>,
}

/// Why a call is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The component that is down, if the provider itself answers.
    pub(crate) component: Option<&'static str>,
    /// How long to wait.
    pub(crate) pause: Duration,
}

/// What a call showed about the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The engine answered, with a result or with a refusal.
    Answered,
    /// The engine did not answer.
    Outage,
    /// A component of the engine did not answer. Nothing is known about the rest.
    ComponentOutage(&'static str),
    /// The call ended before the engine could answer.
    Abandoned,
}

impl Breakers {
    pub(crate) const fn new(failures_to_open: u32, cool_down: Duration) -> Self {
        Self {
            failures_to_open,
            cool_down,
            provider: Breaker::new(failures_to_open, cool_down),
            verbs: BTreeMap::new(),
        }
    }

    /// The position of the provider's own breaker.
    pub(crate) const fn position(&self) -> Position {
        self.provider.position()
    }

    /// Whether a call may go through now. Each admitted call must be reported to
    /// [`finish`](Self::finish).
    pub(crate) fn admit(&mut self, verb: Verb, now: Instant) -> Result<(), Refused> {
        self.provider.admit(now).map_err(|pause| Refused {
            component: None,
            pause,
        })?;
        let Some((component, breaker)) = self.verbs.get_mut(&verb) else {
            return Ok(());
        };
        breaker.admit(now).map_err(|pause| {
            // The call is not made, so it decides nothing for the provider either.
            self.provider.abandoned(now);
            Refused {
                component: Some(component),
                pause,
            }
        })
    }

    /// Takes in what an admitted call showed.
    pub(crate) fn finish(&mut self, verb: Verb, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Answered => {
                self.provider.answered();
                self.verbs.remove(&verb);
            }
            Outcome::Outage => {
                self.provider.failed(now);
                self.abandon_verb(verb, now);
            }
            // Health is asked at its own interval, and its answer names the cause.
            Outcome::ComponentOutage(_) if verb == Verb::Health => self.provider.abandoned(now),
            Outcome::ComponentOutage(component) => {
                self.provider.abandoned(now);
                let closed = || Breaker::new(self.failures_to_open, self.cool_down);
                let entry = self.verbs.entry(verb);
                let (named, breaker) = entry.or_insert_with(|| (component, closed()));
                *named = component;
                breaker.failed(now);
            }
            Outcome::Abandoned => {
                self.provider.abandoned(now);
                self.abandon_verb(verb, now);
            }
        }
    }

    fn abandon_verb(&mut self, verb: Verb, now: Instant) {
        if let Some((_, breaker)) = self.verbs.get_mut(&verb) {
            breaker.abandoned(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL_DOWN: Duration = Duration::from_secs(5);
    const INGRESS: Outcome = Outcome::ComponentOutage("ingress");

    fn call(breakers: &mut Breakers, verb: Verb, outcome: Outcome, now: Instant) {
        breakers.admit(verb, now).expect("the call is admitted");
        breakers.finish(verb, outcome, now);
    }

    fn without_ingress(now: Instant) -> Breakers {
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for _ in 0..3 {
            call(&mut breakers, Verb::Start, INGRESS, now);
        }
        breakers
    }

    #[test]
    fn the_outage_of_a_component_refuses_the_verb_and_names_the_component() {
        let now = Instant::now();
        let mut breakers = without_ingress(now);
        let refused = Refused {
            component: Some("ingress"),
            pause: COOL_DOWN,
        };
        assert_eq!(breakers.admit(Verb::Start, now), Err(refused));
        assert_eq!(breakers.position(), Position::Closed);
        for verb in Verb::ALL.iter().filter(|verb| **verb != Verb::Start) {
            assert_eq!(breakers.admit(*verb, now), Ok(()), "{verb}");
        }
    }

    #[test]
    fn health_is_asked_although_a_component_is_down() {
        let now = Instant::now();
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for _ in 0..10 {
            call(&mut breakers, Verb::Health, INGRESS, now);
        }
        assert_eq!(breakers.admit(Verb::Health, now), Ok(()));
    }

    #[test]
    fn after_the_cool_down_one_call_decides_for_the_verb() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut breakers = without_ingress(now);
        call(&mut breakers, Verb::Start, INGRESS, later);
        assert!(breakers.admit(Verb::Start, later).is_err());
        let later = later + COOL_DOWN;
        call(&mut breakers, Verb::Start, Outcome::Answered, later);
        assert_eq!(breakers.admit(Verb::Start, later), Ok(()));
        assert!(breakers.verbs.is_empty());
    }

    #[test]
    fn an_outage_of_the_provider_refuses_every_verb() {
        let now = Instant::now();
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for verb in [Verb::Get, Verb::Start, Verb::Health] {
            call(&mut breakers, verb, Outcome::Outage, now);
        }
        let refused = Refused {
            component: None,
            pause: COOL_DOWN,
        };
        assert_eq!(breakers.admit(Verb::List, now), Err(refused));
        assert_eq!(breakers.position(), Position::Open);
    }

    #[test]
    fn a_refused_verb_does_not_use_up_the_call_that_decides_for_the_provider() {
        let now = Instant::now();
        let mut breakers = without_ingress(now);
        for _ in 0..3 {
            call(&mut breakers, Verb::Get, Outcome::Outage, now);
        }
        // The verb's own breaker opens later, so at this time it alone refuses.
        let later = now + COOL_DOWN;
        breakers.verbs.insert(Verb::Start, ("ingress", open(later)));
        assert!(breakers.admit(Verb::Start, later).is_err());
        call(&mut breakers, Verb::Get, Outcome::Answered, later);
        assert_eq!(breakers.position(), Position::Closed);
    }

    #[test]
    fn an_abandoned_call_blocks_neither_breaker() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut breakers = without_ingress(now);
        call(&mut breakers, Verb::Start, Outcome::Abandoned, later);
        assert_eq!(breakers.admit(Verb::Start, later), Ok(()));
    }

    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(1, COOL_DOWN);
        breaker.failed(now);
        breaker
    }
}
