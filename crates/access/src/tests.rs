//! Decisions of whole rule sets.

use proptest::prelude::*;
use stateway_identity::{Identity, Method};
use stateway_model::Labels;

use crate::{KnownLabels, Object, Permission, Place, Preset, Required, Rules, Verdict, cases};

const RULES: &str = r#"
[[rules]]
name = "admins"
who = { role = "admin" }
may = "admin"

[[rules]]
name = "team"
who = { subject = ["ada@*", "bob@*"], role = "dev" }
may = ["developer", "approve"]
where = "provider = builtin AND definition = order-*"

[[rules]]
name = "tenants"
who = { tenant = "*" }
may = "read"
where = "labels.tenant = caller.tenant"

[[rules]]
name = "workers"
who = { role = "worker" }
may = "work"
where = "role = caller.role OR role = agent-*"

[[rules]]
name = "own"
who = { subject = "*" }
may = ["read", "stop"]
where = "labels.owner = caller.subject AND NOT labels.locked:*"
"#;

fn rules() -> Rules {
    Rules::parse(RULES, Place::OwnFile).unwrap()
}

fn caller(subject: &str, roles: &[&str], tenant: Option<&str>) -> Identity {
    Identity::new(Method::Jwt, subject, roles, tenant).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    pairs.collect()
}

fn object<'o>(provider: &'o str, definition: &'o str, labels: &'o Labels) -> Object<'o> {
    Object {
        provider: Some(provider),
        definition: Some(definition),
        labels: KnownLabels::All(labels),
        role: None,
    }
}

/// The rule that decides; `None` if the request is denied.
fn decided(who: &Identity, permission: Permission, object: &Object<'_>) -> Option<String> {
    let decision = rules().grants(who).decide(permission, object);
    assert_eq!(decision.allowed, decision.rule.is_some());
    assert_eq!(decision.permission, permission);
    decision.rule.map(|rule| rule.to_string())
}

#[test]
fn the_first_rule_that_allows_decides_and_nothing_is_allowed_by_default() {
    let none = Labels::new();
    let order = object("builtin", "definitions/order-saga", &none);
    let other = object("builtin", "definitions/refund", &none);
    let elsewhere = object("aws", "definitions/order-saga", &none);
    let ada = caller("ada@example.org", &["dev"], None);
    assert_eq!(
        decided(&ada, Permission::Start, &order).as_deref(),
        Some("team")
    );
    assert_eq!(
        decided(&ada, Permission::Approve, &order).as_deref(),
        Some("team")
    );
    for (permission, object) in [
        (Permission::Start, &other),
        (Permission::Start, &elsewhere),
        (Permission::Operate, &order),
        (Permission::Work, &order),
    ] {
        assert_eq!(decided(&ada, permission, object), None, "{permission}");
    }
    // Every key of `who` has to match.
    for who in [
        caller("ada@example.org", &["ops"], None),
        caller("eve@example.org", &["dev"], None),
        caller("nobody", &[], None),
    ] {
        assert_eq!(decided(&who, Permission::Start, &order), None);
    }
    let root = caller("root", &["x", "admin"], None);
    for permission in Permission::ALL {
        let rule = decided(&root, permission, &Object::default());
        assert_eq!(rule.as_deref(), Some("admins"));
    }
}

#[test]
fn values_of_the_caller_stand_for_themselves() {
    let acme = labels(&[("tenant", "acme")]);
    let theirs = object("builtin", "definitions/x", &acme);
    let reads = |tenant: &str| {
        let who = caller("x", &[], Some(tenant));
        decided(&who, Permission::Read, &theirs).is_some()
    };
    assert!(reads("acme"));
    for other in ["*", "a*", "acm", "acme2", "ACME", r"\acme", "acme*"] {
        assert!(!reads(other), "{other}");
    }
    let star = labels(&[("tenant", "*")]);
    let star = object("builtin", "definitions/x", &star);
    let who = caller("x", &[], Some("*"));
    assert!(decided(&who, Permission::Read, &star).is_some());
}

