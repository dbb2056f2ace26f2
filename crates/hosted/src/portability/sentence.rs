//! Every sentence that the portability report can print.

use std::fmt;

use stateway_provider_api::PortabilityVerdict;

macro_rules! sentences {
    ($( $(#[$meta:meta])* $name:ident { $($field:ident),* } $verdict:ident $text:literal )+) => {
        /// A sentence of the report, with its values as text.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) enum Sentence {
            $( $(#[$meta])* $name { $($field: String),* }, )+
        }

        impl Sentence {
            /// The verdict that follows from the sentence alone. A sentence about an execution that runs as it is
            /// written leaves the verdict `exact`.
            pub(super) const fn verdict(&self) -> PortabilityVerdict {
                match self { $( Self::$name { .. } => PortabilityVerdict::$verdict, )+ }
            }

            /// The name of every sentence, for the test that prints each of them.
            #[cfg(test)]
            pub(super) const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// The name of this sentence.
            #[cfg(test)]
            pub(super) const fn name(&self) -> &'static str {
                match self { $( Self::$name { .. } => stringify!($name), )+ }
            }
        }

        impl fmt::Display for Sentence {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $( Self::$name { $($field),* } => write!(f, $text), )+ }
            }
        }
    };
}

sentences! {
    /// A limit of concurrent executions.
    Concurrency {} Impossible
        "`concurrency` is set: a host has no limit of concurrent executions yet"
    /// An HTTP step whose address nobody may call.
    HttpStep { step } Impossible
        "step `{step}` is of kind `http`: the provider may call no address (`http.allow` is empty)"
    /// The source is too long.
    Source { bytes, engine, most } Impossible
        "the definition has {bytes} bytes: {engine} stores at most {most} bytes of it"
    /// The first state of an execution is too large.
    Start { bytes, engine, most } Impossible
        "an execution stores {bytes} bytes when it starts, without its input: {engine} stores at most {most}"
    /// The literal input of a child is too large.
    ChildInput { step, bytes, engine, most } Impossible
        "step `{step}`: its child stores {bytes} bytes when it starts with the literal `input`: {engine} stores at most {most}"
    /// Outputs that match their schemas are too large.
    LeastOutput { steps, bytes, engine, most } Impossible
        "{steps}: `outputSchema` requires outputs of {bytes} bytes or more: {engine} stores at most {most} bytes of an execution"
    /// Outputs that match their schemas can be too large.
    MostOutput { steps, bytes, engine, most } Emulated
        "{steps}: `outputSchema` allows outputs of {bytes} bytes: {engine} stores at most {most} bytes of an execution and refuses a larger result (`EXECUTION_TOO_LARGE`)"
    /// The events of all attempts are too large.
    Log { steps, attempts, bytes, engine, most } Emulated
        "{steps}: the retries allow {attempts} attempts, whose events can have {bytes} bytes: {engine} stores at most {most} bytes of the events of an execution"
    /// The engine has no schedules.
    Schedule {} Emulated
        "`trigger.schedule` starts no executions here: this engine has no schedules"
    /// A history that can become long.
    Requests { steps, requests, most, run, engine, limit } Exact
        "{steps}: an execution can need {requests} requests; after {most} it continues in another {run}, so that the limit of {limit} events of {engine} does not end it"
    /// An execution that can become old.
    Days { step, days, most, run, engine, limit } Exact
        "step `{step}` can take {days} days: after {most} days the execution continues in another {run}, so that the limit of {limit} days of {engine} does not end it"
    /// A lease that is longer than that of the built-in engine.
    Lease { steps, lease } Exact
        "{steps}: if a worker and its gateway end at the same time, another worker gets the task after {lease} s, or the `timeout` of the step ends the attempt before; a `heartbeatTimeout` shortens this time"
}
