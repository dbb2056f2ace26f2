//! docs/reference/api.md is generated from the descriptors of the API and their comments; `cargo xtask docs` writes it.

use std::fmt::Write as _;

use prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind,
    MessageDescriptor, MethodDescriptor, ServiceDescriptor, Value,
};

const PACKAGE: &str = "stateway.v1";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api.md");
const BEGIN: &str = "<!-- generated: api -->\n";
const END: &str = "<!-- end -->";

#[test]
fn the_reference_of_the_api_is_current() {
    let page = std::fs::read_to_string(PAGE).expect("the page exists");
    let (before, rest) = page.split_once(BEGIN).expect("the part begins");
    let (_, after) = rest.split_once(END).expect("the part ends");
    let current = format!("{before}{BEGIN}\n{}{END}{after}", reference());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, current).expect("the page can be written");
    } else {
        assert!(
            page == current,
            "docs/reference/api.md is not current; run `cargo xtask docs`"
        );
    }
}

/// The reader of the reference knows the API from nothing else.
#[test]
fn every_service_method_message_field_and_value_has_a_comment() {
    let text = reference();
    let bare: Vec<_> = text
        .lines()
        .filter(|line| line.ends_with("|  |") || *line == NO_COMMENT)
        .collect();
    assert_eq!(bare, [""; 0]);
}

/// Stands where a comment is missing, so that the test finds it.
const NO_COMMENT: &str = "(no comment)";

fn reference() -> String {
    let pool = DescriptorPool::decode(stateway_proto::DESCRIPTORS).expect("valid descriptors");
    let mut text = String::new();
    let mut services: Vec<_> = pool
        .services()
        .filter(|it| it.package_name() == PACKAGE)
        .collect();
    services.sort_by_key(|it| it.name().to_owned());
    line(&mut text, "| service | methods |\n|---|---|");
    for service in &services {
        let methods: Vec<_> = service.methods().map(|it| link(it.name())).collect();
        let row = format!("| {} | {} |", link(service.name()), methods.join(", "));
        line(&mut text, &row);
    }
    line(&mut text, "");
    for service in &services {
        write_service(&mut text, service);
    }
    line(&mut text, "## Messages\n");
    let messages = pool.all_messages();
    let mut messages: Vec<_> = messages
        .filter(|it| it.package_name() == PACKAGE && !it.is_map_entry())
        .collect();
    messages.sort_by_key(|it| short(it.full_name()));
    for message in &messages {
        write_message(&mut text, message);
    }
    line(&mut text, "## Enumerations\n");
    let mut enums: Vec<_> = pool
        .all_enums()
        .filter(|it| it.package_name() == PACKAGE)
        .collect();
    enums.sort_by_key(|it| short(it.full_name()));
    for enumeration in &enums {
        write_enum(&mut text, enumeration);
    }
    text
}

fn write_service(text: &mut String, service: &ServiceDescriptor) {
    let comment = paragraphs(&comment(&service.parent_file(), service.path()));
    line(text, &format!("## {}\n\n{comment}\n", service.name()));
    for method in service.methods() {
        write_method(text, &method);
    }
}

fn write_method(text: &mut String, method: &MethodDescriptor) {
    let service = method.parent_service();
    let stream = |is_stream: bool| if is_stream { "stream of " } else { "" };
    let signature = format!(
        "`{}/{}`, request: {}{}, response: {}{}",
        service.full_name(),
        method.name(),
        stream(method.is_client_streaming()),
        message_link(&method.input()),
        stream(method.is_server_streaming()),
        message_link(&method.output()),
    );
    let comment = paragraphs(&comment(&service.parent_file(), method.path()));
    let name = method.name();
    line(text, &format!("### {name}\n\n{signature}\n\n{comment}\n"));
}