#[test]
fn a_rule_that_needs_a_tenant_or_a_role_is_not_for_callers_without_one() {
    let text = r#"
[[rules]]
name = "not-mine"
who = { subject = "*" }
may = "read"
where = "NOT labels.tenant = caller.tenant AND labels.tenant != caller.tenant"

[[rules]]
name = "by-role"
who = { subject = "*" }
may = "start"
where = "NOT labels.team = caller.role"
"#;
    let rules = Rules::parse(text, Place::OwnFile).unwrap();
    let other = labels(&[("tenant", "acme"), ("team", "a")]);
    let object = object("p", "definitions/x", &other);
    let nobody = rules.grants(&caller("x", &[], None));
    assert!(!nobody.has(Permission::Read) && !nobody.has(Permission::Start));
    let someone = rules.grants(&caller("x", &["b", "c"], Some("evil")));
    assert!(someone.allows(Permission::Read, &object));
    assert!(someone.allows(Permission::Start, &object));
    let member = rules.grants(&caller("x", &["b", "a"], Some("acme")));
    assert!(!member.allows(Permission::Read, &object));
    assert!(!member.allows(Permission::Start, &object));
}

#[test]
fn what_is_not_known_satisfies_no_condition_for_certain() {
    let grants = rules().grants(&caller("ada", &[], Some("acme")));
    let of_provider = Object::of_provider("builtin");
    assert!(!grants.allows(Permission::Read, &of_provider));
    assert!(grants.may_allow(Permission::Read, &of_provider));
    let tenant = Object {
        labels: KnownLabels::Tenant("acme"),
        ..of_provider
    };
    assert!(grants.allows(Permission::Read, &tenant));
    let other = Object {
        labels: KnownLabels::Tenant("evil"),
        ..of_provider
    };
    assert!(!grants.allows(Permission::Read, &other));
    // The label `owner` may still be the caller.
    assert!(grants.may_allow(Permission::Read, &other));
    let none = Labels::new();
    let without = Object {
        labels: KnownLabels::All(&none),
        ..of_provider
    };
    assert!(!grants.may_allow(Permission::Read, &without));
    assert!(!grants.may_allow(Permission::Work, &of_provider));
}

#[test]
fn labels_that_are_not_set_pass_no_comparison() {
    let grants = rules().grants(&caller("ada", &[], None));
    let allows = |pairs: &[(&str, &str)]| {
        let labels = labels(pairs);
        grants.allows(Permission::Stop, &object("p", "definitions/x", &labels))
    };
    assert!(allows(&[("owner", "ada")]));
    assert!(!allows(&[("owner", "ada"), ("locked", "yes")]));
    assert!(!allows(&[("owner", "bob")]));
    assert!(!allows(&[]));
}

#[test]
fn a_worker_is_decided_by_the_role_of_its_tasks() {
    let worker = caller("w", &["worker", "billing"], None);
    let task = |role| Object {
        role: Some(role),
        ..Object::of_provider("p")
    };
    let rule = |role| decided(&worker, Permission::Work, &task(role));
    assert_eq!(rule("billing").as_deref(), Some("workers"));
    assert_eq!(rule("agent-7").as_deref(), Some("workers"));
    assert_eq!(rule("shipping"), None);
    assert_eq!(rule(""), None);
}

#[test]
fn what_a_rule_requires_can_be_asked_for() {
    let text = r#"
[[rules]]
name = "one"
who = { subject = "ada" }
may = "read"
where = "definition = order AND labels.team = a"

[[rules]]
name = "other"
who = { subject = "ada" }
may = "read"
where = "provider = aws"
"#;
    let rules = Rules::parse(text, Place::OwnFile).unwrap();
    let grants = rules.grants(&caller("ada", &[], None));
    let required = grants.required(Permission::Read, "builtin");
    assert!(required.definition.unwrap().admits("definitions/order"));
    assert_eq!(required.labels, [("team".to_owned(), "a".to_owned())]);
    // On `aws`, everything is allowed.
    let nothing = Required::default();
    assert_eq!(grants.required(Permission::Read, "aws"), nothing);
    assert_eq!(grants.required(Permission::Start, "builtin"), nothing);
}

#[test]
fn what_all_rules_of_a_caller_require_can_be_asked_for() {
    let text = r#"
[[rules]]
name = "own"
who = { subject = "*" }
may = "read"
where = "labels.tenant = caller.tenant AND labels.stage = live AND definition = order"

[[rules]]
name = "shared"
who = { subject = "*" }
may = "read"
where = "labels.tenant = caller.tenant AND labels.shared = yes AND labels.stage = l*"
"#;
    let rules = Rules::parse(text, Place::OwnFile).unwrap();
    let grants = rules.grants(&caller("ada", &[], Some("acme")));
    let expected = Required {
        definition: None,
        labels: vec![("tenant".to_owned(), "acme".to_owned())],
    };
    assert_eq!(grants.required(Permission::Read, "b"), expected);
}

