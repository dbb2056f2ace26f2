-- Executions of one definition, newest first. Written once for each execution: neither column changes.
CREATE INDEX executions_by_definition ON executions (definition, number);
