//! The breakers of one provider: one for the provider, and one for each verb that keeps failing while the
//! rest of the engine answers. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stateway_provider_api::Verb;

use super::breaker::{Breaker, Position};

/// Decides which calls are made.
#[derive(Debug)]
pub(crate) struct Breakers {
    failures_to_open: u32,
    cool_down: Duration,
    provider: Breaker,
    /// Only verbs that failed and were not answered since.
    verbs: BTreeMap<Verb, VerbBreaker>,
}

#[derive(Debug)]
struct VerbBreaker {
    /// The component that failed; none where the whole engine did not answer.
    component: Option<Cow<'static, str>>,
    breaker: Breaker,
}

/// What a call may be used for beside its own answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    /// The call gives the provider enough time for an answer.
    pub(crate) fair: bool,
    /// The call is a part of a list over several providers. Such a call never probes an open
    /// provider, so that a hanging provider costs a list nothing.
    pub(crate) merged: bool,
}

/// Why a call is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) scope: Scope,
    /// How long to wait.
    pub(crate) pause: Duration,
}

/// What has not been answering.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Provider,
    Verb(Verb),
    Component(Cow<'static, str>),
}

/// What a call showed about the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The engine answered, with a result or with a refusal.
    Answered,
    /// The engine did not answer, or the adapter failed.
    Outage,
    /// A component of the engine did not answer. Nothing is known about the rest.
    ComponentOutage(Cow<'static, str>),
    /// The call ended before the engine had a fair chance to answer.
    CutOff,
    /// The engine was not asked.
    NotAsked,
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

    /// Whether nothing has failed that is still remembered: every call is admitted, and an answer changes
    /// nothing.
    pub(crate) fn is_calm(&self) -> bool {
        self.provider.is_calm() && self.verbs.is_empty()
    }

    /// Whether a call may be made now. Each admitted call must be reported to
    /// [`finish`](Self::finish).
    pub(crate) fn admit(
        &mut self,
        verb: Verb,
        now: Instant,
        admission: Admission,
    ) -> Result<(), Refused> {
        let may_probe = admission.fair && !admission.merged;
        let admitted = self.provider.admit(now, may_probe);
        admitted.map_err(|pause| Refused {
            scope: Scope::Provider,
            pause,
        })?;
        let Some(of_verb) = self.verbs.get_mut(&verb) else {
            return Ok(());
        };
        of_verb.breaker.admit(now, admission.fair).map_err(|pause| {
            // The call is not made, so it decides nothing for the provider either.
            self.provider.not_asked(now);
            let scope = match &of_verb.component {
                Some(component) => Scope::Component(component.clone()),
                None => Scope::Verb(verb),
            };
            Refused { scope, pause }
        })
    }

    /// Takes in what an admitted call showed.
    pub(crate) fn finish(&mut self, verb: Verb, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Answered => {
                self.provider.answered();
                self.verbs.remove(&verb);
            }
            Outcome::Outage => {
                self.provider.failed(now);
                if self.provider.position() == Position::Closed {
                    // Other verbs may be answered, so the verb is counted on its own.
                    self.verb_failed(verb, None, now);
                } else {
                    // The provider's breaker decides; no verb stays refused after its recovery.
                    self.verbs.retain(|_, of_verb| of_verb.component.is_some());
                    self.each(verb, now, Breaker::cut_off);
                }
            }
            Outcome::ComponentOutage(component) => {
                self.provider.not_asked(now);
                self.verb_failed(verb, Some(component.clone()), now);
            }
            Outcome::CutOff => {
                self.provider.cut_off(now);
                self.each(verb, now, Breaker::cut_off);
            }
            Outcome::NotAsked => {
                self.provider.not_asked(now);
                self.each(verb, now, Breaker::not_asked);
            }
        }
    }

    /// The provider can be reached again: only components of its engine may still be down.
    pub(crate) fn reconnected(&mut self) {
        self.provider.answered();
        self.verbs.retain(|_, of_verb| of_verb.component.is_some());
    }

    /// Counts a failure against a verb. Health is asked at its own interval, and its answer names the
    /// cause, so it is never refused on its own.
    fn verb_failed(&mut self, verb: Verb, component: Option<Cow<'static, str>>, now: Instant) {
        if verb == Verb::Health {
            return;
        }
        let closed = || VerbBreaker {
            component: None,
            breaker: Breaker::new(self.failures_to_open, self.cool_down),
        };
        let of_verb = self.verbs.entry(verb).or_insert_with(closed);
        of_verb.component = component;
        of_verb.breaker.failed(now);
    }

    fn each(&mut self, verb: Verb, now: Instant, what: impl Fn(&mut Breaker, Instant)) {
        if let Some(of_verb) = self.verbs.get_mut(&verb) {
            what(&mut of_verb.breaker, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL_DOWN: Duration = Duration::from_secs(5);
    const DIRECT: Admission = Admission {
        fair: true,
        merged: false,
    };
    const MERGED: Admission = Admission {
        fair: true,
        merged: true,
    };

    fn ingress() -> Outcome {
        Outcome::ComponentOutage("ingress".into())
    }

    fn call(breakers: &mut Breakers, verb: Verb, outcome: &Outcome, now: Instant) {
        let admitted = breakers.admit(verb, now, DIRECT);
        admitted.expect("the call is admitted");
        breakers.finish(verb, outcome, now);
    }

    fn without_ingress(now: Instant) -> Breakers {
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for _ in 0..3 {
            call(&mut breakers, Verb::Start, &ingress(), now);
        }
        breakers
    }

    fn down(now: Instant) -> Breakers {
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for _ in 0..3 {
            call(&mut breakers, Verb::Get, &Outcome::Outage, now);
        }
        assert_eq!(breakers.position(), Position::Open);
        breakers
    }

    #[test]
    fn the_outage_of_a_component_refuses_the_verb_and_names_the_component() {
        let now = Instant::now();
        let mut breakers = without_ingress(now);
        let refused = Refused {
            scope: Scope::Component("ingress".into()),
            pause: COOL_DOWN,
        };
        assert_eq!(breakers.admit(Verb::Start, now, DIRECT), Err(refused));
        assert_eq!(breakers.admit(Verb::List, now, DIRECT), Ok(()));
        assert_eq!(breakers.position(), Position::Closed);
    }

    #[test]
    fn breakers_are_calm_until_something_fails_and_after_it_is_answered() {
        let now = Instant::now();
        let mut breakers = Breakers::new(3, COOL_DOWN);
        assert!(breakers.is_calm());
        for failure in [Outcome::Outage, ingress()] {
            call(&mut breakers, Verb::Get, &failure, now);
            assert!(!breakers.is_calm());
            call(&mut breakers, Verb::Get, &Outcome::Answered, now);
            assert!(breakers.is_calm());
        }
        assert!(!down(now).is_calm());
        assert!(!without_ingress(now).is_calm());
    }

    #[test]
    fn refused_writes_leave_reads_alone() {
        let now = Instant::now();
        let mut breakers = Breakers::new(3, COOL_DOWN);
        let full = || Outcome::ComponentOutage("store".into());
        for verb in [Verb::Start, Verb::Signal, Verb::Cancel] {
            for _ in 0..3 {
                call(&mut breakers, verb, &full(), now);
            }
            assert!(breakers.admit(verb, now, DIRECT).is_err());
        }
        for verb in [Verb::Get, Verb::List, Verb::WatchOne, Verb::Health] {
            assert_eq!(breakers.admit(verb, now, DIRECT), Ok(()), "{verb}");
        }
    }

    #[test]
    fn answers_of_the_rest_do_not_close_the_breaker_of_a_component() {
        let now = Instant::now();
        let mut breakers = without_ingress(now);
        call(&mut breakers, Verb::Health, &Outcome::Answered, now);
        assert!(breakers.admit(Verb::Start, now, DIRECT).is_err());
        call(
            &mut breakers,
            Verb::Start,
            &Outcome::Answered,
            now + COOL_DOWN,
        );
        assert_eq!(breakers.admit(Verb::Start, now + COOL_DOWN, DIRECT), Ok(()));
    }

    #[test]
    fn an_engine_that_hangs_in_one_verb_is_refused_in_that_verb_although_it_is_healthy() {
        let now = Instant::now();
        let mut breakers = Breakers::new(3, COOL_DOWN);
        for _ in 0..3 {
            call(&mut breakers, Verb::List, &Outcome::Outage, now);
            call(&mut breakers, Verb::Health, &Outcome::Answered, now);
        }
        assert_eq!(breakers.position(), Position::Closed);
        let refused = Refused {
            scope: Scope::Verb(Verb::List),
            pause: COOL_DOWN,
        };
        assert_eq!(breakers.admit(Verb::List, now, DIRECT), Err(refused));
        assert_eq!(breakers.admit(Verb::Get, now, DIRECT), Ok(()));
    }

    #[test]
    fn once_the_provider_answers_again_every_verb_is_admitted() {
        let now = Instant::now();
        let mut breakers = down(now);
        call(
            &mut breakers,
            Verb::Health,
            &Outcome::Answered,
            now + COOL_DOWN,
        );
        assert_eq!(breakers.admit(Verb::Get, now + COOL_DOWN, DIRECT), Ok(()));
    }

    #[test]
    fn a_provider_that_reconnected_is_called_immediately() {
        let now = Instant::now();
        let mut breakers = down(now);
        breakers.reconnected();
        assert!(breakers.is_calm());
        assert_eq!(breakers.admit(Verb::List, now, MERGED), Ok(()));
        let mut breakers = without_ingress(now);
        breakers.reconnected();
        assert!(breakers.admit(Verb::Start, now, DIRECT).is_err());
    }

    #[test]
    fn what_did_not_reach_the_engine_neither_resets_the_count_nor_closes_the_breaker() {
        let now = Instant::now();
        for silent in [Outcome::NotAsked, Outcome::CutOff] {
            let mut breakers = Breakers::new(3, COOL_DOWN);
            for _ in 0..3 {
                call(&mut breakers, Verb::Get, &Outcome::Outage, now);
                if breakers.position() == Position::Closed {
                    call(&mut breakers, Verb::List, &silent, now);
                }
            }
            assert_eq!(breakers.position(), Position::Open, "{silent:?}");
            let later = now + COOL_DOWN;
            breakers.admit(Verb::Get, later, DIRECT).unwrap();
            breakers.finish(Verb::Get, &silent, later);
            assert_eq!(breakers.position(), Position::Open, "{silent:?}");
        }
    }

    #[test]
    fn a_merged_list_never_probes_a_provider_that_is_down() {
        let now = Instant::now();
        let later = now + COOL_DOWN * 2;
        let mut breakers = down(now);
        assert!(breakers.admit(Verb::List, later, MERGED).is_err());
        let hasty = Admission {
            fair: false,
            merged: false,
        };
        assert!(breakers.admit(Verb::List, later, hasty).is_err());
        call(&mut breakers, Verb::Health, &Outcome::Answered, later);
        assert_eq!(breakers.admit(Verb::List, later, MERGED), Ok(()));
    }

    #[test]
    fn a_refused_verb_does_not_use_up_the_call_that_decides_for_the_provider() {
        let now = Instant::now();
        let mut breakers = without_ingress(now);
        for _ in 0..3 {
            call(&mut breakers, Verb::List, &Outcome::Outage, now);
        }
        // The provider may be probed before the component.
        let later = now + COOL_DOWN;
        breakers.admit(Verb::Start, later, DIRECT).unwrap();
        breakers.finish(Verb::Start, &ingress(), later);
        assert!(breakers.admit(Verb::Start, later, DIRECT).is_err());
        assert_eq!(breakers.admit(Verb::Get, later, DIRECT), Ok(()));
    }

    #[test]
    fn health_is_asked_however_often_a_component_is_down() {
        let now = Instant::now();
        let mut breakers = Breakers::new(1, COOL_DOWN);
        for _ in 0..3 {
            call(&mut breakers, Verb::Health, &ingress(), now);
        }
        assert_eq!(breakers.position(), Position::Closed);
    }
}
