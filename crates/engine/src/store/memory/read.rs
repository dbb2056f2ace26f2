//! Reading a store in memory.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::ExecutionState;
use stateway_model::{Reason, SubState};

use super::MemoryStore;
use super::tables::{Defined, EventRow, Tables};
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};
use crate::store::load::events;
use crate::store::{
    Answered, Branch, DefinitionReading, ExecutionRow, Hash, LogReading, LogRow, Reading,
    RequestReading, Result, RowReading, Segment, Snapshot, lineage,
};

/// Where a read of the log ends, in bytes.
const LOG_BYTES: usize = 1024 * 1024;

impl Reading for MemoryStore {
    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<()> {
        work(&Self {
            disk: self.disk.clone(),
            writer: 0,
            moment: Some(self.tables()),
        });
        Ok(())
    }

    fn sink_position(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.tables().sinks.get(name).copied())
    }
}

impl LogReading for MemoryStore {
    fn snapshot(&self, number: i64, branch: u32) -> Result<Option<Snapshot>> {
        let tables = self.tables();
        let found = tables.snapshots.get(&number);
        Ok(found
            .filter(|snapshot| snapshot.branch == branch)
            .map(|snapshot| Snapshot::clone(snapshot)))
    }

    fn walk(
        &self,
        number: i64,
        branch: u32,
        after: u64,
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut rows = self.tables().lineage(number, branch);
        rows.retain(|(row, _)| row.first > after);
        for (row, up_to) in rows {
            if !each(row.at(up_to))? {
                break;
            }
        }
        Ok(())
    }

    fn chronicle(
        &self,
        number: i64,
        (branch, sequence): (u32, u64),
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let tables = self.tables();
        let before = tables
            .places
            .range((number, branch, 0)..=(number, branch, sequence));
        let start = before.last().map_or(0, |((_, _, first), _)| *first);
        let rest = (number, branch, start)..=(number, u32::MAX, u64::MAX);
        for (_, position) in tables.places.range(rest) {
            if let Some(row) = tables.events.get(position)
                && !each(row.at(u64::MAX))?
            {
                break;
            }
        }
        Ok(())
    }

    fn chronicle_back(
        &self,
        number: i64,
        (branch, sequence): (u32, u64),
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let tables = self.tables();
        let before = (number, 0, 0)..(number, branch, sequence);
        for (_, position) in tables.places.range(before).rev() {
            if let Some(row) = tables.events.get(position)
                && !each(row.at(u64::MAX))?
            {
                break;
            }
        }
        Ok(())
    }

    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64> {
        let rows = self.tables().lineage(number, branch);
        let rows = rows.iter().map(|(row, _)| row.first);
        let start = rows.filter(|first| *first <= after.saturating_add(1)).max();
        Ok(start.map_or(0, |first| first.saturating_sub(1)))
    }

    fn branches(&self, number: i64) -> Result<Vec<Branch>> {
        let tables = self.tables();
        let rows = tables.branches.range((number, 0)..=(number, u32::MAX));
        Ok(rows.map(|(_, branch)| *branch).collect())
    }

    fn head(&self, number: i64) -> Result<Option<(u32, Hash)>> {
        let tables = self.tables();
        let all = (number, 0, 0)..=(number, u32::MAX, u64::MAX);
        let last = tables.places.range(all).next_back();
        let row = last.and_then(|(_, position)| tables.events.get(position));
        Ok(row.map(|row| (row.branch, row.hash)))
    }