#[test]
fn an_explanation_says_what_each_rule_lacks() {
    let none = Labels::new();
    let order = object("aws", "definitions/order-saga", &none);
    let ada = caller("ada@example.org", &["dev"], None);
    let explained = rules().explain(&ada, Permission::Start, &order);
    assert!(!explained.decision.allowed);
    let verdicts: Vec<_> = explained.findings.iter().map(|it| &it.verdict).collect();
    assert_eq!(*verdicts[0], Verdict::OtherCallers);
    assert!(matches!(verdicts[1], Verdict::ConditionFails(text) if text.contains("order-*")));
    assert_eq!(*verdicts[2], Verdict::Unrelated);
    assert!(matches!(verdicts[4], Verdict::NotPermitted { may } if may.len() == 2));
    let unknown = rules().explain(&ada, Permission::Start, &Object::of_provider("builtin"));
    assert!(matches!(
        unknown.findings[1].verdict,
        Verdict::ConditionUnknown(_)
    ));
    let without = rules().explain(
        &caller("w", &["worker"], Some("t")),
        Permission::Read,
        &Object::of_provider("p"),
    );
    assert!(matches!(
        without.findings[2].verdict,
        Verdict::ConditionUnknown(_)
    ));
    let allowed = object("builtin", "definitions/order-saga", &none);
    let allowed = rules().explain(&ada, Permission::Start, &allowed);
    assert_eq!(allowed.findings[1].verdict, Verdict::Allows);
    assert_eq!(allowed.decision.rule.as_deref(), Some("team"));
}

#[test]
fn rules_that_cannot_work_are_refused_by_name() {
    let refused = |rule: &str| {
        let text = format!("[[rules]]\n{rule}\n");
        Rules::parse(&text, Place::OwnFile).unwrap_err().to_string()
    };
    let who = "who = { subject = \"*\" }";
    for (rule, expected) in [
        ("name = \"a\"\nmay = \"read\"", "line"),
        (
            "name = \"a\"\nwho = {}\nmay = \"read\"",
            "{ subject = \"*\" }",
        ),
        (&*format!("name = \"a b\"\n{who}\nmay = \"read\""), "`name`"),
        (&*format!("name = \"a\"\n{who}\nmay = []"), "`may`"),
        (&*format!("name = \"a\"\n{who}\nmay = \"fly\""), "`fly`"),
        (
            &*format!("name = \"a\"\n{who}\nmay = \"read\"\nwhere = \"sub_state = RUNNING\""),
            "`sub_state` is not a field",
        ),
        (
            &*format!("name = \"a\"\n{who}\nmay = \"read\"\nwhere = \"labels.x = caller.name\""),
            "caller.subject",
        ),
        (
            &*format!("name = \"a\"\n{who}\nmay = \"read\"\nwhere = \"role = x\""),
            "role of a task",
        ),
        (
            &*format!("name = \"a\"\n{who}\nmay = \"admin\"\nwhere = \"definition = x\""),
            "a rule for `work`",
        ),
        (
            &*format!("name = \"a\"\n{who}\nmay = \"read\"\nif = \"x\""),
            "if",
        ),
    ] {
        let message = refused(rule);
        assert!(message.contains(expected), "{rule}: {message}");
    }
    let twice = format!(
        "{RULES}\n{}",
        RULES.lines().take(5).collect::<Vec<_>>().join("\n")
    );
    let message = Rules::parse(&twice, Place::OwnFile)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`admins`") && message.contains("two rules"),
        "{message}"
    );
}

#[test]
fn a_configuration_has_other_sections() {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:1\"\n{}",
        RULES.replace("[[rules]]", "[[access.rules]]")
    );
    assert_eq!(Rules::parse(&text, Place::Configuration).unwrap(), rules());
    assert!(
        Rules::parse("[server]\n", Place::Configuration)
            .unwrap()
            .is_empty()
    );
    assert!(Rules::parse(&text, Place::OwnFile).is_err());
}

