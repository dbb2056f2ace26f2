//! The capabilities of a provider.

/// Declares the flat struct once, with its names and a way to walk over it.
macro_rules! capabilities {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        /// The capabilities of a provider. A flat struct, so that tests can iterate over it.
        ///
        /// A verb whose capability is off answers `UNIMPLEMENTED`; it is never ignored
        /// without an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Capabilities {
            $( $(#[$doc])* pub $name: bool, )+
        }

        impl Capabilities {
            /// Everything on.
            pub const ALL: Self = Self { $( $name: true, )+ };

            /// Everything off: what an adapter's own constant begins with.
            pub const NONE: Self = Self { $( $name: false, )+ };

            /// Every capability by name, with whether it is on.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, bool)> {
                [ $( (stringify!($name), self.$name), )+ ].into_iter()
            }

            /// What both have on.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self { $( $name: self.$name && other.$name, )+ }
            }

            /// The same with one of them off, by its name; `None` when there is none of that
            /// name.
            #[must_use]
            pub fn without(mut self, name: &str) -> Option<Self> {
                match name {
                    $( stringify!($name) => self.$name = false, )+
                    _ => return None,
                }
                Some(self)
            }
        }
    };
}

/// Calls a macro with the names of all capabilities, in their order, each with its documentation. Code that must
/// know every capability, such as a conversion, is written once for all of them.
#[macro_export]
macro_rules! for_each_capability {
    ($callback:ident) => {
        $callback! {
            /// Executions can be started.
            start,
            /// A start with the same `request_id` and body gives the same execution; with another body
            /// it is refused.
            start_idempotent,
            /// A start can be delayed.
            start_delayed,
            /// Executions can be listed.
            list,
            /// A list's hints are used upstream, not only by the gateway.
            list_hints,
            /// The history can be read.
            history,
            /// The history can be read with the newest event first; without it the gateway reads the history from
            /// its beginning.
            history_newest_first,
            /// Changes of one execution are pushed; without it the gateway polls.
            watch_one,
            /// The end of one execution is pushed; without it the gateway watches the execution.
            watch_end,
            /// Changes of every execution are pushed; without it the gateway polls the list.
            watch_all,
            /// Signals can be sent.
            signal,
            /// A signal with the same `request_id` is delivered once.
            signal_idempotent,
            /// Executions can be cancelled gracefully.
            cancel,
            /// Executions can be killed.
            kill,
            /// Executions can be paused.
            pause,
            /// Paused executions can be resumed.
            resume,
            /// The next attempt can be made immediately.
            retry_now,
            /// A `retry_now` with the same `request_id` and body retries once, also after the gateway was
            /// restarted; with another body it is refused.
            retry_now_idempotent,
            /// Executions can be run again from a step.
            retry_from,
            /// A `retry_from` with the same `request_id` and body runs again once, also after the gateway was
            /// restarted; with another body it is refused.
            retry_from_idempotent,
            /// Steps are shown, at least in the full view.
            steps,
            /// Attempts and back-off are shown.
            retries,
            /// Input and output are shown.
            payloads,
            /// Labels are kept.
            labels,
            /// The record of a finished execution can be removed.
            purge,
            /// The engine's own definitions can be listed and read.
            definitions,
            /// Native definitions can be validated, created and changed.
            apply_definition,
            /// Executions can be counted by sub-state without reading them.
            count,
            /// A graceful cancel can choose whether completed steps are compensated.
            cancel_compensation,
            /// Portable definitions are stored and run.
            portable_definitions,
            /// Events and schedules start executions.
            triggers,
            /// Approvals and escalations wait for decisions of people.
            approvals,
            /// Changes of the pending approvals are pushed; without it the gateway polls the list.
            watch_approvals,
            /// Tasks are handed out to workers.
            workers,
            /// The log of events can be read by branch, replayed and exported.
            event_log,
            /// Executions can be verified and repaired.
            recovery,
            /// The engine's store can be purged and backed up.
            store,
        }
    };
}

for_each_capability!(capabilities);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_over_them_reaches_each_one() {
        assert!(Capabilities::ALL.iter().all(|(_, on)| on));
        assert!(Capabilities::NONE.iter().all(|(_, on)| !on));
        assert_eq!(Capabilities::NONE, Capabilities::default());
        let signal = Capabilities {
            signal: true,
            ..Capabilities::default()
        };
        let on: Vec<_> = signal
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(on, ["signal"]);
    }

    #[test]
    fn each_one_can_be_turned_off_by_its_name() {
        for (name, _) in Capabilities::ALL.iter() {
            let off: Vec<_> = Capabilities::ALL
                .without(name)
                .unwrap()
                .iter()
                .filter(|(_, on)| !on)
                .map(|(name, _)| name)
                .collect();
            assert_eq!(off, [name]);
        }
        assert_eq!(Capabilities::ALL.without("teleport"), None);
    }
}
