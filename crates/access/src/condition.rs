//! The conditions of a rule: the filter language of the API over provider, definition, labels and the role
//! of a task, with values of the caller.

use stateway_identity::Identity;
use stateway_provider_api::filter::{
    Condition, DefinitionPattern, Equality, Filter, Mismatch, NamedDefinition, Operand, Pattern,
};

use crate::object::{Object, TENANT_LABEL};

/// What begins a value of the caller.
const CALLER: &str = "caller.";
const CALLER_HINT: &str = "Known: caller.subject, caller.tenant, caller.role. Write \
                           \"caller\\.x\" for the text.";

/// A condition as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    Is(Field, Equality, Value),
    /// `field:*`: the field is set.
    Has(Field),
    /// `labels:*`.
    HasLabels,
}

/// The attribute that a condition checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    Provider,
    Definition,
    Label(String),
    /// The role of a task.
    Role,
}

/// The value with which a field is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A text with its escapes.
    Text(String),
    Caller(CallerField),
}

/// A value of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerField {
    Subject,
    Tenant,
    /// Any of the roles.
    Role,
}

/// A condition with the values of one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// The text is one of these.
    Text(Field, Equality, Vec<Pattern>),
    Definition(Equality, Vec<DefinitionPattern>),
    Has(Field),
    HasLabels,
}

impl Condition for Written {
    const FIELDS: &'static [&'static str] = &["provider", "definition", "labels.<key>", "role"];

    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch> {
        let is_presence = operator == ":" && value.is_star();
        let field = match field {
            "provider" => Field::Provider,
            "definition" => Field::Definition,
            "role" => Field::Role,
            "labels" if is_presence => return Ok(Self::HasLabels),
            "labels" if operator == ":" => return Ok(Self::Has(Field::Label(value.text()))),
            "labels" => {
                let message = format!("`labels` takes `:`, not `{operator}`");
                let hint = "Write `labels:key` or `labels.key = \"value\"`.";
                return Err(Mismatch::operator(message, hint));
            }
            label => Field::Label(label.strip_prefix("labels.").unwrap_or(label).to_owned()),
        };
        if is_presence {
            return Ok(Self::Has(field));
        }
        let equality = Equality::new(field.name(), operator)?;
        Ok(Self::Is(field, equality, Value::new(value)?))
    }
}

impl Field {
    fn name(&self) -> &str {
        match self {
            Self::Provider => "provider",
            Self::Definition => "definition",
            Self::Role => "role",
            Self::Label(key) => key,
        }
    }

    /// Whether the tasks of a worker can be told apart by it before they are handed out.
    pub(crate) fn is_of_offers(&self) -> bool {
        match self {
            Self::Provider | Self::Role => true,
            Self::Definition => false,
            Self::Label(key) => key == TENANT_LABEL,
        }
    }
}

impl Value {
    fn new(value: &Operand) -> Result<Self, Mismatch> {
        let Some(name) = value.escaped().strip_prefix(CALLER) else {
            return Ok(Self::Text(value.escaped().to_owned()));
        };
        Ok(Self::Caller(match name {
            "subject" => CallerField::Subject,
            "tenant" => CallerField::Tenant,
            "role" => CallerField::Role,
            _ => {
                let message = format!("`caller.{name}` is not a value of the caller");
                return Err(Mismatch::value(message, CALLER_HINT));
            }
        }))
    }

    /// The texts to compare with, with their escapes.
    fn texts(&self, caller: &Identity) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Caller(CallerField::Subject) => vec![literal(&caller.subject)],
            Self::Caller(CallerField::Tenant) => {
                caller.tenant.iter().map(|tenant| literal(tenant)).collect()
            }
            Self::Caller(CallerField::Role) => {
                caller.roles.iter().map(|role| literal(role)).collect()
            }
        }
    }
}

