-- One row per change up to the instant of the snapshot.
SELECT
    member_id AS "MEMBER_ID",
    leader_id AS "LEADER_ID",
    subscription_state AS "SUBSCRIPTION_STATE",
    state_changed_at AS "STATE_CHANGED_AT"
FROM member_state_changes
WHERE state_changed_at <= :as_of
