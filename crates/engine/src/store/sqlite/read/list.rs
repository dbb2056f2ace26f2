//! A page of executions: which index leads to it, and the query that reads it.
//!
//! The planner has no statistics, and a page must not depend on its guesses: each query names its
//! index. A query with several sub-states reads a page of each of them and takes the newest rows.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use stateway_model::SubState;

use crate::request::ListQuery;
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::row::{LISTED, with_summary};
use crate::store::{ExecutionRow, StoreError};

/// Up to here the rows that an index leads to are counted, where one of two indexes is chosen.
const MOST_COMPARED: i64 = 10_000;

/// The query that finds the rows of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    Number,
    Inbox,
    Definition,
    /// The label at this place of the query.
    Label(usize),
    SubStates,
}

impl Sqlite {
    pub(super) fn page(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>, StoreError> {
        let lead = self.lead(query)?;
        let (sql, values) = page_sql(query, lead);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(with_summary(row)?);
        }
        Ok(found)
    }

    fn lead(&self, query: &ListQuery) -> Result<Lead, StoreError> {
        if query.inbox {
            return Ok(Lead::Inbox);
        }
        let mut leads: Vec<Lead> = (0..query.labels.len()).map(Lead::Label).collect();
        leads.extend(query.definition.as_ref().map(|_| Lead::Definition));
        if !query.sub_states.is_empty() {
            leads.push(Lead::SubStates);
        }
        if let [] | [_] = leads[..] {
            return Ok(leads.pop().unwrap_or(Lead::Number));
        }
        // The index with the fewest rows leads. Where all have many, rows that pass are not rare.
        let mut fewest = (Lead::Number, i64::MAX);
        for lead in leads {
            let count = self.rows_of(query, lead)?;
            if count < fewest.1 {
                fewest = (lead, count);
            }
        }
        Ok(fewest.0)
    }

    /// How many rows an index leads to, counted up to a limit.
    fn rows_of(&self, query: &ListQuery, lead: Lead) -> Result<i64, StoreError> {
        match lead {
            Lead::Label(index) => {
                let (key, value) = &query.labels[index];
                let mut statement = self.connection.prepare_cached(
                    "SELECT count(*) FROM \
                     (SELECT 1 FROM labels WHERE key = ?1 AND value = ?2 LIMIT ?3)",
                )?;
                let count =
                    statement.query_row(params![key, value, MOST_COMPARED], |row| row.get(0));
                Ok(count?)
            }
            Lead::Definition => {
                let definition = query.definition.as_deref().unwrap_or_default();
                self.count_to("definition", definition)
            }
            Lead::SubStates => query.sub_states.iter().try_fold(0, |sum, sub_state| {
                let count = self.count_to("sub_state", sub_state.as_str())?;
                Ok::<_, StoreError>(sum + count)
            }),
            Lead::Number | Lead::Inbox => Ok(MOST_COMPARED),
        }
    }

    /// How many rows have this value, counted up to a limit.
    fn count_to(&self, column: &str, value: &str) -> Result<i64, StoreError> {
        let sql =
            format!("SELECT count(*) FROM (SELECT 1 FROM executions WHERE {column} = ?1 LIMIT ?2)");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let count = statement.query_row(params![value, MOST_COMPARED], |row| row.get(0));
        Ok(count?)
    }
}