    fn recent(&self, rows: usize) -> Result<Vec<i64>> {
        let tables = self.tables();
        let newest = tables.events.values().rev().take(rows);
        let mut numbers: Vec<_> = newest.map(|row| row.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>> {
        let tables = self.tables();
        let mut found = Vec::new();
        let mut bytes = 0;
        for (position, row) in tables.events.range(after.saturating_add(1)..).take(limit) {
            let Some(kept) = tables.executions.get(&row.number) else {
                continue;
            };
            for event in events(row.number, &row.lines)? {
                found.push(EventRecord {
                    position: *position,
                    execution: Arc::clone(&kept.origin.id),
                    branch: row.branch,
                    event,
                });
            }
            bytes += row.lines.len();
            if bytes >= LOG_BYTES {
                break;
            }
        }
        Ok(found)
    }

    fn has_events_after(&self, number: i64, after: i64) -> Result<bool> {
        Ok(self.tables().has_events_after(number, after))
    }
}

impl RowReading for MemoryStore {
    fn number_of(&self, id: &str) -> Result<Option<i64>> {
        Ok(self.tables().ids.get(id).copied())
    }

    fn id_of(&self, number: i64) -> Result<Option<Arc<str>>> {
        let tables = self.tables();
        let found = tables.executions.get(&number);
        Ok(found.map(|kept| Arc::clone(&kept.origin.id)))
    }

    fn kept(&self, number: i64) -> Result<Option<ExecutionRow>> {
        Ok(self.tables().executions.get(&number).cloned())
    }

    fn listed(&self, id: &str) -> Result<Option<ExecutionRow>> {
        let tables = self.tables();
        let number = tables.ids.get(id);
        let kept = number.and_then(|number| tables.executions.get(number));
        Ok(kept.map(|kept| tables.with_summary(kept)))
    }

    fn list(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>> {
        let tables = self.tables();
        let before = query.before.unwrap_or(i64::MAX);
        let rows = tables.executions.range(..before).rev();
        let wanted = rows.map(|(_, kept)| kept).filter(|kept| {
            let (origin, status) = (&kept.origin, &kept.status);
            (query.sub_states.is_empty() || query.sub_states.contains(&status.sub_state))
                && (query.states.is_empty() || query.states.contains(&status.state))
                && query
                    .definition
                    .as_ref()
                    .is_none_or(|name| **name == *origin.definition)
                && (!query.inbox || status.inbox > 0)
                && query
                    .labels
                    .iter()
                    .all(|(key, value)| origin.labels.get(key) == Some(value))
        });
        let wanted = wanted.take(query.limit);
        Ok(wanted.map(|kept| tables.with_summary(kept)).collect())
    }

    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64> {
        let tables = self.tables();
        let rows = tables.executions.values();
        let count = rows.filter(|kept| kept.status.sub_state == sub_state);
        Ok(count.take(most as usize).count() as u64)
    }

    fn numbers(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        let tables = self.tables();
        let rows = tables.executions.range(after.saturating_add(1)..);
        Ok(rows.take(limit).map(|(number, _)| *number).collect())
    }

    fn total(&self) -> Result<u64> {
        Ok(self.tables().executions.len() as u64)
    }

    fn last_number(&self) -> Result<i64> {
        Ok(self.tables().last_number)
    }

    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<ExecutionRow>> {
        let tables = self.tables();
        let mut found: Vec<_> = tables
            .executions
            .values()
            .filter_map(|kept| Some((Some(kept.status.wake_at?), kept)))
            .filter(|(wake, kept)| *wake <= Some(by) && (*wake, kept.origin.number) > after)
            .collect();
        found.sort_by_key(|(wake, kept)| (*wake, kept.origin.number));
        Ok(found
            .into_iter()
            .take(limit)
            .map(|(_, kept)| kept.clone())
            .collect())
    }

    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        let tables = self.tables();
        let times = tables
            .executions
            .values()
            .filter_map(|kept| kept.status.wake_at);
        Ok(times.filter(|wake| *wake > after).min())
    }

    fn begun(&self) -> Result<Vec<(Arc<str>, i64)>> {
        let tables = self.tables();
        let begun = tables.executions.values().filter(|kept| {
            let ExecutionRow { status, .. } = kept;
            let waits = matches!(
                status.state,
                ExecutionState::Created | ExecutionState::Queued
            );
            !status.sub_state.is_terminal() && !waits
        });
        Ok(begun
            .map(|kept| (Arc::clone(&kept.origin.definition), kept.origin.number))
            .collect())
    }

    fn ended(&self, before: Timestamp, needed: Option<i64>, limit: usize) -> Result<Vec<i64>> {
        let tables = self.tables();
        let needed = needed.unwrap_or(i64::MAX);
        let mut found = tables.ended_before(before);
        found.retain(|(_, number)| !tables.has_events_after(*number, needed));
        Ok(found
            .into_iter()
            .take(limit)
            .map(|(_, number)| number)
            .collect())
    }

    fn ended_after(
        &self,
        after: (Timestamp, i64),
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, i64, SubState)>> {
        let tables = self.tables();
        let found = tables.ended_before(before).into_iter();
        let found = found.filter(|place| *place > after).take(limit);
        let shown = |(ended, number)| {
            let kept = tables.executions.get(&number)?;
            Some((ended, number, kept.status.sub_state))
        };
        Ok(found.filter_map(shown).collect())
    }

    fn held_back(&self, before: Timestamp, after: i64, limit: usize) -> Result<u64> {
        let tables = self.tables();
        let mut found = tables.ended_before(before);
        found.retain(|(_, number)| tables.has_events_after(*number, after));
        Ok(found.len().min(limit) as u64)
    }

    fn open_children(&self, parent: i64) -> Result<Vec<ExecutionRow>> {
        let tables = self.tables();
        let children = tables.executions.values().filter(|kept| {
            let of = kept.origin.parent.as_ref().map(|parent| parent.number);
            of == Some(parent) && kept.status.ended.is_none()
        });
        Ok(children.cloned().collect())
    }

    fn outdated(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        let tables = self.tables();
        let outdated = tables.executions.values();
        let outdated = outdated.filter(|kept| kept.older && kept.origin.number > after);
        let mut outdated: Vec<i64> = outdated.map(|kept| kept.origin.number).collect();
        outdated.sort_unstable();
        outdated.truncate(limit);
        Ok(outdated)
    }

    fn orphans(&self, after: i64, limit: usize) -> Result<Vec<(i64, bool)>> {
        let tables = self.tables();
        let open = tables.executions.values();
        let open = open.filter(|kept| kept.origin.number > after && kept.status.ended.is_none());
        let orphans = open.filter_map(|kept| {
            let parent = tables
                .executions
                .get(&kept.origin.parent.as_ref()?.number)?;
            let killed = parent.status.reason == Some(Reason::Killed);
            parent.status.ended.map(|_| (kept.origin.number, killed))
        });
        let mut orphans: Vec<_> = orphans.collect();
        orphans.sort_unstable();
        orphans.truncate(limit);
        Ok(orphans)
    }

    fn parents_of_ended(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        let tables = self.tables();
        let ended = tables.executions.values();
        let ended = ended.filter(|kept| kept.status.ended.is_some());
        let parents = ended.filter_map(|kept| Some(kept.origin.parent.as_ref()?.number));
        let parents: std::collections::BTreeSet<i64> = parents
            .filter(|number| {
                let parent = tables.executions.get(number);
                *number > after
                    && parent.is_some_and(|parent| {
                        parent.status.ended.is_none() && parent.status.wake_at.is_none()
                    })
            })
            .collect();
        Ok(parents.into_iter().take(limit).collect())
    }

    fn tree_size(&self, root: i64, most: usize) -> Result<usize> {
        let tables = self.tables();
        let mut tree = vec![root];
        let mut at = 0;
        while at < tree.len() && tree.len() < most {
            let parent = tree[at];
            at += 1;
            let children = tables.executions.values().filter(|kept| {
                let of = kept.origin.parent.as_ref().map(|parent| parent.number);
                of == Some(parent)
            });
            tree.extend(children.map(|kept| kept.origin.number));
        }
        Ok(tree.len().min(most))
    }

    fn open_executions(&self, definition: &str) -> Result<u64> {
        let tables = self.tables();
        let open = tables.executions.values().filter(|kept| {
            &*kept.origin.definition == definition && !kept.status.sub_state.is_terminal()
        });
        Ok(open.count() as u64)
    }

    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>> {
        let tables = self.tables();
        let forks = tables.executions.values().filter(|kept| {
            let from = kept.origin.forked_from.as_deref();
            from == Some(id)
        });
        Ok(forks
            .take(limit)
            .map(|kept| Arc::clone(&kept.origin.id))
            .collect())
    }
}

impl DefinitionReading for MemoryStore {
    fn definition(&self, name: &str, revision: Option<&str>) -> Result<Option<DefinitionRecord>> {
        let tables = self.tables();
        let mut found = tables.revisions(name);
        let found = found.find(|defined| match revision {
            Some(revision) => *revision == *defined.record.revision,
            None => defined.current,
        });
        Ok(found.map(|defined| defined.record.clone()))
    }

    fn source(&self, revision: &str) -> Result<Option<(String, String)>> {
        let tables = self.tables();
        let mut all = tables.definitions.values().map(|defined| &defined.record);
        let found = all.find(|record| *revision == *record.revision);
        Ok(found.map(|record| (record.name.to_string(), record.source.clone())))
    }

    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>> {
        let tables = self.tables();
        let found = tables.revisions(name).map(|defined| defined.record.clone());
        let mut found: Vec<_> = found.collect();
        // The rows are in the order of revisions, and the sort is stable.
        found.sort_by_key(|record| std::cmp::Reverse(record.created));
        Ok(found)
    }

    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>> {
        let tables = self.tables();
        let current = tables
            .definitions
            .values()
            .filter(|defined| defined.current);
        let found = current.filter(|defined| &*defined.record.name > after);
        Ok(found
            .take(limit)
            .map(|defined| defined.record.clone())
            .collect())
    }

    fn disabled_triggers(&self) -> Result<Vec<(Arc<str>, DisabledTrigger)>> {
        let tables = self.tables();
        let rows = tables.disabled.iter();
        Ok(rows
            .map(|(name, row)| (Arc::clone(name), row.clone()))
            .collect())
    }

    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>> {
        Ok(self.tables().schedules.get(name).copied())
    }
}

impl RequestReading for MemoryStore {
    fn answered(&self, id: &str) -> Result<Option<Answered>> {
        let tables = self.tables();
        let place = tables.asked.get(id);
        Ok(place.and_then(|place| tables.requests.get(place)).cloned())
    }

    fn has_requests_before(&self, before: Timestamp) -> Result<bool> {
        let tables = self.tables();
        let first = tables.requests.values().next();
        Ok(first.is_some_and(|first| first.at < before))
    }
}

impl EventRow {
    fn at(&self, up_to: u64) -> LogRow<'_> {
        LogRow {
            position: self.position,
            branch: self.branch,
            first: self.first,
            up_to,
            hash: self.hash,
            lines: &self.lines,
        }
    }
}

impl Tables {
    /// The rows of a branch and of the branches that it grew from, in order, each with the last
    /// sequence that counts.
    fn lineage(&self, number: i64, branch: u32) -> Vec<(Arc<EventRow>, u64)> {
        let parent = |branch| {
            let grown = self.branches.get(&(number, branch));
            let grown = grown.filter(|grown| grown.parent < branch)?;
            Some((grown.parent, grown.cutoff))
        };
        let mut found = Vec::new();
        for Segment { branch, up_to } in lineage(branch, parent).unwrap_or_default() {
            let rows = self
                .places
                .range((number, branch, 0)..=(number, branch, up_to));
            let rows = rows.filter_map(|(_, position)| self.events.get(position));
            found.extend(rows.map(|row| (Arc::clone(row), up_to)));
        }
        found.sort_by_key(|(row, _)| row.first);
        found
    }

    fn has_events_after(&self, number: i64, after: i64) -> bool {
        let mut newer = self.events.range(after.saturating_add(1)..);
        newer.any(|(_, row)| row.number == number)
    }

    fn ended_before(&self, before: Timestamp) -> Vec<(Timestamp, i64)> {
        let rows = self.executions.values();
        let ended = rows.filter_map(|kept| Some((kept.status.ended?, kept.origin.number)));
        let mut found: Vec<_> = ended.filter(|(ended, _)| *ended < before).collect();
        found.sort_unstable();
        found
    }

    fn revisions<'t>(&'t self, name: &'t str) -> impl Iterator<Item = &'t Defined> {
        let all = self.definitions.values();
        all.filter(move |defined| &*defined.record.name == name)
    }
}
