//! Rules of Google's AIPs that `buf lint` does not check, on the compiled API.

use std::sync::LazyLock;

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    Value,
};

const PACKAGE: &str = "stateway.v1";

/// The compiled API, decoded once: a rule asks for it with each field.
fn pool() -> DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(stateway_proto::DESCRIPTORS).expect("the descriptors are valid")
    });
    POOL.clone()
}

fn messages() -> Vec<MessageDescriptor> {
    let pool = pool();
    let ours = pool
        .all_messages()
        .filter(|message| message.package_name() == PACKAGE);
    ours.filter(|message| !message.is_map_entry()).collect()
}

fn methods() -> Vec<MethodDescriptor> {
    let pool = pool();
    let ours = pool
        .services()
        .filter(|service| service.package_name() == PACKAGE);
    ours.flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect()
}

fn fields_of(messages: Vec<MessageDescriptor>) -> Vec<FieldDescriptor> {
    let fields = |message: MessageDescriptor| message.fields().collect::<Vec<_>>();
    messages.into_iter().flat_map(fields).collect()
}

/// Every message that a request contains, the request itself included.
fn sent() -> Vec<MessageDescriptor> {
    let mut found: Vec<MessageDescriptor> = Vec::new();
    let mut open: Vec<_> = methods().iter().map(MethodDescriptor::input).collect();
    while let Some(message) = open.pop() {
        if found.contains(&message) || message.package_name() != PACKAGE {
            continue;
        }
        open.extend(message.fields().filter_map(|field| match field.kind() {
            Kind::Message(message) if !message.is_map_entry() => Some(message),
            _ => None,
        }));
        found.push(message);
    }
    found
}

/// Whether a field is REQUIRED, OPTIONAL and so on.
fn has_behaviour(field: &FieldDescriptor) -> bool {
    let extension = pool().get_extension_by_name("google.api.field_behavior");
    let extension = extension.expect("the annotation is compiled in");
    let options = field.options();
    let value = options.get_extension(&extension).into_owned();
    matches!(value, Value::List(values) if !values.is_empty())
}

/// What a field refers to (AIP-122): the resource, or the parent of this kind of resource.
fn reference(field: &FieldDescriptor) -> Option<String> {
    let extension = pool().get_extension_by_name("google.api.resource_reference");
    let extension = extension.expect("the annotation is compiled in");
    let options = field.options();
    if !options.has_extension(&extension) {
        return None;
    }
    let value = options.get_extension(&extension).into_owned();
    let value = value.as_message().expect("the annotation is a message");
    let texts = ["type", "child_type"].map(|name| {
        let text = value.get_field_by_name(name).expect("a known field");
        text.as_str().unwrap_or_default().to_owned()
    });
    texts.into_iter().find(|text| !text.is_empty())
}

/// The types of the declared resources.
fn declared() -> Vec<String> {
    let extension = pool().get_extension_by_name("google.api.resource");
    let extension = extension.expect("the annotation is compiled in");
    let resources = messages().into_iter();
    let resources = resources.filter(|message| message.options().has_extension(&extension));
    let types = resources.map(|message| {
        let value = message.options().get_extension(&extension).into_owned();
        let value = value.as_message().expect("the annotation is a message");
        let name = value.get_field_by_name("type").expect("a known field");
        name.as_str().unwrap_or_default().to_owned()
    });
    types.collect()
}

fn names(fields: &[FieldDescriptor], wrong: impl Fn(&FieldDescriptor) -> bool) -> Vec<String> {
    let wrong = fields.iter().filter(|field| wrong(field));
    wrong.map(|field| field.full_name().to_owned()).collect()
}

/// AIP-203.
#[test]
fn every_field_of_a_request_says_whether_it_is_required() {
    let fields = fields_of(sent());
    assert!(fields.len() > 100, "{}", fields.len());
    assert_eq!(names(&fields, |field| !has_behaviour(field)), [""; 0]);
}

/// AIP-141.
#[test]
fn no_integer_is_unsigned() {
    let unsigned = |field: &FieldDescriptor| {
        matches!(
            field.kind(),
            Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64
        )
    };
    assert_eq!(names(&fields_of(messages()), unsigned), [""; 0]);
}

