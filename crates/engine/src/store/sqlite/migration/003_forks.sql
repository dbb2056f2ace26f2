-- The execution that this one was forked from; so that forks of one are found.
ALTER TABLE executions ADD COLUMN forked_from TEXT;
CREATE INDEX executions_forked ON executions (forked_from) WHERE forked_from IS NOT NULL;

-- The form of the columns that only repeat what the log says. Rows of an older form are brought up
-- to date when their execution is next used; they are no damage.
ALTER TABLE executions ADD COLUMN form INTEGER NOT NULL DEFAULT 0;
