-- The log: each row holds the events of one turn of one execution, one line of JSON each. Rows are
-- only ever added. `position` is their order over all executions.
CREATE TABLE events (
    position  INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    branch    INTEGER NOT NULL,
    sequence  INTEGER NOT NULL, -- of the first event of the row
    hash      BLOB    NOT NULL, -- of the row before and this one
    lines     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_of ON events (execution, branch, sequence);

-- Where each execution is. It follows from the log; a change of status is written with the events
-- that led to it.
CREATE TABLE executions (
    number         INTEGER PRIMARY KEY, -- in the order of creation
    id             TEXT    NOT NULL UNIQUE,
    definition     TEXT    NOT NULL,
    revision       TEXT    NOT NULL,    -- at creation
    labels         TEXT    NOT NULL,    -- JSON
    parent         INTEGER,
    parent_step    TEXT,
    parent_attempt INTEGER,
    parent_branch  INTEGER,
    depth          INTEGER NOT NULL,
    not_before     INTEGER,             -- milliseconds, like every time here
    created_at     INTEGER NOT NULL,
    branch         INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    sub_state      TEXT    NOT NULL,
    reason         TEXT,
    -- When the keeper has to look at it: 0 while work is under way or queued, else the first of its
    -- timers. The timers and tasks themselves follow from the log.
    wake_at        INTEGER,
    -- How many people it waits for: open approvals and escalations.
    inbox          INTEGER NOT NULL,
    ended_at       INTEGER
) STRICT;
CREATE INDEX executions_by_sub_state ON executions (sub_state, number);
CREATE INDEX executions_by_wake ON executions (wake_at, number) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_by_inbox ON executions (number) WHERE inbox > 0;
CREATE INDEX executions_by_end ON executions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX executions_by_parent ON executions (parent) WHERE parent IS NOT NULL;

-- Where branches grew from others. The first branch of an execution has no row.
CREATE TABLE branches (
    execution INTEGER NOT NULL,
    branch    INTEGER NOT NULL,
    parent    INTEGER NOT NULL,
    cutoff    INTEGER NOT NULL, -- the last sequence it shares with its parent
    PRIMARY KEY (execution, branch)
) STRICT, WITHOUT ROWID;

-- The newest snapshot of an execution that has many events.
CREATE TABLE snapshots (
    execution INTEGER PRIMARY KEY,
    branch    INTEGER NOT NULL,
    sequence  INTEGER NOT NULL, -- of the last event it includes
    revision  TEXT    NOT NULL,
    hash      BLOB    NOT NULL, -- of the row that ends with that event
    data      BLOB    NOT NULL
) STRICT;

-- Every revision of every definition, and which one is current.
CREATE TABLE definitions (
    name       TEXT    NOT NULL,
    revision   TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    current    INTEGER NOT NULL,
    PRIMARY KEY (name, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX definitions_by_revision ON definitions (revision);
CREATE UNIQUE INDEX definitions_current ON definitions (name) WHERE current = 1;

-- Requests that were answered, so that a repeated one is answered the same. Forgotten in the order
-- they came.
CREATE TABLE requests (
    place     INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    body      BLOB    NOT NULL,
    execution INTEGER NOT NULL,
    at        INTEGER NOT NULL
) STRICT;

-- The last time each schedule started something, so that none is started twice.
CREATE TABLE schedules (
    definition TEXT PRIMARY KEY,
    last_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far each receiver of events has got.
CREATE TABLE sinks (
    name     TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The highest place and number that were ever given, so that none is given twice after a removal.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
