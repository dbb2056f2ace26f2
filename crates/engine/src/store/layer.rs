//! What layers over a store have in common: every read goes through one function.

/// Implements reading for `$layer<P>`, where `P` points to something that can be read. Every read of
/// `self.inner` goes through `self.read`, and `self.over` puts the same layer over another pointer.
macro_rules! layered_reading {
    ($layer:ident) => {
        impl<P> Reading for $layer<P>
        where
            P: std::ops::Deref<Target: Reading> + std::fmt::Debug,
        {
            fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<()> {
                self.read(|| {
                    self.inner
                        .at_once(&mut |moment| work(&self.over(moment)))
                })
            }

            layered_reading! { reads
                sink_position(name: &str) -> Option<i64>;
            }
        }

        impl<P> LogReading for $layer<P>
        where
            P: std::ops::Deref<Target: Reading> + std::fmt::Debug,
        {
            layered_reading! { reads
                snapshot(number: i64, branch: u32) -> Option<Snapshot>;
                walk(number: i64, branch: u32, after: u64, each: EachRow<'_>) -> ();
                chronicle(number: i64, from: (u32, u64), each: EachRow<'_>) -> ();
                chronicle_back(number: i64, before: (u32, u64), each: EachRow<'_>) -> ();
                row_start(number: i64, branch: u32, after: u64) -> u64;
                branches(number: i64) -> Vec<Branch>;
                head(number: i64) -> Option<(u32, Hash)>;
                recent(rows: usize) -> Vec<i64>;
                log(after: i64, limit: usize) -> Vec<EventRecord>;
                has_events_after(number: i64, after: i64) -> bool;
            }
        }

        impl<P> RowReading for $layer<P>
        where
            P: std::ops::Deref<Target: Reading> + std::fmt::Debug,
        {
            layered_reading! { reads
                number_of(id: &str) -> Option<i64>;
                id_of(number: i64) -> Option<Arc<str>>;
                kept(number: i64) -> Option<ExecutionRow>;
                listed(id: &str) -> Option<ExecutionRow>;
                list(query: &ListQuery) -> Vec<ExecutionRow>;
                showing(sub_state: SubState, most: u32) -> u64;
                numbers(after: i64, limit: usize) -> Vec<i64>;
                total() -> u64;
                last_number() -> i64;
                due(by: Timestamp, after: (Option<Timestamp>, i64), limit: usize) -> Vec<ExecutionRow>;
                next_wake(after: Timestamp) -> Option<Timestamp>;
                begun() -> Vec<(Arc<str>, i64)>;
                ended(before: Timestamp, needed: Option<i64>, limit: usize) -> Vec<i64>;
                ended_after(after: (Timestamp, i64), before: Timestamp, limit: usize) -> Vec<(Timestamp, i64, SubState)>;
                held_back(before: Timestamp, after: i64, limit: usize) -> u64;
                open_children(parent: i64) -> Vec<ExecutionRow>;
                outdated(after: i64, limit: usize) -> Vec<i64>;
                orphans(after: i64, limit: usize) -> Vec<(i64, bool)>;
                parents_of_ended(after: i64, limit: usize) -> Vec<i64>;
                tree_size(root: i64, most: usize) -> usize;
                open_executions(definition: &str) -> u64;
                forks(id: &str, limit: usize) -> Vec<Arc<str>>;
            }
        }

        impl<P> DefinitionReading for $layer<P>
        where
            P: std::ops::Deref<Target: Reading> + std::fmt::Debug,
        {
            layered_reading! { reads
                definition(name: &str, revision: Option<&str>) -> Option<DefinitionRecord>;
                source(revision: &str) -> Option<(String, String)>;
                revisions(name: &str) -> Vec<DefinitionRecord>;
                definitions(after: &str, limit: usize) -> Vec<DefinitionRecord>;
                disabled_triggers() -> Vec<(Arc<str>, DisabledTrigger)>;
                last_scheduled(name: &str) -> Option<Timestamp>;
            }
        }

        impl<P> RequestReading for $layer<P>
        where
            P: std::ops::Deref<Target: Reading> + std::fmt::Debug,
        {
            layered_reading! { reads
                answered(id: &str) -> Option<Answered>;
                has_requests_before(before: Timestamp) -> bool;
            }
        }
    };
    (reads $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Result<$result> {
            self.read(|| self.inner.$name($($argument),*))
        })*
    };
}

pub(super) use layered_reading;
