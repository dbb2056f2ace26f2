-- Where other gateways reach the owner of the store, or empty. It counts only if `address_since` is `since`: a gateway of
-- version 1 that becomes the owner leaves the address of the owner before it.
ALTER TABLE shards
    ADD COLUMN address       text   NOT NULL DEFAULT '',
    ADD COLUMN address_since bigint NOT NULL DEFAULT 0;

-- The oldest version whose gateways may still write after the step to this version. A newer gateway migrates the tables while
-- older ones serve, and they need not stop if this is not above their own version.
ALTER TABLE schema_version ADD COLUMN writable_from bigint NOT NULL DEFAULT 1;
