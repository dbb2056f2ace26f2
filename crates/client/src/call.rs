//! One call to make: the API's message and how long it may take.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use stateway_proto::v1;
use stateway_proto::v1::cancel_execution_request::Mode;

/// A message on its way, with the time it may take, retries included.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<M> {
    pub(crate) message: M,
    pub(crate) timeout: Option<Duration>,
}

/// Starts an execution.
pub type Start = Call<v1::StartExecutionRequest>;
/// Reads an execution.
pub type Get = Call<v1::GetExecutionRequest>;
/// Lists executions.
pub type List = Call<v1::ListExecutionsRequest>;
/// Follows executions.
pub type WatchRequest = Call<v1::WatchExecutionsRequest>;
/// Waits for an execution.
pub type Wait = Call<v1::WaitExecutionRequest>;
/// Reads an execution's history.
pub type Events = Call<v1::ListEventsRequest>;
/// Asks why an execution shows what it shows.
pub type Explain = Call<v1::ExplainStateRequest>;
/// Sends a signal.
pub type Signal = Call<v1::SignalExecutionRequest>;
/// Ends an execution.
pub type Cancel = Call<v1::CancelExecutionRequest>;
/// Holds an execution.
pub type Pause = Call<v1::PauseExecutionRequest>;
/// Lets a held execution go on.
pub type Resume = Call<v1::ResumeExecutionRequest>;
/// Makes the next attempt now.
pub type RetryNow = Call<v1::RetryNowRequest>;
/// Does the work again from a step on.
pub type RetryFrom = Call<v1::RetryFromRequest>;
/// Lists providers.
pub type ListProviders = Call<v1::ListProvidersRequest>;
/// Reads a provider.
pub type GetProvider = Call<v1::GetProviderRequest>;

impl<M> Call<M> {
    /// A call with this message.
    pub const fn from_message(message: M) -> Self {
        Self {
            message,
            timeout: None,
        }
    }

    /// How long it may take, retries included; the client's own limit otherwise.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut M)) -> Self {
        change(&mut self.message);
        self
    }
}

/// Messages that change something. Each carries an id under which it happens at most once.
pub trait Write {
    /// The request id.
    fn request_id(&mut self) -> &mut String;
}

macro_rules! writes {
    ($($message:ident),+ $(,)?) => { $(
        impl Write for v1::$message {
            fn request_id(&mut self) -> &mut String {
                &mut self.request_id
            }
        }
    )+ };
}

writes!(
    StartExecutionRequest,
    SignalExecutionRequest,
    CancelExecutionRequest,
    PauseExecutionRequest,
    ResumeExecutionRequest,
    RetryNowRequest,
    RetryFromRequest,
);

impl<M: Write> Call<M> {
    /// Chooses the request id. A random one is made otherwise; choose it where the same request
    /// may be made again by another process.
    #[must_use]
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.with(|message| *message.request_id() = id.into())
    }
}

/// Constructors of calls about one execution, and the etag of those that change it.
macro_rules! about_one {
    ($($alias:ident { $field:ident $(, $etag:ident)? })+) => { $(
        impl $alias {
            /// About this execution: `providers/{provider}/executions/{execution}`.
            pub fn new(name: impl Into<String>) -> Self {
                Self::from_message(Default::default()).with(|message| message.$field = name.into())
            }
            $(
                /// Refused with `ABORTED` if the execution has another etag by now.
                #[must_use]
                pub fn $etag(self, etag: impl Into<String>) -> Self {
                    self.with(|message| message.$etag = etag.into())
                }
            )?
        }
    )+ };
}

about_one! {
    Get { name }
    Wait { name }
    Events { parent }
    Explain { name }
    Signal { name, etag }
    Cancel { name, etag }
    Pause { name, etag }
    Resume { name, etag }
    RetryNow { name, etag }
    RetryFrom { name, etag }
    GetProvider { name }
    WatchRequest { parent }
    List { parent }
}

impl Start {
    /// Starts this definition.
    pub fn new(definition: impl Into<String>) -> Self {
        Self::from_message(Default::default())
            .with(|message| message.definition = definition.into())
    }

