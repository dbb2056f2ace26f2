//! A page of executions: which index leads to it, and the query that reads it.
//!
//! The planner guesses badly where few of many rows pass and the newest come first. So each query is written
//! for one index. A query with several sub-states reads a page of each of them and takes the newest rows.

use stateway_model::SubState;
use tokio_postgres::types::ToSql;

use super::super::row::{LISTED, with_summary};
use super::PostgresReader;
use crate::request::ListQuery;
use crate::store::{ExecutionRow, Result};

/// Up to here the rows that an index leads to are counted, where one of two indexes is chosen.
const MOST_COMPARED: i64 = 10_000;

/// What leads to the rows of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// The number, or one of the columns whose index is ordered by number.
    Number,
    /// The label at this place of the query.
    Label(usize),
    SubStates,
}

impl PostgresReader {
    pub(super) fn page(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>> {
        let conditions = page_sql(query, self.lead(query)?);
        let values: Vec<super::Value<'_>> = conditions
            .values
            .iter()
            .map(|value| &**value as super::Value<'_>)
            .collect();
        let rows = self.rows(&conditions.text, &values)?;
        rows.iter().map(with_summary).collect()
    }

    fn lead(&self, query: &ListQuery) -> Result<Lead> {
        if query.inbox {
            return Ok(Lead::Number);
        }
        let mut leads: Vec<Lead> = (0..query.labels.len()).map(Lead::Label).collect();
        leads.extend(query.definition.as_ref().map(|_| Lead::Number));
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
    fn rows_of(&self, query: &ListQuery, lead: Lead) -> Result<i64> {
        match lead {
            Lead::Label(index) => {
                let (key, value) = &query.labels[index];
                let sql = "SELECT count(*) FROM \
                           (SELECT 1 FROM labels WHERE key = $1 AND value = $2 LIMIT $3) AS found";
                self.value(sql, &[&key.as_bytes(), &value.as_bytes(), &MOST_COMPARED])
            }
            Lead::Number => {
                let definition = query.definition.as_deref().unwrap_or_default();
                self.count_to("definition", definition)
            }
            Lead::SubStates => query.sub_states.iter().try_fold(0, |sum, sub_state| {
                Ok(sum + self.count_to("sub_state", sub_state.as_str())?)
            }),
        }
    }

    /// How many rows have this value, counted up to a limit.
    fn count_to(&self, column: &str, value: &str) -> Result<i64> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM executions WHERE {column} = $1 LIMIT $2) AS found"
        );
        self.value(&sql, &[&value, &MOST_COMPARED])
    }
}

/// A query, and its values.
struct Conditions {
    values: Vec<Box<dyn ToSql + Sync>>,
    text: String,
}

impl Conditions {
    /// Adds a value; its place among the values.
    fn place(&mut self, value: impl ToSql + Sync + 'static) -> usize {
        self.values.push(Box::new(value));
        self.values.len()
    }

    fn any_of<'w>(&mut self, column: &str, words: impl Iterator<Item = &'w str>) {
        let words: Vec<String> = words.map(str::to_owned).collect();
        if let [word] = &words[..] {
            let place = self.place(word.clone());
            self.text.push_str(&format!(" AND {column} = ${place}"));
        } else if !words.is_empty() {
            let place = self.place(words);
            self.text
                .push_str(&format!(" AND {column} = ANY(${place})"));
        }
    }

    fn label(&mut self, (key, value): &(String, String)) -> String {
        let key = self.place(key.clone().into_bytes());
        let value = self.place(value.clone().into_bytes());
        format!("key = ${key} AND value = ${value}")
    }
}

fn page_sql(query: &ListQuery, lead: Lead) -> Conditions {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut conditions = Conditions {
        values: vec![Box::new(query.before.unwrap_or(i64::MAX)), Box::new(limit)],
        text: "executions.number < $1".to_owned(),
    };
    let states = query.states.iter().map(|state| state.as_str());
    conditions.any_of("state", states);
    if let Some(definition) = &query.definition {
        conditions.any_of("definition", std::iter::once(definition.as_str()));
    }
    if query.inbox {
        conditions.text.push_str(" AND inbox > 0");
    }
    for (index, label) in query.labels.iter().enumerate() {
        if lead != Lead::Label(index) {
            let label = conditions.label(label);
            conditions.text.push_str(&format!(
                " AND EXISTS (SELECT 1 FROM labels WHERE {label} AND labels.number = executions.number)"
            ));
        }
    }
    if lead != Lead::SubStates {
        let sub_states = query.sub_states.iter().map(|shown| shown.as_str());
        conditions.any_of("sub_state", sub_states);
    }
    conditions.text = match lead {
        Lead::Number => {
            let text = &conditions.text;
            format!("SELECT {LISTED} FROM executions WHERE {text} ORDER BY number DESC LIMIT $2")
        }
        Lead::Label(index) => {
            let label = conditions.label(&query.labels[index]);
            let text = &conditions.text;
            // The subquery is a fence for the planner: rows come by the index of labels.
            format!(
                "SELECT {LISTED} FROM executions WHERE number IN \
                 (SELECT executions.number FROM \
                 (SELECT labels.number FROM labels WHERE {label} AND labels.number < $1 \
                 ORDER BY labels.number DESC OFFSET 0) AS labelled \
                 JOIN executions ON executions.number = labelled.number WHERE {text} \
                 ORDER BY executions.number DESC LIMIT $2) ORDER BY number DESC LIMIT $2"
            )
        }
        Lead::SubStates => of_sub_states(query, &mut conditions),
    };
    conditions
}

fn of_sub_states(query: &ListQuery, conditions: &mut Conditions) -> String {
    let mut wanted: Vec<SubState> = Vec::new();
    for shown in &query.sub_states {
        if !wanted.contains(shown) {
            wanted.push(*shown);
        }
    }
    let pages: Vec<String> = wanted
        .iter()
        .map(|shown| {
            let place = conditions.place(shown.as_str().to_owned());
            let text = &conditions.text;
            format!(
                "(SELECT number FROM executions WHERE sub_state = ${place} AND {text} \
                 ORDER BY number DESC LIMIT $2)"
            )
        })
        .collect();
    format!(
        "SELECT {LISTED} FROM executions WHERE number IN ({}) ORDER BY number DESC LIMIT $2",
        pages.join(" UNION ALL ")
    )
}
