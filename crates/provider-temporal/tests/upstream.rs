//! Every message, field, enum value and method of `proto/` is the same as upstream.
//!
//! `upstream/temporal-api.temporalio-1.35.0.binpb` is a descriptor set of the messages that `proto/`
//! selects, with all their upstream fields, taken from the Python package temporalio 1.35.0.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use stateway_provider_temporal::api::DESCRIPTORS;

const UPSTREAM: &[u8] = include_bytes!("upstream/temporal-api.temporalio-1.35.0.binpb");

/// Facts by full name: what must be the same.
type Facts = BTreeMap<String, String>;

fn facts(encoded: &[u8]) -> Facts {
    let files = FileDescriptorSet::decode(encoded).unwrap().file;
    let mut facts = Facts::new();
    for file in files
        .iter()
        .filter(|file| file.package().starts_with("temporal."))
    {
        let package = file.package();
        for message in &file.message_type {
            add_message(&mut facts, package, message);
        }
        for values in &file.enum_type {
            add_enum(&mut facts, package, values);
        }
        for service in &file.service {
            for method in &service.method {
                let name = format!("{package}.{}/{}", service.name(), method.name());
                facts.insert(
                    name,
                    format!("{} -> {}", method.input_type(), method.output_type()),
                );
            }
        }
    }
    facts
}

fn add_message(facts: &mut Facts, scope: &str, message: &DescriptorProto) {
    let scope = format!("{scope}.{}", message.name());
    for field in &message.field {
        let oneof = field.oneof_index.map(|index| {
            let index = usize::try_from(index).unwrap();
            message.oneof_decl[index].name().to_owned()
        });
        let repeated = field.label() == Label::Repeated;
        let fact = format!(
            "{} {} {} repeated={repeated} oneof={oneof:?}",
            field.number(),
            Type::try_from(field.r#type.unwrap()).unwrap().as_str_name(),
            field.type_name(),
        );
        facts.insert(format!("{scope}.{}", field.name()), fact);
    }
    for nested in &message.nested_type {
        add_message(facts, &scope, nested);
    }
}

fn add_enum(facts: &mut Facts, scope: &str, values: &EnumDescriptorProto) {
    for value in &values.value {
        let name = format!("{scope}.{}.{}", values.name(), value.name());
        facts.insert(name, value.number().to_string());
    }
}

#[test]
fn every_kept_name_has_the_number_and_the_type_of_upstream() {
    let (ours, upstream) = (facts(DESCRIPTORS), facts(UPSTREAM));
    assert!(ours.len() > 500, "{} facts", ours.len());
    let differs = |(name, fact): &(&String, &String)| upstream.get(*name) != Some(*fact);
    let different: Vec<_> = ours.iter().filter(differs).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn a_change_of_a_number_would_be_found() {
    let (ours, mut upstream) = (facts(DESCRIPTORS), facts(UPSTREAM));
    let name = "temporal.api.workflow.v1.PendingActivityInfo.attempt";
    let before = upstream.insert(name.to_owned(), "70".to_owned());
    assert_eq!(before.as_ref(), ours.get(name));
    assert_ne!(upstream.get(name), ours.get(name));
}
