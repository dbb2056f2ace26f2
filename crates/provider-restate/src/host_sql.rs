//! Queries on the stored values of the objects of a host.

use stateway_hosted::provider::ViewQuery;

use crate::sql::quoted;

/// The most objects that one query names.
pub(crate) const MOST_OBJECTS: usize = 200;

const COLUMNS: &str = "service_key, key, value_utf8";
/// The milliseconds of the creation: a view begins with `{"n":` and 13 digits.
const CREATED: &str = "substr(value_utf8, 6, 13)";

/// One value of several objects.
pub(crate) fn values(service: &str, objects: &[&str], key: &str) -> String {
    let objects: Vec<_> = objects.iter().map(|object| quoted(object)).collect();
    let (service, key) = (quoted(service), quoted(key));
    format!(
        "SELECT {COLUMNS} FROM state WHERE service_name = {service} AND service_key IN ({}) \
         AND key = {key}",
        objects.join(", ")
    )
}

/// The values of one object whose keys begin with a prefix, from a key on.
pub(crate) fn values_from(
    (service, object): (&str, &str),
    prefix: &str,
    from: &str,
    limit: usize,
) -> String {
    let (service, object) = (quoted(service), quoted(object));
    let (like, from) = (quoted(&format!("{prefix}%")), quoted(from));
    format!(
        "SELECT {COLUMNS} FROM state WHERE service_name = {service} AND service_key = {object} \
         AND key LIKE {like} AND key >= {from} ORDER BY key LIMIT {limit}"
    )
}

/// Stored views, the newest first.
pub(crate) fn views((service, key): (&str, &str), query: &ViewQuery) -> String {
    let mut conditions = vec![
        format!("service_name = {}", quoted(service)),
        format!("key = {}", quoted(key)),
    ];
    if query.open_only {
        conditions.push("substr(value_utf8, 20, 5) IN ('\"o\":1', '\"o\":2')".to_owned());
    }
    if query.awaits_person {
        // As a view writes what it awaits; quotes inside other texts are escaped.
        conditions.push(
            "(value_utf8 LIKE '%{\"approval\":{\"step\":%' OR value_utf8 LIKE '%{\"person\":{\"step\":%')"
                .to_owned(),
        );
    }
    if let Some(definition) = &query.definition {
        // This may admit too much: `_` and `%` are wildcards. The caller compares the names.
        let like = quoted(&format!("%\"definition\":\"{definition}\"%"));
        conditions.push(format!("value_utf8 LIKE {like}"));
    }
    if let Some(source) = &query.forked_from {
        let like = quoted(&format!("%\"forked_from\":\"{source}\"%"));
        conditions.push(format!("value_utf8 LIKE {like}"));
    }
    if let Some((created, id)) = &query.before {
        let (created, id) = (quoted(&format!("{created:013}")), quoted(id));
        conditions.push(format!(
            "({CREATED} < {created} OR ({CREATED} = {created} AND service_key < {id}))"
        ));
    }
    format!(
        "SELECT {COLUMNS} FROM state WHERE {} ORDER BY {CREATED} DESC, service_key DESC LIMIT {}",
        conditions.join(" AND "),
        query.limit
    )
}

/// How many views begin with which sub-state. It follows `"o":` and a digit: `"s":"running"`.
pub(crate) fn counts((service, key): (&str, &str)) -> String {
    let (service, key) = (quoted(service), quoted(key));
    format!(
        "SELECT split_part(substr(value_utf8, 26, 24), '\"', 4) AS word, count(*) AS total FROM state \
         WHERE service_name = {service} AND key = {key} GROUP BY word"
    )
}

/// The current revisions of definitions, by name.
pub(crate) fn definitions(
    (service, key): (&str, &str),
    after: Option<&str>,
    limit: usize,
) -> String {
    let (service, key) = (quoted(service), quoted(key));
    let after = after.map(|after| format!(" AND service_key > {}", quoted(after)));
    format!(
        "SELECT {COLUMNS} FROM state WHERE service_name = {service} AND key = {key}{} \
         ORDER BY service_key LIMIT {limit}",
        after.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_views_is_ordered_by_creation_and_continues_after_a_place() {
        let query = ViewQuery {
            before: Some((1_763_392_822_123, "a'b".into())),
            limit: 50,
            open_only: true,
            awaits_person: true,
            forked_from: None,
            definition: Some("order".into()),
        };
        assert_eq!(
            views(("S", "v"), &query),
            "SELECT service_key, key, value_utf8 FROM state WHERE service_name = 'S' AND key = 'v' \
             AND substr(value_utf8, 20, 5) IN ('\"o\":1', '\"o\":2') \
             AND (value_utf8 LIKE '%{\"approval\":{\"step\":%' OR value_utf8 LIKE '%{\"person\":{\"step\":%') \
             AND value_utf8 LIKE '%\"definition\":\"order\"%' \
             AND (substr(value_utf8, 6, 13) < '1763392822123' OR (substr(value_utf8, 6, 13) = \
             '1763392822123' AND service_key < 'a''b')) \
             ORDER BY substr(value_utf8, 6, 13) DESC, service_key DESC LIMIT 50"
        );
    }

    /// The queries read the first bytes of a view.
    #[test]
    fn a_stored_view_begins_as_the_queries_expect() {
        let head = r#"{"n":1763392822123,"o":1,"s":"running","#;
        assert_eq!(&head[5..18], "1763392822123");
        assert_eq!(&head[19..24], "\"o\":1");
        assert_eq!(head[25..].split('"').nth(3), Some("running"));
    }
}