/// AIP-142.
#[test]
fn a_point_in_time_is_named_so() {
    let unnamed = |field: &FieldDescriptor| {
        let Kind::Message(message) = field.kind() else {
            return false;
        };
        let is_time = message.full_name() == "google.protobuf.Timestamp";
        is_time && !field.name().ends_with("_time")
    };
    assert_eq!(names(&fields_of(messages()), unnamed), [""; 0]);
}

/// AIP-142. The name of a span says that it is one.
#[test]
fn a_duration_is_named_so() {
    let unnamed = |field: &FieldDescriptor| {
        let Kind::Message(message) = field.kind() else {
            return false;
        };
        let is_duration = message.full_name() == "google.protobuf.Duration";
        let last = field.name().rsplit('_').next().unwrap_or_default();
        is_duration && !["duration", "delay", "timeout", "after"].contains(&last)
    };
    assert_eq!(names(&fields_of(messages()), unnamed), [""; 0]);
}

/// AIP-141: a quantity says what it counts. Other integers are positions, and a worker's capacity.
#[test]
fn a_count_is_named_so() {
    let quantities = ["count", "bytes", "size", "micros"];
    let positions = ["attempt", "sequence", "line", "column"];
    let capacities = ["capacity", "prefetch"];
    let unnamed = |field: &FieldDescriptor| {
        let is_integer = matches!(field.kind(), Kind::Int32 | Kind::Int64);
        let last = field.name().rsplit('_').next().unwrap_or_default();
        let known = [&quantities[..], &positions[..], &capacities[..]].concat();
        is_integer && !known.contains(&last)
    };
    assert_eq!(names(&fields_of(messages()), unnamed), [""; 0]);
    let plural = |field: &FieldDescriptor| field.name().starts_with("max_");
    let unnamed = |field: &FieldDescriptor| {
        let last = field.name().rsplit('_').next().unwrap_or_default();
        plural(field) && !quantities.contains(&last)
    };
    assert_eq!(names(&fields_of(messages()), unnamed), [""; 0]);
}

/// Nothing is released, so no number was ever used for something else.
#[test]
fn field_numbers_have_no_gaps() {
    for message in messages() {
        let mut numbers: Vec<_> = message.fields().map(|field| field.number()).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = (1..).take(numbers.len()).collect();
        assert_eq!(numbers, expected, "{}", message.full_name());
    }
}

/// AIP-122.
#[test]
fn every_reference_is_to_a_declared_resource() {
    let mut known = declared();
    known.push("*".to_owned());
    let unknown = |field: &FieldDescriptor| reference(field).is_some_and(|to| !known.contains(&to));
    let fields = fields_of(messages());
    assert!(fields.iter().any(|field| reference(field).is_some()));
    assert_eq!(names(&fields, unknown), [""; 0]);
}

/// AIP-131 to 136.
#[test]
fn every_name_and_parent_of_a_request_says_what_it_refers_to() {
    let requests: Vec<_> = methods().iter().map(MethodDescriptor::input).collect();
    let fields = fields_of(requests).into_iter();
    let named = |field: &FieldDescriptor| ["name", "names", "parent"].contains(&field.name());
    let fields: Vec<_> = fields.filter(named).collect();
    assert!(fields.len() > 30, "{}", fields.len());
    assert_eq!(names(&fields, |field| reference(field).is_none()), [""; 0]);
}

/// A branch is its resource name wherever it appears.
#[test]
fn every_branch_is_a_resource_name() {
    let fields = fields_of(messages()).into_iter();
    let branches = fields.filter(|field| {
        let last = field.name().rsplit('_').next().unwrap_or_default();
        last == "branch"
    });
    let branches: Vec<_> = branches.collect();
    assert!(branches.len() >= 10, "{}", branches.len());
    let other = |field: &FieldDescriptor| {
        let refers = reference(field).as_deref() == Some("stateway.dev/Branch");
        field.kind() != Kind::String || !refers
    };
    assert_eq!(names(&branches, other), [""; 0]);
}

