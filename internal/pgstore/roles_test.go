package pgstore_test

import (
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// rightsSQL lists what a role may do in the schema whctl: to whole relations, to single
// columns where it may not to the whole, and which functions it may call.
const rightsSQL = `
WITH rights AS (
  SELECT c.relname || ': ' || string_agg(p.what, ',' ORDER BY p.what) AS line
  FROM pg_class c
  CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS p(what)
  WHERE c.relnamespace = 'whctl'::regnamespace AND c.relkind IN ('r', 'v') AND has_table_privilege($1, c.oid, p.what)
  GROUP BY c.relname
  UNION ALL
  SELECT c.relname || '(' || string_agg(a.attname, ',' ORDER BY a.attnum) || '): ' || p.what
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  CROSS JOIN unnest('{SELECT,INSERT,UPDATE}'::text[]) AS p(what)
  WHERE c.relnamespace = 'whctl'::regnamespace AND c.relkind IN ('r', 'v')
    AND has_column_privilege($1, c.oid, a.attnum, p.what) AND NOT has_table_privilege($1, c.oid, p.what)
  GROUP BY c.relname, p.what
  UNION ALL
  SELECT c.relname || ': ' || p.what
  FROM (SELECT oid, relname FROM pg_class WHERE relnamespace = 'whctl'::regnamespace AND relkind = 'S' OFFSET 0) c
  CROSS JOIN unnest('{USAGE,UPDATE}'::text[]) AS p(what)
  WHERE has_sequence_privilege($1, c.oid, p.what)
  UNION ALL
  SELECT f.proname || '()'
  FROM pg_proc f
  WHERE f.pronamespace = 'whctl'::regnamespace AND f.prorettype <> 'trigger'::regtype AND has_function_privilege($1, f.oid, 'EXECUTE'))
SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM rights`

// Each group may do this, and nothing else. A right that is added has to be added here,
// by someone who asks what for.
func TestRolesHaveLeastGrants(t *testing.T) {
	d := testbed.DB(t)
	for role, want := range map[string]string{
		"whctl_producer": `
cancel()
class_word()
enqueue()
migrations: SELECT
reason_word()
schema_version: SELECT
state_word()`,
		"whctl_worker": `
attempt_history: SELECT
attempts: INSERT,SELECT,UPDATE
audit_log: SELECT
class_word()
deliveries: INSERT,SELECT,UPDATE
delivery_status: SELECT
destination_health(failures,refusals,openings,refused_since,open_until,probe_until,held_until,next_slot,paused_at,paused_by,paused_reason): UPDATE
destination_health: SELECT
destinations(updated_at): UPDATE
destinations: SELECT
enqueue()
envelopes: INSERT,SELECT
envelopes_id_seq: USAGE
migrations: SELECT
payload_sizes: SELECT
reason_word()
schema_version: SELECT
shares(room,expires_at): UPDATE
shares: DELETE,INSERT,SELECT
state_word()
workers(waiting,seen_at): UPDATE
workers: DELETE,INSERT,SELECT`,
		"whctl_operator": `
attempt_history: SELECT
attempts: INSERT,SELECT,UPDATE
audit_log(operator,action,reason,delivery_id,redrive_id,destination): INSERT
audit_log: SELECT
cancel()
class_word()
deliveries: INSERT,SELECT,UPDATE
delivery_status: SELECT
destination_health(failures,refusals,openings,refused_since,open_until,probe_until,held_until,next_slot,paused_at,paused_by,paused_reason): UPDATE
destination_health: SELECT
destinations: DELETE,INSERT,SELECT,UPDATE
enqueue()
envelopes: INSERT,SELECT
envelopes_id_seq: USAGE
migrations: SELECT
payload_sizes: SELECT
reason_word()
retention_policies(policy,version,definition,keep_us,previewed_at): INSERT
retention_policies(previewed_at): UPDATE
retention_policies: SELECT
schema_version: SELECT
shares(room,expires_at): UPDATE
shares: DELETE,INSERT,SELECT
state_word()
sweep_batches: SELECT
sweeps: SELECT
workers(waiting,seen_at): UPDATE
workers: DELETE,INSERT,SELECT`,
		"whctl_sweeper": `
attempt_history: SELECT
attempts: DELETE,SELECT
audit_log: SELECT
class_word()
deliveries(fingerprint): UPDATE
deliveries: DELETE,SELECT
delivery_status: SELECT
destination_health: SELECT
destinations: SELECT
envelopes: DELETE,SELECT
migrations: SELECT
payload_sizes: SELECT
reason_word()
retention_policies(previewed_at,swept_at,runs,idle_runs): UPDATE
retention_policies: INSERT,SELECT
schema_version: SELECT
shares: SELECT
state_word()
sweep_batches: INSERT,SELECT
sweeps: INSERT,SELECT,UPDATE
sweeps_id_seq: USAGE
workers: SELECT`,
		"whctl_reader": `
attempt_history: SELECT
attempts: SELECT
audit_log: SELECT
class_word()
deliveries: SELECT
delivery_status: SELECT
destination_health: SELECT
destinations: SELECT
envelopes(id,event_at,not_after,created_at,delivery_id,destination,tenant,subject,event_type,event_version,event_id,body): SELECT
migrations: SELECT
payload_sizes: SELECT
reason_word()
retention_policies: SELECT
schema_version: SELECT
shares: SELECT
state_word()
sweep_batches: SELECT
sweeps: SELECT
workers: SELECT`,
	} {
		if got := testbed.QueryString(t, d, rightsSQL, role); got != strings.TrimSpace(want) {
			t.Errorf("%s may:\n%s\nwant:%s", role, got, want)
		}
	}
}
