//! The API's own description: its methods, and the names of the fields in an encoded message.
//!
//! It comes from the same `.proto` files as the code, so a new method or field is known here
//! without anyone writing it down a second time.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

/// The description of `stateway.v1`.
pub(crate) static API: LazyLock<Descriptor> = LazyLock::new(Descriptor::compiled_in);

/// Methods and messages by name.
#[derive(Debug, Default)]
pub(crate) struct Descriptor {
    methods: BTreeMap<String, Method>,
    messages: HashMap<String, Message>,
}

/// A method: the full names of what it takes and answers.
#[derive(Debug)]
pub(crate) struct Method {
    input: String,
    output: String,
}

#[derive(Debug, Default)]
struct Message(HashMap<u64, Field>);

#[derive(Debug)]
struct Field {
    name: String,
    is_repeated: bool,
    /// The type, where it is a message.
    message: Option<String>,
}

/// The field that takes most of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargestField {
    /// Its path from the message: `execution.output.data`.
    pub(crate) path: String,
    pub(crate) bytes: usize,
    /// Whether it is a payload of an execution.
    pub(crate) is_payload: bool,
}

const PAYLOAD: &str = ".stateway.v1.Payload";

impl Descriptor {
    fn compiled_in() -> Self {
        let files = FileDescriptorSet::decode(stateway_proto::DESCRIPTORS);
        let files = files.map(|set| set.file).unwrap_or_default();
        let mut known = Self::default();
        for file in files {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                known.add_message(&package, message);
            }
            for method in file.service.into_iter().flat_map(|service| service.method) {
                let described = Method {
                    input: method.input_type().to_owned(),
                    output: method.output_type().to_owned(),
                };
                known.methods.insert(method.name().to_owned(), described);
            }
        }
        known
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add_message(&name, nested);
        }
        let fields = message.field.iter().filter_map(|field| {
            let described = Field {
                name: field.name().to_owned(),
                is_repeated: field.label() == Label::Repeated,
                message: (field.r#type() == Type::Message).then(|| field.type_name().to_owned()),
            };
            Some((u64::try_from(field.number()).ok()?, described))
        });
        let fields = Message(fields.collect());
        self.messages.insert(name, fields);
    }

    /// The names of all methods.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &str> {
        self.methods.keys().map(String::as_str)
    }

    pub(crate) fn has_method(&self, name: &str) -> bool {
        self.methods.contains_key(name)
    }

    /// Whether the answer to a method comes in pages whose size the client chooses.
    pub(crate) fn has_page_size(&self, method: &str) -> bool {
        let input = self.methods.get(method).map(|method| &method.input);
        let input = input.and_then(|input| self.messages.get(input));
        input.is_some_and(|Message(fields)| fields.values().any(|field| field.name == "page_size"))
    }

    /// The field that takes most of an encoded answer of a method.
    pub(crate) fn largest_field(&self, method: &str, answer: &[u8]) -> LargestField {
        let mut largest = LargestField {
            path: String::new(),
            bytes: answer.len(),
            is_payload: false,
        };
        let mut message = self.methods.get(method).map(|method| method.output.clone());
        let mut bytes = answer;
        // Into the field that has more than a third, as long as there is one.
        while let Some(Message(fields)) = message.as_ref().and_then(|name| self.messages.get(name))
            && let Some(number) = heaviest(bytes)
            && let Some(field) = fields.get(&number)
        {
            let values: Vec<&[u8]> = values(bytes)
                .filter(|(found, _)| *found == number)
                .map(|(_, value)| value)
                .collect();
            let at = (0..values.len()).max_by_key(|at| values[*at].len());
            let Some(at) = at else { break };
            let separator = if largest.path.is_empty() { "" } else { "." };
            largest.path = format!("{}{separator}{}", largest.path, field.name);
            largest.bytes = values.iter().map(|value| value.len()).sum();
            largest.is_payload |= field.message.as_deref() == Some(PAYLOAD);
            if values[at].len() * 2 < largest.bytes {
                break;
            }
            if field.is_repeated && values.len() > 1 {
                largest.path = format!("{}[{at}]", largest.path);
            }
            largest.bytes = values[at].len();
            (bytes, message) = (values[at], field.message.clone());
        }
        largest
    }
}

/// The number of the field that takes most of a message, and more than a third.
fn heaviest(bytes: &[u8]) -> Option<u64> {
    let mut sizes: HashMap<u64, usize> = HashMap::new();
    for (number, value) in values(bytes) {
        *sizes.entry(number).or_default() += value.len();
    }
    let (number, size) = sizes.into_iter().max_by_key(|(_, size)| *size)?;
    (size * 3 > bytes.len()).then_some(number)
}

/// The fields of an encoded message that have a length: number and value.
fn values(mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let key = varint(&mut bytes)?;
            match key & 7 {
                0 => drop(varint(&mut bytes)?),
                1 => bytes = bytes.get(8..)?,
                5 => bytes = bytes.get(4..)?,
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    let (value, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    return Some((key >> 3, value));
                }
                _ => return None,
            }
        }
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(bytes).ok()
}

#[cfg(test)]
mod tests {
    use stateway_proto::v1;

    use super::*;

    fn payload(bytes: usize) -> Option<v1::Payload> {
        Some(v1::Payload {
            data: vec![b'x'; bytes].into(),
            content_type: "application/json".into(),
        })
    }

    #[test]
    fn every_method_is_known() {
        let methods: Vec<_> = API.methods().collect();
        for method in [
            "CountExecutions",
            "GetStep",
            "StreamTasks",
            "DeleteDefinition",
        ] {
            assert!(methods.contains(&method), "{method}");
        }
        assert!(methods.len() > 40, "{methods:?}");
        assert!(API.has_page_size("ListEvents"));
        assert!(!API.has_page_size("GetExecution"));
    }

    #[test]
    fn the_largest_field_is_named_by_its_path() {
        let execution = v1::Execution {
            name: "providers/b/executions/1".into(),
            input: payload(100),
            output: payload(1_000),
            ..v1::Execution::default()
        };
        let largest = API.largest_field("GetExecution", &execution.encode_to_vec());
        let expected = LargestField {
            path: "output.data".into(),
            bytes: 1_000,
            is_payload: true,
        };
        assert_eq!(largest, expected);
        let waited = v1::WaitExecutionResponse {
            execution: Some(execution),
            ..v1::WaitExecutionResponse::default()
        };
        let largest = API.largest_field("WaitExecution", &waited.encode_to_vec());
        assert_eq!(largest.path, "execution.output.data");
    }

    #[test]
    fn of_many_rows_the_field_is_named_and_of_one_huge_row_its_place() {
        let row = |bytes| v1::Event {
            payload: payload(bytes),
            ..v1::Event::default()
        };
        let path = |sizes: &[usize]| {
            let page = v1::ListEventsResponse {
                events: sizes.iter().map(|bytes| row(*bytes)).collect(),
                ..v1::ListEventsResponse::default()
            };
            API.largest_field("ListEvents", &page.encode_to_vec()).path
        };
        assert_eq!(path(&[500; 9]), "events");
        assert_eq!(path(&[10, 5_000, 10]), "events[1].payload.data");
    }

    #[test]
    fn bytes_that_are_no_message_name_nothing_and_do_no_harm() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a, 0xff, 0xff], &[7, 7, 7]] {
            let largest = API.largest_field("GetExecution", bytes);
            assert_eq!(largest.path, "");
        }
    }
}
