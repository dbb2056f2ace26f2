-- The owner of the store. A shard has one row, and every turn of its owner begins with an update of this row: no other index, and
-- room in the page, so that PostgreSQL updates it in place. There is one shard.
CREATE TABLE shards (
    id          smallint    PRIMARY KEY,
    epoch       bigint      NOT NULL, -- raised by every take-over
    since       bigint      NOT NULL, -- the epoch in which the owner began
    owner       text,                 -- one process, or none
    owner_name  text        NOT NULL, -- for people
    lease_until timestamptz NOT NULL, -- by the clock of the database
    turn        bigint      NOT NULL, -- how many turns are stored
    position    bigint      NOT NULL, -- of the last event that was ever stored
    number      bigint      NOT NULL  -- the highest number that was ever given to an execution
) WITH (fillfactor = 50);
INSERT INTO shards VALUES (0, 0, 0, NULL, '', '-infinity', 0, 0, 0);

-- The log: each row holds the events of one turn of one execution. Rows are only ever added. `lines` is compressed by the
-- gateway (`store/compact.rs`).
CREATE TABLE events (
    position  bigint  PRIMARY KEY,
    execution bigint  NOT NULL,
    branch    integer NOT NULL,
    sequence  bigint  NOT NULL, -- of the first event of the row
    hash      bytea   NOT NULL, -- of the row before and this one
    lines     bytea   NOT NULL
);
ALTER TABLE events ALTER COLUMN lines SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX events_of ON events (execution, branch, sequence);

-- Where each execution is. It follows from the log. Times are milliseconds. Texts that a client chooses freely are bytea,
-- because the type text has no zero byte.
CREATE TABLE executions (
    number         bigint  PRIMARY KEY,
    id             text    COLLATE "C" NOT NULL,
    definition     text    COLLATE "C" NOT NULL,
    revision       text    COLLATE "C" NOT NULL,
    labels         text    NOT NULL, -- JSON
    parent         bigint,
    parent_step    text,
    parent_attempt integer,
    parent_branch  integer,
    depth          integer NOT NULL,
    not_before     bigint,
    created_at     bigint  NOT NULL,
    branch         integer NOT NULL,
    state          text    COLLATE "C" NOT NULL,
    sub_state      text    COLLATE "C" NOT NULL,
    reason         text    COLLATE "C",
    wake_at        bigint,
    inbox          integer NOT NULL,
    ended_at       bigint,
    forked_from    text    COLLATE "C",
    form           bigint  NOT NULL,
    summary        bytea
) WITH (fillfactor = 80);
ALTER TABLE executions ALTER COLUMN summary SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX executions_by_id ON executions (id);
CREATE INDEX executions_by_sub_state ON executions (sub_state, number);
CREATE INDEX executions_by_definition ON executions (definition, number);
CREATE INDEX executions_by_wake ON executions (wake_at, number) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_by_inbox ON executions (number) WHERE inbox > 0;
CREATE INDEX executions_by_end ON executions (ended_at, number) WHERE ended_at IS NOT NULL;
CREATE INDEX executions_by_parent ON executions (parent) WHERE parent IS NOT NULL;
-- What a process reads when it takes the store over: without these, it would read every row. The number of the form is that of
-- `ROW_FORM`; a build with another form brings an index of its own.
CREATE INDEX executions_outdated ON executions (number) WHERE form < 2;
CREATE INDEX executions_open_children ON executions (number) WHERE parent IS NOT NULL AND ended_at IS NULL;
CREATE INDEX executions_without_timer ON executions (number) WHERE ended_at IS NULL AND wake_at IS NULL;
CREATE INDEX executions_forked ON executions (forked_from) WHERE forked_from IS NOT NULL;

CREATE TABLE labels (
    key    bytea  NOT NULL,
    value  bytea  NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (key, value, number)
);
CREATE INDEX labels_of ON labels (number);

-- Where branches grew from others. The first branch of an execution has no row.
CREATE TABLE branches (
    execution bigint  NOT NULL,
    branch    integer NOT NULL,
    parent    integer NOT NULL,
    cutoff    bigint  NOT NULL,
    PRIMARY KEY (execution, branch)
);

CREATE TABLE snapshots (
    execution bigint  PRIMARY KEY,
    branch    integer NOT NULL,
    sequence  bigint  NOT NULL,
    revision  text    COLLATE "C" NOT NULL,
    hash      bytea   NOT NULL,
    data      bytea   NOT NULL
);

CREATE TABLE definitions (
    name       text    COLLATE "C" NOT NULL,
    revision   text    COLLATE "C" NOT NULL,
    source     bytea   NOT NULL,
    created_at bigint  NOT NULL,
    current    boolean NOT NULL,
    PRIMARY KEY (name, revision)
);
CREATE INDEX definitions_by_revision ON definitions (revision);
CREATE UNIQUE INDEX definitions_current ON definitions (name) WHERE current;

-- Forgotten in the order in which they came.
CREATE TABLE requests (
    place     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        bytea  NOT NULL,
    body      bytea  NOT NULL,
    execution bigint NOT NULL,
    at        bigint NOT NULL
);
CREATE UNIQUE INDEX requests_by_id ON requests (id);

CREATE TABLE schedules (
    definition text   COLLATE "C" PRIMARY KEY,
    last_at    bigint NOT NULL
);

CREATE TABLE sinks (
    name     text   COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
);

CREATE TABLE disabled_triggers (
    definition  text   COLLATE "C" PRIMARY KEY,
    disabled_by bytea  NOT NULL,
    disabled_at bigint NOT NULL,
    comment     bytea  NOT NULL
);
