//! Every message, field, enum value and method of `proto/` is the same as upstream.
//!
//! `upstream/temporal-api.temporalio-1.35.0.binpb` is a descriptor set of the messages that `proto/`
//! selects, with all their upstream fields, taken from the Python package temporalio 1.35.0 by
//! `upstream/descriptors.py`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use stateway_provider_temporal::api::DESCRIPTORS;

const UPSTREAM_FILE: &str = "tests/upstream/temporal-api.temporalio-1.35.0.binpb";
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

/// What is not the same upstream.
fn differences(ours: &[u8], upstream: &[u8]) -> Vec<String> {
    let (ours, upstream) = (facts(ours), facts(upstream));
    let differs = |(name, fact): &(&String, &String)| upstream.get(*name) != Some(*fact);
    let different = ours.iter().filter(differs);
    different.map(|(name, _)| name.clone()).collect()
}

#[test]
fn every_kept_name_has_the_number_and_the_type_of_upstream() {
    assert!(facts(DESCRIPTORS).len() > 500);
    assert_eq!(differences(DESCRIPTORS, UPSTREAM), [""; 0]);
}

/// The upstream descriptors with a change in the description of a pending activity.
fn changed(change: impl FnOnce(&mut DescriptorProto)) -> Vec<String> {
    let mut set = FileDescriptorSet::decode(UPSTREAM).unwrap();
    let messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
    let mut messages = messages.filter(|message| message.name() == "PendingActivityInfo");
    change(messages.next().unwrap());
    differences(DESCRIPTORS, &set.encode_to_vec())
}

#[test]
fn every_change_is_found() {
    let attempt = |message: &mut DescriptorProto| {
        let mut fields = message.field.iter().enumerate();
        let place = fields.find(|(_, field)| field.name() == "attempt");
        place.unwrap().0
    };
    let name = ["temporal.api.workflow.v1.PendingActivityInfo.attempt"];
    let number = changed(|message| {
        let place = attempt(message);
        message.field[place].number = Some(700);
    });
    assert_eq!(number, name);
    let kind = changed(|message| {
        let place = attempt(message);
        message.field[place].set_type(Type::Int64);
    });
    assert_eq!(kind, name);
    let repeated = changed(|message| {
        let place = attempt(message);
        message.field[place].set_label(Label::Repeated);
    });
    assert_eq!(repeated, name);
    let removed = changed(|message| {
        let place = attempt(message);
        message.field.remove(place);
    });
    assert_eq!(removed, name);
}

/// The package of the live tests, if it is installed. `STATEWAY_WRITE_UPSTREAM` names a file that gets what the
/// package has, to renew the one beside this test.
#[test]
fn the_installed_package_has_the_same_descriptors() {
    let Some(python) = std::env::var_os("STATEWAY_TEMPORAL_PYTHON") else {
        println!("summary: temporal: the Python package is not installed: not compared");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (selection, found) = (folder.path().join("ours"), folder.path().join("upstream"));
    std::fs::write(&selection, DESCRIPTORS).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream/descriptors.py");
    let status = std::process::Command::new(python)
        .arg(script)
        .args([&selection, &found])
        .status();
    assert!(status.unwrap().success());
    let found = std::fs::read(found).unwrap();
    if let Some(file) = std::env::var_os("STATEWAY_WRITE_UPSTREAM") {
        std::fs::write(file, &found).unwrap();
    }
    assert_eq!(differences(DESCRIPTORS, &found), [""; 0]);
    assert_eq!(facts(UPSTREAM), facts(&found), "renew {UPSTREAM_FILE}");
}
