//! What is asked of the service, where it is more than an ARN.

use aws_sdk_sfn::types::Tag;

/// Which page of a history.
#[derive(Clone, Copy)]
pub(crate) struct HistoryQuery<'q> {
    pub(crate) arn: &'q str,
    pub(crate) size: u32,
    pub(crate) newest_first: bool,
    pub(crate) with_data: bool,
    pub(crate) token: Option<&'q str>,
    pub(crate) turn_taken: bool,
}

/// Which page of executions.
#[derive(Clone, Copy)]
pub(crate) struct ExecutionsQuery<'q> {
    pub(crate) machine: &'q str,
    pub(crate) status: Option<&'q str>,
    pub(crate) size: u32,
    pub(crate) token: Option<&'q str>,
    /// A turn of the quota was taken before.
    pub(crate) turn_taken: bool,
}

/// A state machine to be made.
pub(crate) struct NewMachine<'q> {
    pub(crate) name: &'q str,
    pub(crate) source: &'q str,
    pub(crate) role: &'q str,
    pub(crate) express: bool,
    pub(crate) tags: Vec<Tag>,
}

/// What to start.
#[derive(Clone, Copy)]
pub(crate) struct StartQuery<'q> {
    pub(crate) machine: &'q str,
    pub(crate) name: &'q str,
    pub(crate) input: &'q str,
    pub(crate) trace_header: Option<&'q str>,
}
