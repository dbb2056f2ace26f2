//! The rules a definition is held to, one word each. Every diagnostic names its rule.

use stateway_model::words;

words! {
    /// A rule of the format. The word is printed with each diagnostic and documented.
    pub enum Rule as "rule" {
        /// The text is neither YAML nor JSON.
        Syntax = "syntax",
        /// The source, its depth or its number of values is over the bound.
        Size = "size",
        /// Anchors, aliases and tags would make YAML mean more than JSON can.
        YamlFeature = "yaml-feature",
        /// The same key twice in one mapping.
        DuplicateKey = "duplicate-key",
        /// A key the format does not know.
        UnknownField = "unknown-field",
        /// A key that has to be there.
        MissingField = "missing-field",
        /// A value of the wrong kind.
        WrongType = "wrong-type",
        /// A word outside its closed list.
        UnknownWord = "unknown-word",
        /// A number outside its bounds.
        OutOfRange = "out-of-range",
        /// Not a duration.
        BadDuration = "bad-duration",
        /// A name that could not be referred to.
        BadName = "bad-name",
        /// Two kinds in one step, or a kind that disagrees with its block.
        StepKind = "step-kind",
        /// No steps at all.
        NoSteps = "no-steps",
        /// More steps than the bound.
        TooManySteps = "too-many-steps",
        /// More dependants or dependencies than the bound.
        FanOut = "fan-out",
        /// Two steps of one name.
        DuplicateStep = "duplicate-step",
        /// A dependency that does not exist.
        UnknownDependency = "unknown-dependency",
        /// The same dependency twice.
        DuplicateDependency = "duplicate-dependency",
        /// Steps that wait for each other.
        Cycle = "cycle",
        /// No step can start.
        NoRoot = "no-root",
        /// A step that can never start.
        Unreachable = "unreachable",
        /// A compensation of a step that does not exist.
        CompensationStep = "compensation-step",
        /// Two compensations of one step.
        DuplicateCompensation = "duplicate-compensation",
        /// A compensation that could never run.
        UselessCompensation = "useless-compensation",
        /// A `${…}` that does not parse.
        BadReference = "bad-reference",
        /// A `${steps.…}` to a step that does not exist.
        UnknownReference = "unknown-reference",
        /// A `${steps.…}` to a step that may not have run yet.
        NotUpstream = "not-upstream",
        /// A header that HTTP cannot carry.
        BadHeader = "bad-header",
        /// A condition that does not parse.
        BadCondition = "bad-condition",
        /// A schedule or a time zone that does not exist.
        BadSchedule = "bad-schedule",
        /// An `outputSchema` that is no JSON Schema.
        BadSchema = "bad-schema",
        /// A setting that has no effect or contradicts another.
        Contradiction = "contradiction",
        /// A retry of what is never retried.
        RetryOfGovernance = "retry-of-governance",
        /// An approval that nobody gave.
        ApprovalByTimeout = "approval-by-timeout",
        /// A step that can hang for ever.
        MissingTimeout = "missing-timeout",
        /// A task that any worker may take.
        MissingAgent = "missing-agent",
        /// More steps than a person keeps in mind.
        ManySteps = "many-steps",
    }
}