/// A text of a caller stands for itself, also if it contains `*`.
fn literal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for symbol in text.chars() {
        if matches!(symbol, '*' | '\\') {
            escaped.push('\\');
        }
        escaped.push(symbol);
    }
    escaped
}

impl Written {
    pub(crate) const fn field(&self) -> Option<&Field> {
        match self {
            Self::Is(field, ..) | Self::Has(field) => Some(field),
            Self::HasLabels => None,
        }
    }

    /// The value of the caller that the condition needs and the caller does not have.
    fn missing(&self, caller: &Identity) -> Option<CallerField> {
        match self {
            Self::Is(_, _, Value::Caller(field)) => match field {
                CallerField::Tenant if caller.tenant.is_none() => Some(*field),
                CallerField::Role if caller.roles.is_empty() => Some(*field),
                _ => None,
            },
            _ => None,
        }
    }

    fn resolved(self, caller: &Identity) -> Test {
        match self {
            Self::HasLabels => Test::HasLabels,
            Self::Has(field) => Test::Has(field),
            Self::Is(Field::Definition, equality, value) => {
                let texts = value.texts(caller).into_iter();
                let patterns = texts.map(|text| DefinitionPattern::new(&text)).collect();
                Test::Definition(equality, patterns)
            }
            Self::Is(field, equality, value) => {
                let texts = value.texts(caller).into_iter();
                let patterns = texts.map(|text| Pattern::new(&text)).collect();
                Test::Text(field, equality, patterns)
            }
        }
    }
}

/// The filter with the values of a caller. None if it needs a value that the caller does not have: whatever
/// the filter does with it, such a rule is not for this caller.
pub(crate) fn resolved(filter: &Filter<Written>, caller: &Identity) -> Option<Filter<Test>> {
    if filter.any(&|written| written.missing(caller).is_some()) {
        return None;
    }
    Some(filter.clone().map(&|written| written.resolved(caller)))
}

/// The value of the caller that a filter needs and the caller does not have.
pub(crate) fn missing(filter: &Filter<Written>, caller: &Identity) -> Option<&'static str> {
    let lacks = |wanted| filter.any(&|written| written.missing(caller) == Some(wanted));
    if lacks(CallerField::Tenant) {
        Some("tenant")
    } else if lacks(CallerField::Role) {
        Some("role")
    } else {
        None
    }
}

/// An object whose definition is taken apart once for the conditions of all rules.
pub(crate) struct Examined<'o> {
    object: &'o Object<'o>,
    definition: Option<NamedDefinition<'o>>,
}

impl<'o> Examined<'o> {
    pub(crate) fn new(object: &'o Object<'o>) -> Self {
        let definition = object.definition.map(NamedDefinition::new);
        Self { object, definition }
    }
}

impl Test {
    /// Whether it holds; none if that is not known. A field that is not set passes no comparison.
    pub(crate) fn holds(&self, examined: &Examined<'_>) -> Option<bool> {
        let object = examined.object;
        match self {
            Self::HasLabels => object.labels.is_any(),
            Self::Has(field) => value(field, object).map(|value| value.is_some()),
            Self::Text(field, equality, patterns) => value(field, object).map(|value| {
                value.is_some_and(|value| {
                    equality.holds(patterns.iter().any(|pattern| pattern.matches(value)))
                })
            }),
            Self::Definition(equality, patterns) => examined.definition.as_ref().map(|name| {
                let admits = |pattern: &DefinitionPattern| pattern.admits_named(name);
                !name.is_empty() && equality.holds(patterns.iter().any(admits))
            }),
        }
    }
}

/// The value of a field: none if it is not known, `Some(None)` if it is not set.
fn value<'o>(field: &Field, object: &Object<'o>) -> Option<Option<&'o str>> {
    let set = |text: &'o str| Some(text).filter(|text| !text.is_empty());
    match field {
        Field::Provider => object.provider.map(set),
        Field::Definition => object.definition.map(set),
        Field::Role => object.role.map(set),
        Field::Label(key) => object.labels.get(key),
    }
}