fn write_message(text: &mut String, message: &MessageDescriptor) {
    let file = message.parent_file();
    let comment_of_message = paragraphs(&comment(&file, message.path()));
    let name = short(message.full_name());
    line(text, &format!("### {name}\n\n{comment_of_message}\n"));
    if message.fields().len() == 0 {
        return;
    }
    line(text, "| field | type | meaning |\n|---|---|---|");
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    for field in fields {
        let meaning = cell(&comment(&file, field.path()));
        let meaning = format!("{}{}{meaning}", behaviour(&field), choice(&field));
        let row = format!("| `{}` | {} | {meaning} |", field.name(), kind(&field));
        line(text, &row);
    }
    line(text, "");
}

fn write_enum(text: &mut String, enumeration: &EnumDescriptor) {
    let file = enumeration.parent_file();
    let about = paragraphs(&comment(&file, enumeration.path()));
    let name = short(enumeration.full_name());
    line(text, &format!("### {name}\n\n{about}\n"));
    line(text, "| value | number | meaning |\n|---|---|---|");
    for value in enumeration.values() {
        let meaning = cell(&comment(&file, value.path()));
        let row = format!("| `{}` | {} | {meaning} |", value.name(), value.number());
        line(text, &row);
    }
    line(text, "");
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a text takes every line");
}

/// The comment before an element.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let locations = info.into_iter().flat_map(|info| &info.location);
    let comments = locations.filter(|it| it.path == path);
    let lines = comments.filter_map(|it| it.leading_comments.as_deref());
    let lines = lines
        .flat_map(str::lines)
        .map(|it| it.strip_prefix(' ').unwrap_or(it));
    let comment = lines.collect::<Vec<_>>().join("\n");
    if comment.trim().is_empty() {
        NO_COMMENT.to_owned()
    } else {
        comment.trim_end().to_owned()
    }
}

/// A comment as paragraphs: a list is set off, so that the line after it is no part of its last item.
fn paragraphs(comment: &str) -> String {
    let mut text = String::new();
    let mut is_list = false;
    for line in comment.lines() {
        let is_item = line.starts_with("- ");
        let continues = is_list && line.starts_with("  ");
        if is_item != is_list && !continues && !text.is_empty() {
            text.push('\n');
        }
        is_list = is_item || continues;
        text.push_str(line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// A comment in a cell of a table.
fn cell(comment: &str) -> String {
    let comment = if comment == NO_COMMENT { "" } else { comment };
    let escaped = comment.replace('|', "\\|");
    escaped.replace("\n- ", "<br>– ").replace('\n', " ")
}

/// "Required. " and so on, as `google.api.field_behavior` has it.
fn behaviour(field: &FieldDescriptor) -> &'static str {
    let pool = field.parent_pool();
    let extension = pool.get_extension_by_name("google.api.field_behavior");
    let extension = extension.expect("the annotation is compiled in");
    let options = field.options();
    let value = options.get_extension(&extension).into_owned();
    let values = value.as_list().unwrap_or_default();
    if values.contains(&Value::EnumNumber(2)) {
        "Required. "
    } else {
        ""
    }
}

/// Which fields exclude each other.
fn choice(field: &FieldDescriptor) -> String {
    match field.containing_oneof() {
        Some(group) if !group.is_synthetic() => format!("One of `{}`. ", group.name()),
        _ => String::new(),
    }
}

fn kind(field: &FieldDescriptor) -> String {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else {
            return "map".to_owned();
        };
        let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()];
        return format!("map of {} to {}", single(&key), single(&value));
    }
    if field.cardinality() == Cardinality::Repeated {
        format!("list of {}", single(field))
    } else {
        single(field)
    }
}

fn single(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(message) => message_link(&message),
        Kind::Enum(enumeration) => link(&short(enumeration.full_name())),
        other => format!("{other:?}"),
    }
}

fn message_link(message: &MessageDescriptor) -> String {
    if message.package_name() == PACKAGE {
        link(&short(message.full_name()))
    } else {
        format!("`{}`", message.full_name())
    }
}

/// A link to the heading of this name.
fn link(name: &str) -> String {
    let anchor = name.replace('.', "").to_lowercase();
    format!("[{name}](#{anchor})")
}

/// The name inside the package.
fn short(full_name: &str) -> String {
    let name = full_name.strip_prefix(PACKAGE).unwrap_or(full_name);
    name.trim_start_matches('.').to_owned()
}