/// AIP-136 asks for a verb and a noun, and for no preposition. `RetryNow` and `RetryFrom` are the
/// exceptions: they are one word in every layer, from the capability to the command, and
/// `RetryExecution` would not say which of the two it is.
#[test]
fn methods_have_no_preposition_but_for_the_retries() {
    let words = ["From", "Now", "With", "For", "By", "To", "At"];
    let found = methods().into_iter().filter(|method| {
        let name = method.name();
        words.iter().any(|word| name.ends_with(word))
    });
    let found: Vec<_> = found.map(|method| method.name().to_owned()).collect();
    assert_eq!(found, ["RetryNow", "RetryFrom"]);
}

/// AIP-126: languages that hoist the values of an enum would let those of the package collide.
#[test]
fn values_of_package_enums_have_the_name_of_the_enum() {
    let ours = |one: &EnumDescriptor| one.package_name() == PACKAGE;
    for one in pool().all_enums().filter(ours) {
        let nested = one.parent_message().is_some();
        let prefix = format!("{}_", words_of(one.name()));
        for value in one.values() {
            let expected = !nested || value.number() == 0;
            let prefixed = value.name().starts_with(&prefix);
            assert_eq!(prefixed, expected, "{}", value.full_name());
        }
    }
}

/// `SubState` as values are written: `SUB_STATE`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            words.push('_');
        }
        words.push(letter.to_ascii_uppercase());
    }
    words
}

/// AIP-132 and AIP-158.
#[test]
fn every_list_has_pages() {
    let lists = methods().into_iter();
    let lists: Vec<_> = lists.filter(|one| one.name().starts_with("List")).collect();
    assert!(lists.len() >= 8, "{lists:?}");
    for list in lists {
        for field in ["page_size", "page_token"] {
            let found = list.input().get_field_by_name(field);
            assert!(found.is_some(), "{} has no {field}", list.name());
        }
        let found = list.output().get_field_by_name("next_page_token");
        assert!(found.is_some(), "{} has no next page", list.name());
    }
}

/// The messages of the API, with their comments, as written in `proto/`.
fn sources() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/stateway/v1");
    let files = std::fs::read_dir(folder).expect("the folder exists");
    let files = files.map(|file| file.expect("the file exists").path());
    let read = |path| std::fs::read_to_string(path).expect("a text");
    files.map(read).collect()
}

/// AIP-217: whoever reads from all providers learns which of them did not answer.
#[test]
fn what_is_read_from_all_providers_names_the_unreachable_ones() {
    let sources = sources();
    let mut found = 0;
    for method in methods() {
        let input = method.input();
        let start = format!("\nmessage {} {{\n", input.name());
        let body = sources.split_once(&start).expect("the message exists").1;
        let body = body.split("\n}\n").next().unwrap_or_default();
        let reads = ["List", "Count", "Verify"];
        let reads = reads.iter().any(|verb| method.name().starts_with(verb));
        if !reads || !body.contains("providers/- for all providers") {
            continue;
        }
        found += 1;
        // Of counts it is no difference whether a provider did not answer or cannot count.
        let names = ["unreachable", "uncounted"];
        let mut named = names
            .map(|name| method.output().get_field_by_name(name))
            .into_iter();
        assert!(named.any(|field| field.is_some()), "{}", method.name());
    }
    assert!(found >= 6, "{found}");
}

/// AIP-123.
#[test]
fn every_resource_is_declared_with_its_pattern() {
    let extension = pool().get_extension_by_name("google.api.resource");
    let extension = extension.expect("the annotation is compiled in");
    let mut declared: Vec<_> = messages()
        .iter()
        .filter(|message| message.options().has_extension(&extension))
        .map(|message| message.name().to_owned())
        .collect();
    declared.sort();
    let expected = [
        "Approval",
        "Branch",
        "Definition",
        "Escalation",
        "Execution",
        "Provider",
        "Queue",
        "StepDetail",
        "Trigger",
        "Worker",
    ];
    assert_eq!(declared, expected);
}
