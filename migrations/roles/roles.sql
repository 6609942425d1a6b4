-- Group roles with the least that each needs. Grant them to log-in roles:
--   GRANT whctl_worker TO app;
-- whctl_producer  enqueues and cancels, through the functions only
-- whctl_worker    enqueues in bulk, claims, records
-- whctl_operator  the worker's rights, destinations, and the acts that are audited
-- whctl_sweeper   removes what is finished and old, and keeps the ledger of it
-- whctl_reader    looks at everything but payloads
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['whctl_producer', 'whctl_worker', 'whctl_operator', 'whctl_sweeper', 'whctl_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
    -- What enqueues many at once goes through a temporary table.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO whctl_worker, whctl_operator', current_database());
END $$;

GRANT USAGE ON SCHEMA whctl TO whctl_producer, whctl_worker, whctl_operator, whctl_sweeper, whctl_reader;
GRANT SELECT ON whctl.schema_version, whctl.migrations TO whctl_producer, whctl_worker, whctl_operator, whctl_sweeper, whctl_reader;

GRANT EXECUTE ON FUNCTION whctl.enqueue(text, text, text, bytea, text, text, text, timestamptz, text, timestamptz, timestamptz)
    TO whctl_producer, whctl_worker, whctl_operator;
GRANT EXECUTE ON FUNCTION whctl.cancel(text, text) TO whctl_producer, whctl_operator;

-- FOR KEY SHARE, which keeps a destination from being removed while an enqueue that
-- names it commits, asks for UPDATE of at least one column: the least one is updated_at.
GRANT SELECT, UPDATE (updated_at) ON whctl.destinations TO whctl_worker;
GRANT SELECT, INSERT ON whctl.envelopes TO whctl_worker;
GRANT USAGE ON SEQUENCE whctl.envelopes_id_seq TO whctl_worker, whctl_operator;
GRANT SELECT, INSERT, UPDATE ON whctl.deliveries TO whctl_worker;
GRANT SELECT, INSERT, UPDATE ON whctl.attempts TO whctl_worker;

-- Rows of destination_health come and go with their destinations.
GRANT SELECT, UPDATE (failures, refusals, openings, refused_since, open_until, probe_until, held_until, next_slot,
    paused_at, paused_by, paused_reason) ON whctl.destination_health TO whctl_worker, whctl_operator;
GRANT SELECT, INSERT, UPDATE (seen_at, waiting), DELETE ON whctl.workers TO whctl_worker, whctl_operator;
GRANT SELECT, INSERT, UPDATE (room, expires_at), DELETE ON whctl.shares TO whctl_worker, whctl_operator;

GRANT SELECT, INSERT, UPDATE, DELETE ON whctl.destinations TO whctl_operator;
GRANT SELECT, INSERT ON whctl.envelopes TO whctl_operator;
GRANT SELECT, INSERT, UPDATE ON whctl.deliveries TO whctl_operator;
GRANT SELECT, INSERT, UPDATE ON whctl.attempts TO whctl_operator;
-- Not the columns at and role: nobody chooses when an act was, or who had logged in.
GRANT SELECT, INSERT (operator, action, reason, delivery_id, redrive_id, destination) ON whctl.audit_log TO whctl_operator;

-- FOR UPDATE asks for UPDATE of at least one column: the one that decides nothing.
GRANT SELECT, DELETE, UPDATE (fingerprint) ON whctl.deliveries TO whctl_sweeper;
GRANT SELECT, DELETE ON whctl.envelopes, whctl.attempts TO whctl_sweeper;
GRANT SELECT, INSERT, UPDATE ON whctl.sweeps TO whctl_sweeper;
GRANT SELECT, INSERT ON whctl.sweep_batches TO whctl_sweeper;
GRANT SELECT, INSERT, UPDATE (previewed_at, swept_at, runs, idle_runs) ON whctl.retention_policies TO whctl_sweeper;
GRANT USAGE ON SEQUENCE whctl.sweeps_id_seq TO whctl_sweeper;
-- An operator's look at what a policy would remove counts.
GRANT SELECT ON whctl.sweeps, whctl.sweep_batches, whctl.retention_policies TO whctl_reader, whctl_operator;
GRANT INSERT (policy, version, definition, keep_us, previewed_at), UPDATE (previewed_at) ON whctl.retention_policies TO whctl_operator;

GRANT SELECT ON whctl.destinations, whctl.destination_health, whctl.workers, whctl.shares, whctl.deliveries, whctl.attempts, whctl.audit_log,
    whctl.delivery_status, whctl.attempt_history, whctl.payload_sizes TO whctl_reader, whctl_worker, whctl_operator, whctl_sweeper;
GRANT SELECT (id, event_at, not_after, created_at, delivery_id, destination, tenant, subject, event_type,
    event_version, event_id, body) ON whctl.envelopes TO whctl_reader;
