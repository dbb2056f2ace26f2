-- An execution as lists show it: the hash of the newest row of its log, then JSON. Written when the
-- execution leaves memory or ends. It counts only while the log still ends with that row.
ALTER TABLE executions ADD COLUMN summary BLOB;

-- Executions by label, newest first. `sqlite/labels.rs` fills the table for executions of older files.
CREATE TABLE labels (
    key    TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (key, value, number)
) STRICT, WITHOUT ROWID;

-- How far the table is filled; the row is removed at the end.
INSERT INTO counters (name, value) SELECT 'labels_filled', 0
    WHERE EXISTS (SELECT 1 FROM executions);

-- Rows of an older form, so that finding them does not read all rows. It is empty once all are renewed.
CREATE INDEX executions_outdated ON executions (number) WHERE form < 2;
