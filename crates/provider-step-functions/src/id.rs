//! Amazon Resource Names of executions, state machines and activities, in every partition
//! (`aws`, `aws-cn`, `aws-us-gov`, the isolated ones, `aws-eusc`, and those still to come).

/// An execution's ARN, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionArn<'a> {
    /// The execution's type.
    pub kind: ExecutionKind,
    /// The name of its state machine.
    pub machine: &'a str,
    /// Its own name.
    pub name: &'a str,
    prefix: &'a str,
}

/// What kind of execution an ARN names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionKind {
    /// Standard: it can be read.
    Standard,
    /// Express: started, and seen only in logs.
    Express,
}

impl<'a> ExecutionArn<'a> {
    /// Takes an ARN apart; `None` for what is not an execution's.
    #[must_use]
    pub fn parse(arn: &'a str) -> Option<Self> {
        let (prefix, resource) = split(arn)?;
        let (kind, rest) = resource.split_once(':')?;
        let kind = match kind {
            "execution" => ExecutionKind::Standard,
            "express" => ExecutionKind::Express,
            _ => return None,
        };
        let (machine, name) = rest.split_once(':')?;
        let whole = !machine.is_empty() && !name.is_empty();
        whole.then_some(Self {
            kind,
            machine,
            name,
            prefix,
        })
    }

    /// The ARN of its state machine. The child of a distributed map carries a label behind the
    /// machine's name.
    #[must_use]
    pub fn machine_arn(&self) -> String {
        let machine = self.machine.split('/').next().unwrap_or(self.machine);
        format!("{}:stateMachine:{machine}", self.prefix)
    }
}

/// The name of a state machine, version or alias by its ARN.
#[must_use]
pub(crate) fn machine_name(arn: &str) -> Option<&str> {
    let (_, resource) = split(arn)?;
    let rest = resource.strip_prefix("stateMachine:")?;
    rest.split(':').next().filter(|name| !name.is_empty())
}

/// The version's number, where the ARN names one.
#[must_use]
pub(crate) fn version(arn: &str) -> Option<&str> {
    let (_, resource) = split(arn)?;
    resource
        .strip_prefix("stateMachine:")?
        .split_once(':')
        .map(|(_, version)| version)
}

/// The ARN of an execution of this state machine, version or alias.
#[must_use]
pub(crate) fn execution_of(machine_arn: &str, name: &str) -> Option<String> {
    let (prefix, _) = split(machine_arn)?;
    let machine = machine_name(machine_arn)?;
    Some(format!("{prefix}:execution:{machine}:{name}"))
}

/// Whether this is the ARN of an activity.
#[must_use]
pub(crate) fn is_activity(arn: &str) -> bool {
    let name = split(arn).and_then(|(_, resource)| resource.strip_prefix("activity:"));
    name.is_some_and(|name| !name.is_empty() && !name.contains(':'))
}

/// `arn:partition:states:region:account` and what stands behind it.
fn split(arn: &str) -> Option<(&str, &str)> {
    let mut colons = arn.match_indices(':').map(|(at, _)| at);
    let fifth = colons.nth(4)?;
    let (prefix, resource) = (&arn[..fifth], &arn[fifth + 1..]);
    let mut parts = prefix.split(':');
    let is_arn = parts.next() == Some("arn")
        && parts
            .next()
            .is_some_and(|partition| partition.starts_with("aws"))
        && parts.next() == Some("states");
    is_arn.then_some((prefix, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_of_every_partition_are_understood() {
        for partition in [
            "aws",
            "aws-cn",
            "aws-us-gov",
            "aws-iso",
            "aws-iso-b",
            "aws-iso-e",
            "aws-iso-f",
            "aws-eusc",
        ] {
            let arn = format!("arn:{partition}:states:x-1:000000000000:execution:order:run-1");
            let parsed = ExecutionArn::parse(&arn).unwrap();
            assert_eq!((parsed.machine, parsed.name), ("order", "run-1"));
            assert_eq!(parsed.kind, ExecutionKind::Standard);
            let machine = parsed.machine_arn();
            assert_eq!(machine_name(&machine), Some("order"));
            assert_eq!(execution_of(&machine, "run-1").unwrap(), arn);
            let activity = format!("arn:{partition}:states:x-1:000000000000:activity:people");
            assert!(is_activity(&activity) && !is_activity(&arn));
        }
    }

    #[test]
    fn express_executions_and_children_of_maps_are_told_apart() {
        let express = "arn:aws:states:us-east-1:000000000000:express:order:a:b";
        let parsed = ExecutionArn::parse(express).unwrap();
        assert_eq!(parsed.kind, ExecutionKind::Express);
        let child = "arn:aws:states:us-east-1:000000000000:execution:order/items:a";
        let machine = ExecutionArn::parse(child).unwrap().machine_arn();
        assert_eq!(
            machine,
            "arn:aws:states:us-east-1:000000000000:stateMachine:order"
        );
    }

    #[test]
    fn versions_are_found() {
        let machine = "arn:aws:states:us-east-1:000000000000:stateMachine:order:7";
        assert_eq!(
            (machine_name(machine), version(machine)),
            (Some("order"), Some("7"))
        );
        assert_eq!(
            version("arn:aws:states:us-east-1:000000000000:stateMachine:order"),
            None
        );
    }

    #[test]
    fn what_is_no_execution_is_refused() {
        for wrong in [
            "",
            "kit-nobody",
            "arn:aws:states:us-east-1:000000000000:stateMachine:order",
            "arn:aws:states:us-east-1:000000000000:execution:order",
            "arn:aws:states:us-east-1:000000000000:execution:order:",
            "arn:aws:sqs:us-east-1:000000000000:execution:order:a",
            "arn:other:states:us-east-1:000000000000:execution:order:a",
        ] {
            assert_eq!(ExecutionArn::parse(wrong), None, "{wrong}");
        }
    }
}
