//! The rules that a definition must follow, one word each. Every diagnostic names its rule.

use stateway_model::words;

words! {
    /// A rule of the format. The word is printed with each diagnostic and documented.
    pub enum Rule as "rule" {
        /// The text is neither YAML nor JSON.
        Syntax = "syntax",
        /// The source, its depth or its number of values exceeds a limit.
        Size = "size",
        /// Anchors, aliases and tags are not part of the format.
        YamlFeature = "yaml-feature",
        /// One mapping has the same key twice.
        DuplicateKey = "duplicate-key",
        /// The format has no such field.
        UnknownField = "unknown-field",
        /// A required field is missing.
        MissingField = "missing-field",
        /// A value has the wrong type.
        WrongType = "wrong-type",
        /// A value is not in the list of allowed words.
        UnknownWord = "unknown-word",
        /// A number is outside its range.
        OutOfRange = "out-of-range",
        /// A value is not a duration.
        BadDuration = "bad-duration",
        /// A name has characters that references do not allow.
        BadName = "bad-name",
        /// A step has two kinds, a `kind` that contradicts its block, or a field that its kind does not have.
        StepKind = "step-kind",
        /// The workflow has no steps.
        NoSteps = "no-steps",
        /// The workflow has more steps than the limit.
        TooManySteps = "too-many-steps",
        /// A step has more dependants or dependencies than the limit.
        FanOut = "fan-out",
        /// Two steps have the same name.
        DuplicateStep = "duplicate-step",
        /// A step depends on a step that does not exist.
        UnknownDependency = "unknown-dependency",
        /// A step lists the same dependency twice.
        DuplicateDependency = "duplicate-dependency",
        /// Steps depend on each other in a circle.
        Cycle = "cycle",
        /// Every step has dependencies, so no step can start.
        NoRoot = "no-root",
        /// A step can never start.
        Unreachable = "unreachable",
        /// A compensation names a step that does not exist.
        CompensationStep = "compensation-step",
        /// A step has two compensations.
        DuplicateCompensation = "duplicate-compensation",
        /// A compensation can never run.
        UselessCompensation = "useless-compensation",
        /// A `${…}` is not a valid reference.
        BadReference = "bad-reference",
        /// A `${steps.…}` names a step that does not exist.
        UnknownReference = "unknown-reference",
        /// A `${steps.…}` names a step that may not have run yet.
        NotUpstream = "not-upstream",
        /// A header name or value is not valid in HTTP.
        BadHeader = "bad-header",
        /// A condition is not valid.
        BadCondition = "bad-condition",
        /// A schedule or a time zone is not valid.
        BadSchedule = "bad-schedule",
        /// An `outputSchema` is not a JSON Schema.
        BadSchema = "bad-schema",
        /// A setting has no effect or contradicts another setting.
        Contradiction = "contradiction",
        /// `retryOn` lists a category that is never retried.
        RetryOfGovernance = "retry-of-governance",
        /// An approval would be granted without a decision.
        ApprovalByTimeout = "approval-by-timeout",
        /// A step has no timeout and can hang forever.
        MissingTimeout = "missing-timeout",
        /// A task names no role, so any worker may take it.
        MissingAgent = "missing-agent",
        /// A workflow with a limited concurrency starts itself, and can wait for itself forever.
        WaitsForItself = "waits-for-itself",
        /// The workflow has more steps than recommended.
        ManySteps = "many-steps",
    }
}