    /// On this provider, `providers/{provider}`; not needed for a provider's own definition.
    #[must_use]
    pub fn on(self, parent: impl Into<String>) -> Self {
        self.with(|message| message.parent = parent.into())
    }

    /// With this id; the provider chooses otherwise.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.with(|message| message.execution_id = id.into())
    }

    /// With this JSON as input.
    #[must_use]
    pub fn json(self, input: impl Into<Bytes>) -> Self {
        self.with(|message| message.input = Some(json(input)))
    }

    /// With this label.
    #[must_use]
    pub fn label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|message| {
            message.labels.insert(name.into(), value.into());
        })
    }

    /// With these labels and no others.
    #[must_use]
    pub fn labels(self, labels: HashMap<String, String>) -> Self {
        self.with(|message| message.labels = labels)
    }

    /// Not before this much time has passed.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|message| message.delay = duration(delay))
    }
}

impl Get {
    /// With or without input and output; with them unless told otherwise.
    #[must_use]
    pub fn view(self, view: v1::ExecutionView) -> Self {
        self.with(|message| message.view = view as i32)
    }
}

impl List {
    /// Only those that pass this AIP-160 filter.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        self.with(|message| message.filter = filter.into())
    }

    /// At most this many on a page.
    #[must_use]
    pub fn page_size(self, size: i32) -> Self {
        self.with(|message| message.page_size = size)
    }

    /// The page after the one that gave this token.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl Events {
    /// At most this many on a page.
    #[must_use]
    pub fn page_size(self, size: i32) -> Self {
        self.with(|message| message.page_size = size)
    }

    /// The page after the one that gave this token.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl ListProviders {
    /// Every provider, a page at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::from_message(Default::default())
    }

    /// The page after the one that gave this token.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl Default for ListProviders {
    fn default() -> Self {
        Self::new()
    }
}

impl WatchRequest {
    /// Only those that pass this AIP-160 filter; not for one execution.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        self.with(|message| message.filter = filter.into())
    }

    /// Goes on after this cursor.
    #[must_use]
    pub fn cursor(self, cursor: impl Into<String>) -> Self {
        self.with(|message| message.cursor = cursor.into())
    }
}

impl Wait {
    /// Until it shows this sub-state, or another one that was given.
    #[must_use]
    pub fn until(self, state: v1::SubState) -> Self {
        self.with(|message| message.sub_states.push(state as i32))
    }
}

impl Signal {
    /// The signal's name.
    #[must_use]
    pub fn signal(self, signal: impl Into<String>) -> Self {
        self.with(|message| message.signal = signal.into())
    }

    /// With this JSON as payload.
    #[must_use]
    pub fn json(self, payload: impl Into<Bytes>) -> Self {
        self.with(|message| message.payload = Some(json(payload)))
    }
}

impl Cancel {
    /// At once, without a chance to clean up.
    #[must_use]
    pub fn kill(self) -> Self {
        self.with(|message| message.mode = Mode::Kill as i32)
    }

    /// Why, for the record.
    #[must_use]
    pub fn cause(self, cause: impl Into<String>) -> Self {
        self.with(|message| message.cause = cause.into())
    }
}

impl Pause {
    /// Why, for the record.
    #[must_use]
    pub fn cause(self, cause: impl Into<String>) -> Self {
        self.with(|message| message.cause = cause.into())
    }
}

impl RetryNow {
    /// Only this step.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        self.with(|message| message.step = step.into())
    }
}

impl RetryFrom {
    /// From this step; from where it failed otherwise.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        self.with(|message| message.step = step.into())
    }

    /// With this JSON as the step's input.
    #[must_use]
    pub fn json(self, input: impl Into<Bytes>) -> Self {
        self.with(|message| message.input = Some(json(input)))
    }
}

fn json(data: impl Into<Bytes>) -> v1::Payload {
    v1::Payload {
        data: data.into(),
        content_type: "application/json".into(),
    }
}

/// A delay too long for the API's type is as good as never; the gateway refuses it.
fn duration(delay: Duration) -> Option<prost_types::Duration> {
    let longest = prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    };
    Some(prost_types::Duration::try_from(delay).unwrap_or(longest))
}