fn page_sql(query: &ListQuery, lead: Lead) -> (String, Vec<Value>) {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut conditions = Conditions {
        values: vec![query.before.unwrap_or(i64::MAX).into(), limit.into()],
        text: "number < ?1".to_owned(),
    };
    let states = query.states.iter().map(|state| state.as_str());
    conditions.any_of("state", states);
    if let Some(definition) = &query.definition {
        conditions.any_of("definition", std::iter::once(definition.as_str()));
    }
    if query.inbox {
        conditions.text.push_str(" AND inbox > 0");
    }
    for (index, (key, value)) in query.labels.iter().enumerate() {
        if lead != Lead::Label(index) {
            let (key, value) = (conditions.place(key), conditions.place(value));
            let condition = format!(
                " AND EXISTS (SELECT 1 FROM labels WHERE key = ?{key} AND value = ?{value} \
                 AND labels.number = executions.number)"
            );
            conditions.text.push_str(&condition);
        }
    }
    if let Lead::Label(index) = lead {
        let sub_states = query.sub_states.iter().map(|shown| shown.as_str());
        conditions.any_of("sub_state", sub_states);
        let (key, value) = &query.labels[index];
        let (key, value) = (conditions.place(key), conditions.place(value));
        let text = conditions.text.replacen("number", "labelled", 1);
        // The left table of a cross join is the outer one.
        let sql = format!(
            "SELECT {LISTED} FROM (SELECT number AS labelled FROM labels AS label \
             WHERE key = ?{key} AND value = ?{value}) CROSS JOIN executions \
             ON executions.number = labelled WHERE {text} ORDER BY labelled DESC LIMIT ?2"
        );
        return (sql, conditions.values);
    }
    if lead != Lead::SubStates {
        let sub_states = query.sub_states.iter().map(|shown| shown.as_str());
        conditions.any_of("sub_state", sub_states);
        let index = match lead {
            Lead::Inbox => "INDEXED BY executions_by_inbox",
            Lead::Definition => "INDEXED BY executions_by_definition",
            Lead::Number | Lead::Label(_) | Lead::SubStates => "NOT INDEXED",
        };
        let sql = format!(
            "SELECT {LISTED} FROM executions {index} WHERE {} ORDER BY number DESC LIMIT ?2",
            conditions.text
        );
        return (sql, conditions.values);
    }
    let mut wanted: Vec<SubState> = Vec::new();
    for shown in &query.sub_states {
        if !wanted.contains(shown) {
            wanted.push(*shown);
        }
    }
    let pages: Vec<String> = wanted
        .iter()
        .map(|shown| {
            let place = conditions.place(shown.as_str());
            format!(
                "SELECT number FROM (SELECT number FROM executions \
                 INDEXED BY executions_by_sub_state WHERE sub_state = ?{place} AND {} \
                 ORDER BY number DESC LIMIT ?2)",
                conditions.text
            )
        })
        .collect();
    let sql = format!(
        "SELECT {LISTED} FROM executions WHERE number IN ({}) ORDER BY number DESC LIMIT ?2",
        pages.join(" UNION ALL ")
    );
    (sql, conditions.values)
}

/// The conditions of a query, and their values.
struct Conditions {
    values: Vec<Value>,
    text: String,
}

impl Conditions {
    /// Adds a value; its place among the values.
    fn place(&mut self, value: &str) -> usize {
        self.values.push(value.to_owned().into());
        self.values.len()
    }

    fn any_of<'w>(&mut self, column: &str, words: impl Iterator<Item = &'w str>) {
        let marks: Vec<_> = words.map(|word| format!("?{}", self.place(word))).collect();
        if !marks.is_empty() {
            let condition = format!(" AND {column} IN ({})", marks.join(", "));
            self.text.push_str(&condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use stateway_machine::ExecutionState;

    use super::*;
    use crate::store::sqlite::{SharedHandle, open_writer};

    fn plan(store: &Sqlite, query: &ListQuery, lead: Lead) -> String {
        let (sql, values) = page_sql(query, lead);
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = store.connection.prepare(&explain).expect("a query");
        let lines = statement
            .query_map(params_from_iter(values), |row| row.get::<_, String>(3))
            .expect("a plan");
        let lines: Vec<_> = lines.map(|line| line.expect("a line")).collect();
        lines.join("\n")
    }

    #[test]
    fn a_page_reads_an_index_in_its_order_and_sorts_no_more_than_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let store = open_writer(&path, &SharedHandle::default()).expect("a store");
        let all = ListQuery {
            limit: 50,
            ..ListQuery::default()
        };
        let of = ListQuery {
            definition: Some("rare".to_owned()),
            states: vec![ExecutionState::Queued],
            ..all.clone()
        };
        let open = ListQuery {
            sub_states: vec![SubState::Running, SubState::Waiting, SubState::Running],
            ..of.clone()
        };
        let inbox = ListQuery {
            inbox: true,
            ..all.clone()
        };
        let labelled = ListQuery {
            labels: vec![
                ("team".to_owned(), "red".to_owned()),
                ("tier".to_owned(), "1".to_owned()),
            ],
            ..open.clone()
        };
        for (query, lead, index) in [
            (&all, Lead::Number, "INTEGER PRIMARY KEY"),
            (&of, Lead::Definition, "executions_by_definition"),
            (&open, Lead::Definition, "executions_by_definition"),
            (&open, Lead::SubStates, "executions_by_sub_state"),
            (&inbox, Lead::Inbox, "executions_by_inbox"),
            (&labelled, Lead::Label(0), "SEARCH label USING PRIMARY KEY"),
            (&labelled, Lead::SubStates, "executions_by_sub_state"),
        ] {
            let plan = plan(&store, query, lead);
            assert!(plan.contains(index), "{lead:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{lead:?}: {plan}");
            assert!(!plan.contains("SCAN executions\n"), "{lead:?}: {plan}");
        }
    }
}