#[test]
fn the_documentation_is_about_these_permissions_presets_and_rules() {
    let page = include_str!("../../../docs/access.md");
    let rows = |heading: &str| {
        let section = page.split(heading).nth(1).unwrap();
        let rows = section.lines().skip_while(|line| !line.starts_with("| `"));
        let rows = rows.take_while(|line| line.starts_with("| `"));
        rows.map(|row| row.split('`').skip(1).step_by(2).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let permissions: Vec<_> = rows("| permission | allows |")
        .iter()
        .map(|row| row[0])
        .collect();
    assert_eq!(permissions, Permission::ALL.map(Permission::as_str));
    for (row, preset) in rows("| preset | permissions |").iter().zip(Preset::ALL) {
        assert_eq!(row[0], preset.as_str());
        if preset != Preset::Admin {
            let given: Vec<_> = preset.permissions().iter().map(|it| it.as_str()).collect();
            assert_eq!(row[1..], given);
        }
    }
    let mut blocks = page.split("```toml\n").skip(1);
    let mut block = || blocks.next().unwrap().split("\n```").next().unwrap();
    let rules = Rules::parse(block(), Place::Configuration).unwrap();
    for case in cases::parse(block()).unwrap() {
        let mut question = case.question().unwrap();
        question.default_provider("builtin");
        let grants = rules.grants(&question.caller);
        let decision = grants.decide(question.permission, &question.object());
        assert_eq!(
            decision.allowed,
            case.expect == Some(cases::Expected::Allow)
        );
        assert_eq!(decision.rule.as_deref(), case.rule.as_deref());
    }
}

proptest! {
    /// Whatever a tenant is called, it reads what has its label and nothing else.
    #[test]
    fn a_tenant_reads_what_is_its_own(mine in "[!-~]{1,12}", theirs in "[!-~]{1,12}") {
        let grants = rules().grants(&caller("x", &[], Some(&mine)));
        for tenant in [&mine, &theirs] {
            let labels = labels(&[("tenant", tenant)]);
            let reads = grants.allows(Permission::Read, &object("p", "definitions/x", &labels));
            prop_assert_eq!(reads, *tenant == mine);
        }
    }

    /// What is certain stays allowed when more is known, and what cannot be allowed never is.
    #[test]
    fn knowing_more_changes_no_certain_answer(
        provider in "[a-c]", definition in "order-[a-c]|x", tenant in "[a-c]", owner in "[a-c]",
        mine in "[a-c]", role in "dev|worker|admin|none",
    ) {
        let grants = rules().grants(&caller(&format!("{owner}@x"), &[&role], Some(&mine)));
        let labels = labels(&[("tenant", &tenant), ("owner", &owner)]);
        let name = format!("definitions/{definition}");
        let whole = object(&provider, &name, &labels);
        let part = Object::of_provider(&provider);
        let some = Object { labels: KnownLabels::Tenant(&tenant), ..part };
        for permission in Permission::ALL {
            let allowed = grants.allows(permission, &whole);
            for known in [&part, &some] {
                if grants.allows(permission, known) {
                    prop_assert!(permission == Permission::Work || allowed);
                }
                if allowed {
                    prop_assert!(grants.may_allow(permission, known));
                }
            }
        }
    }
}

#[test]
fn every_error_of_every_rule_is_reported_in_one_round() {
    let text = "\
[[rules]]
name = \"a b\"
who = { subject = \"\", role = \"\", rank = \"x\" }
may = [\"fly\", \"swim\", 7]
where = \"colour = red\"
if = \"x\"

[[rules]]
may = 7
where = 7

[[rules]]
name = \"good\"
who = { role = \"r\" }
may = \"read\"

[[rules]]
name = \"good\"
who = \"r\"
may = []

[[rule]]
name = \"c\"
";
    let starts = [
        "line 2: rule `a b`: `name` must be",
        "line 3: rule `a b`: unknown field `rank`",
        "line 3: rule `a b`: `who.subject` must not be empty",
        "line 3: rule `a b`: `who.role` must not be empty",
        "line 4: rule `a b`: `may`: `fly` is not a permission",
        "line 4: rule `a b`: `may`: `swim` is not a permission",
        "line 4: rule `a b`: `may` must be a text or a list of texts, found a value of type integer",
        "line 5: rule `a b`: `where`: `colour` is not a field",
        "line 6: rule `a b`: unknown field `if`",
        "line 8: rule `2`: `name` must be",
        "line 8: rule `2`: `who` must have",
        "line 9: rule `2`: `may` must be a text or a list of texts",
        "line 10: rule `2`: `where` must be a text",
        "line 18: rule `good`: two rules have this name",
        "line 19: rule `good`: `who` must be a table",
        "line 20: rule `good`: `may` must have at least one permission",
        "line 22: unknown field `rule`",
    ];
    let errors = Rules::parse(text, Place::OwnFile).unwrap_err();
    let mut lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for start in starts {
        let found = lines.iter().position(|line| line.starts_with(start));
        let found = found.unwrap_or_else(|| panic!("{start} is not in {lines:#?}"));
        lines.remove(found);
    }
}
