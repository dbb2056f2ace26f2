-- Triggers that someone has disabled. A definition without a row has its trigger enabled.
CREATE TABLE disabled_triggers (
    definition  TEXT PRIMARY KEY,
    disabled_by TEXT    NOT NULL,
    disabled_at INTEGER NOT NULL,
    comment     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
